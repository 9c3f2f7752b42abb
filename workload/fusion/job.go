package fusion

import (
	"errors"
	"fmt"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/pipeline"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// errWrong is returned by [job.Check] for records that are not what the
// stages make of them.
var errWrong = errors.New("not the fused records")

// maxRecords is the limit of memory and launches.
const maxRecords = 1 << 26

// Config says how many records go through the stages, and how.
type Config struct {
	Records int
	// Micro is the number of records that go through a stage at a time; 0 means a 64th of
	// all.
	Micro int
	// Mode spreads stages over devices; empty leaves every task to the policy.
	Mode pipeline.Mode
	// Copies is the number of pipelines in mode hybrid; 0 means a good one.
	Copies int
	// Bind binds every record after the stages with what it was before them,
	// which is a stage of its own.
	Bind bool
	Seed uint32
}

// Validate reports a configuration that makes no job.
func (c Config) Validate() error {
	switch {
	case c.Records < 1 || c.Records > maxRecords || c.Micro < 0:
		return fmt.Errorf("fusion: %d records, %d at a time: %w: there must be 1 to %d, and 0 or more at a time", c.Records, c.Micro, workload.ErrConfig, maxRecords)
	case c.Copies < 0:
		return fmt.Errorf("fusion: %d copies: %w: there must be 0 or more", c.Copies, workload.ErrConfig)
	case c.Copies > 0 && c.Mode != pipeline.Hybrid:
		return fmt.Errorf("fusion: %d copies: %w: only mode %s has copies", c.Copies, workload.ErrConfig, pipeline.Hybrid)
	}
	if c.Mode != "" {
		if _, err := pipeline.ParseMode(string(c.Mode)); err != nil {
			return fmt.Errorf("fusion: %w: %w", workload.ErrConfig, err)
		}
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Micro == 0 {
		c.Micro = (c.Records + 63) / 64
	}
	c.Micro = min(c.Micro, c.Records)
	return c
}

// Bytes is the host memory that the job takes: the records before the stages, after
// them and twice between them.
func (c Config) Bytes() float64 { return 4 * 4 * Floats * float64(c.Records) }

// job is one set of records.
type job struct {
	workload.Stop

	c       Config
	rotor   [8]float64
	w       *Weights
	weights []float32
	in, out []float32
	place   pipeline.Placement // none: anywhere
}

// New draws weights and records by logical index.
// The job is a [workload.Job].
func New(c Config) (*job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	j := &job{c: c, in: make([]float32, Floats*c.Records), out: make([]float32, Floats*c.Records)}
	j.w, j.rotor = newWeights(c.Seed)
	j.weights = j.w.floats()
	philox.Fill32(j.in, uint64(c.Seed), streamRecords)
	return j, nil
}

// perItem is the number of records in one item of the Go kernels: work for some ten
// microseconds.
const perItem = 64

// stageKernels are the stages; their arguments are records, the weights and the
// records after.
var stageKernels = [numStages]*graph.Kernel{stageKernel("t"), stageKernel("d"), stageKernel("c")}

// bindKernel binds records; its arguments are two sets of them and those bound.
var bindKernel = stageKernel("bind")

// stageKernel is a kernel over records.
func stageKernel(name string) *graph.Kernel {
	return workload.With(graph.GoKernel("fusion."+name, perItem),
		workload.PTX(ptx, "fusion_"+name, 256, 32), workload.SPIRV(spirv, "fusion_"+name, 64, 16))
}

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func {
	return signature.Funcs(kernels)
}

var kernels = []signature.Kernel{
	over("t", "tropical", stageT), over("d", "dual", stageD), over("c", "Clifford", stageC),
	signature.Of(signature.Kernel{
		Name: "fusion.bind", Does: fmt.Sprintf("n pairs of records of %d floats bound into one each", Floats), Grid: "n", Per: []uint32{perItem},
		Args: []signature.Arg{signature.In("records", graph.F4), signature.In("others", graph.F4), signature.Out("bound records", graph.F4)},
	}, func(_ *weft.Call, p params) (signature.Need, error) { return recordsNeed(p, p.n*Floats) }, bind),
}

// recordsNeed returns the need of n records and an argument of a number of floats.
func recordsNeed(p params, others int) (n signature.Need, err error) {
	n.Items = signature.Parts(p.n, perItem)
	n.Elements[0], n.Elements[1], n.Elements[2] = signature.Product(p.n, Floats), int64(others), signature.Product(p.n, Floats)
	return n, signature.Positive([]string{"n"}, p.n)
}

// params are the parameters of all kernels.
type params struct {
	n int // records
}

// bind binds the records of items.
func bind(c *weft.Call, p params, lo, hi int) {
	x, y, out := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[1]), weft.View[float32](c.Args[2])
	end := min(hi*perItem, p.n)
	for at := lo * perItem * Floats; at < end*Floats; at += Floats {
		Bind(out[at:at+Floats], x[at:at+Floats], y[at:at+Floats])
	}
}

// over applies a stage to the records of items.
func over(name, algebra string, stage func(out, in, weights []float32)) signature.Kernel {
	return signature.Of(signature.Kernel{
		Name: "fusion." + name, Does: fmt.Sprintf("the %s stage of n records of %d floats", algebra, Floats), Grid: "n", Per: []uint32{perItem},
		Args: []signature.Arg{signature.In("records", graph.F4), signature.In("weights", graph.F4), signature.Out("records after", graph.F4)},
	}, func(_ *weft.Call, p params) (signature.Need, error) { return recordsNeed(p, weightFloats) }, func(c *weft.Call, p params, lo, hi int) {
		in, weights, out := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[1]), weft.View[float32](c.Args[2])
		end := min(hi*perItem, p.n)
		for r := lo * perItem; r < end; r++ {
			stage(out[r*Floats:(r+1)*Floats], in[r*Floats:(r+1)*Floats], weights)
		}
	})
}

