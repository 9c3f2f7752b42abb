package tropical

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

var (
	// ErrTraining is wrapped by every error of [Training.Validate].
	ErrTraining = errors.New("bad training")
	// ErrUntrained is returned by [trainJob.Check] for a network that is not
	// what the training makes.
	ErrUntrained = errors.New("not the trained network")
)

// Training says which network is trained, and how long. A network has two
// layers, each y = max(W ⊗ x, b): the maximum of max-plus products and biases. It
// is to learn what another of the same shape does, by subgradient descent on half
// the mean squared error: the error of an output goes back along the path its
// maximum came from.
//
// The batch is cut into shards that do not depend on the devices, which have
// several each or one. Every device has a replica of the network; every shard adds
// up its own gradient. Each device folds the gradients of all in the order of
// shards, by which it updates its replica. So the result is the same bits on any
// number of devices: class R.
type Training struct {
	Inputs, Hidden, Outputs int
	Batch, Steps            int
	Shards                  int     // 0 means 8
	Rate                    float64 // of learning; 0 means a half
	Seed                    uint32
}

// Bytes is the host memory that the job takes: samples, hidden units, outputs with
// targets and errors, and the parameters before, after and three times for each shard,
// which is as many as there may be devices.
func (c Training) Bytes() float64 {
	c = c.withDefaults()
	in, hidden, out := float64(c.Inputs), float64(c.Hidden), float64(c.Outputs)
	params := hidden*(in+1) + out*(hidden+1)
	return 4 * (float64(c.Batch)*(in+hidden+3*out) + (3*float64(c.Shards)+2)*params)
}

func (c Training) withDefaults() Training {
	if c.Shards == 0 {
		c.Shards = 8
	}
	if c.Rate == 0 {
		c.Rate = 0.5
	}
	return c
}

// Limits of a training.
const (
	maxUnits  = 1 << 12
	maxBatch  = 1 << 20
	maxSteps  = 1 << 14
	maxShards = 64
)

// Validate reports sizes that make no job.
func (c Training) Validate() error {
	c = c.withDefaults()
	within := func(most int, xs ...int) bool {
		for _, x := range xs {
			if x < 1 || x > most {
				return false
			}
		}
		return true
	}
	switch {
	case !within(maxUnits, c.Inputs, c.Hidden, c.Outputs):
		return fmt.Errorf("tropical net: %d inputs, %d hidden units, %d outputs: %w: there must be 1 to %d", c.Inputs, c.Hidden, c.Outputs, ErrTraining, maxUnits)
	case !within(maxBatch, c.Batch) || !within(maxSteps, c.Steps):
		return fmt.Errorf("tropical net: a batch of %d for %d steps: %w: there must be 1 to %d and 1 to %d", c.Batch, c.Steps, ErrTraining, maxBatch, maxSteps)
	case !within(min(maxShards, c.Batch), c.Shards):
		return fmt.Errorf("tropical net: %d shards of a batch of %d: %w: there must be 1 to %d shards, each with a sample", c.Shards, c.Batch, ErrTraining, min(maxShards, c.Batch))
	case !(c.Rate > 0) || math.IsInf(c.Rate, 0):
		return fmt.Errorf("tropical net: rate %v: %w: it must be more than 0", c.Rate, ErrTraining)
	}
	return nil
}

// shape locates the parts of a network among its parameters: the weights of the hidden
// units with a bias after each row, then the weights of the outputs.
type shape struct{ inputs, hidden, outputs int }

func (s shape) params() int                { return s.hidden*(s.inputs+1) + s.outputs*(s.hidden+1) }
func (s shape) hiddenRow(k int) int        { return k * (s.inputs + 1) }
func (s shape) outputRow(o int) int        { return s.hidden*(s.inputs+1) + o*(s.hidden+1) }
func (c *Training) shape() shape           { return shape{c.Inputs, c.Hidden, c.Outputs} }
func (s shape) rows() (rows int)           { return s.hidden + s.outputs }
func row(p []float32, at, n int) []float32 { return p[at : at+n+1] }

