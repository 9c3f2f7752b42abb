package reservoir

import (
	"fmt"
	"maps"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/gemm"
)

// Modes of input, by name.
const (
	Sequence  = "sequence"  // spikes by channel and step: [Pattern.Bins]
	Histogram = "histogram" // one step of shares: [Pattern.Histogram], for compatibility
)

// Splits are the ways to divide the work, by name.
const (
	Patterns = "patterns" // every task has all weights and some patterns
	Neurons  = "neurons"  // every task has some neurons' weights, a step and all patterns
	Rows     = "rows"     // every device has some neurons' weights, and gathers all states in every step
)

// Config says which patterns to run through which reservoir.
type Config struct {
	Params
	// Batch is the number of patterns: random values, encoded as rates of
	// spikes over 100 ms.
	Batch int
	// Steps is the number of steps a pattern takes, one in mode Histogram.
	Steps int
	Mode  string // Sequence (the default) or Histogram
	Split string // Patterns (the default), Neurons or Rows
}

// duration is the length of a pattern in milliseconds.
const duration = 100

// Validate reports sizes and names that make no job.
func (c Config) Validate() error {
	if err := c.Params.Validate(); err != nil {
		return err
	}
	const most, floats = 1 << 20, 1 << 31
	switch {
	case c.Size > 1<<15 || c.Inputs > 1<<15:
		return fmt.Errorf("reservoir: %d neurons and %d channels: %w: there may be %d", c.Size, c.Inputs, ErrParams, 1<<15)
	case c.Batch < 1 || c.Batch > most || c.Steps < 1 || c.Steps > most:
		return fmt.Errorf("reservoir: %d patterns of %d steps: %w: there must be 1 to %d", c.Batch, c.Steps, ErrParams, most)
	case c.Mode != "" && c.Mode != Sequence && c.Mode != Histogram:
		return fmt.Errorf("reservoir: mode %q: %w: use %s or %s", c.Mode, ErrParams, Sequence, Histogram)
	case c.Split != "" && c.Split != Patterns && c.Split != Neurons && c.Split != Rows:
		return fmt.Errorf("reservoir: split %q: %w: use %s, %s or %s", c.Split, ErrParams, Patterns, Neurons, Rows)
	case c.Mode == Histogram && c.Steps != 1:
		return fmt.Errorf("reservoir: %d steps in mode %s: %w: it has one", c.Steps, Histogram, ErrParams)
	case float64(c.Batch)*float64(c.Steps)*float64(c.Inputs) > floats || float64(c.Batch)*float64(c.Size) > floats:
		return fmt.Errorf("reservoir: %d patterns of %d steps: %w: inputs and states must have at most 2³¹ numbers each", c.Batch, c.Steps, ErrParams)
	}
	return nil
}

// Bytes is the host memory that the job takes: inputs; states at the start, between
// steps, at the end and in the mean; and the weights with their columns, counted twice
// because they grow while they are drawn, and with their zeros, which some GPUs have where
// patterns are dealt out.
func (c Config) Bytes() float64 {
	sum := float64(c.Batch)*c.patternBytes(c.Steps) + 2*c.weightBytes()
	if !c.byNeuron() {
		sum += float64(c.denseBytes())
	}
	return sum
}

// patternBytes returns the size of a pattern: its inputs and four states.
func (p Params) patternBytes(steps int) float64 {
	return 4 * (float64(steps)*float64(p.Inputs) + 4*float64(p.Size))
}

// weightBytes returns the size of the weights with their columns.
func (p Params) weightBytes() float64 {
	return 8 * min(max(p.Connectivity, 0), 1) * float64(p.Size) * (float64(p.Size) + float64(p.Inputs))
}

// job is one batch of patterns. Inputs and states are kept in blocks of
// patterns, a row of the block's patterns for each channel of each step or
// neuron, so that what a task has lies together.
type job struct {
	workload.Stop

	c       Config
	w       *Weights
	block   int // patterns of a block, but for the last
	spikes  []Pattern
	u       []float32
	x, mean []float32 // after a run
	start   []float32 // zeros
	m       *machine.Machine
	dense   []float32 // weights with their zeros, if devices are to have them: see Place
	checked int       // patterns of the last Check
}