// Name says how many records there are and how they go.
func (j *job) Name() string {
	how := "anywhere"
	if j.c.Mode != "" {
		how = string(j.c.Mode) + " parallel"
	}
	if j.c.Bind {
		how += ", bound"
	}
	return fmt.Sprintf("fusion %d records, %d micro-batches, %s", j.c.Records, j.batches(), how)
}

// batches is the number of micro-batches.
func (j *job) batches() int { return (j.c.Records + j.c.Micro - 1) / j.c.Micro }

// Class is R: a record does not depend on others.
func (j *job) Class() workload.Class { return workload.RowExact }

// Items are the records.
func (j *job) Items() sched.Items {
	return sched.Items{
		Extent: int64(j.c.Records),
		Bytes:  func(lo, hi int64) (in, out int64) { return 4 * Floats * (hi - lo), 4 * Floats * (hi - lo) },
	}
}

// ops are the operations of each stage on a record.
func (j *job) ops() []float64 {
	ops := stageOps[:]
	if j.c.Bind {
		ops = append(ops[:numStages:numStages], bindOps)
	}
	return ops
}

// Whole is all stages of all records as one task.
func (j *job) Whole() graph.Task {
	t := j.task(0, 0, int64(j.c.Records))
	for s := 1; s < len(j.ops()); s++ {
		next := j.task(s, 0, int64(j.c.Records))
		t.Steps = append(t.Steps, next.Steps...)
		t.Work.Ops += next.Work.Ops
		t.Work.Bytes += next.Work.Bytes
	}
	return t
}

// task is a stage of the records lo to hi-1.
func (j *job) task(stage int, lo, hi int64) graph.Task {
	n, kernel, moved := float64(hi-lo), bindKernel, 3.0
	if stage < numStages {
		kernel, moved = stageKernels[stage], 2
	}
	return graph.Task{
		Name:  fmt.Sprintf("%c of records %d-%d", "TDCB"[stage], lo, hi),
		Steps: []graph.Step{graph.Step{Kernel: kernel, Launch: graph.Grid(hi - lo)}.With(params{int(hi - lo)})},
		Work:  graph.Work{Ops: n * j.ops()[stage], Bytes: n * moved * 4 * Floats},
	}
}

