package infer

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/text"
)

// configFile is the name of the file that describes a model.
const configFile = "model.yaml"

// maxConfig is the most bytes of it.
const maxConfig = 64 << 10

// The kinds of models.
const (
	kindGraph     = "graph"     // a graph in JSON, as package model loads it
	kindReservoir = "reservoir" // a trained reservoir in a safetensors file
)

// config is the content of model.yaml.
type config struct {
	Name     string // of the folder if it says none
	Kind     string
	File     string
	Batch    int           // most examples of a batch; 1 for none
	Warmup   int           // runs on each device before requests are taken
	Deadline time.Duration // of requests without one; 0 for the service's
	Timeout  time.Duration // of a batch
	MaxWait  time.Duration // for more requests while a device is idle
	Waiting  int           // requests that may wait
	Copies   int           // devices that hold the weights; 0 for all that can
	Memory   int64         // most bytes that a batch takes, beside the weights
	Finite   bool          // refuse numbers that are not finite
	Inputs   []port
	Outputs  []port
}

// port is the description of an input or output. Type and Shape may be left out where the
// model's file has them.
type port struct {
	Spec
	line int
}

const (
	defaultDeadline = 10 * time.Second
	defaultTimeout  = time.Minute
	defaultWaiting  = 1000
	defaultBatch    = 32 // of a reservoir
	maxBatch        = 1 << 16
	// defaultMemory bounds the memory that a mistake in a file can ask for.
	defaultMemory = 1 << 30
)

// parseConfig reads a model.yaml. A mistake is a [*graph.SyntaxError].
func parseConfig(src []byte) (*config, error) {
	var doc, more yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(src))
	if err := d.Decode(&doc); err != nil && err != io.EOF {
		return nil, yamlError(err)
	}
	switch err := d.Decode(&more); {
	case err == nil:
		return nil, mistake(more.Line, "a second document begins, which nobody would read: leave --- out")
	case err != io.EOF:
		return nil, yamlError(err)
	}
	c := &config{Batch: -1, Warmup: 1, Timeout: defaultTimeout, Waiting: defaultWaiting, Memory: defaultMemory}
	if len(doc.Content) == 0 {
		return nil, mistake(1, "it is empty: say at least kind and file")
	}
	root := doc.Content[0]
	err := fields(root, map[string]func(*yaml.Node) error{
		"name":     func(n *yaml.Node) error { return scalar(n, &c.Name) },
		"kind":     func(n *yaml.Node) error { return oneOf(n, &c.Kind, kindGraph, kindReservoir) },
		"file":     func(n *yaml.Node) error { return scalar(n, &c.File) },
		"batch":    func(n *yaml.Node) error { return number(n, &c.Batch, 1, maxBatch) },
		"warmup":   func(n *yaml.Node) error { return number(n, &c.Warmup, 0, 1000) },
		"deadline": func(n *yaml.Node) error { return duration(n, &c.Deadline) },
		"timeout":  func(n *yaml.Node) error { return duration(n, &c.Timeout) },
		"max_wait": func(n *yaml.Node) error { return duration(n, &c.MaxWait) },
		"waiting":  func(n *yaml.Node) error { return number(n, &c.Waiting, 1, 1<<24) },
		"copies":   func(n *yaml.Node) error { return number(n, &c.Copies, 1, 1<<16) },
		"memory":   func(n *yaml.Node) error { return size(n, &c.Memory) },
		"finite":   func(n *yaml.Node) error { return boolean(n, &c.Finite) },
		"inputs":   func(n *yaml.Node) error { return ports(n, &c.Inputs) },
		"outputs":  func(n *yaml.Node) error { return ports(n, &c.Outputs) },
	})
	if err != nil {
		return nil, err
	}
	switch {
	case c.Kind == "":
		return nil, mistake(root.Line, "kind is missing: say kind: %s or kind: %s", kindGraph, kindReservoir)
	case c.File == "":
		return nil, mistake(root.Line, "file is missing: name the model's file, which is beside this one")
	case path.Clean(c.File) != c.File || path.IsAbs(c.File) || strings.HasPrefix(c.File, "..") || strings.Contains(c.File, "\\"):
		return nil, mistake(root.Line, "file %q is not below the model's folder: name it relative to that", c.File)
	}
	if c.Batch < 0 {
		c.Batch = 1
		if c.Kind == kindReservoir {
			c.Batch = defaultBatch
		}
	}
	return c, nil
}

func mistake(line int, format string, args ...any) error {
	return &graph.SyntaxError{Line: max(line, 1), Reason: fmt.Sprintf(format, args...)}
}

// yamlError makes one line of what the parser says, which has the line in its text.
func yamlError(err error) error {
	reason := strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " ")
	line := 1
	if rest, ok := strings.CutPrefix(reason, "line "); ok {
		if at, what, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(at); err == nil {
				line, reason = n, what
			}
		}
	}
	return mistake(line, "no YAML: %s", reason)
}