// byNeuron reports whether neurons are dealt out, not patterns.
func (c *Config) byNeuron() bool { return c.Split == Neurons || c.Split == Rows }

// NewJob draws weights and patterns, by logical index, so that they do not
// depend on who computes.
// The job is a [workload.Job].
func NewJob(c Config) (*job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	w, err := New(c.Params)
	if err != nil {
		return nil, err
	}
	encoder := Encoder{Seed: c.Seed, Duration: duration}
	values := make([]float64, c.Inputs)
	draw := philox.Source{Seed: c.Seed, Stream: streamValues}
	patterns := make([]Pattern, c.Batch)
	for b := range patterns {
		for i := range values {
			values[i] = philox.Unit(draw.Uint32(uint64(b), 0, uint32(i)))
		}
		if patterns[b], err = encoder.Rate(values, uint64(b)); err != nil {
			return nil, err
		}
	}
	return newJob(c, w, patterns)
}

// newJob makes a job of weights, which it does not change, and of valid patterns.
func newJob(c Config, w *Weights, patterns []Pattern) (*job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	own := *w
	own.pad()
	j := &job{c: c, w: &own, block: tile, spikes: patterns}
	// The assembly likes 64 patterns at once and takes 16, but a few blocks could
	// not be dealt out.
	for j.block > 16 && c.Batch/j.block < 8 {
		j.block /= 2
	}
	if j.c.byNeuron() {
		j.block = c.Batch
	}
	size := c.Batch * c.Size
	j.x, j.mean, j.start = make([]float32, size), make([]float32, size), make([]float32, size)
	j.u = make([]float32, c.Batch*c.Steps*c.Inputs)
	for b, p := range patterns {
		first, width := j.blockOf(b)
		u := j.u[first*c.Steps*c.Inputs:]
		if c.Mode == Histogram {
			p.Histogram(u, c.Inputs, width, b-first)
		} else {
			p.Bins(u, c.Steps, c.Inputs, width, b-first)
		}
	}
	return j, nil
}

// blockOf returns the first pattern of a pattern's block, and how many it has.
func (j *job) blockOf(pattern int) (first, width int) {
	first = pattern / j.block * j.block
	return first, min(j.block, j.c.Batch-first)
}

// The kernels take as arguments the weights (see Weights.uses), the inputs, and
// states. Their parameters are [call].
var (
	// stepOnDevices takes all neurons of some blocks of patterns through a step.
	// Its states are those before the first step, those after the last, their
	// means, and a workspace for those between: see call.states. Its grid is the
	// neurons and patterns.
	stepOnDevices = workload.With(graph.GoKernel("reservoir.step", perItem, perItem),
		workload.PTX(ptx, "reservoir_step", 512, 16, 32), workload.SPIRV(spirv, "reservoir_step", 128, 32, 16))
	// rowsOnDevices takes some neurons of all patterns, in one block, through a step. Its
	// states are the states of all neurons before it, the neurons' own after it, and their
	// means so far. Its grid is the same.
	rowsOnDevices = workload.With(graph.GoKernel("reservoir.rows", perItem, perItem),
		workload.PTX(ptx, "reservoir_rows", 512, 16, 32), workload.SPIRV(spirv, "reservoir_rows", 128, 32, 16))
)

// perItem is the number of neurons and of patterns in one item of the Go kernels: work for
// some ten microseconds. Blocks divide it, or it is one block.
const perItem = tile

// Funcs are the Go kernels of this workload, with those of collectives, streams and
// training.
func Funcs() map[string]weft.Func {
	out := workload.Funcs(collective.Funcs(), gemm.Funcs())
	maps.Copy(out, signature.Funcs(kernels))
	return out
}