// Place spreads the stages over devices in the way of the job's mode.
func (j *job) Place(m *machine.Machine) (err error) {
	if j.c.Mode == "" {
		return nil
	}
	kernels := stageKernels[:]
	if j.c.Bind {
		kernels = append(kernels[:numStages:numStages], bindKernel)
	}
	on, err := workload.Able(m, kernels...)
	if err != nil {
		return err
	}
	var names []string
	for _, d := range on {
		names = append(names, m.DeviceName(d))
	}
	j.place, err = pipeline.Place(j.c.Mode, names, j.ops(), j.c.Copies)
	return err
}

// Graph has a task for each stage in a row for each micro-batch. Where stages have devices,
// micro-batches go to the copies of the pipeline in turn; else they are cut from
// the ranges.
func (j *job) Graph(ranges []sched.Range) (*graph.Graph, error) {
	b := graph.Builder{Stop: j.Stopped}
	bytes := int64(4 * len(j.in))
	weights := b.Data(graph.Data{Name: "weights", Bytes: int64(4 * len(j.weights)), Input: true})
	stages := len(j.ops())
	records := []graph.DataID{b.Data(graph.Data{Name: "records", Bytes: bytes, Input: true})}
	for s := range stages - 1 {
		records = append(records, b.Data(graph.Data{Name: "after " + "TDC"[s:s+1], Bytes: bytes}))
	}
	records = append(records, b.Data(graph.Data{Name: "fused", Bytes: bytes, Output: true}))
	if len(j.place.Copies) > 0 {
		ranges = []sched.Range{{Lo: 0, Hi: int64(j.c.Records)}}
	}
	batch := 0
	for _, r := range ranges {
		for lo := r.Lo; lo < r.Hi; lo += int64(j.c.Micro) {
			hi := min(lo+int64(j.c.Micro), r.Hi)
			for s := range stages {
				t := j.task(s, lo, hi)
				if n := len(j.place.Copies); n > 0 {
					t.On.Only = j.place.Copies[batch%n][s]
				}
				slice := graph.Use{Offset: 4 * Floats * lo, Bytes: 4 * Floats * (hi - lo)}
				from, with, to := slice, graph.Use{Data: weights, Access: graph.Read}, slice
				from.Data, from.Access = records[s], graph.Read
				to.Data, to.Access = records[s+1], graph.Write
				if s == numStages {
					with = slice
					with.Data, with.Access = records[0], graph.Read
				}
				t.Uses = []graph.Use{from, with, to}
				b.Add(t)
			}
			batch++
		}
	}
	return b.Build()
}

// Bind ties records and weights to the job's memory.
func (j *job) Bind() []weft.Binding {
	return []weft.Binding{weft.Bind("weights", j.weights), weft.Bind("records", j.in), weft.Bind("fused", j.out)}
}

// Records are the records before the stages, in the job's own memory. Between runs a
// caller may set them.
func (j *job) Records() []float32 { return j.in }

// Result is the records after a run.
func (j *job) Result() []float32 { return j.out }

// Rate is records a second and, for a pipeline, how idle its devices are at
// least, were what each has to do equal.
func (j *job) Rate(d time.Duration) string {
	rate := fmt.Sprintf("%.2f Mrecord/s", float64(j.c.Records)/d.Seconds()/1e6)
	if n := len(j.place.Copies); n > 0 && j.c.Mode != pipeline.DataParallel {
		depth := 1 // devices in a row
		for s, devices := range j.place.Copies[0][1:] {
			if devices[0] != j.place.Copies[0][s][0] {
				depth++
			}
		}
		rate += fmt.Sprintf(", bubble ≥ %.1f %%", 100*pipeline.Bubble(depth, j.batches()/n))
	}
	return rate
}