// unit is a unit's value and where its maximum comes from: an input, or the bias,
// which comes last. The first of equals wins.
func unit(weights, x []float32) (y float32, from int32) {
	bias := weights[len(x)]
	y, from = weights[0]+x[0], 0
	for j := 1; j < len(x); j++ {
		if v := weights[j] + x[j]; v > y {
			y, from = v, int32(j)
		}
	}
	if bias > y {
		y, from = bias, int32(len(x))
	}
	return y, from
}

// trainJob is one training.
type trainJob struct {
	workload.Stop

	c       Training
	initial []float32 // parameters before
	final   []float32 // and after a run
	x       []float32 // samples, by row
	target  []float32
	m       *machine.Machine
	on      []machine.DeviceID // that can run it
	// want is the parameters that Check compares with; the first one finds them.
	trained sync.Once
	want    []float32
}

// Streams of random numbers.
const (
	streamSamples = 16 + iota
	streamTeacher
	streamInitial
)

// NewTraining draws samples, the network to be learnt from and the first guess.
// The job is a [workload.Job].
func NewTraining(c Training) (*trainJob, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	s := c.shape()
	j := &trainJob{
		c: c, initial: make([]float32, s.params()), final: make([]float32, s.params()),
		x: make([]float32, c.Batch*c.Inputs), target: make([]float32, c.Batch*c.Outputs),
	}
	philox.Fill32(j.x, uint64(c.Seed), streamSamples)
	philox.Fill32(j.initial, uint64(c.Seed), streamInitial)
	teacher := make([]float32, s.params())
	philox.Fill32(teacher, uint64(c.Seed), streamTeacher)
	return j, workload.Sweep(c.Batch, func(lo, hi int) error {
		hidden := make([]float32, c.Hidden)
		for b := lo; b < hi; b++ {
			s.forward(teacher, j.x[b*c.Inputs:(b+1)*c.Inputs], hidden, nil, func(o int, y float32, _ int32) { j.target[b*c.Outputs+o] = y })
		}
		return nil
	})
}

// forward computes the hidden units and the outputs of a sample; from, unless
// nil, gets where the hidden units come from.
func (s shape) forward(p, x, hidden []float32, from []int32, output func(o int, y float32, from int32)) {
	for k := range s.hidden {
		y, at := unit(row(p, s.hiddenRow(k), s.inputs), x)
		hidden[k] = y
		if from != nil {
			from[k] = at
		}
	}
	for o := range s.outputs {
		y, at := unit(row(p, s.outputRow(o), s.hidden), hidden)
		output(o, y, at)
	}
}

// Per item of the Go kernels: samples, rows of the gradient, parameters.
const (
	samplesPerItem = 8
	rowsPerItem    = 4
	paramsPerItem  = 4096
)

// gradientTerms is the number of errors that a shader adds up in one launch.
const gradientTerms = 1 << 18

var (
	// pathsKernel takes samples through the network. Its arguments are the
	// parameters, samples, targets, and what it writes: where hidden units come
	// from, where outputs come from, and the outputs' errors. Its grid is samples
	// and hidden units. Shaders do the hidden units only, and the outputs in outputsKernel.
	pathsKernel = workload.With(graph.GoKernel("tropical.paths", samplesPerItem, graph.All),
		workload.PTX(trainPTX, "tropical_paths", 128, 128, graph.All), workload.SPIRV(spirv, "tropical_hidden", 64, 64))
	outputsKernel = workload.Only("tropical.outputs", workload.SPIRV(spirv, "tropical_outputs", 64, 64))
	// gradientKernel adds up the gradient, a row for each hidden unit and output.
	// Its arguments are what pathsKernel wrote and the gradient. Shaders add up
	// gradientTerms errors, and in moreGradientKernel as many from a sample on.
	gradientKernel = workload.With(graph.GoKernel("tropical.gradient", rowsPerItem), workload.PTX(trainPTX, "tropical_gradient", 32, 32),
		workload.SPIRV(spirv, "tropical_gradient", 64, 64))
	moreGradientKernel = workload.Only("tropical.gradient.more", workload.SPIRV(spirv, "tropical_gradient_more", 64, 64))
	// updateKernel takes a step down the gradient. Its arguments are the
	// parameters and the gradient.
	updateKernel = workload.With(graph.GoKernel("tropical.update", paramsPerItem), workload.PTX(trainPTX, "tropical_update", 256, 256),
		workload.SPIRV(spirv, "tropical_update", 64, 64))
)