var kernels = []signature.Kernel{
	signature.Of(updates("reservoir.step", "a step of all neurons of some patterns", "neurons, batch", []uint32{perItem, perItem},
		signature.In("states before the first step", graph.F4), signature.Out("states after the last", graph.F4),
		signature.Out("their means", graph.F4), signature.Work("states between", graph.F4)), stepNeed, step),
	signature.Of(updates("reservoir.run", "all steps of some patterns", "batch", []uint32{perRun},
		signature.In("states before the first step", graph.F4), signature.Out("states after the last", graph.F4),
		signature.Out("their means", graph.F4), signature.Work("states between", graph.F4)), runNeed, run),
	fewSignature,
	signature.Of(updates("reservoir.rows", "a step of some neurons of all patterns", "neurons, batch", []uint32{perItem, perItem},
		signature.In("states of all neurons", graph.F4), signature.Out("states after the step", graph.F4), signature.InOut("their means", graph.F4)), rowsNeed, rows),
	signature.Of(signature.Kernel{
		Name: "reservoir.spread", Does: "a state for each of some patterns", Grid: "size", Per: []uint32{perItem},
		Args: []signature.Arg{signature.In("state", graph.F4), signature.Out("states of patterns", graph.F4)},
	}, func(_ *weft.Call, p carryParams) (signature.Need, error) { return p.need(0, 1) }, spread),
	signature.Of(signature.Kernel{
		Name: "reservoir.carry", Does: "the mean of the states of patterns", Grid: "size", Per: []uint32{perItem},
		Args: []signature.Arg{signature.In("states of patterns", graph.F4), signature.Out("state", graph.F4)},
	}, func(_ *weft.Call, p carryParams) (signature.Need, error) { return p.need(1, 0) }, carry),
	signature.Of(signature.Kernel{
		Name: "reservoir.kuramoto", Does: "sets of coupled oscillators, taken through time", Grid: "sets",
		Args: []signature.Arg{
			signature.In("frequencies", graph.F8), signature.InOut("phases", graph.F8),
			signature.Out("spikes", graph.U8), signature.Work("sines and cosines", graph.F8),
		},
	}, kuramotoNeed, kuramoto),
}

// updates is the signature of a kernel that takes weights, inputs and states.
func updates(name, does, grid string, per []uint32, states ...signature.Arg) signature.Kernel {
	k := signature.Kernel{Name: name, Does: does, Grid: grid, Per: per}
	for i, what := range weightNames {
		elem := graph.F4
		if i < 6 && i%3 < 2 {
			elem = graph.I4
		}
		k.Args = append(k.Args, signature.In(what, elem))
	}
	k.Args = append(k.Args, signature.In("inputs", graph.F4))
	k.Args = append(k.Args, states...)
	return k
}

// call is the parameters of both kernels.
type call struct {
	size, inputs   int // neurons of the reservoir, channels
	first, neurons int // whose weights there are
	pattern, batch int // first of the patterns there are, and how many
	block          int // patterns of a block
	step, steps    int
	seed           uint32
	leak, noise    float32
}

// weights puts the weights together that a kernel was given.
func (c call) weights(args [][]byte) Weights {
	matrix := func(i int) Matrix {
		return Matrix{Start: weft.View[int32](args[i]), Column: weft.View[int32](args[i+1]), Value: weft.View[float32](args[i+2])}
	}
	return Weights{
		Params: Params{Size: c.size, Inputs: c.inputs, Leak: float64(c.leak), Noise: float64(c.noise), Seed: c.seed},
		First:  c.first, Recurrent: matrix(0), Input: matrix(3), Bias: weft.View[float32](args[6]),
	}
}

