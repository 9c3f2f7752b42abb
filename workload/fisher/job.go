package fisher

import (
	"fmt"
	"maps"
	"math"
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

var ()

// Config says how many points there are and how they are cut.
type Config struct {
	Points, Features int
	// Shards is the number of shards of the points; 0 means 8.
	Shards int
	// Blocks is the number of shards of the features; 0 means one.
	Blocks int
	Seed   uint32
}

// Limits: every shard has a copy of its rows of the matrix.
const (
	maxPoints   = 1 << 24
	maxFeatures = 1 << 12
	maxShards   = 64
)

// defaultShards is the number of shards of points unless a caller wants another.
const defaultShards = 8

func (c Config) withDefaults() Config {
	if c.Shards == 0 {
		c.Shards = defaultShards
	}
	if c.Blocks == 0 {
		c.Blocks = 1
	}
	return c
}

// Validate reports sizes that make no job.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.Points < 1 || c.Points > maxPoints || c.Features < 1 || c.Features > maxFeatures:
		return fmt.Errorf("fisher: %d points with %d features: %w: there must be 1 to %d and 1 to %d", c.Points, c.Features, workload.ErrConfig, maxPoints, maxFeatures)
	case c.Shards < 1 || c.Shards > min(c.Points, maxShards):
		return fmt.Errorf("fisher: %d shards of %d points: %w: there must be 1 to %d shards, each with a point", c.Shards, c.Points, workload.ErrConfig, min(c.Points, maxShards))
	case c.Blocks < 1 || c.Blocks > min(c.Features, maxShards):
		return fmt.Errorf("fisher: %d blocks of %d features: %w: there must be 1 to %d blocks, each with a feature", c.Blocks, c.Features, workload.ErrConfig, min(c.Features, maxShards))
	}
	return nil
}

// Bytes is the host memory that the job takes: the points, and the matrix once and
// twice for each shard.
func (c Config) Bytes() float64 {
	c = c.withDefaults()
	points, features := float64(c.Points), float64(c.Features)
	return 4*points*features + 8*(2*float64(c.Shards)+1)*features*features
}

// job is one set of points.
type job struct {
	workload.Stop

	c     Config
	x     []float32 // points, by row
	theta []float32
	f     []float64 // after a run
	m     *machine.Machine
	on    []machine.DeviceID // that can run it
	above float64            // errors of one entry show above this, by the last Check
}

// Streams of random numbers.
const (
	streamPoints = iota
	streamTheta
)

// New draws points and the model by logical index.
// The job is a [workload.Job].
func New(c Config) (*job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	j := &job{c: c, x: make([]float32, c.Points*c.Features), theta: make([]float32, c.Features), f: make([]float64, c.Features*c.Features)}
	philox.Fill32(j.x, uint64(c.Seed), streamPoints)
	philox.Fill32(j.theta, uint64(c.Seed), streamTheta)
	return j, nil
}

// Per item of the Go kernels: points, and rows of the matrix.
const (
	pointsPerItem = 256
	rowsPerItem   = 4
)

// sumPoints is the number of points that a shader adds up in one launch.
const sumPoints = 1 << 19

var (
	// weightsKernel computes p(1 − p) ÷ n of points; its arguments are the
	// points, the model and the weights.
	weightsKernel = workload.With(graph.GoKernel("fisher.weights", pointsPerItem),
		workload.PTX(ptx, "fisher_weights", 256, 256), workload.SPIRV(spirv, "fisher_weights", 64, 64))
	// sumsKernel adds rows of the matrix up; its arguments are the points, their
	// weights and the rows, its grid rows and features. Shaders add up sumPoints points, and in moreSumsKernel as
	// many from a point on.
	sumsKernel = workload.With(graph.GoKernel("fisher.sums", rowsPerItem, graph.All),
		workload.PTX(ptx, "fisher_sums", 128, 1, graph.All), workload.SPIRV(spirv, "fisher_sums", 64, 1, 64))
	moreSumsKernel = workload.Only("fisher.sums.more", workload.SPIRV(spirv, "fisher_sums_more", 64, 1, 64))
)

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func {
	out := collective.Funcs()
	maps.Copy(out, signature.Funcs(kernels))
	return out
}

