package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/text"
)

// Binding ties an input or output of a model, by name, to memory with a type.
type Binding struct {
	name  string
	elem  graph.Elem
	shape []int64 // nil if it is not known
	bytes int64
	bind  weft.Binding
}

// Bind ties an input or output to a slice, which must not be touched until the run has
// ended.
func Bind[T Element](name string, xs []T) Binding {
	b := Binding{name: name, elem: elemOf[T](), bind: weft.Bind(name, xs)}
	b.bytes = int64(len(xs)) * b.elem.Size()
	return b
}

// As ties an input or output to an array, whose shape is checked as well.
func (a *Array) As(name string) Binding {
	return Binding{name: name, elem: a.Elem, shape: a.Shape, bytes: int64(len(a.Bytes)), bind: weft.Bind(name, a.Bytes)}
}

// Prepared is a model on a runtime, with its weights there. It is safe for concurrent use:
// any number of runs read the weights at the same time.
type Prepared struct {
	m        *Model
	rt       *weft.Runtime
	prepared *weft.Prepared
	weights  []*weft.Data[byte]
	bound    []weft.Binding // the weights
}

// Prepare makes a model ready to be run often on a runtime: it checks that devices take its
// kernels, and puts its weights, which stay there until Release.
func (m *Model) Prepare(rt *weft.Runtime) (*Prepared, error) {
	if m == nil {
		return nil, errNoModel
	}
	p := &Prepared{m: m, rt: rt}
	var err error
	// Before weights are read, which may be large.
	if p.prepared, err = rt.Prepare(m.graph); err != nil {
		return nil, err
	}
	if len(m.weights) == 0 {
		return p, nil
	}
	for _, w := range m.weights {
		if err := p.put(w); err != nil {
			p.Release()
			return nil, fmt.Errorf("weights of data %q: %w", w.Name, err)
		}
	}
	if p.prepared, err = rt.Prepare(m.graph, p.bound...); err != nil {
		p.Release()
		return nil, err
	}
	return p, nil
}

// With returns the model with options for its runs, as [weft.Prepared.With] does. Both share the
// weights: Release of either releases them for both.
func (p *Prepared) With(o weft.RunOptions) (*Prepared, error) {
	if p == nil {
		return nil, errNoPrepared
	}
	with, err := p.prepared.With(o)
	if err != nil {
		return nil, err
	}
	out := *p
	out.prepared = with
	return &out, nil
}

var (
	errNoModel    = errors.New("the model is nil; Load returns one")
	errNoPrepared = errors.New("the prepared model is nil; Prepare returns one")
)

// On returns the model with all its tasks on one device, by its name, instead of the devices
// that the model itself allows. Both share the weights, of which the device gets a copy with its
// first run: Release of either releases them for both. On errs for a model with tasks that take
// several devices.
func (p *Prepared) On(device string) (*Prepared, error) {
	if p == nil {
		return nil, errNoPrepared
	}
	from := p.m.graph
	var b graph.Builder
	for i := range from.NumData() {
		b.Data(*from.Data(graph.DataID(i)))
	}
	for i := range from.NumTasks() {
		t := *from.Task(graph.TaskID(i))
		if t.Gang > 1 {
			return nil, fmt.Errorf("task %s runs on %d devices together, and not on %s alone", from.TaskName(graph.TaskID(i)), t.Gang, device)
		}
		t.On = graph.Constraint{Only: []string{device}}
		b.Add(t)
	}
	g, err := b.Build()
	if err != nil {
		return nil, err
	}
	m, out := *p.m, *p
	m.graph, out.m = g, &m
	if out.prepared, err = p.rt.Prepare(g, p.bound...); err != nil {
		return nil, err
	}
	return &out, nil
}

