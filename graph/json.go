package graph

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"

	"github.com/weft-run/weft/internal/text"
)

// SyntaxError is a mistake in a file that weft reads: a graph, a machine, a fault
// script, a scenario or options. Of a graph it unwraps to the builder's sentinel
// (ErrSize, ErrUnwritten, …) when the file is well formed and the graph in it is
// not.
type SyntaxError struct {
	Line   int // from 1
	Reason string
	Err    error // the error whose text the reason is; nil for a mistake that has no error of its own
}

// Error returns one line, which callers prefix with the name of the file.
func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// Unwrap returns Err.
func (e *SyntaxError) Unwrap() error { return e.Err }

// Resolver returns the kernel with a name, or nil when it knows none.
type Resolver func(name string) *Kernel

// Decode reads a graph from JSON.
//
//	{
//	  "data": [
//	    {"name": "x", "bytes": "8MB", "input": true},
//	    {"name": "sum", "bytes": 4, "input": true, "output": true, "combine": "add"}
//	  ],
//	  "kernels": [
//	    {"name": "add", "impls": [{"dialect": "go", "entry": "add"}]}
//	  ],
//	  "tasks": [
//	    {"name": "lo", "kernel": "total", "grid": 1, "ops": 1e6, "uses": [
//	      {"data": "x", "bytes": "4MB"}, {"data": "sum", "access": "reduce"}]},
//	    {"name": "hi", "kernel": "total", "grid": 1, "ops": 1e6, "after": ["lo"], "uses": [
//	      {"data": "x", "offset": "4MB"}, {"data": "sum", "access": "reduce"}]}
//	  ]
//	}
//
// Data has name, bytes, dtype ("float32" or "f4", …), shape (a list), durability (versioned,
// mirrored, volatile), input, output, combine, tolerance (a number or "same bytes"), secret,
// and weights. weights names the file with its value, which makes it an input. With dtype and
// shape, bytes may be left out. A kernel has a name and impls of dialect, arch, entry, per,
// block, shared_bytes, and source (text), source_base64 or file, the name of a file: .cu, .ptx,
// .spv or .comp, which implies the dialect. Decode reads no files; package model does. A task
// has name, uses (data, offset, bytes, access, rank), after, ops, work_bytes, unit, workspace,
// priority, timeout ("5ms" or "none"), hint, only, retries, gang, and either steps or, for a
// single step, the step's fields themselves: kernel, grid, block, cluster (a number or up to
// three), shared_bytes, cooperative, params, args (numbers of uses). A step must state its
// grid, the number of items, unless its kernel has none: dialects abstract and library. Every
// other field that is left out has the zero value of its Go type.
//
// The params of a step are base64, or a list of {"type": number} or {"type": [numbers]}
// for the fields of a structure that Pack takes, as [{"int": [64, 48]}, {"float32": 0.5}].
// In an impl's per, "all" stands for a whole dimension.
//
// Sizes are numbers or text: kB, MB, GB, TB count in thousands, KiB, MiB, GiB,
// TiB in 1,024s. Data and kernel names are unique. Task names are labels and may
// repeat; after names tasks further up by a name that is theirs alone, or by
// position from 0.
//
// A kernel the file does not define is asked from kernels. Without a Resolver it
// is taken for a Go function registered under the kernel's name.
//
// Every error is a *SyntaxError for the first mistake found. A graph whose tasks use more
// than 32 million pieces of data, each counted once for every use, is refused: a short
// file can describe many.
func Decode(src []byte, kernels Resolver) (*Graph, error) {
	root, line, err := text.ParseJSON(src)
	if err != nil {
		return nil, &SyntaxError{Line: line, Reason: err.Error()}
	}
	d := decoder{resolve: kernels, kernels: make(map[string]*Kernel), data: make(map[string]DataID)}
	d.b.mostPieces = maxDecoded
	g := d.graph(root)
	if d.err != nil {
		return nil, d.err
	}
	return g, nil
}

// maxDecoded limits the pieces that all uses of a decoded graph have together. Their number can
// grow with the square of the file's length, since 50 bytes can add both a task and a piece.
// 2²⁵ pieces take about 1 GB.
const maxDecoded = 1 << 25

// decoder turns a tree into a graph. It keeps the first mistake and goes on with
// zero values, which saves a check after every field.
type decoder struct {
	b       Builder
	resolve Resolver
	kernels map[string]*Kernel
	data    map[string]DataID
	err     *SyntaxError
}

func (d *decoder) fail(line int, format string, args ...any) {
	if d.err == nil {
		d.err = &SyntaxError{Line: line, Reason: fmt.Sprintf(format, args...)}
	}
}

// failed takes over a mistake the builder reported.
func (d *decoder) failed(line int, err error) {
	if d.err == nil {
		d.err = &SyntaxError{Line: line, Reason: err.Error(), Err: err}
	}
}