// TrainFuncs are the Go kernels of training.
func TrainFuncs() map[string]weft.Func {
	out := collective.Funcs()
	maps.Copy(out, signature.Funcs(trainKernels))
	return out
}

var trainKernels = []signature.Kernel{
	signature.Of(signature.Kernel{
		Name: "tropical.paths", Does: "samples through a network of maxima of sums", Grid: "samples, hidden", Per: []uint32{samplesPerItem, graph.All},
		Args: []signature.Arg{
			signature.In("parameters", graph.F4), signature.In("samples", graph.F4), signature.In("targets", graph.F4),
			signature.Out("where hidden units come from", graph.I4), signature.Out("where outputs come from", graph.I4), signature.Out("errors", graph.F4),
		},
	}, func(_ *weft.Call, p netParams) (n signature.Need, err error) {
		n.Items = signature.Parts(p.samples, samplesPerItem)
		outputs := signature.Product(p.samples, p.outputs)
		n.Elements = [12]int64{int64(p.params()), signature.Product(p.samples, p.inputs), outputs, signature.Product(p.samples, p.hidden), outputs, outputs}
		return n, p.check()
	}, findPaths),
	signature.Of(signature.Kernel{
		Name: "tropical.gradient", Does: "the gradient of what tropical.paths found", Grid: "hidden + outputs", Per: []uint32{rowsPerItem},
		Args: []signature.Arg{
			signature.In("where hidden units come from", graph.I4), signature.In("where outputs come from", graph.I4), signature.In("errors", graph.F4),
			signature.Out("gradient", graph.F4),
		},
	}, func(_ *weft.Call, p netParams) (n signature.Need, err error) {
		n.Items = signature.Parts(p.rows(), rowsPerItem)
		outputs := signature.Product(p.samples, p.outputs)
		n.Elements = [12]int64{signature.Product(p.samples, p.hidden), outputs, outputs, int64(p.params())}
		return n, p.check()
	}, gradient),
	signature.Of(signature.Kernel{
		Name: "tropical.update", Does: "n parameters less length times the gradient", Grid: "n", Per: []uint32{paramsPerItem},
		Args: []signature.Arg{signature.InOut("parameters", graph.F4), signature.In("gradient", graph.F4)},
	}, func(_ *weft.Call, p updateParams) (n signature.Need, err error) {
		n.Items = signature.Parts(p.n, paramsPerItem)
		n.Elements[0], n.Elements[1] = int64(p.n), int64(p.n)
		return n, signature.Positive([]string{"n"}, p.n)
	}, update),
}

// check errs for sizes that no network has.
func (p netParams) check() error {
	if max(p.inputs, p.hidden, p.outputs) > maxUnits {
		return fmt.Errorf("%d inputs, %d hidden units, %d outputs: %d are the most", p.inputs, p.hidden, p.outputs, maxUnits)
	}
	return signature.Positive([]string{"inputs", "hidden", "outputs", "samples"}, p.inputs, p.hidden, p.outputs, p.samples)
}

// netParams are the parameters of pathsKernel and gradientKernel.
type netParams struct {
	shape
	samples int
}

// moreGradientParams are the parameters of moreGradientKernel.
type moreGradientParams struct {
	netParams
	first int // sample
}

// updateParams are the parameters of updateKernel.
type updateParams struct {
	n      int     // parameters of the network
	length float32 // of the step
}