// put reads weights and makes them resident.
func (p *Prepared) put(w Port) error {
	// Of the runtime, which knows how much memory there is.
	var buffer *weft.Buffer[byte]
	file := p.m.weightsFile(w.Name)
	src, err := read(p.m.files, file, w.MaxFile(), func(bytes int64) (mem []byte, err error) {
		if buffer, err = weft.NewBuffer[byte](p.rt, int(bytes)); err != nil {
			return nil, err
		}
		return buffer.Slice(), nil
	})
	if buffer != nil {
		defer buffer.Release()
	}
	if err != nil {
		return err
	}
	a, err := w.Parse(file, src)
	if err != nil {
		return err
	}
	d, err := weft.Put(p.rt, w.Name, a.Bytes)
	if err != nil {
		return err
	}
	p.weights, p.bound = append(p.weights, d), append(p.bound, d.As(w.Name))
	return nil
}

// Release gives up the weights once no run uses them. Runs that begin afterwards fail.
func (p *Prepared) Release() {
	if p == nil {
		return
	}
	for _, d := range p.weights {
		d.Release()
	}
}

// Graph returns the graph as it is run, as [weft.Prepared.Graph] does.
func (p *Prepared) Graph() *graph.Graph { return p.prepared.Graph() }

// Predict says what a run is expected to take.
func (p *Prepared) Predict(ctx context.Context) (*weft.Prediction, error) {
	return p.rt.Predict(ctx, p.Graph(), p.bound...)
}

// Run runs the model and waits, as [weft.Runtime.Run] does. Every input and output is
// bound. What does not fit them is an error that wraps [weft.ErrBinding].
func (p *Prepared) Run(ctx context.Context, b ...Binding) (*weft.Report, error) {
	bound, err := p.bindings(b)
	if err != nil {
		return nil, err
	}
	return p.prepared.Run(ctx, bound...)
}

// RunStages runs the model in stages with checkpoints in between, as [weft.Runtime.RunStages]
// does. It runs the model's tasks as they are, without fusing any.
func (p *Prepared) RunStages(ctx context.Context, keep weft.Keep, b ...Binding) (*weft.Report, error) {
	bound, err := p.bindings(b)
	if err != nil {
		return nil, err
	}
	return p.rt.RunStages(ctx, keep, p.m.graph, append(bound, p.bound...)...)
}

// Submit starts the model and returns at once, as [weft.Prepared.Submit] does. Bindings that do
// not fit are an error that wraps [weft.ErrBinding]: nothing is started, and then is not called.
func (p *Prepared) Submit(then func(*weft.Report, error), b ...Binding) (*weft.Handle, error) {
	bound, err := p.bindings(b)
	if err != nil {
		return nil, err
	}
	return p.prepared.Submit(then, bound...), nil
}

// bindings checks bindings and returns them as the runtime takes them.
func (p *Prepared) bindings(b []Binding) ([]weft.Binding, error) {
	if p == nil {
		return nil, errNoPrepared
	}
	if err := p.m.check(b); err != nil {
		return nil, fmt.Errorf("%w: %w", weft.ErrBinding, err)
	}
	bound := make([]weft.Binding, len(b))
	for i := range b {
		bound[i] = b[i].bind
	}
	return bound, nil
}

// Port returns the input or output with a name. The error says which there are.
func (m *Model) Port(name string) (Port, error) {
	if i, ok := m.at[name]; ok {
		return m.ports[i], nil
	}
	if slices.ContainsFunc(m.weights, func(p Port) bool { return p.Name == name }) {
		return Port{}, fmt.Errorf("data %q has weights, which come with the model", name)
	}
	names := make([]string, len(m.ports))
	for i, p := range m.ports {
		names[i] = p.Name
	}
	return Port{}, text.Unknown("input or output", name, names)
}

// check errs unless bindings fit the ports, each of which has one.
func (m *Model) check(bs []Binding) error {
	bound := make(map[string]bool, len(bs))
	for _, b := range bs {
		p, err := m.Port(b.name)
		if err != nil {
			return err
		}
		bound[b.name] = true // the runtime looks for those that are bound twice
		if err := p.fits(b.elem, b.shape, b.bytes); err != nil {
			return fmt.Errorf("binding of data %q: %w", b.name, err)
		}
	}
	var missing []string
	for _, p := range m.ports {
		if !bound[p.Name] {
			missing = append(missing, p.String())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("nothing is bound to %s", strings.Join(missing, ", "))
	}
	return nil
}
