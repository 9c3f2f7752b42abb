package graph

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"unicode/utf8"
)

// The JSON form of a graph's parts; Decode documents the fields.
type (
	jsonData struct {
		Name       string `json:"name"`
		Bytes      int64  `json:"bytes"`
		DType      string `json:"dtype,omitempty"`
		Shape      any    `json:"shape,omitempty"` // an empty list is one
		Durability string `json:"durability,omitempty"`
		Input      bool   `json:"input,omitempty"`
		Output     bool   `json:"output,omitempty"`
		Combine    string `json:"combine,omitempty"`
		Tolerance  any    `json:"tolerance,omitempty"`
		Secret     bool   `json:"secret,omitempty"`
		Weights    string `json:"weights,omitempty"`
	}
	jsonKernel struct {
		Name  string     `json:"name"`
		Impls []jsonImpl `json:"impls"`
	}
	jsonImpl struct {
		Dialect      string `json:"dialect"`
		Arch         string `json:"arch,omitempty"`
		Entry        string `json:"entry,omitempty"`
		Source       string `json:"source,omitempty"`
		SourceBase64 []byte `json:"source_base64,omitempty"`
		File         string `json:"file,omitempty"`
		Per          any    `json:"per,omitempty"`
		Block        any    `json:"block,omitempty"`
		SharedBytes  int    `json:"shared_bytes,omitempty"`
	}
	jsonStep struct {
		Kernel      string `json:"kernel,omitempty"`
		Grid        any    `json:"grid,omitempty"`
		Block       any    `json:"block,omitempty"`
		Cluster     any    `json:"cluster,omitempty"`
		SharedBytes int    `json:"shared_bytes,omitempty"`
		Cooperative bool   `json:"cooperative,omitempty"`
		Params      []byte `json:"params,omitempty"`
		Args        any    `json:"args,omitempty"` // an empty list is one
	}
	jsonUse struct {
		Data   string `json:"data"`
		Offset int64  `json:"offset,omitempty"`
		Bytes  int64  `json:"bytes,omitempty"`
		Access string `json:"access,omitempty"`
		Rank   int16  `json:"rank,omitempty"`
	}
	jsonTask struct {
		Name string `json:"name,omitempty"`
		jsonStep
		Steps     []jsonStep `json:"steps,omitempty"`
		Uses      []jsonUse  `json:"uses,omitempty"`
		After     []any      `json:"after,omitempty"`
		Ops       float64    `json:"ops,omitempty"`
		WorkBytes float64    `json:"work_bytes,omitempty"`
		Unit      string     `json:"unit,omitempty"`
		Workspace int64      `json:"workspace,omitempty"`
		Priority  int        `json:"priority,omitempty"`
		Timeout   string     `json:"timeout,omitempty"`
		Hint      string     `json:"hint,omitempty"`
		Only      []string   `json:"only,omitempty"`
		Retries   int        `json:"retries,omitempty"`
		Gang      int        `json:"gang,omitempty"`
	}
)

// Encode writes a graph as JSON, one line for each data handle, kernel and task,
// that Decode reads back into an equal graph. It writes what runs: reductions
// appear as the temporaries and combine tasks the builder made of them, and every
// kernel is defined in full.
//
// It fails when two different kernels share a name, when a kernel has no name or
// dialect, and when text is not UTF-8.
func Encode(g *Graph) ([]byte, error) {
	if g == nil {
		return nil, fmt.Errorf("%w: the graph is nil", ErrValue)
	}
	e := encoder{g: g, kernels: make(map[string]*Kernel), named: make(map[string]int)}
	for i := range g.tasks {
		e.named[g.tasks[i].Name]++
	}
	var data, kernels, tasks []any
	for i := range g.data {
		data = append(data, e.data(&g.data[i]))
	}
	for i := range g.tasks {
		tasks = append(tasks, e.task(&g.tasks[i]))
	}
	for _, k := range e.order {
		kernels = append(kernels, e.kernel(k))
	}
	e.out.WriteString("{\n")
	e.section("data", data, ",")
	e.section("kernels", kernels, ",")
	e.section("tasks", tasks, "")
	e.out.WriteString("}\n")
	if e.err != nil {
		return nil, e.err
	}
	return e.out.Bytes(), nil
}

// encoder keeps the first mistake, as decoder does.
type encoder struct {
	g       *Graph
	out     bytes.Buffer
	kernels map[string]*Kernel
	order   []*Kernel      // in order of first use
	named   map[string]int // number of tasks of each name
	err     error
}

func (e *encoder) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf("encode graph: "+format, args...)
	}
}

// section writes a list, an item to a line.
func (e *encoder) section(name string, items []any, end string) {
	fmt.Fprintf(&e.out, "  %q: [", name)
	enc := json.NewEncoder(&e.out) // ends every item with a newline
	enc.SetEscapeHTML(false)
	for i, item := range items {
		if i == 0 {
			e.out.WriteString("\n    ")
		} else {
			e.out.Truncate(e.out.Len() - len("\n"))
			e.out.WriteString(",\n    ")
		}
		if err := enc.Encode(item); err != nil {
			e.fail("%s %d: %w", name, i, err)
		}
	}
	if len(items) > 0 {
		e.out.WriteString("  ")
	}
	fmt.Fprintf(&e.out, "]%s\n", end)
}

