// Package product is the product of two dense matrices as a job, whatever adding
// and multiplying mean: what the workloads gemm and tropical have in common. They
// say what the numbers are and check the result.
//
// Rows of C are dealt out, and B is read by all. A kernel for a CPU wants B in
// panels of columns. Where every device is a CPU, tasks of their own pack B once
// and in parallel, and the others read the panels; elsewhere a call of the Go
// kernel packs for itself, and a GPU reads B as it is.
package product

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/panel"
	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// ErrConfig is wrapped by every error of Validate.
var ErrConfig = errors.New("bad product")

// Kind is one kind of product.
type Kind struct {
	// Name names the workload, for reports and kernels.
	Name string
	// Unit is what Rate counts, as "GFLOP".
	Unit string
	// Rows computes rows of C from rows of A and all of B. Its parameters are
	// graph.MatMul with the rows; its grid is the rows and columns of C.
	Rows *graph.Kernel

	pack, packed *graph.Kernel
	inner        *panel.Kernel
}

// Items of the Go kernels. Each call of the first packs all of B, which must be
// nothing beside the work. The others can be small, so that cores end together:
// rows enough for a panel to be worth reading, panels enough for a page.
const (
	rowsPer   = 480
	packedPer = 24
	packPer   = 4
	// manyRows is from how many on there are enough to deal out tiles of them.
	manyRows = 64 * panel.MaxMR
)

// NewKind returns the kind of product with a name that an inner loop computes.
// Other implementations of its Rows, for devices that are no CPUs, come with it.
func NewKind(name, unit string, inner *panel.Kernel, others ...graph.Impl) *Kind {
	return &Kind{
		Name: name, Unit: unit, inner: inner,
		Rows:   workload.With(workload.GoKernel(name+".rows", rowsPer, graph.All), others...),
		packed: workload.GoKernel(name+".packed", packedPer, graph.All),
		pack:   workload.GoKernel(name+".pack", packPer),
	}
}

// Funcs are the Go kernels of this kind of product.
func (kd *Kind) Funcs() map[string]weft.Func {
	return map[string]weft.Func{
		kd.Rows.Name:   kd.rows(kd.inner.Rows, rowsPer, panel.Scratch),
		kd.packed.Name: kd.rows(kd.inner.PackedRows, packedPer, panel.PackedScratch),
		kd.pack.Name:   weft.WithParams(pack),
	}
}

// atOnce is how many terms are computed between two looks at whether anybody wants
// them, a second's worth or two, but for whole blocks of rows: for each B is read again.
const atOnce = 1 << 35

// scratches is memory for packed blocks.
var scratches workload.Scratch[float32]

// rows makes a kernel whose arguments are rows of A, B as it is or packed, and
// rows of C.
func (kd *Kind) rows(compute func(c, a, b []float32, k, n, lo, hi int, scratch []float32), per, size int) weft.Func {
	return weft.WithParams(func(c *weft.Call, p graph.MatMul, lo, hi int) {
		m, k, n := p.M, p.K, p.N
		a, b, out := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[1]), weft.View[float32](c.Args[2])
		s := scratches.Get(size)
		defer scratches.Put(s)
		rows := max(int(atOnce/int64(k*n*panel.BlockRows)), 1) * panel.BlockRows
		for lo, hi := lo*per, min(hi*per, m); lo < hi && !c.Stopped(); lo += rows {
			compute(out, a, b, k, n, lo, min(lo+rows, hi), *s)
		}
	})
}

// packParams are the parameters of pack.
type packParams struct {
	k, n         int // rows and columns of B
	first, count int // panels
}

// pack packs panels; its arguments are B and the panels.
func pack(c *weft.Call, p packParams, lo, hi int) {
	k, n, first, count := p.k, p.n, p.first, p.count
	b, to := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[1])
	lo, hi = lo*packPer, min(hi*packPer, count)
	panel.Pack(to[panel.Start(k, n, first+lo)-panel.Start(k, n, first):], b, k, n, first+lo, first+hi)
}

// Config says which product to compute.
type Config struct {
	M, K, N int // C is M × N
	Seed    uint64
}

// Validate reports sizes that make no product.
func (c Config) Validate() error {
	const most = 1 << 16
	for _, n := range []int{c.M, c.K, c.N} {
		if n < 1 || n > most {
			return fmt.Errorf("%d × %d times %d × %d: %w: sizes must be from 1 to %d", c.M, c.K, c.K, c.N, ErrConfig, most)
		}
	}
	return nil
}

// Bytes is the host memory that the job takes: A, B, C and, for CPUs, B packed into
// whole panels.
func (c Config) Bytes() float64 {
	m, k, n := float64(c.M), float64(c.K), float64(c.N)
	packed := k * panel.Columns * math.Ceil(n/panel.Columns)
	return 4 * (m*k + k*n + packed + m*n)
}

// Job is one product C of A and B, all row-major. It lacks only the check to be
// a workload.Job.
type Job struct {
	Config
	A, B, C []float32

	kind   *Kind
	packed bool      // the form for CPUs alone
	panels []float32 // B packed, for that
}

// New makes the operands: uniform in (-1, 1), by logical index, so they do not
// depend on who computes.
func (kd *Kind) New(c Config) (Job, error) {
	if err := c.Validate(); err != nil {
		return Job{}, fmt.Errorf("%s: %w", kd.Name, err)
	}
	j := Job{Config: c, kind: kd, A: make([]float32, c.M*c.K), B: make([]float32, c.K*c.N), C: make([]float32, c.M*c.N)}
	philox.Fill32(j.A, c.Seed, 0)
	philox.Fill32(j.B, c.Seed, 1)
	return j, nil
}