var kernels = []signature.Kernel{
	signature.Of(signature.Kernel{
		Name: "fisher.weights", Does: "weights of points by a logistic model", Grid: "points", Per: []uint32{pointsPerItem},
		Args: []signature.Arg{signature.In("points", graph.F4), signature.In("model", graph.F4), signature.Out("weights", graph.F8)},
	}, func(_ *weft.Call, p weightParams) (n signature.Need, err error) {
		n.Items = signature.Parts(p.points, pointsPerItem)
		n.Elements[0], n.Elements[1], n.Elements[2] = signature.Product(p.points, p.features), int64(p.features), int64(p.points)
		return n, signature.Positive([]string{"points", "features", "all"}, p.points, p.features, p.all)
	}, weights),
	signature.Of(signature.Kernel{
		Name: "fisher.sums", Does: "rows of the Fisher information", Grid: "rows, features", Per: []uint32{rowsPerItem, graph.All},
		Args: []signature.Arg{signature.In("points", graph.F4), signature.In("weights", graph.F8), signature.Out("rows", graph.F8)},
	}, sumsNeed, sums),
	divergencesKernel,
}

func sumsNeed(c *weft.Call, p sumParams) (n signature.Need, err error) {
	if err := signature.Positive([]string{"points", "features"}, p.points, p.features); err != nil {
		return n, err
	}
	rows := len(c.Args[2]) / 8 / p.features
	if rows < 1 || p.first+rows > p.features {
		return n, fmt.Errorf("the result has room for %d rows of %d numbers, from row %d on, and there are %d rows", rows, p.features, p.first, p.features)
	}
	n.Items = signature.Parts(rows, rowsPerItem)
	n.Elements[0], n.Elements[1] = signature.Product(p.points, p.features), int64(p.points)
	return n, nil
}

// weightParams are the parameters of weightsKernel.
type weightParams struct {
	points, features int
	all              int // points of all tasks
}

// sumParams are the parameters of sumsKernel.
type sumParams struct {
	points, features int
	first            int // row
}

// moreSumParams are the parameters of moreSumsKernel.
type moreSumParams struct {
	sumParams
	from int // point
}

func weights(c *weft.Call, p weightParams, lo, hi int) {
	points, d, n := p.points, p.features, p.all
	x, theta, out := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[1]), weft.View[float64](c.Args[2])
	for i := lo * pointsPerItem; i < min(hi*pointsPerItem, points); i++ {
		z := 0.
		for k, v := range x[i*d : (i+1)*d] {
			z += float64(float64(v) * float64(theta[k]))
		}
		p := 1 / (1 + math.Exp(-z))
		out[i] = p * (1 - p) / float64(n)
	}
}

func sums(c *weft.Call, p sumParams, lo, hi int) {
	points, d, first := p.points, p.features, p.first
	x, w, out := weft.View[float32](c.Args[0]), weft.View[float64](c.Args[1]), weft.View[float64](c.Args[2])
	lo, hi = lo*rowsPerItem, min(hi*rowsPerItem, len(out)/d)
	clear(out[lo*d : hi*d])
	for i := 0; i < points && !c.Stopped(); i++ {
		row := x[i*d : (i+1)*d]
		for r := lo; r < hi; r++ {
			a, sum := w[i]*float64(row[first+r]), out[r*d:(r+1)*d]
			for k, v := range row {
				sum[k] += float64(a * float64(v))
			}
		}
	}
}

// Name says what there is.
func (j *job) Name() string {
	name := fmt.Sprintf("fisher %d points, %d features, %d shards", j.c.Points, j.c.Features, j.c.Shards)
	if j.c.Blocks > 1 {
		name += fmt.Sprintf(" by %d blocks", j.c.Blocks)
	}
	return name
}

// Class is R: shards are the same on any number of devices.
func (j *job) Class() workload.Class { return workload.RowExact }

// Items are the points.
func (j *job) Items() sched.Items {
	d := int64(j.c.Features)
	return sched.Items{Extent: int64(j.c.Points), Bytes: func(lo, hi int64) (in, out int64) { return 4 * d * (hi - lo), 8 * d * d }}
}

// Whole is all points as one task.
func (j *job) Whole() graph.Task { return j.task(j.c.Points, 0, j.c.Features) }

// task returns the task that adds up rows lo to hi of the matrix over a number of points.
func (j *job) task(points, lo, hi int) graph.Task {
	n, d := float64(points), float64(j.c.Features)
	rows, grid := float64(hi-lo), graph.Grid(int64(hi-lo), int64(j.c.Features))
	p := sumParams{points, j.c.Features, lo}
	steps := []graph.Step{graph.Step{Kernel: sumsKernel, Launch: grid}.With(p)}
	for from := sumPoints; from < points; from += sumPoints {
		steps = append(steps, graph.Step{Kernel: moreSumsKernel, Launch: grid}.With(moreSumParams{p, from}))
	}
	return graph.Task{
		Steps: steps,
		Work:  graph.Work{Ops: 2 * n * d * rows, Bytes: 4*n*d + 8*d*rows, Unit: graph.FP64},
	}
}

