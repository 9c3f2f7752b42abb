package infer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/model"
)

// runner computes the batches of one model version.
type runner interface {
	// run computes calls together on a device and returns the outputs of each, in the
	// order of the model. It may be called by several goroutines.
	run(ctx context.Context, d *device, calls []*call) ([][]Tensor, error)
	// prepare makes it ready to run on a device; where it is not tied to that, the runtime
	// chooses.
	prepare(d *device, tied bool) error
	// release gives up what is on the devices. Nothing runs any more.
	release()
}

// elems are the types of elements by the names that package graph has for them.
var elems = map[graph.Elem]Type{
	graph.F2: FP16, graph.F4: FP32, graph.F8: FP64, graph.I1: Int8, graph.I2: Int16, graph.I4: Int32,
	graph.I8: Int64, graph.U1: Uint8, graph.U2: Uint16, graph.U4: Uint32, graph.U8: Uint64, graph.B1: Bool,
}

// graphRunner runs a model that is a graph. Its graph is tied to each device that holds
// weights, so that batches run where serve/internal/batch puts them.
type graphRunner struct {
	rt      *weft.Runtime
	batch   int
	ports   []graphPort
	in, out []int           // ports by input and output
	all     *model.Prepared // with the weights, which all devices have in common
	mu      sync.Mutex      // guards what follows
	on      map[*device]*model.Prepared
	free    []*memory // of batches that have ended
}

// graphPort is a port with what an example of it is.
type graphPort struct {
	model.Port
	spec Spec
	each int64 // bytes of an example
}

// loadGraph reads a graph and what it takes and gives.
func loadGraph(rt *weft.Runtime, files fs.FS, c *config) (*graphRunner, *model.Model, error) {
	m, err := model.Load(files, c.File, model.Limits{})
	if err != nil {
		return nil, nil, err
	}
	r := &graphRunner{rt: rt, batch: c.Batch, on: make(map[*device]*model.Prepared)}
	for _, p := range m.Ports() {
		g, err := newGraphPort(p, c)
		if err != nil {
			return nil, nil, err
		}
		if p.Input {
			r.in = append(r.in, len(r.ports))
		}
		if p.Output {
			r.out = append(r.out, len(r.ports))
		}
		r.ports = append(r.ports, g)
	}
	for _, said := range slices.Concat(c.Inputs, c.Outputs) {
		if _, err := m.Port(said.Name); err != nil {
			return nil, nil, inConfig(said.line, "%v", err)
		}
	}
	if len(r.in) == 0 || len(r.out) == 0 {
		return nil, nil, fmt.Errorf("%s: it has %d inputs and %d outputs that requests bind: a model that is served has at least one of each", c.File, len(r.in), len(r.out))
	}
	return r, m, nil
}

// inConfig is a mistake in model.yaml that shows beside the model's file.
func inConfig(line int, format string, args ...any) error {
	return fmt.Errorf("%s: %w", configFile, mistake(line, format, args...))
}

// newGraphPort finds the type and shape of a port: what the graph says, or model.yaml where
// that says nothing; where both do they must agree.
func newGraphPort(p model.Port, c *config) (g graphPort, err error) {
	g = graphPort{Port: p, spec: Spec{Name: p.Name, Type: elems[p.Elem], Shape: p.Shape}}
	for _, list := range []struct {
		ports []port
		mine  bool
		what  string
	}{{c.Inputs, p.Input, "input"}, {c.Outputs, p.Output, "output"}} {
		i := slices.IndexFunc(list.ports, func(said port) bool { return said.Name == p.Name })
		if i < 0 {
			continue
		}
		said := list.ports[i]
		if !list.mine {
			return g, inConfig(said.line, "%s is no %s of the graph", p.Name, list.what)
		}
		if g.spec.Type == "" {
			g.spec.Type = said.Type
		}
		if g.spec.Shape == nil {
			g.spec.Shape = said.Shape
		}
		if said.Type != "" && said.Type != g.spec.Type || said.Shape != nil && !slices.Equal(said.Shape, g.spec.Shape) {
			return g, inConfig(said.line, "%s is %s %v here and %s in the graph", p.Name, said.Type, said.Shape, p)
		}
	}
	if g.spec.Type == "" {
		return g, fmt.Errorf("the type of %s is not known: say dtype in the graph, or type in %s", p.Name, configFile)
	}
	if g.spec.Shape == nil {
		g.spec.Shape = []int64{p.Bytes / g.spec.Type.Size()}
	}
	if n, ok := count(g.spec.Shape); !ok || n*g.spec.Type.Size() != p.Bytes {
		return g, fmt.Errorf("%s is %s %v by %s and has %d bytes in the graph", p.Name, g.spec.Type, g.spec.Shape, configFile, p.Bytes)
	}
	g.each = p.Bytes
	if c.Batch > 1 {
		if len(g.spec.Shape) == 0 || g.spec.Shape[0] != int64(c.Batch) {
			return g, fmt.Errorf("%s has shape %v and batch is %d: the first dimension of all inputs and outputs is the batch", p.Name, g.spec.Shape, c.Batch)
		}
		g.each /= int64(c.Batch)
		g.spec.Shape = append([]int64{-1}, g.spec.Shape[1:]...)
	}
	return g, nil
}