// Packed returns the job in its form for CPUs alone. Further calls return the
// same.
func (j *Job) Packed() Job {
	if j.panels == nil {
		j.panels = make([]float32, panel.Start(j.K, j.N, panel.Count(j.K, j.N)))
	}
	packed := *j
	packed.packed = true
	return packed
}

// Name says which product it is.
func (j *Job) Name() string { return fmt.Sprintf("%s %d × %d × %d", j.kind.Name, j.M, j.K, j.N) }

// Pieces are the rows of C.
func (j *Job) Pieces() sched.Pieces {
	k, n := int64(j.K), int64(j.N)
	align := int64(1)
	if j.packed && j.M >= manyRows {
		align = panel.MaxMR // rows that are no whole tile take as long as one
	}
	return sched.Pieces{
		Extent: int64(j.M),
		Align:  align,
		Cost:   func(lo, hi int64) float64 { return Ops(int(hi-lo), j.K, j.N) },
		Bytes: func(lo, hi int64) (in, out int64) {
			if hi == lo {
				return 0, 0
			}
			return 4 * ((hi-lo)*k + k*n), 4 * (hi - lo) * n
		},
	}
}

// Grain is how many rows make what every task does anew cheap: packing all of
// B, or reading all of it packed.
func (j *Job) Grain() int64 {
	if j.packed {
		return packedPer / 2
	}
	return rowsPer / 2
}

// Whole is the product as one task.
func (j *Job) Whole() graph.Task { return j.task(0, int64(j.M)) }

func (j *Job) task(lo, hi int64) graph.Task {
	m, kernel := int(hi-lo), j.kind.Rows
	if j.packed {
		kernel = j.kind.packed
	}
	return graph.Task{
		Name:  fmt.Sprintf("rows %d-%d", lo, hi),
		Steps: []graph.Step{graph.Step{Kernel: kernel, Launch: workload.Grid(hi-lo, int64(j.N))}.With(graph.MatMul{M: m, K: j.K, N: j.N})},
		Work:  graph.Work{Ops: Ops(m, j.K, j.N), Bytes: Bytes(m, j.K, j.N)},
	}
}

// Graph has a task for each range of rows, and for packing B as many.
func (j *Job) Graph(ranges []sched.Range) (*graph.Graph, error) {
	k, n := int64(j.K), int64(j.N)
	var b graph.Builder
	da := b.Data(graph.Data{Name: "A", Bytes: int64(4 * len(j.A)), Input: true})
	db := b.Data(graph.Data{Name: "B", Bytes: int64(4 * len(j.B)), Input: true})
	dc := b.Data(graph.Data{Name: "C", Bytes: int64(4 * len(j.C)), Output: true})
	if j.packed {
		db = j.addPacking(&b, db, len(ranges))
	}
	for _, r := range ranges {
		t := j.task(r.Lo, r.Hi)
		t.Uses = []graph.Use{
			{Data: da, Offset: 4 * r.Lo * k, Bytes: 4 * r.Len() * k, Access: graph.Read},
			{Data: db, Access: graph.Read},
			{Data: dc, Offset: 4 * r.Lo * n, Bytes: 4 * r.Len() * n, Access: graph.Write},
		}
		b.Add(t)
	}
	return b.Build()
}

// addPacking adds tasks that pack B and returns the packed B.
func (j *Job) addPacking(b *graph.Builder, from graph.DataID, tasks int) graph.DataID {
	panels := panel.Count(j.K, j.N)
	start := func(p int) int64 { return 4 * int64(panel.Start(j.K, j.N, p)) }
	// An output, so that its tasks write into one piece of memory and nobody has
	// to gather it; and memory of the job's is made once.
	to := b.Data(graph.Data{Name: "packed B", Bytes: start(panels), Output: true})
	for i := range tasks {
		lo, hi := i*panels/tasks, (i+1)*panels/tasks
		if lo == hi {
			continue
		}
		size := start(hi) - start(lo)
		b.Add(graph.Task{
			Name: fmt.Sprintf("panels %d-%d", lo, hi),
			Steps: []graph.Step{
				graph.Step{Kernel: j.kind.pack, Launch: workload.Grid(int64(hi - lo))}.With(packParams{j.K, j.N, lo, hi - lo}),
			},
			Uses: []graph.Use{
				{Data: from, Access: graph.Read},
				{Data: to, Offset: start(lo), Bytes: size, Access: graph.Write},
			},
			Work: graph.Work{Bytes: 2 * float64(size)},
		})
	}
	return to
}

// Bind ties A, B, C and the packed B to the job's memory.
func (j *Job) Bind() []weft.Binding {
	all := []weft.Binding{weft.Bind("A", j.A), weft.Bind("B", j.B), weft.Bind("C", j.C)}
	if j.packed {
		all = append(all, weft.Bind("packed B", j.panels))
	}
	return all
}

// Operands are A and B in the job's own memory. Between runs a caller may set
// them to the numbers it wants multiplied.
func (j *Job) Operands() (a, b []float32) { return j.A, j.B }

// Result is C after a run, in the job's own memory.
func (j *Job) Result() []float32 { return j.C }

// Rate is operations a second.
func (j *Job) Rate(d time.Duration) string {
	return fmt.Sprintf("%.1f %s/s", Ops(j.M, j.K, j.N)/d.Seconds()/1e9, j.kind.Unit)
}

// Ops returns the operations, additions and multiplications of the semiring, of
// an m × k by k × n product.
func Ops(m, k, n int) float64 { return 2 * float64(m) * float64(n) * float64(k) }

// Bytes returns the bytes that product has to read and write at least.
func Bytes(m, k, n int) float64 {
	fm, fk, fn := float64(m), float64(k), float64(n)
	return 4 * (fm*fk + fk*fn + fm*fn)
}