// text passes text on that JSON can hold.
func (e *encoder) text(s string) string {
	if !utf8.ValidString(s) {
		e.fail("%q is not UTF-8", s)
	}
	return s
}

func (e *encoder) data(d *Data) jsonData {
	j := jsonData{Name: e.text(d.Name), Bytes: d.Bytes, DType: string(d.Elem), Input: d.Input, Output: d.Output, Secret: d.Secret, Weights: e.text(d.Weights)}
	if d.Shape != nil {
		j.Shape = d.Shape
	}
	if d.Durability != Versioned {
		j.Durability = d.Durability.String()
	}
	switch d.Tolerance {
	case 0:
	case SameBytes:
		j.Tolerance = sameBytes
	default:
		j.Tolerance = d.Tolerance
	}
	if d.Combine != nil {
		j.Combine = e.kernelName(d.Combine)
	}
	return j
}

// kernelName notes a kernel for the file and returns its name.
func (e *encoder) kernelName(k *Kernel) string {
	switch old := e.kernels[k.Name]; {
	case k.Name == "":
		e.fail("a kernel has no name")
	case old == nil:
		e.kernels[k.Name] = k
		e.order = append(e.order, k)
	case old != k && !reflect.DeepEqual(old, k):
		e.fail("two kernels are called %q; rename one", k.Name)
	}
	return k.Name
}

func (e *encoder) kernel(k *Kernel) jsonKernel {
	j := jsonKernel{Name: e.text(k.Name)}
	for _, im := range k.Impls {
		if im.Dialect == "" {
			e.fail("kernel %q has an implementation without a dialect", k.Name)
		}
		ji := jsonImpl{
			Dialect: e.text(string(im.Dialect)), Arch: e.text(im.Arch), Entry: e.text(im.Entry),
			Per: perDims(im.Per), Block: dims(im.Block), SharedBytes: im.SharedBytes,
		}
		switch {
		case im.Source == nil:
			ji.File = e.text(im.File)
		case readable(im.Source):
			ji.Source = string(im.Source)
		default:
			ji.SourceBase64 = im.Source
		}
		j.Impls = append(j.Impls, ji)
	}
	return j
}

// readable reports whether source is text rather than a binary such as SPIR-V.
func readable(source []byte) bool {
	return utf8.Valid(source) && !bytes.ContainsFunc(source, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\r' && r != '\t'
	})
}

func (e *encoder) task(t *Task) jsonTask {
	j := jsonTask{
		Name:      e.text(t.Name),
		Ops:       t.Work.Ops,
		WorkBytes: t.Work.Bytes,
		Workspace: t.Workspace,
		Priority:  t.Priority,
		Hint:      e.text(t.On.Hint),
		Retries:   t.Retries,
		Gang:      t.Gang,
	}
	if t.Work.Unit != FP32 {
		j.Unit = t.Work.Unit.String()
	}
	switch t.Timeout {
	case 0:
	case NoTimeout:
		j.Timeout = noTimeout
	default:
		j.Timeout = t.Timeout.String()
	}
	for _, s := range t.On.Only {
		j.Only = append(j.Only, e.text(s))
	}
	if len(t.Steps) == 1 {
		j.jsonStep = e.step(&t.Steps[0])
	} else {
		for i := range t.Steps {
			j.Steps = append(j.Steps, e.step(&t.Steps[i]))
		}
	}
	for _, u := range t.Uses {
		d := &e.g.data[u.Data]
		ju := jsonUse{Data: d.Name, Offset: u.Offset, Rank: u.Rank}
		if u.Offset+u.Bytes != d.Bytes {
			ju.Bytes = u.Bytes
		}
		if u.Access != Read {
			ju.Access = u.Access.String()
		}
		j.Uses = append(j.Uses, ju)
	}
	for _, p := range t.After {
		if name := e.g.tasks[p].Name; name != "" && e.named[name] == 1 {
			j.After = append(j.After, name)
		} else {
			j.After = append(j.After, p)
		}
	}
	return j
}

func (e *encoder) step(s *Step) jsonStep {
	j := jsonStep{
		Kernel:      e.kernelName(s.Kernel),
		Grid:        grid(s),
		Block:       dims(s.Launch.Block),
		Cluster:     dims(s.Launch.Cluster),
		SharedBytes: s.Launch.SharedBytes,
		Cooperative: s.Launch.Cooperative,
		Params:      s.Params,
	}
	if s.Args != nil {
		j.Args = s.Args
	}
	return j
}

// grid is the grid of a step as the decoder takes it: a dimension of 0, which counts as 1, is
// written as 1. A kernel without items may have none.
func grid(s *Step) any {
	g := s.Launch.Grid
	if g == [3]uint32{} && !s.Kernel.counts() {
		return nil
	}
	for d := range g {
		g[d] = max(g[d], 1)
	}
	return dims(g)
}

// dims shortens what the decoder lengthens again.
func dims(d [3]uint32) any {
	switch {
	case d == [3]uint32{}:
		return nil
	case d[1] == 1 && d[2] == 1:
		return d[0]
	case d[2] == 1:
		return d[:2]
	}
	return d[:]
}

// perDims is dims with "all" in the place of All.
func perDims(d [3]uint32) any {
	if !slices.Contains(d[:], All) {
		return dims(d)
	}
	out := []any{d[0], d[1], d[2]}
	for i := range d {
		if d[i] == All {
			out[i] = allDimension
		}
	}
	return out
}