// update takes the neurons and patterns of items lo to hi through a step. u, x
// and mean have all patterns there are; next and mean the neurons there are.
func (c call) update(w *Weights, next, x, u, mean []float32, lo, hi int) error {
	across := (c.neurons + perItem - 1) / perItem
	for item := lo; item < hi; item++ {
		from := item % across * perItem
		neurons := Span{c.first + from, c.first + min(from+perItem, c.neurons)}
		end := min((item/across+1)*perItem, c.batch)
		for b := item / across * perItem; b < end; {
			first := b / c.block * c.block // of the block
			width := min(c.block, c.batch-first)
			patterns := Span{b - first, min(end-first, width)}
			t := Tick{Batch: width, First: uint64(c.pattern + first), Step: uint32(c.step)}
			next, mean := next[first*c.neurons:], mean[first*c.neurons:]
			if err := c.move(w, next, x[first*c.size:], u[first*c.inputs*c.steps+c.step*c.inputs*width:], mean, t, neurons, patterns); err != nil {
				return err
			}
			b = first + patterns.Hi
		}
	}
	return nil
}

// states returns from which states to which a step goes. They take turns in two
// buffers, so that the last step writes the result.
func (c call) states(start, end, between []float32) (x, next []float32) {
	x, next = between, end
	if (c.steps-c.step)%2 == 0 {
		x, next = end, between
	}
	if c.step == 0 {
		x = start
	}
	return x, next
}

func step(c *weft.Call, k call, lo, hi int) {
	u, mean := weft.View[float32](c.Args[7]), weft.View[float32](c.Args[10])
	x, next := k.states(weft.View[float32](c.Args[8]), weft.View[float32](c.Args[9]), weft.View[float32](c.Args[11]))
	w := k.weights(c.Args)
	if err := k.update(&w, next, x, u, mean, lo, hi); err != nil {
		c.Fail(err)
	}
}

func rows(c *weft.Call, k call, lo, hi int) {
	u, x := weft.View[float32](c.Args[7]), weft.View[float32](c.Args[8])
	w := k.weights(c.Args)
	if err := k.update(&w, weft.View[float32](c.Args[9]), x, u, weft.View[float32](c.Args[10]), lo, hi); err != nil {
		c.Fail(err)
	}
}

// Name says what runs.
func (j *job) Name() string {
	c := j.c
	return fmt.Sprintf("reservoir %d neurons, %d channels, %d patterns of %d steps", c.Size, c.Inputs, c.Batch, c.Steps)
}

// Class is R: a state does not depend on other states of the batch.
func (j *job) Class() workload.Class { return workload.RowExact }

// ClassOn is T where a batch is computed with dense weights by one kernel, and parts of it
// may be by another.
func (j *job) ClassOn(on []machine.Device) workload.Class {
	if !j.c.byNeuron() && !j.c.takes(j.c.Batch) && j.w.dense(&machine.Machine{Devices: on}) {
		return workload.Tolerance
	}
	return workload.RowExact
}

// Items are the patterns, or the neurons with the entries of their rows.
func (j *job) Items() sched.Items {
	batch, size := int64(j.c.Batch), int64(j.c.Size)
	if j.c.byNeuron() {
		return sched.Items{
			Extent: size,
			Align:  4, // neurons draw their noise by fours
			// Every step ends with an exchange of all states, so a task must be much longer than that.
			Grain: 2 * perItem,
			Cost:  func(lo, hi int64) float64 { return j.rowsWork(int(lo), int(hi)).Ops },
			Bytes: func(lo, hi int64) (in, out int64) {
				return 4 * batch * (size + int64(j.c.Inputs*j.c.Steps)), 8 * batch * (hi - lo)
			},
		}
	}
	return sched.Items{
		Extent: batch,
		Align:  int64(j.block),
		Grain:  int64(j.block),
		Cost:   func(lo, hi int64) float64 { return j.w.Ops(int(hi-lo), j.c.Steps) },
		Bytes: func(lo, hi int64) (in, out int64) {
			return 4 * (hi - lo) * (size + int64(j.c.Inputs*j.c.Steps)), 8 * (hi - lo) * size
		},
	}
}

// rowsWork is a step of some neurons for all patterns.
func (j *job) rowsWork(lo, hi int) graph.Work {
	r, in := j.w.Recurrent.Start, j.w.Input.Start
	entries := float64(r[hi] - r[lo] + in[hi] - in[lo])
	batch, n := float64(j.c.Batch), float64(hi-lo)
	return graph.Work{
		Ops:   batch * (2*entries + 12*n),
		Bytes: 8*entries + 4*batch*(float64(j.c.Size+j.c.Inputs)+3*n),
	}
}

