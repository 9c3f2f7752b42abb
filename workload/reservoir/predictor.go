package reservoir

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Predictor answers predictions of a model on the devices of a runtime. Weights stay
// on the devices, the graph of each width of a batch is prepared once, and a call takes
// its memory from one that has ended. It is safe for concurrent use: calls at the same
// time share the devices.
//
// A prediction is a function of its input alone: every one starts from zeros, and no
// noise is added, which is for training. So a batch gives the bits that its inputs give
// one by one, on devices that compute with the same bits. NVIDIA GPUs from Hopper on do so
// for up to 1024 neurons, 128 channels and 255 inputs, and otherwise within rounding, unless the
// runtime was opened with [weft.Options].Exact.
type Predictor struct {
	rt      *weft.Runtime
	m       *Model
	most    int     // inputs of a batch
	whole   bool    // all devices have a kernel for all steps
	widths  []width // ascending
	release []func()

	mu     sync.Mutex
	closed bool
	calls  int // in progress
	idle   sync.Cond
}

// width holds what batches of up to a number of inputs share.
type width struct {
	inputs   int
	block    int // inputs side by side in memory
	prepared *weft.Prepared
	free     chan *memory
}

// memory holds the data of a call, in blocks of inputs of the batch: inputs by step, channel and
// input of the block, states by neuron and input of the block.
type memory struct {
	u, state *weft.Buffer[float32]
}

// keptCalls is for how many calls at a time a width keeps memory.
const keptCalls = 16

// maxFloats is the most inputs or states of a batch, in numbers.
const maxFloats = 1 << 30

// NewPredictor makes the weights of a model resident on a runtime that was opened with
// [Funcs] among its kernels, and prepares graphs for batches of up to maxBatch inputs.
// Close gives up what it holds. The model must not be changed before.
func NewPredictor(rt *weft.Runtime, m *Model, maxBatch int) (*Predictor, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if maxBatch < 1 || float64(maxBatch)*float64(max(m.InputLen(), m.Weights.Size)) > maxFloats {
		return nil, fmt.Errorf("reservoir: batches of up to %d inputs of %d values: %w: have at least 1, and at most 2³⁰ inputs and states", maxBatch, m.InputLen(), ErrParams)
	}
	return newPredictor(rt, m, maxBatch, m.Weights.dense(rt.Machine()))
}

// PredictorBytes is the memory that a device of a machine needs for a predictor of the model: for the
// weights, with their zeros as well where the GPUs are to have them and in slices where cores do, and for a batch: its inputs, and
// the states at the beginning, between two steps, at the end and their mean.
func (m *Model) PredictorBytes(on *machine.Machine, batch int) (weights, work int64) {
	w := m.Weights
	for _, n := range []int{len(w.Recurrent.Start), 2 * len(w.Recurrent.Column), len(w.Input.Start), 2 * len(w.Input.Column), len(w.Bias)} {
		weights += 4 * int64(n)
	}
	if w.dense(on) {
		weights += w.denseBytes()
	}
	if whollyRun(on) && w.fewer() {
		for _, n := range w.slice().bytes() {
			weights += n
		}
	}
	each := 4 * (float64(m.InputLen()) + 4*float64(w.Size))
	return weights, int64(min(each*float64(batch), 1<<62))
}

// newPredictor makes a predictor of a valid model, with dense weights as well or without.
func newPredictor(rt *weft.Runtime, m *Model, maxBatch int, dense bool) (*Predictor, error) {
	p := &Predictor{rt: rt, m: m, most: maxBatch, whole: whollyRun(rt.Machine())}
	p.idle.L = &p.mu
	if err := p.prepare(dense); err != nil {
		p.free()
		return nil, fmt.Errorf("reservoir: %w", err)
	}
	return p, nil
}

// whollyRun reports whether all devices of a machine have a kernel for all steps, as cores have.
func whollyRun(on *machine.Machine) bool {
	for i := range on.Devices {
		if !on.Devices[i].CanRun(runOnDevices) {
			return false
		}
	}
	return true
}

// blockOf returns the number of a batch's inputs that are next to each other in memory: all, or
// one where a cluster takes them, whose kernel is as fast with either, so that inputs are copied
// as they come.
func (w *Weights) blockOf(n int, dense bool) int {
	if dense && w.takes(n) {
		return 1
	}
	return n
}