func findPaths(c *weft.Call, s netParams, lo, hi int) {
	p, x, target := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[1]), weft.View[float32](c.Args[2])
	hiddenFrom, outputFrom, errs := weft.View[int32](c.Args[3]), weft.View[int32](c.Args[4]), weft.View[float32](c.Args[5])
	hidden := make([]float32, s.hidden)
	for b := lo * samplesPerItem; b < min(hi*samplesPerItem, s.samples); b++ {
		s.forward(p, x[b*s.inputs:(b+1)*s.inputs], hidden, hiddenFrom[b*s.hidden:], func(o int, y float32, from int32) {
			outputFrom[b*s.outputs+o], errs[b*s.outputs+o] = from, y-target[b*s.outputs+o]
		})
	}
}

// gradient adds up rows sample by sample, so that their sums do not depend on how
// rows are dealt out.
func gradient(c *weft.Call, s netParams, lo, hi int) {
	hiddenFrom, outputFrom, errs := weft.View[int32](c.Args[0]), weft.View[int32](c.Args[1]), weft.View[float32](c.Args[2])
	g := weft.View[float32](c.Args[3])
	for r := lo * rowsPerItem; r < min(hi*rowsPerItem, s.rows()); r++ {
		if o := r - s.hidden; o >= 0 {
			sum := row(g, s.outputRow(o), s.hidden)
			clear(sum)
			for b := range s.samples {
				from := outputFrom[b*s.outputs+o]
				if uint32(from) >= uint32(len(sum)) {
					c.Fail(fmt.Errorf("output %d of sample %d comes from unit %d of %d", o, b, from, s.hidden))
					return
				}
				sum[from] += errs[b*s.outputs+o]
			}
			continue
		}
		sum := row(g, s.hiddenRow(r), s.inputs)
		clear(sum)
		for b := range s.samples {
			for o, from := range outputFrom[b*s.outputs : (b+1)*s.outputs] {
				if int(from) == r {
					from := hiddenFrom[b*s.hidden+r]
					if uint32(from) >= uint32(len(sum)) {
						c.Fail(fmt.Errorf("hidden unit %d of sample %d comes from input %d of %d", r, b, from, s.inputs))
						return
					}
					sum[from] += errs[b*s.outputs+o]
				}
			}
		}
	}
}

func update(c *weft.Call, u updateParams, lo, hi int) {
	p, g := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[1])
	for i := lo * paramsPerItem; i < min(hi*paramsPerItem, u.n); i++ {
		p[i] -= float32(u.length * g[i])
	}
}

// Name describes the training.
func (j *trainJob) Name() string {
	c := j.c
	return fmt.Sprintf("tropical net %d-%d-%d, batch %d in %d shards, %d steps", c.Inputs, c.Hidden, c.Outputs, c.Batch, c.Shards, c.Steps)
}

// Class is R: shards are the same on any number of devices.
func (j *trainJob) Class() workload.Class { return workload.RowExact }

// Items are the samples.
func (j *trainJob) Items() sched.Items {
	return sched.Items{Extent: int64(j.c.Batch), Bytes: func(lo, hi int64) (in, out int64) {
		return 4 * (hi - lo) * int64(j.c.Inputs+j.c.Outputs), int64(4 * len(j.final))
	}}
}

// Whole is all samples of a step as one task.
func (j *trainJob) Whole() graph.Task {
	steps, work := j.paths(int64(j.c.Batch))
	return graph.Task{Steps: steps, Work: work}
}

func (j *trainJob) params(samples int64) netParams { return netParams{j.c.shape(), int(samples)} }

// paths are the steps that take samples through the network, and their work.
func (j *trainJob) paths(samples int64) ([]graph.Step, graph.Work) {
	n := float64(samples)
	weights, units := float64(len(j.initial)), float64(j.c.Inputs+j.c.Hidden+4*j.c.Outputs)
	return []graph.Step{
		graph.Step{Kernel: pathsKernel, Launch: graph.Grid(samples, int64(j.c.Hidden))}.With(j.params(samples)),
		graph.Step{Kernel: outputsKernel, Launch: graph.Grid(samples, int64(j.c.Outputs))}.With(j.params(samples)),
	}, graph.Work{Ops: 2 * n * weights, Bytes: 4 * (weights + n*units)}
}