// Whole is all patterns, or a step of all neurons, as one task.
func (j *job) Whole() graph.Task {
	if j.c.byNeuron() {
		return j.rowsTask(0, j.c.Size, 0)
	}
	return j.patternsTask(0, j.c.Batch)
}

// call is the params of what all tasks have in common.
func (j *job) call() call {
	c := j.c
	return call{
		size: c.Size, inputs: c.Inputs, neurons: c.Size, batch: c.Batch, block: j.block, steps: c.Steps,
		seed: c.Seed, leak: float32(c.Leak), noise: float32(c.Noise),
	}
}

// patternsTask takes patterns through all steps.
func (j *job) patternsTask(lo, hi int) graph.Task {
	c := j.call()
	c.pattern, c.batch = lo, hi-lo
	t := j.w.stepsTask(c, j.dense != nil)
	t.Name = fmt.Sprintf("patterns %d-%d", lo, hi)
	return t
}

// stepsTask takes the patterns of a call through all steps. With dense weights they are
// among its uses, after the states.
func (w *Weights) stepsTask(c call, dense bool) graph.Task {
	t := graph.Task{
		Work:      graph.Work{Ops: w.Ops(c.batch, c.steps), Bytes: w.Bytes(c.batch, c.steps)},
		Workspace: int64(4 * c.batch * c.size),
	}
	if dense {
		t.Steps = w.denseSteps(c)
		return t
	}
	for c.step = range c.steps {
		t.Steps = append(t.Steps, graph.Step{Kernel: stepOnDevices, Launch: graph.Grid(int64(c.size), int64(c.batch))}.With(c))
	}
	return t
}

func (j *job) rowsTask(lo, hi, step int) graph.Task {
	c := j.call()
	c.first, c.neurons, c.step = lo, hi-lo, step
	return graph.Task{
		Name:  fmt.Sprintf("step %d, neurons %d-%d", step, lo, hi),
		Steps: []graph.Step{graph.Step{Kernel: rowsOnDevices, Launch: graph.Grid(int64(hi-lo), int64(c.batch))}.With(c)},
		Work:  j.rowsWork(lo, hi),
	}
}

// cachedPatterns is the most patterns of a task, so that their states stay in a core's
// cache from step to step; more would make it slower. Tensor cores need densePatterns to
// be busy.
const (
	cachedPatterns = 2 * tile
	densePatterns  = 1 << 13
)

// Graph has a task for each range of patterns, or several if it is long, or one
// for each step of each range of neurons, which are the devices' own for Rows.
func (j *job) Graph(ranges []sched.Range) (*graph.Graph, error) {
	b := graph.Builder{Stop: j.Stopped}
	weights := j.w.data(&b)
	data := func(name string, xs []float32, d graph.Data) graph.DataID {
		d.Name, d.Bytes = name, int64(4*len(xs))
		return b.Data(d)
	}
	u := data("inputs", j.u, graph.Data{Input: true})
	start := data("start", j.start, graph.Data{Input: true})
	end := data("end", j.x, graph.Data{Output: true})
	mean := data("mean", j.mean, graph.Data{Output: true})
	if j.c.Split == Neurons {
		between := data("between", j.x, graph.Data{})
		j.addRows(&b, ranges, weights, u, start, mean, [2]graph.DataID{end, between})
		return b.Build()
	}
	if j.c.Split == Rows {
		if err := j.addGathered(&b, weights, u, start, mean, end); err != nil {
			return nil, err
		}
		return b.Build()
	}
	state, input := int64(4*j.c.Size), int64(4*j.c.Steps*j.c.Inputs)
	most := int64(cachedPatterns)
	var dense []graph.Use
	if j.dense != nil {
		most = densePatterns
		dense = append(dense, j.w.denseUse(&b))
	}
	for _, r := range ranges {
		for lo := r.Lo; lo < r.Hi; lo += most {
			hi := min(lo+most, r.Hi)
			n := hi - lo
			t := j.patternsTask(int(lo), int(hi))
			t.Uses = append(j.w.uses(weights, 0, j.c.Size),
				graph.Use{Data: u, Offset: lo * input, Bytes: n * input, Access: graph.Read},
				graph.Use{Data: start, Offset: lo * state, Bytes: n * state, Access: graph.Read},
				graph.Use{Data: end, Offset: lo * state, Bytes: n * state, Access: graph.Write},
				graph.Use{Data: mean, Offset: lo * state, Bytes: n * state, Access: graph.Write})
			t.Uses = append(t.Uses, dense...)
			b.Add(t)
		}
	}
	return b.Build()
}