func (d *decoder) graph(root text.Value) *Graph {
	var data, kernels, tasks []text.Value
	for _, f := range d.object(text.Field{Name: "the graph", Value: root}) {
		switch f.Name {
		case "data":
			data = d.list(f)
		case "kernels":
			kernels = d.list(f)
		case "tasks":
			tasks = d.list(f)
		default:
			d.unknown(f, "the graph", "data, kernels, tasks")
		}
	}
	for _, n := range kernels {
		d.kernel(n)
	}
	for _, n := range data {
		d.handle(n)
	}
	ids := d.tasks(tasks)
	if d.err != nil {
		return nil
	}
	g, err := d.b.Build()
	if err != nil {
		d.failed(lineOf(err, data, tasks, ids), d.b.errs[0])
		return nil
	}
	return g
}

// lineOf finds the line of a mistake that shows in the whole graph only, which is a task
// or an output that needs data nothing has written, or data with the name of a part.
func lineOf(err error, data, tasks []text.Value, ids []TaskID) int {
	line := 1
	if u := (*unwritten)(nil); errors.As(err, &u) {
		line = data[u.data].Line // of an output, or of a combine task of the builder's
		if i, ok := slices.BinarySearch(ids, u.task); ok {
			line = tasks[i].Line
		}
	}
	if s := (*sameName)(nil); errors.As(err, &s) {
		line = data[s.first].Line
	}
	return line
}

func (d *decoder) kernel(n text.Value) {
	k := &Kernel{}
	for _, f := range d.object(text.Field{Name: "kernel", Value: n}) {
		switch f.Name {
		case "name":
			k.Name = d.text(f)
		case "impls":
			for _, n := range d.list(f) {
				k.Impls = append(k.Impls, d.impl(n))
			}
		default:
			d.unknown(f, "a kernel", "name, impls")
		}
	}
	switch {
	case k.Name == "":
		d.fail(n.Line, "a kernel needs a name")
	case d.kernels[k.Name] != nil:
		d.fail(n.Line, "kernel %q is defined twice", k.Name)
	case len(k.Impls) == 0:
		d.fail(n.Line, "kernel %q has no impls", k.Name)
	}
	d.kernels[k.Name] = k
}

func (d *decoder) impl(n text.Value) Impl {
	var im Impl
	code := "" // the field that has it
	for _, f := range d.object(text.Field{Name: "impl", Value: n}) {
		switch f.Name {
		case "dialect":
			im.Dialect = Dialect(d.text(f))
		case "arch":
			im.Arch = d.text(f)
		case "entry":
			im.Entry = d.text(f)
		case "source", "source_base64", "file":
			if code != "" {
				d.fail(f.Line, "an impl has source, source_base64 or file, not %s and %s", code, f.Name)
			}
			code = f.Name
			d.code(f, &im)
		case "per":
			im.Per = d.per(f)
		case "block":
			im.Block = d.dims(f)
		case "shared_bytes":
			if im.SharedBytes = d.shared(f); im.SharedBytes < 0 {
				d.wrong(f, "a size")
			}
		default:
			d.unknown(f, "an impl", "dialect, arch, entry, source, source_base64, file, per, block, shared_bytes")
		}
	}
	if im.File != "" {
		d.fromFile(n, &im)
	}
	if im.Dialect == "" {
		d.fail(n.Line, "an impl needs a dialect: go, ptx, cudac, spirv, glsl or library")
	}
	return im
}

// code reads the field of an impl that has its code.
func (d *decoder) code(f text.Field, im *Impl) {
	switch f.Name {
	case "source":
		im.Source = []byte(d.text(f))
	case "source_base64":
		im.Source = d.base64(f)
	default:
		if im.File = d.text(f); im.File == "" {
			d.fail(f.Line, "file is the name of a file, and it is empty")
		}
	}
	if len(im.Source) == 0 {
		im.Source = nil
	}
}

// fileDialects are the dialects of code by the ending of its file, where the code does not say it.
var fileDialects = map[string]Dialect{".cu": CUDAC, ".ptx": PTX, ".spv": SPIRV, ".comp": GLSL}

// fromFile completes an impl by the name of its file.
func (d *decoder) fromFile(n text.Value, im *Impl) {
	dialect, ok := fileDialects[path.Ext(im.File)]
	if im.Dialect == "" {
		im.Dialect = dialect
	}
	switch {
	case im.Dialect == "":
		d.fail(n.Line, "file %q has no ending that weft knows: .cu is CUDA C, .ptx is PTX, .spv is SPIR-V, .comp is GLSL; for others give the dialect", im.File)
	case ok && im.Dialect != dialect:
		d.fail(n.Line, "file %q is %s by its ending, and the dialect says %s", im.File, dialect, im.Dialect)
	case im.Entry != "":
	case dialect == SPIRV || dialect == GLSL:
		im.Entry = "main"
	default:
		d.fail(n.Line, "file %q needs an entry: the name of the function to launch", im.File)
	}
}

