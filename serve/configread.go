package serve

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weft-run/weft/internal/text"
)

// The reader of configuration files. Package yaml parses them; what its decoder would accept by converting is refused
// here: a fraction cut off to a whole number, 010 read as 8, yes for true, a key without a value, a second
// document that is left out.

// readYAML parses a text of one document, nil for an empty one.
func readYAML(src []byte) (*yaml.Node, error) {
	d := yaml.NewDecoder(bytes.NewReader(src))
	var tree, more yaml.Node
	switch err := d.Decode(&tree); {
	case err == io.EOF:
		return nil, nil
	case err != nil:
		return nil, clean(err)
	}
	switch err := d.Decode(&more); {
	case err == nil:
		return nil, fmt.Errorf("line %d: a second document begins, which nobody would read; leave --- out", more.Line)
	case err != io.EOF:
		return nil, clean(err)
	}
	if root := tree.Content[0]; root.Kind != yaml.ScalarNode || root.Tag != "!!null" {
		return root, nil
	}
	return nil, nil
}

// clean makes one line of an error of package yaml.
func clean(err error) error {
	if t := (*yaml.TypeError)(nil); errors.As(err, &t) {
		return errors.New(strings.Join(t.Errors, "; "))
	}
	return errors.New(strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "\n", "; "))
}

// mistake is an error about the value of a key, which lineOf finds in the file. Its text names the key.
type mistake struct {
	key string // as keyIn makes it
	error
}

func (m mistake) Unwrap() error { return m.error }

// mistaken returns an error about the value of a key, whose text begins with the key.
func mistaken(key, format string, args ...any) error {
	return mistake{key, fmt.Errorf(key+": "+format, args...)}
}

// withLine puts the line of the key that a mistake is about before it, where the file says something of that key.
func withLine(root *yaml.Node, err error) error {
	m := mistake{}
	if !errors.As(err, &m) || root == nil {
		return err
	}
	if line := lineOf(root, m.key); line > 0 {
		return fmt.Errorf("line %d: %w", line, err)
	}
	return err
}

// lineOf returns the line of a key, or else of the innermost heading that it belongs under; 0 where there is neither.
func lineOf(n *yaml.Node, key string) int {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		at := n.Content[i]
		if at.Value == key {
			return at.Line
		}
		if rest, ok := strings.CutPrefix(key, at.Value+"."); ok {
			return cmp.Or(lineOf(n.Content[i+1], rest), at.Line)
		}
	}
	return 0
}

// keyIn is what a key is called in an error: limits.body of body under limits.
func keyIn(in, key string) string {
	if in == "" {
		return key
	}
	return in + "." + key
}

// readInto gives a value what a node says. key is its name; an error has the line, and the key unless the line alone
// says it. Keys that are not there leave what the value has.
func readInto(n *yaml.Node, to reflect.Value, key string) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return fmt.Errorf("line %d: write values out: anchors and aliases are not read", n.Line)
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return fmt.Errorf("line %d: %s has no value; give it one or leave the key out", n.Line, key)
	}
	var err error
	switch to.Kind() {
	case reflect.Struct:
		return readStruct(n, to, key)
	case reflect.Map:
		return readMap(n, to, key)
	case reflect.Slice:
		return readList(n, to, key)
	default:
		if n.Kind != yaml.ScalarNode {
			return fmt.Errorf("line %d: %s: expected one value", n.Line, key)
		}
		err = readScalar(n, to)
	}
	if err != nil {
		return fmt.Errorf("line %d: %s: %w", n.Line, key, err)
	}
	return nil
}

// pairs calls each for the keys of a mapping, of which none may be there twice.
func pairs(n *yaml.Node, key string, each func(key, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		under := ""
		if key != "" {
			under = " under " + key
		}
		return fmt.Errorf("line %d: expected keys and values%s", n.Line, under)
	}
	seen := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode || k.Anchor != "" {
			return fmt.Errorf("line %d: a key must be a word", k.Line)
		}
		if at, twice := seen[k.Value]; twice {
			return fmt.Errorf("line %d: key %s was set in line %d", k.Line, keyIn(key, k.Value), at)
		}
		seen[k.Value] = k.Line
		if err := each(k, n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func readStruct(n *yaml.Node, to reflect.Value, key string) error {
	fields, names := make(map[string]reflect.Value), []string(nil)
	for f := range to.Type().Fields() {
		name := f.Tag.Get("yaml")
		fields[name], names = to.FieldByIndex(f.Index), append(names, name)
	}
	return pairs(n, key, func(k, value *yaml.Node) error {
		field, ok := fields[k.Value]
		if !ok {
			err := text.Unknown("key", k.Value, names)
			if key != "" {
				return fmt.Errorf("line %d: %w under %s", k.Line, err, key)
			}
			return fmt.Errorf("line %d: %w", k.Line, err)
		}
		return readInto(value, field, keyIn(key, k.Value))
	})
}

// readMap adds to a map, so that what a profile says stays where the file has no other value.
func readMap(n *yaml.Node, to reflect.Value, key string) error {
	if to.IsNil() {
		to.Set(reflect.MakeMap(to.Type()))
	}
	return pairs(n, key, func(k, value *yaml.Node) error {
		v := reflect.New(to.Type().Elem()).Elem()
		if err := readInto(value, v, keyIn(key, k.Value)); err != nil {
			return err
		}
		to.SetMapIndex(reflect.ValueOf(k.Value), v)
		return nil
	})
}

func readList(n *yaml.Node, to reflect.Value, key string) error {
	if n.Kind != yaml.SequenceNode {
		return fmt.Errorf("line %d: %s: expected a list, as in [a, b]", n.Line, key)
	}
	list := reflect.MakeSlice(to.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		if err := readInto(item, list.Index(i), fmt.Sprintf("%s[%d]", key, i)); err != nil {
			return err
		}
	}
	to.Set(list)
	return nil
}

// readScalar reads one value. Numbers and switches stand without quotes and tags.
func readScalar(n *yaml.Node, to reflect.Value) error {
	quoted := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	switch {
	case n.Style&yaml.TaggedStyle != 0:
		return fmt.Errorf("leave out the tag before %q", n.Value)
	case quoted && to.Kind() != reflect.String:
		return fmt.Errorf("%q is a text; write it without quotes", n.Value)
	}
	switch v := to.Addr().Interface().(type) {
	case *Duration:
		d, err := text.ParseDuration(n.Value)
		*v = Duration(d)
		return err
	case *Size:
		size, err := text.ParseSize(n.Value)
		*v = Size(size)
		return err
	case *string:
		*v = n.Value
	case *bool:
		if n.Value != "true" && n.Value != "false" {
			return fmt.Errorf("%q is neither true nor false", n.Value)
		}
		*v = n.Value == "true"
	case *int:
		whole, err := text.ParseWhole(n.Value)
		if *v = int(whole); err == nil && int64(*v) != whole {
			err = fmt.Errorf("%q is too large a number", n.Value)
		}
		return err
	case *float64:
		x, err := text.ParseNumber(n.Value)
		*v = x
		return err
	default:
		panic(fmt.Sprintf("serve: a configuration has no values of type %s", to.Type()))
	}
	return nil
}

// Duration is a time written as 500ms or 2s.
type Duration time.Duration

// Size is a number of bytes written as 64MiB.
type Size int64