func (r *graphRunner) specs(of []int) (specs []Spec) {
	for _, i := range of {
		specs = append(specs, r.ports[i].spec)
	}
	return specs
}

// graphBytes returns the memory that a device needs for the weights of a graph, and for the rest
// that a run of it takes.
func graphBytes(g *graph.Graph) (weights, work int64) {
	for i := range g.NumData() {
		if d := g.Data(graph.DataID(i)); d.Weights != "" {
			weights += d.Bytes
		} else {
			work += d.Bytes
		}
	}
	largest := int64(0) // workspaces are used again by one task after another
	for i := range g.NumTasks() {
		largest = max(largest, g.Task(graph.TaskID(i)).Workspace)
	}
	return weights, work + largest
}

// movable says whether a graph may be tied to any device as a whole.
func movable(g *graph.Graph) bool {
	for i := range g.NumTasks() {
		if t := g.Task(graph.TaskID(i)); t.Gang > 1 || len(t.On.Only) > 0 {
			return false
		}
	}
	return true
}

func (r *graphRunner) prepare(d *device, tied bool) (err error) {
	p := r.all
	if tied {
		if p, err = r.all.On(d.name); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on[d] = p
	return nil
}

// memory is the memory of a batch: a buffer for each port, and its bindings for runs.
type memory struct {
	buffers []*weft.Buffer[byte]
	bound   []model.Binding
}

func (m *memory) release() {
	for _, b := range m.buffers {
		b.Release()
	}
}

// take returns memory for a batch.
func (r *graphRunner) take() (*memory, error) {
	r.mu.Lock()
	if n := len(r.free); n > 0 {
		m := r.free[n-1]
		r.free = r.free[:n-1]
		r.mu.Unlock()
		return m, nil
	}
	r.mu.Unlock()
	m := &memory{}
	for _, p := range r.ports {
		// At least 64 bytes, so that it is aligned for any element.
		b, err := weft.NewBuffer[byte](r.rt, int(max(p.Bytes, 64)))
		if err != nil {
			m.release()
			return nil, err
		}
		m.buffers = append(m.buffers, b)
		a, err := p.Array(b.Slice()[:p.Bytes])
		if err != nil {
			m.release()
			return nil, err
		}
		m.bound = append(m.bound, a.As(p.Name))
	}
	return m, nil
}

// give keeps memory for another batch.
func (r *graphRunner) give(m *memory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free = append(r.free, m)
}

func (r *graphRunner) run(ctx context.Context, d *device, calls []*call) ([][]Tensor, error) {
	mem, err := r.take()
	if err != nil {
		return nil, err
	}
	for i, at := range r.in {
		p, buf := &r.ports[at], mem.buffers[at].Slice()
		off := int64(0)
		for _, c := range calls {
			n := int64(c.examples) * p.each
			c.copyInput(i, buf[off:off+n])
			off += n
		}
		clear(buf[off:]) // what pads a batch is the same in every one
	}
	r.mu.Lock()
	on := r.on[d]
	r.mu.Unlock()
	if _, err := on.Run(ctx, mem.bound...); err != nil {
		// A kernel that did not stop may still use the memory: it is not used again.
		if !errors.Is(err, weft.ErrHeld) {
			r.give(mem)
		}
		return nil, err
	}
	outputs := r.outputs(mem, calls)
	r.give(mem)
	return outputs, nil
}

// outputs copies the results of each call out of the memory of a batch: those of a port at
// once, of which each call has its part.
func (r *graphRunner) outputs(mem *memory, calls []*call) [][]Tensor {
	examples := int64(0)
	for _, c := range calls {
		examples += int64(c.examples)
	}
	outputs, all := make([][]Tensor, len(calls)), make([]Tensor, len(calls)*len(r.out))
	for i := range calls {
		outputs[i] = all[i*len(r.out) : (i+1)*len(r.out) : (i+1)*len(r.out)]
	}
	for k, at := range r.out {
		p := &r.ports[at]
		data := slices.Clone(mem.buffers[at].Slice()[:examples*p.each])
		rank := len(p.spec.Shape)
		shapes := make([]int64, 0, rank*len(calls))
		for i, c := range calls {
			shapes = append(shapes, p.spec.Shape...)
			shape := shapes[i*rank : (i+1)*rank : (i+1)*rank]
			if r.batch > 1 {
				shape[0] = int64(c.examples)
			}
			n := int64(c.examples) * p.each
			outputs[i][k] = Tensor{Name: p.Name, Type: p.spec.Type, Shape: shape, Data: data[:n:n]}
			data = data[n:]
		}
	}
	return outputs
}

func (r *graphRunner) release() {
	r.all.Release()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.free {
		m.release()
	}
	r.free = nil
}