// prepare makes weights resident and prepares the graphs.
func (p *Predictor) prepare(dense bool) error {
	w := *p.m.Weights
	w.Noise = 0
	w.pad()
	bind, release, err := w.reside(p.rt, dense)
	p.release = release
	if err != nil {
		return err
	}
	start, err := weft.Alloc[float32](p.rt, "start", w.Size*p.most)
	if err != nil {
		return err
	}
	p.release = append(p.release, start.Release)
	bind = append(bind, start.As("start"))
	var s *sliced
	slicedBind := []weft.Binding{start.As("start")}
	if p.whole && !dense && w.fewer() {
		s = w.slice()
		if err := s.reside(p.rt, &slicedBind, &p.release); err != nil {
			return err
		}
	}
	for n := 1; ; n = min(2*n, p.most) {
		block, bind := w.blockOf(n, dense), bind
		var g *graph.Graph
		if s != nil && n <= few {
			bind = slicedBind
			g, err = p.m.fewGraph(&w, s, n, p.most)
		} else {
			g, err = p.m.batchGraph(&w, n, p.most, block, p.whole, dense)
		}
		if err != nil {
			return err
		}
		prepared, err := p.rt.Prepare(g, bind...)
		if err != nil {
			return err
		}
		p.widths = append(p.widths, width{inputs: n, block: block, prepared: prepared, free: make(chan *memory, keptCalls)})
		if n == p.most {
			return nil
		}
	}
}

// BatchGraph returns the graph that a predictor of the model, for batches of up to n inputs, runs
// for n of them on a machine, to predict or simulate it: one task. Its inputs are the batch, which is
// called "inputs", and what stays on the devices.
func (m *Model) BatchGraph(on *machine.Machine, n int) (*graph.Graph, error) {
	w := *m.Weights
	w.Noise = 0
	w.pad()
	dense := w.dense(on)
	return m.batchGraph(&w, n, n, w.blockOf(n, dense), whollyRun(on), dense)
}

// batchGraph is one task that takes a batch of n inputs, of most at the most, through all steps,
// with block of them side by side. Of the last and the mean states, those that the readout reads
// are outputs. whole says that all devices have a kernel for all steps, dense that weights are
// there as a dense matrix as well.
func (m *Model) batchGraph(w *Weights, n, most, block int, whole, dense bool) (*graph.Graph, error) {
	var b graph.Builder
	uses := w.uses(w.data(&b), 0, w.Size)
	task := func(c call) graph.Task { return w.stepsTask(c, dense) }
	if whole {
		task = w.runTask
	}
	t := task(m.call(w, n, block))
	t.Uses = append(uses, m.states(&b, w, n, most)...)
	if dense {
		t.Uses = append(t.Uses, w.denseUse(&b))
	}
	t.Name = fmt.Sprintf("predict %d", n)
	b.Add(t)
	return b.Build()
}

// fewGraph is batchGraph for fewOnDevices.
func (m *Model) fewGraph(w *Weights, s *sliced, n, most int) (*graph.Graph, error) {
	var b graph.Builder
	uses := s.data(&b)
	t := w.fewTask(m.call(w, n, n))
	t.Uses = append(uses, m.states(&b, w, n, most)...)
	t.Name = fmt.Sprintf("predict %d", n)
	b.Add(t)
	return b.Build()
}

// call is the parameters of a task for a batch of n inputs, with block of them side by side.
func (m *Model) call(w *Weights, n, block int) call {
	return call{
		size: w.Size, inputs: w.Inputs, neurons: w.Size, batch: n, block: block, steps: m.Steps,
		seed: w.Seed, leak: float32(w.Leak),
	}
}

// states adds the inputs and states of a batch to a graph, and returns how a task uses them.
func (m *Model) states(b *graph.Builder, w *Weights, n, most int) []graph.Use {
	state := int64(4 * w.Size * n)
	return []graph.Use{
		{Data: b.Data(graph.Data{Name: "inputs", Bytes: int64(4 * m.InputLen() * n), Input: true}), Access: graph.Read},
		{Data: b.Data(graph.Data{Name: "start", Bytes: int64(4 * w.Size * most), Input: true}), Bytes: state, Access: graph.Read},
		{Data: b.Data(graph.Data{Name: Last, Bytes: state, Output: m.Feature == Last}), Access: graph.Write},
		{Data: b.Data(graph.Data{Name: Mean, Bytes: state, Output: m.Feature == Mean}), Access: graph.Write},
	}
}

// Model is the model whose predictions these are.
func (p *Predictor) Model() *Model { return p.m }

// MaxBatch is the most inputs that Predict takes at once.
func (p *Predictor) MaxBatch() int { return p.most }