// addRows adds the tasks of every step. The states take turns in two buffers.
func (j *job) addRows(b *graph.Builder, ranges []sched.Range, weights [7]graph.DataID, u, start, mean graph.DataID, turns [2]graph.DataID) {
	row := int64(4 * j.c.Batch)
	from := start
	for step := range j.c.Steps {
		to := turns[(j.c.Steps-1-step)%2]
		sums := graph.ReadWrite
		if step == 0 {
			sums = graph.Write
		}
		for _, r := range ranges {
			t := j.rowsTask(int(r.Lo), int(r.Hi), step)
			t.Uses = append(j.w.uses(weights, int(r.Lo), int(r.Hi)),
				graph.Use{Data: u, Access: graph.Read},
				graph.Use{Data: from, Access: graph.Read},
				graph.Use{Data: to, Offset: r.Lo * row, Bytes: r.Len() * row, Access: graph.Write},
				graph.Use{Data: mean, Offset: r.Lo * row, Bytes: r.Len() * row, Access: sums})
			b.Add(t)
		}
		from = to
	}
}

// Bind ties weights, inputs and states to the job's memory.
func (j *job) Bind() []weft.Binding {
	r, in := &j.w.Recurrent, &j.w.Input
	bind := []weft.Binding{
		weft.Bind(weightNames[0], r.Start), weft.Bind(weightNames[1], r.Column), weft.Bind(weightNames[2], r.Value),
		weft.Bind(weightNames[3], in.Start), weft.Bind(weightNames[4], in.Column), weft.Bind(weightNames[5], in.Value),
		weft.Bind(weightNames[6], j.w.Bias),
		weft.Bind("inputs", j.u), weft.Bind("start", j.start), weft.Bind("end", j.x), weft.Bind("mean", j.mean),
	}
	if j.dense != nil {
		bind = append(bind, weft.Bind(denseName, j.dense))
	}
	return bind
}

// State returns the last and the mean state of a pattern after a run.
func (j *job) State(pattern int) (last, mean []float32) {
	first, width := j.blockOf(pattern)
	for i := range j.c.Size {
		at := first*j.c.Size + i*width + pattern - first
		last, mean = append(last, j.x[at]), append(mean, j.mean[at])
	}
	return last, mean
}

// Input returns the input of a pattern: a value for each channel of each step.
func (j *job) Input(pattern int) (u []float32) {
	first, width := j.blockOf(pattern)
	block := j.u[first*j.c.Steps*j.c.Inputs:]
	for i := range j.c.Steps * j.c.Inputs {
		u = append(u, block[i*width+pattern-first])
	}
	return u
}

// Inputs are the inputs of all patterns in the job's own memory, in blocks of patterns
// with a row for each channel of each step. Check knows the patterns' own.
func (j *job) Inputs() []float32 { return j.u }

// States are the last states of all patterns in the job's own memory, in blocks
// of patterns.
func (j *job) States() []float32 { return j.x }

// Rate is patterns and floating-point operations a second.
func (j *job) Rate(d time.Duration) string {
	return fmt.Sprintf("%.0f patterns/s, %.1f GFLOP/s", float64(j.c.Batch)/d.Seconds(), j.w.Ops(j.c.Batch, j.c.Steps)/d.Seconds()/1e9)
}