// named finds a kernel that data or a task names.
func (d *decoder) named(f text.Field) *Kernel {
	name := d.text(f)
	if k := d.kernels[name]; k != nil || d.err != nil {
		return k
	}
	k := &Kernel{Name: name, Impls: []Impl{{Dialect: Go, Entry: name}}}
	if d.resolve != nil {
		k = d.resolve(name)
	}
	if name == "" || k == nil {
		d.fail(f.Value.Line, "unknown kernel %q: define it under \"kernels\"", name)
	}
	d.kernels[name] = k
	return k
}

func (d *decoder) handle(n text.Value) {
	var h Data
	for _, f := range d.object(text.Field{Name: "data", Value: n}) {
		switch f.Name {
		case "name":
			h.Name = d.text(f)
		case "bytes":
			h.Bytes = d.size(f)
		case "dtype":
			h.Elem = d.elem(f)
		case "shape":
			h.Shape = []int64{}
			for _, n := range d.list(f) {
				h.Shape = append(h.Shape, d.integer(text.Field{Name: "shape", Line: n.Line, Value: n}, 0, math.MaxInt64))
			}
		case "durability":
			h.Durability = Durability(d.choice(f, durabilityNames[:]))
		case "input":
			h.Input = d.flag(f)
		case "output":
			h.Output = d.flag(f)
		case "combine":
			h.Combine = d.named(f)
		case "tolerance":
			if s, ok := f.Value.V.(string); ok && s == sameBytes {
				h.Tolerance = SameBytes
			} else if h.Tolerance = d.number(f); h.Tolerance < 0 {
				d.fail(f.Line, "a tolerance is a number from 0 to 1, or %q", sameBytes)
			}
		case "secret":
			h.Secret = d.flag(f)
		case "weights":
			if h.Weights = d.text(f); h.Weights == "" {
				d.fail(f.Line, "weights is the name of a file, and it is empty")
			}
		default:
			d.unknown(f, "data", "name, bytes, dtype, shape, durability, input, output, combine, tolerance, secret, weights")
		}
	}
	h.Input = h.Input || h.Weights != ""
	if h.Name == "" {
		d.fail(n.Line, "data needs a name")
	}
	if _, ok := d.data[h.Name]; ok {
		d.fail(n.Line, "data %q is defined twice", h.Name)
	}
	d.data[h.Name] = d.b.Data(h)
	if len(d.b.errs) > 0 {
		d.failed(n.Line, d.b.errs[0])
	}
}

// tasks adds the tasks and returns the ID of each, ascending.
func (d *decoder) tasks(ns []text.Value) []TaskID {
	ids := make([]TaskID, 0, len(ns))
	at := make(map[string]int, len(ns)) // position by name, or repeated
	repeated := len(ns)                 // no task has this position
	all := make([][]text.Field, len(ns))
	for i, n := range ns {
		all[i] = d.object(text.Field{Name: "task", Value: n})
		for _, f := range all[i] {
			if name, _ := f.Value.V.(string); f.Name == "name" && name != "" {
				if _, ok := at[name]; ok {
					at[name] = repeated
				} else {
					at[name] = i
				}
			}
		}
	}
	after := func(n text.Value) TaskID {
		var i int
		switch v := n.V.(type) {
		case string:
			var ok bool
			if i, ok = at[v]; !ok {
				d.fail(n.Line, "after an unknown task %q", v)
			} else if i == repeated {
				d.fail(n.Line, "after task %q, a name several tasks have; give its position, counting from 0", v)
			}
		case json.Number:
			i = int(d.integer(text.Field{Name: "after", Value: n}, 0, math.MaxInt32))
			if i >= len(ns) {
				d.fail(n.Line, "after an unknown task %d: there are %d, counting from 0", i, len(ns))
			}
		default:
			d.wrong(text.Field{Name: "after", Value: n}, "the name or position of a task")
		}
		if i >= len(ids) {
			d.fail(n.Line, "after task %s, which is not further up; move it there", n)
		}
		if d.err != nil {
			return NoTask
		}
		return ids[i]
	}
	for i, n := range ns {
		t := d.task(n, all[i], after)
		if d.err != nil {
			return nil
		}
		ids = append(ids, d.b.Add(t))
		if len(d.b.errs) > 0 {
			d.failed(n.Line, d.b.errs[0])
		}
	}
	return ids
}