// gradient are the steps that add up the gradient of samples, and their work.
func (j *trainJob) gradient(samples int64) ([]graph.Step, graph.Work) {
	n, s := float64(samples), j.c.shape()
	rows := graph.Grid(int64(s.rows()))
	steps := []graph.Step{graph.Step{Kernel: gradientKernel, Launch: rows}.With(j.params(samples))}
	once := gradientTerms / s.outputs
	for first := once; first < int(samples); first += once {
		steps = append(steps, graph.Step{Kernel: moreGradientKernel, Launch: rows}.With(moreGradientParams{j.params(samples), first}))
	}
	return steps, graph.Work{Ops: n * float64(s.outputs) * float64(s.hidden+1), Bytes: 4 * (n*float64(s.hidden+2*s.outputs) + float64(s.params()))}
}

// shardTask takes the samples of a shard through the network and adds up their gradient.
func (j *trainJob) shardTask(s shard, params, x, target graph.DataID) graph.Task {
	n := s.hi - s.lo
	rows := func(d graph.DataID, width int) graph.Use {
		return graph.Use{Data: d, Offset: 4 * s.lo * int64(width), Bytes: 4 * n * int64(width), Access: graph.Read}
	}
	writes := func(d graph.DataID) graph.Use { return graph.Use{Data: d, Access: graph.Write} }
	steps, work := j.paths(n)
	for i := range steps {
		steps[i].Args = []int{0, 1, 2, 3, 4, 5}
	}
	more, workMore := j.gradient(n)
	for i := range more {
		more[i].Args = []int{3, 4, 5, 6}
	}
	return graph.Task{
		Steps: append(steps, more...),
		Uses: []graph.Use{
			{Data: params, Access: graph.Read}, rows(x, j.c.Inputs), rows(target, j.c.Outputs),
			writes(s.hiddenFrom), writes(s.outputFrom), writes(s.errs), writes(s.gradient),
		},
		Work: graph.Work{Ops: work.Ops + workMore.Ops, Bytes: work.Bytes + workMore.Bytes},
	}
}

func (j *trainJob) updateTask() graph.Task {
	n, length := len(j.initial), float32(j.c.Rate/float64(j.c.Batch))
	return graph.Task{
		Steps: []graph.Step{graph.Step{Kernel: updateKernel, Launch: graph.Grid(int64(n))}.With(updateParams{n, length})},
		Work:  graph.Work{Ops: 2 * float64(n), Bytes: 12 * float64(n)},
	}
}

// Place remembers the machine, on whose topology the all-reduce depends.
func (j *trainJob) Place(m *machine.Machine) (err error) {
	j.m = m
	j.on, err = workload.Able(m, pathsKernel, gradientKernel, updateKernel)
	return err
}

// shard is a part of the batch with its results.
type shard struct {
	lo, hi                                 int64 // samples
	device                                 int   // index among the replicas
	hiddenFrom, outputFrom, errs, gradient graph.DataID
}

// replica is the network of a device.
type replica struct {
	on          graph.Constraint
	params, sum graph.DataID // sum is the gradient of all shards
	fold        *collective.Plan
}