// Place remembers the machine, on whose topology the all-reduce depends.
func (j *job) Place(m *machine.Machine) (err error) {
	j.m = m
	j.on, err = workload.Able(m, weightsKernel, sumsKernel)
	return err
}

// Graph computes shards, each on its device, and all-reduces them, whatever the
// ranges. Shard s of the points with block b of the features is rank s of the
// all-reduce of block b; ranks are dealt out to devices in turn.
func (j *job) Graph([]sched.Range) (*graph.Graph, error) {
	if j.m == nil {
		return nil, fmt.Errorf("fisher: %w: Place was not called", workload.ErrConfig)
	}
	b := graph.Builder{Stop: j.Stopped}
	c, d := j.c, int64(j.c.Features)
	x := b.Data(graph.Data{Name: "points", Bytes: int64(4 * len(j.x)), Input: true})
	theta := b.Data(graph.Data{Name: "theta", Bytes: 4 * d, Input: true})
	f := b.Data(graph.Data{Name: "fisher", Bytes: int64(8 * len(j.f)), Output: true})
	w := b.Data(graph.Data{Name: "weights", Bytes: int64(8 * c.Points)})
	for block := range c.Blocks {
		row, end := collective.Cut(d, c.Blocks, block)
		bytes := 8 * d * (end - row)
		spec := collective.Spec{Op: collective.OpAllReduce, Count: d * (end - row), Type: collective.F64, Fold: collective.Sum, Exact: true}
		var in, out []collective.Buffer
		for s := range c.Shards {
			on := j.on[(s*c.Blocks+block)%len(j.on)]
			only := graph.Constraint{Only: []string{j.m.DeviceName(on)}}
			spec.Ranks = append(spec.Ranks, on)
			lo, hi := collective.Cut(int64(c.Points), c.Shards, s)
			points := graph.Use{Data: x, Offset: 4 * d * lo, Bytes: 4 * d * (hi - lo), Access: graph.Read}
			weights := graph.Use{Data: w, Offset: 8 * lo, Bytes: 8 * (hi - lo)}
			if block == 0 {
				t := graph.Task{
					Name:  fmt.Sprintf("weights of shard %d", s),
					Steps: []graph.Step{graph.Step{Kernel: weightsKernel, Launch: graph.Grid(hi - lo)}.With(weightParams{int(hi - lo), c.Features, c.Points})},
					Work:  graph.Work{Ops: float64(hi-lo) * (2*float64(d) + 30), Bytes: float64(hi-lo) * (4*float64(d) + 8), Unit: graph.FP64},
					On:    only,
				}
				weights.Access = graph.Write
				t.Uses = []graph.Use{points, {Data: theta, Access: graph.Read}, weights}
				b.Add(t)
			}
			weights.Access = graph.Read
			part := b.Data(graph.Data{Name: fmt.Sprintf("sums of shard %d, block %d", s, block), Bytes: bytes})
			t := j.task(int(hi-lo), int(row), int(end))
			t.Name, t.On = fmt.Sprintf("shard %d, rows %d-%d", s, row, end), only
			t.Uses = []graph.Use{points, weights, {Data: part, Access: graph.Write}}
			b.Add(t)
			in = append(in, collective.Buffer{Data: part})
			if s == 0 {
				out = append(out, collective.Buffer{Data: f, Offset: 8 * d * row})
			} else {
				out = append(out, collective.Buffer{Data: b.Data(graph.Data{Name: fmt.Sprintf("fisher of shard %d, block %d", s, block), Bytes: bytes})})
			}
		}
		plan, err := collective.NewPlan(j.m, machine.NewRoofline(j.m), spec)
		if err != nil {
			return nil, err
		}
		plan.Add(&b, in, out)
	}
	return b.Build()
}

// Bind ties points, model and matrix to the job's memory.
func (j *job) Bind() []weft.Binding {
	return []weft.Binding{weft.Bind("points", j.x), weft.Bind("theta", j.theta), weft.Bind("fisher", j.f)}
}

// Operands are the points, by row, and the model in the job's own memory. Between runs
// a caller may set them.
func (j *job) Operands() (points, theta []float32) { return j.x, j.theta }

// Result is the matrix after a run, by row.
func (j *job) Result() []float64 { return j.f }

// Rate is operations a second.
func (j *job) Rate(t time.Duration) string {
	n, d := float64(j.c.Points), float64(j.c.Features)
	return fmt.Sprintf("%.2f GFLOP/s", 2*n*d*d/t.Seconds()/1e9)
}