func (d *decoder) task(n text.Value, fields []text.Field, after func(text.Value) TaskID) Task {
	var t Task
	var short Step // a single step's fields, given with the task's
	isShort := false
	for _, f := range fields {
		switch f.Name {
		case "name":
			t.Name = d.text(f)
		case "steps":
			for _, n := range d.list(f) {
				t.Steps = append(t.Steps, d.step(n))
			}
		case "uses":
			for _, n := range d.list(f) {
				t.Uses = append(t.Uses, d.use(n))
			}
		case "after":
			for _, n := range d.list(f) {
				t.After = append(t.After, after(n))
			}
		case "ops":
			t.Work.Ops = d.number(f)
		case "work_bytes":
			if _, ok := f.Value.V.(string); ok {
				t.Work.Bytes = float64(d.size(f))
			} else {
				t.Work.Bytes = d.number(f)
			}
		case "unit":
			t.Work.Unit = Unit(d.choice(f, unitNames[:]))
		case "workspace":
			t.Workspace = d.size(f)
		case "priority":
			t.Priority = int(d.integer(f, math.MinInt, math.MaxInt))
		case "timeout":
			if s, ok := f.Value.V.(string); ok && s == noTimeout {
				t.Timeout = NoTimeout
			} else {
				t.Timeout = d.duration(f)
			}
		case "hint":
			t.On.Hint = d.text(f)
		case "only":
			for _, n := range d.list(f) {
				t.On.Only = append(t.On.Only, d.text(text.Field{Name: "only", Line: n.Line, Value: n}))
			}
		case "retries":
			t.Retries = int(d.integer(f, math.MinInt, math.MaxInt))
		case "gang":
			t.Gang = int(d.integer(f, math.MinInt, math.MaxInt))
		default:
			isShort = true
			if !d.stepField(f, &short) {
				d.unknown(f, "a task", "name, kernel, steps, uses, after, ops, work_bytes, unit, workspace, priority, timeout, hint, only, retries, gang, "+launchFields)
			}
		}
	}
	switch {
	case isShort && t.Steps != nil:
		d.fail(n.Line, "a task has steps, or kernel and launch of its only step, not both")
	case isShort:
		d.checkStep(n, short)
		t.Steps = []Step{short}
	}
	return t
}

func (d *decoder) step(n text.Value) Step {
	var s Step
	for _, f := range d.object(text.Field{Name: "step", Value: n}) {
		if !d.stepField(f, &s) {
			d.unknown(f, "a step", "kernel, "+launchFields)
		}
	}
	d.checkStep(n, s)
	return s
}

func (d *decoder) checkStep(n text.Value, s Step) {
	switch {
	case s.Kernel == nil:
		d.fail(n.Line, "a step needs a kernel")
	case s.Launch.Grid[0] == 0 && s.Kernel.counts():
		d.fail(n.Line, "kernel %q has no grid: say how many items it computes, as \"grid\": 1000, or \"grid\": 1 for one", s.Kernel.Name)
	}
}

const launchFields = "grid, block, cluster, shared_bytes, cooperative, params, args"

// stepField reads a field of a step and reports whether it is one.
func (d *decoder) stepField(f text.Field, s *Step) bool {
	switch f.Name {
	case "kernel":
		s.Kernel = d.named(f)
	case "grid":
		if s.Launch.Grid = d.dims(f); slices.Contains(s.Launch.Grid[:], 0) {
			d.fail(f.Line, "the grid has 0 items in a dimension: say how many the kernel computes, 1 at least")
		}
	case "block":
		s.Launch.Block = d.dims(f)
	case "cluster":
		s.Launch.Cluster = d.dims(f)
	case "shared_bytes":
		s.Launch.SharedBytes = d.shared(f)
	case "cooperative":
		s.Launch.Cooperative = d.flag(f)
	case "params":
		s.Params = d.params(f)
	case "args":
		s.Args = []int{}
		for _, n := range d.list(f) {
			s.Args = append(s.Args, int(d.integer(text.Field{Name: "args", Line: n.Line, Value: n}, 0, math.MaxInt32)))
		}
	default:
		return false
	}
	return true
}

func (d *decoder) use(n text.Value) Use {
	u := Use{Data: -1}
	for _, f := range d.object(text.Field{Name: "use", Value: n}) {
		switch f.Name {
		case "data":
			name := d.text(f)
			id, ok := d.data[name]
			if !ok {
				d.fail(f.Value.Line, "unknown data %q: define it under \"data\"", name)
			}
			u.Data = id
		case "offset":
			u.Offset = d.size(f)
		case "bytes":
			u.Bytes = d.size(f)
			if u.Bytes == 0 {
				d.fail(f.Line, "a use of 0 bytes; leave bytes out for the rest of the data")
			}
		case "access":
			u.Access = Access(d.choice(f, accessNames[:]))
		case "rank":
			u.Rank = int16(d.integer(f, 0, math.MaxInt16))
		default:
			d.unknown(f, "a use", "data, offset, bytes, access, rank")
		}
	}
	if u.Data < 0 {
		d.fail(n.Line, "a use needs data")
	}
	return u
}