// fields reads a mapping, each of whose keys may be there once.
func fields(n *yaml.Node, known map[string]func(*yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return mistake(n.Line, "%s is where keys and values belong", shown(n))
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read, ok := known[key.Value]
		if key.Kind != yaml.ScalarNode || !ok {
			return mistake(key.Line, "%v", text.Unknown("key", key.Value, slices.Sorted(maps.Keys(known))))
		}
		if seen[key.Value] {
			return mistake(key.Line, "%s is there twice", key.Value)
		}
		seen[key.Value] = true
		if err := read(value); err != nil {
			if _, ok := err.(*graph.SyntaxError); ok { // of something within the value
				return err
			}
			return mistake(value.Line, "%s: %v", key.Value, err)
		}
	}
	return nil
}

// shown is a node for an error message.
func shown(n *yaml.Node) string {
	switch n.Kind {
	case yaml.ScalarNode:
		if len(n.Value) > 40 {
			return fmt.Sprintf("%q…", n.Value[:40])
		}
		return strconv.Quote(n.Value)
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "a mapping"
	case yaml.AliasNode:
		return "a reference"
	}
	return "nothing"
}

func scalar(n *yaml.Node, to *string) error {
	if n.Kind != yaml.ScalarNode || n.Value == "" || n.Tag == "!!null" {
		return fmt.Errorf("%s is no text", shown(n))
	}
	*to = n.Value
	return nil
}

func oneOf(n *yaml.Node, to *string, names ...string) error {
	if err := scalar(n, to); err != nil {
		return err
	}
	if !slices.Contains(names, *to) {
		return text.Unknown("kind", *to, names)
	}
	return nil
}

func number(n *yaml.Node, to *int, least, most int) error {
	v, err := text.ParseWhole(n.Value)
	if n.Kind != yaml.ScalarNode || !plain(n) || err != nil || v < int64(least) || v > int64(most) {
		return fmt.Errorf("%s is not a whole number from %d to %d", shown(n), least, most)
	}
	*to = int(v)
	return nil
}

// plain reports whether a value is written without quotes and without a tag, as numbers and switches are.
func plain(n *yaml.Node) bool { return n.Style == 0 }

func boolean(n *yaml.Node, to *bool) error {
	switch {
	case n.Kind == yaml.ScalarNode && plain(n) && n.Value == "true":
		*to = true
	case n.Kind == yaml.ScalarNode && plain(n) && n.Value == "false":
		*to = false
	default:
		return fmt.Errorf("%s is neither true nor false", shown(n))
	}
	return nil
}

func duration(n *yaml.Node, to *time.Duration) error {
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("%s is no duration, as 50ms or 2s", shown(n))
	}
	d, err := text.ParseDuration(n.Value)
	if err != nil || d <= 0 {
		return fmt.Errorf("%s is no duration above zero, as 50ms or 2s", shown(n))
	}
	*to = d
	return nil
}

func size(n *yaml.Node, to *int64) error {
	v, err := text.ParseSize(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || v <= 0 {
		return fmt.Errorf("%s is no size above zero, as 512MiB or 4GiB", shown(n))
	}
	*to = v
	return nil
}

// room errs if a batch takes more memory than it may.
func (c *config) room(bytes int64) error {
	if bytes <= c.Memory {
		return nil
	}
	return fmt.Errorf("a batch of %d takes %s of memory and may take %s: set a smaller batch, or a greater memory, in %s", c.Batch, text.FormatSize(bytes), text.FormatSize(c.Memory), configFile)
}

// ports reads a list of inputs or outputs.
func ports(n *yaml.Node, to *[]port) error {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return fmt.Errorf("%s is no list of inputs or outputs, each with a name", shown(n))
	}
	for _, item := range n.Content {
		p := port{line: item.Line}
		err := fields(item, map[string]func(*yaml.Node) error{
			"name": func(n *yaml.Node) error { return scalar(n, &p.Name) },
			"type": func(n *yaml.Node) error {
				var name string
				if err := scalar(n, &name); err != nil {
					return err
				}
				if p.Type = Type(name); p.Type.Size() == 0 {
					return text.Unknown("type", name, typeNames)
				}
				return nil
			},
			"shape": func(n *yaml.Node) error { return shape(n, &p.Shape) },
		})
		if err != nil {
			return err
		}
		if p.Name == "" {
			return mistake(item.Line, "an input or output has no name")
		}
		if slices.ContainsFunc(*to, func(q port) bool { return q.Name == p.Name }) {
			return mistake(item.Line, "%s is there twice", p.Name)
		}
		*to = append(*to, p)
	}
	return nil
}

// shape reads a list of numbers whose product is that of an array in memory.
func shape(n *yaml.Node, to *[]int64) error {
	if n.Kind != yaml.SequenceNode {
		return fmt.Errorf("%s is no list of numbers, as [4, 3]", shown(n))
	}
	s := []int64{}
	for _, item := range n.Content {
		var v int
		if err := number(item, &v, 1, math.MaxInt32); err != nil {
			return err
		}
		s = append(s, int64(v))
	}
	if _, ok := count(s); !ok {
		return fmt.Errorf("%v are more elements than there can be", s)
	}
	*to = s
	return nil
}

// count returns the number of elements of a shape; false if they are more than fit in memory.
func count(shape []int64) (n int64, ok bool) {
	n = 1
	for _, d := range shape {
		if d < 0 || d > 0 && n > (1<<46)/d {
			return 0, false
		}
		n *= d
	}
	return n, true
}

var typeNames = []string{"BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64"}
