package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/internal/safefile"
	"github.com/weft-run/weft/model"
	"github.com/weft-run/weft/trace"
	"github.com/weft-run/weft/workload"
)

// graphRun is a call of `weft run FILE`.
type graphRun struct {
	live
	binds, outs []string // name=file
	model       *model.Model
	inputs      map[string]*model.Array // from files, by port
	outputs     []*outputFile
}

// graphFlags makes the command that has workloads below it run graphs as well.
func graphFlags(c *cobra.Command, s *settings) {
	r := &graphRun{live: live{settings: s}}
	f := c.Flags()
	f.StringArrayVar(&r.binds, "bind", nil, "the `NAME=FILE` of an input of the graph; once for each")
	f.StringArrayVar(&r.outs, "out", nil, "the `NAME=FILE` that an output of the graph is written to, whole or not at all")
	r.flags(f, 1)
	c.Args = func(c *cobra.Command, args []string) error {
		switch {
		case len(args) == 0 || !namesFile(args[0]):
			return terminal.OneOf("workload")(c, args)
		case len(args) > 1:
			return fmt.Errorf("run takes one graph; %q is too much", args[1])
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := r.settle(); err != nil {
			return err
		}
		defer func() {
			for _, o := range r.outputs {
				o.file.Close()
			}
		}()
		if err := r.load(c, args[0]); err != nil {
			return err
		}
		return r.run(c, args[0])
	}
}

// namesFile reports whether an argument is meant as a file and not as a workload.
func namesFile(arg string) bool {
	if strings.HasSuffix(arg, ".json") || strings.ContainsRune(arg, filepath.Separator) || strings.Contains(arg, "/") {
		return true
	}
	_, err := os.Stat(arg)
	return err == nil
}

// load reads the graph and its inputs and opens its outputs, so that mistakes are told
// before anything is computed.
func (r *graphRun) load(c *cobra.Command, file string) (err error) {
	base := filepath.Base(file)
	if r.model, err = model.Load(model.Dir(filepath.Dir(file)), base, model.Limits{}); err != nil {
		if at := (*graph.SyntaxError)(nil); errors.As(err, &at) {
			return located(file, err)
		}
		return terminal.Usagef("%s: %s", file, strings.TrimPrefix(err.Error(), base+": "))
	}
	bytes := int64(0)
	for _, p := range r.model.Ports() {
		bytes += 2 * p.Bytes // what was read, and what a run is given; Limits keep it from overflowing
	}
	if err := host.Enough(file, bytes); err != nil {
		return err
	}
	if err := r.readInputs(); err != nil {
		return terminal.Usage(err)
	}
	if err := r.openOutputs(c); err != nil {
		return terminal.Usage(err)
	}
	return nil
}

// pairs parses flags of the form name=file into files by port.
func (r *graphRun) pairs(flag string, values []string) (map[string]string, error) {
	files := make(map[string]string)
	for _, v := range values {
		name, file, ok := strings.Cut(v, "=")
		if !ok || name == "" || file == "" {
			return nil, fmt.Errorf("--%s %q: it must be a name and a file, as in x=x.npy", flag, v)
		}
		if _, err := r.model.Port(name); err != nil {
			return nil, fmt.Errorf("--%s %s: %w", flag, v, err)
		}
		if files[name] != "" {
			return nil, fmt.Errorf("--%s %s: %s has a file already: %s", flag, v, name, files[name])
		}
		files[name] = file
	}
	return files, nil
}

// readInputs reads the files of all inputs.
func (r *graphRun) readInputs() error {
	files, err := r.pairs("bind", r.binds)
	if err != nil {
		return err
	}
	r.inputs = make(map[string]*model.Array)
	var missing []string
	for _, p := range r.model.Ports() {
		switch file := files[p.Name]; {
		case file == "" && p.Input:
			missing = append(missing, p.String())
		case file != "" && !p.Input:
			return fmt.Errorf("--bind %s=%s: %s is an output; --out %s=FILE writes it", p.Name, file, p.Name, p.Name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("inputs without a file: %s; give --bind NAME=FILE for each", strings.Join(missing, ", "))
	}
	for _, p := range r.model.Ports() {
		file := files[p.Name]
		if file == "" {
			continue
		}
		src, err := safefile.ReadNamed(file, p.MaxFile())
		if err != nil {
			return terminal.FileError(file, err)
		}
		if r.inputs[p.Name], err = p.Parse(file, src); err != nil {
			return err
		}
	}
	return nil
}

// openOutputs opens the files of outputs.
func (r *graphRun) openOutputs(c *cobra.Command) error {
	files, err := r.pairs("out", r.outs)
	if err != nil {
		return err
	}
	for _, p := range r.model.Ports() {
		file := files[p.Name]
		if file == "" {
			continue
		}
		if !p.Output {
			return fmt.Errorf("--out %s=%s: %s is an input and no output", p.Name, file, p.Name)
		}
		switch filepath.Ext(file) {
		case ".bin":
		case ".npy":
			if p.Elem == "" {
				return fmt.Errorf("--out %s=%s: the graph states no dtype of %s, which NumPy's format needs; state it, or write a .bin file", p.Name, file, p.Name)
			}
		default:
			return fmt.Errorf("--out %s=%s: the file must end in .npy, for NumPy's format, or in .bin, for the elements alone", p.Name, file)
		}
		o := &outputFile{port: p.Name, name: filepath.Clean(file), npy: filepath.Ext(file) == ".npy"}
		if o.file, err = terminal.OpenOutput(c, file); err != nil {
			return err
		}
		same := slices.IndexFunc(r.outputs, func(q *outputFile) bool { return q.file.Path() == o.file.Path() })
		r.outputs = append(r.outputs, o)
		if same >= 0 {
			return fmt.Errorf("--out %s=%s: %s is written there already", p.Name, file, r.outputs[same].port)
		}
	}
	return nil
}

// memory holds the bytes that a run reads or writes for one input or output.
type memory struct {
	array *model.Array
	start []byte // the value of an output that is an input too, which a run replaces
}

// bind makes memory for all ports that devices copy from and to directly. The caller
// calls free.
func (r *graphRun) bind(rt *weft.Runtime) (mem map[string]memory, free func(), err error) {
	var buffers []*weft.Buffer[byte]
	free = func() {
		for _, b := range buffers {
			b.Release()
		}
	}
	mem = make(map[string]memory)
	for _, p := range r.model.Ports() {
		b, err := weft.NewBuffer[byte](rt, int(p.Bytes))
		if err != nil {
			return nil, free, err
		}
		buffers = append(buffers, b)
		var m memory
		if m.array, err = p.Array(b.Slice()); err != nil {
			return nil, free, err
		}
		if in := r.inputs[p.Name]; in != nil {
			copy(m.array.Bytes, in.Bytes)
			if p.Output {
				m.start = in.Bytes
			}
		}
		mem[p.Name] = m
	}
	return mem, free, nil
}

// run runs the graph as often as asked, writes the outputs and prints the report.
func (r *graphRun) run(c *cobra.Command, file string) error {
	rt, out, done, err := r.open(c)
	defer done()
	if err != nil {
		return err
	}
	ready, err := r.model.Prepare(rt)
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
		if errors.Is(err, weft.ErrNoFunc) { // a mistake in the file
			if !strings.HasSuffix(err.Error(), "?") { // it knows no similar one
				err = fmt.Errorf("%w; weft kernels lists those there are", err)
			}
			return terminal.Usage(err)
		}
		return err
	}
	defer ready.Release()
	mem, free, err := r.bind(rt)
	defer free()
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	p := terminal.StartProgress(c.ErrOrStderr(), r.asJSON, "run", r.repeat)
	defer p.Finish()
	rep := newReport(rt, file)
	r.keeping.show(p, file)
	last, err := r.runs(c.Context(), ready, rep, mem, p)
	if err != nil && (last == nil || !errors.Is(err, context.Canceled)) {
		return fmt.Errorf("%s: %w", file, err)
	}
	p.Finish()
	if err == nil {
		for _, o := range r.outputs {
			if err := o.write(mem[o.port].array); err != nil {
				return err
			}
			rep.Files = append(rep.Files, o.name)
		}
		rep.outputs = r.shown(mem)
	}
	return r.report(c, rt, rep, last, out, namesOf(ready.Graph()), err)
}

// shown returns a line for each output that is written to no file.
func (r *graphRun) shown(mem map[string]memory) (lines []string) {
	for _, p := range r.model.Ports() {
		if p.Output && !slices.ContainsFunc(r.outputs, func(o *outputFile) bool { return o.port == p.Name }) {
			lines = append(lines, fmt.Sprintf("%s: %s", p, firstValues(mem[p.Name].array)))
		}
	}
	return lines
}

// firstValues writes the first elements of an array, or its first bytes where the graph does
// not state what they are.
func firstValues(a *model.Array) string {
	const most = 8
	size := int(max(a.Elem.Size(), 1))
	n := len(a.Bytes) / size
	var out []string
	for i := range min(n, most) {
		b := a.Bytes[i*size : (i+1)*size]
		switch a.Elem {
		case graph.F2:
			out = append(out, fmt.Sprint(collective.Half(binary.LittleEndian.Uint16(b)).Float32()))
		case graph.F4:
			out = append(out, fmt.Sprint(math.Float32frombits(binary.LittleEndian.Uint32(b))))
		case graph.F8:
			out = append(out, fmt.Sprint(math.Float64frombits(binary.LittleEndian.Uint64(b))))
		case graph.I1:
			out = append(out, fmt.Sprint(int8(b[0])))
		case graph.I2:
			out = append(out, fmt.Sprint(int16(binary.LittleEndian.Uint16(b))))
		case graph.I4:
			out = append(out, fmt.Sprint(int32(binary.LittleEndian.Uint32(b))))
		case graph.I8:
			out = append(out, fmt.Sprint(int64(binary.LittleEndian.Uint64(b))))
		case graph.U1:
			out = append(out, fmt.Sprint(b[0]))
		case graph.U2:
			out = append(out, fmt.Sprint(binary.LittleEndian.Uint16(b)))
		case graph.U4:
			out = append(out, fmt.Sprint(binary.LittleEndian.Uint32(b)))
		case graph.U8:
			out = append(out, fmt.Sprint(binary.LittleEndian.Uint64(b)))
		case graph.B1:
			out = append(out, fmt.Sprint(b[0] != 0))
		default:
			out = append(out, fmt.Sprintf("%02x", b[0]))
		}
	}
	if n > most {
		out = append(out, "…")
	}
	return strings.Join(out, " ")
}

// namesOf returns the names of tasks and kernels for a trace. Events without a task have none.
func namesOf(g *graph.Graph) trace.Names {
	return trace.Names{
		Task: func(_ int32, t graph.TaskID) string {
			if t < 0 || int(t) >= g.NumTasks() {
				return ""
			}
			return g.TaskName(t)
		},
		Kernel: func(_ int32, t graph.TaskID) string {
			if t < 0 || int(t) >= g.NumTasks() {
				return ""
			}
			return g.Task(t).Steps[0].Kernel.Name
		},
	}
}

// runs runs the graph. last is the last run that ended, or the first one as far as it
// came; nil if that did nothing.
func (r *graphRun) runs(ctx context.Context, ready *model.Prepared, rep *liveReport, mem map[string]memory, p *terminal.Progress) (last *workload.Result, err error) {
	g := ready.Graph()
	ops := 0.0
	for i := range g.NumTasks() {
		ops += g.Task(graph.TaskID(i)).Work.Ops
	}
	bindings := make([]model.Binding, 0, len(mem))
	for _, p := range r.model.Ports() {
		bindings = append(bindings, mem[p.Name].array.As(p.Name))
	}
	ctx = shown(ctx, p)
	for range r.repeat {
		p.At("%s", rep.Job)
		r.why = r.why[:0]
		for _, m := range mem {
			copy(m.array.Bytes, m.start)
		}
		expected, err := ready.Predict(ctx)
		if err != nil {
			return last, err
		}
		report, err := r.once(ctx, ready, bindings)
		res := &workload.Result{Report: report, Tasks: g.NumTasks(), Prediction: expected, Predicted: expected.Median}
		if err != nil {
			if last == nil && report != nil {
				last = res
			}
			return last, err
		}
		took := report.Elapsed()
		rep.Runs = append(rep.Runs, r.keeping.row(runRow{Seconds: took.Seconds(), Predicted: res.Predicted.Seconds(), Samples: expected.Samples, Rate: rate(ops, took)}))
		rep.Verified = rep.Verified.with(report)
		last = res
		p.Add()
	}
	return last, nil
}

// once runs the graph, with checkpoints where they are asked for.
func (r *graphRun) once(ctx context.Context, ready *model.Prepared, bindings []model.Binding) (*weft.Report, error) {
	if !r.keeping.asked() {
		return ready.Run(ctx, bindings...)
	}
	report, err := ready.RunStages(ctx, r.keeping.keep(), bindings...)
	return report, checkpointError(err)
}

// rate puts the speed of a run into words, if its tasks state their work.
func rate(ops float64, took time.Duration) string {
	if ops == 0 || took <= 0 {
		return "-"
	}
	return terminal.SI(ops/took.Seconds(), "OP/s")
}

// outputFile is a file that an output is written to.
type outputFile struct {
	port, name string // the name is as it was given
	npy        bool   // in NumPy's format
	file       *terminal.Output
}

// write writes an array in place of the content of the file.
func (o *outputFile) write(a *model.Array) error {
	return o.file.Replace(func(w io.Writer) error {
		if o.npy {
			return a.WriteNPY(w)
		}
		_, err := w.Write(a.Bytes)
		return err
	})
}