// Graph trains all replicas, each on its device, whatever the ranges.
func (j *trainJob) Graph([]sched.Range) (*graph.Graph, error) {
	if j.m == nil {
		return nil, fmt.Errorf("tropical net: %w: Place was not called", ErrTraining)
	}
	b := graph.Builder{Stop: j.Stopped}
	initial := b.Data(graph.Data{Name: "initial", Bytes: int64(4 * len(j.initial)), Input: true})
	x := b.Data(graph.Data{Name: "samples", Bytes: int64(4 * len(j.x)), Input: true})
	target := b.Data(graph.Data{Name: "targets", Bytes: int64(4 * len(j.target)), Input: true})
	shards, gradients := j.shards(&b)
	replicas, err := j.replicas(&b, initial)
	if err != nil {
		return nil, err
	}
	for step := range j.c.Steps {
		add := func(what string, of int, on graph.Constraint, t graph.Task) {
			t.Name, t.On = fmt.Sprintf("step %d, %s %d", step, what, of), on
			b.Add(t)
		}
		for i, s := range shards {
			r := &replicas[s.device]
			add("shard", i, r.on, j.shardTask(s, r.params, x, target))
		}
		for i := range replicas {
			r := &replicas[i]
			sums := make([]collective.Buffer, len(shards))
			sums[0].Data = r.sum
			r.fold.Add(&b, gradients, sums)
			t := j.updateTask()
			t.Uses = []graph.Use{{Data: r.params, Access: graph.ReadWrite}, {Data: r.sum, Access: graph.Read}}
			add("update", i, r.on, t)
		}
	}
	return b.Build()
}

// shards cuts the batch, and adds the data of each shard to a graph. It returns where
// their gradients are as well.
func (j *trainJob) shards(b *graph.Builder) ([]shard, []collective.Buffer) {
	c := j.c
	shards := make([]shard, c.Shards)
	gradients := make([]collective.Buffer, c.Shards)
	for i := range shards {
		s := &shards[i]
		s.lo, s.hi = collective.Cut(int64(c.Batch), c.Shards, i)
		s.device = i % len(j.on)
		n := s.hi - s.lo
		data := func(what string, numbers int64) graph.DataID {
			return b.Data(graph.Data{Name: fmt.Sprintf("%s %d", what, i), Bytes: 4 * numbers})
		}
		s.hiddenFrom, s.outputFrom = data("hidden from", n*int64(c.Hidden)), data("outputs from", n*int64(c.Outputs))
		s.errs, s.gradient = data("errors", n*int64(c.Outputs)), data("gradient", int64(len(j.initial)))
		gradients[i].Data = s.gradient
	}
	return shards, gradients
}

// replicas adds the networks to a graph, one for each device that has a shard. The first
// is the result.
func (j *trainJob) replicas(b *graph.Builder, initial graph.DataID) ([]replica, error) {
	replicas := make([]replica, min(len(j.on), j.c.Shards))
	for i := range replicas {
		r, on := &replicas[i], j.on[i]
		r.on.Only = []string{j.m.DeviceName(on)}
		data := func(what string) graph.DataID {
			return b.Data(graph.Data{Name: fmt.Sprintf("%s %d", what, i), Bytes: int64(4 * len(j.initial)), Output: what == "parameters" && i == 0})
		}
		r.params, r.sum = data("parameters"), data("gradient of all")
		// A fold for one device alone is one whose ranks all are that device, and a copy is
		// a gathering of one rank.
		spec := collective.Spec{Op: collective.OpAllGather, Ranks: []machine.DeviceID{on}, Count: int64(len(j.initial)), Type: collective.F32}
		begin, err := collective.NewPlan(j.m, machine.NewRoofline(j.m), spec)
		if err != nil {
			return nil, err
		}
		begin.Add(b, []collective.Buffer{{Data: initial}}, []collective.Buffer{{Data: r.params}})
		spec.Op, spec.Fold, spec.Exact, spec.Ranks = collective.OpReduce, collective.Sum, true, slices.Repeat(spec.Ranks, j.c.Shards)
		if r.fold, err = collective.NewPlan(j.m, machine.NewRoofline(j.m), spec); err != nil {
			return nil, err
		}
	}
	return replicas, nil
}

// Bind ties samples and parameters to the job's memory.
func (j *trainJob) Bind() []weft.Binding {
	return []weft.Binding{
		weft.Bind("initial", j.initial), weft.Bind("samples", j.x), weft.Bind("targets", j.target), weft.Bind("parameters 0", j.final),
	}
}

// Result is the parameters after a run: for every hidden unit its weights and its
// bias, then for every output.
func (j *trainJob) Result() []float32 { return j.final }

// Loss is half the mean squared error before and after a run.
func (j *trainJob) Loss() (before, after float64) { return j.loss(j.initial), j.loss(j.final) }