// Predict sets outputs to the values of the readout for each of the inputs. An input has
// for each step a value of each channel, as [Pattern.Bins] or [Pattern.Histogram]
// make them of one pattern; an output has room for the values
// of the readout. Sizes that do not fit, and batches beyond the predictor's, are errors
// that wrap [ErrParams].
func (p *Predictor) Predict(ctx context.Context, inputs, outputs [][]float32) error {
	if err := p.check(inputs, outputs); err != nil {
		return err
	}
	if len(inputs) == 0 {
		return nil
	}
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	i := 0
	for p.widths[i].inputs < len(inputs) {
		i++
	}
	w := &p.widths[i]
	m, err := p.take(w)
	if err != nil {
		return err
	}
	if w.block == 1 {
		for l := range w.inputs {
			u := m.u.Slice()[l*p.m.InputLen() : (l+1)*p.m.InputLen()]
			if l < len(inputs) {
				copy(u, inputs[l])
			} else {
				clear(u)
			}
		}
	} else {
		p.gather(m.u.Slice(), inputs, w.inputs)
	}
	_, err = w.prepared.Run(ctx, weft.Bind("inputs", m.u.Slice()), weft.Bind(p.m.Feature, m.state.Slice()))
	if err != nil {
		// A kernel that did not stop may still write the memory: it is not used again.
		if !errors.Is(err, weft.ErrHeld) {
			p.give(w, m)
		}
		return fmt.Errorf("reservoir: predict: %w", err)
	}
	if w.block == 1 {
		p.m.Readout.readEach(outputs, m.state.Slice())
	} else {
		p.m.Readout.readBatch(outputs, m.state.Slice(), w.inputs)
	}
	p.give(w, m)
	return nil
}

// check returns ErrParams for sizes that do not fit the model.
func (p *Predictor) check(inputs, outputs [][]float32) error {
	if len(inputs) != len(outputs) || len(inputs) > p.most {
		return fmt.Errorf("reservoir: predict %d inputs to %d outputs: %w: give one output for each input, at most %d at once", len(inputs), len(outputs), ErrParams, p.most)
	}
	for i, in := range inputs {
		if len(in) != p.m.InputLen() || len(outputs[i]) != p.m.Readout.Outputs {
			return fmt.Errorf("reservoir: predict: input %d has %d values and its output %d: %w: the model takes %d (%d steps of %d channels) and gives %d",
				i, len(in), len(outputs[i]), ErrParams, p.m.InputLen(), p.m.Steps, p.m.Weights.Inputs, p.m.Readout.Outputs)
		}
	}
	return nil
}

// gather puts the inputs of a batch side by side, some values of some of them at a time so that
// both stay in a cache. Those that a batch is short of are zero.
func (p *Predictor) gather(u []float32, inputs [][]float32, width int) {
	const some, few = 64, 16
	for lo := 0; lo < p.m.InputLen(); lo += some {
		hi := min(lo+some, p.m.InputLen())
		for first := 0; first < len(inputs); first += few {
			lanes := inputs[first:min(first+few, len(inputs))]
			for i := lo; i < hi; i++ {
				row := u[i*width+first:][:len(lanes)]
				for l, in := range lanes {
					row[l] = in[i]
				}
			}
		}
		for i := lo; i < hi; i++ {
			clear(u[i*width+len(inputs) : (i+1)*width])
		}
	}
}

// take returns memory for a call, reusing that of an ended call if there is any.
func (p *Predictor) take(w *width) (*memory, error) {
	select {
	case m := <-w.free:
		return m, nil
	default:
	}
	u, err := weft.NewBuffer[float32](p.rt, p.m.InputLen()*w.inputs)
	if err != nil {
		return nil, fmt.Errorf("reservoir: predict: %w", err)
	}
	state, err := weft.NewBuffer[float32](p.rt, p.m.Weights.Size*w.inputs)
	if err != nil {
		u.Release()
		return nil, fmt.Errorf("reservoir: predict: %w", err)
	}
	return &memory{u, state}, nil
}

// give keeps the memory of a call for the next one, or gives it back.
func (p *Predictor) give(w *width, m *memory) {
	select {
	case w.free <- m:
	default:
		m.release()
	}
}

func (m *memory) release() {
	m.u.Release()
	m.state.Release()
}

// enter counts a call, unless the predictor is closed.
func (p *Predictor) enter() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return fmt.Errorf("reservoir: predict: the predictor is closed: %w", weft.ErrClosed)
	}
	p.calls++
	return nil
}

func (p *Predictor) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls--; p.calls == 0 {
		p.idle.Broadcast()
	}
}

// Close waits for the calls in progress and gives up what the predictor holds on devices.
// Predictions are refused from then on with an error that wraps [weft.ErrClosed].
// Closing it again does nothing.
func (p *Predictor) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for p.calls > 0 {
		p.idle.Wait()
	}
	p.free()
}

// free gives up memory and weights.
func (p *Predictor) free() {
	for _, w := range p.widths {
		for len(w.free) > 0 {
			(<-w.free).release()
		}
	}
	for _, f := range p.release {
		f()
	}
	p.release = nil
}