func (j *trainJob) loss(p []float32) (sum float64) {
	c, s := j.c, j.c.shape()
	hidden := make([]float32, c.Hidden)
	for b := range c.Batch {
		s.forward(p, j.x[b*c.Inputs:(b+1)*c.Inputs], hidden, nil, func(o int, y float32, _ int32) {
			e := float64(y) - float64(j.target[b*c.Outputs+o])
			sum += e * e
		})
	}
	return sum / 2 / float64(c.Batch)
}

// Check trains the network once more, by other means: an output is the best of
// all paths from inputs and biases, found one by one, and its error goes along
// that path. Sums are in the order of shards and samples, so parameters must be
// the same to the last bit. The first Check takes longer than the training; later ones
// compare with what it found. The error is [ErrUntrained].
func (j *trainJob) Check() error {
	j.trained.Do(func() { j.want = j.reference() })
	for i, w := range j.want {
		if got := j.final[i]; math.Float32bits(got) != math.Float32bits(w) {
			return fmt.Errorf("tropical net: parameter %d is %v, want %v: %w", i, got, w, ErrUntrained)
		}
	}
	return nil
}

// Misses is nothing: every parameter is compared.
func (j *trainJob) Misses() []workload.Miss {
	return []workload.Miss{{What: "one wrong parameter", Chance: 0}}
}

func (j *trainJob) reference() []float32 {
	c, s := j.c, j.c.shape()
	p := append([]float32(nil), j.initial...)
	step := float32(c.Rate / float64(c.Batch))
	type path struct {
		e             float32 // of the output
		first, second int32
	}
	paths := make([]path, c.Batch*c.Outputs)
	for range c.Steps {
		_ = workload.Sweep(c.Batch, func(lo, hi int) error {
			for b := lo; b < hi; b++ {
				for o := range c.Outputs {
					y, first, second := j.bestPath(p, j.x[b*c.Inputs:(b+1)*c.Inputs], o)
					paths[b*c.Outputs+o] = path{y - j.target[b*c.Outputs+o], int32(first), int32(second)}
				}
			}
			return nil
		})
		total := make([]float32, len(p))
		for shard := range c.Shards {
			lo, hi := collective.Cut(int64(c.Batch), c.Shards, shard)
			g := make([]float32, len(p))
			for b := int(lo); b < int(hi); b++ {
				for o := range c.Outputs {
					t := paths[b*c.Outputs+o]
					g[s.outputRow(o)+int(t.second)] += t.e
					if int(t.second) < c.Hidden {
						g[s.hiddenRow(int(t.second))+int(t.first)] += t.e
					}
				}
			}
			for i := range total {
				if shard == 0 {
					total[i] = g[i]
				} else {
					total[i] += g[i]
				}
			}
		}
		for i := range p {
			p[i] -= float32(step * total[i])
		}
	}
	return p
}

// bestPath tries every path to an output: through which place of the output's row
// it comes (a hidden unit, or the bias), and of that unit's row.
func (j *trainJob) bestPath(p, x []float32, o int) (best float32, first, second int) {
	s := j.c.shape()
	best = float32(math.Inf(-1))
	before := best // the hidden unit's value on the best path
	for k := range s.hidden {
		for i := 0; i <= s.inputs; i++ {
			h := p[s.hiddenRow(k)+i]
			if i < s.inputs {
				h += x[i]
			}
			// Two values of a unit may become one when they are rounded again.
			if y := p[s.outputRow(o)+k] + h; y > best || y == best && k == second && h > before {
				best, before, first, second = y, h, i, k
			}
		}
	}
	if bias := p[s.outputRow(o)+s.hidden]; bias > best {
		return bias, 0, s.hidden
	}
	return best, first, second
}

// Rate is samples a second, each taken through all steps.
func (j *trainJob) Rate(d time.Duration) string {
	return fmt.Sprintf("%.1f ksample/s", float64(j.c.Batch)*float64(j.c.Steps)/d.Seconds()/1e3)
}
