// Package product is the product of two dense matrices as a job, whatever adding
// and multiplying mean: what the workloads gemm and tropical have in common. They
// say what the numbers are and check the result.
//
// C is dealt out by rows, by columns or both. The columns of B and C lie in blocks,
// one after another, each of which is a matrix of its own: one block of all columns
// where only rows are dealt out. A piece of the work is a row of a block, so that a
// device reads some rows of A and the blocks of B that it needs. No sum is cut, and so
// every way gives the same bits.
//
// A kernel for a CPU wants B in panels of columns. Where every device is a CPU and
// there is one block, tasks of their own pack B once and in parallel, and the others
// read the panels; elsewhere a call of the Go kernel packs for itself, and a GPU reads
// B as it is.
package product

import (
	"fmt"
	"math"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/panel"
	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/workload"
)

// Kind is one kind of product.
type Kind struct {
	// Name names the workload, for reports and kernels, and the package with its Funcs.
	Name string
	// Unit is the unit that Rate counts, as "GFLOP".
	Unit  string
	Class workload.Class
	// Zero is the sum of no terms.
	Zero float32
	// Check compares a product with an independent reference, and says what it may miss.
	Check func(Numbers) ([]workload.Miss, error)
	// Rows computes rows of C from rows of A and all of B. Its parameters are
	// graph.MatMul with the rows; its grid is the rows and columns of C.
	Rows *graph.Kernel

	pack, packed *graph.Kernel
	inner        *panel.Kernel
	kernels      []signature.Kernel
}

// Numbers are a product C of A and B, all row-major.
type Numbers struct {
	Config
	A, B, C []float32
}

// Items of the Go kernels. A call for rows of an unpacked B packs all of it, which must cost
// little next to the work, so its items have many rows. The others can be small, so that
// cores end together: enough rows for a panel to be worth reading, enough panels to fill a
// page.
const (
	rowsPer   = 480
	packedPer = 24
	packPer   = 4
	// manyRows is from how many on there are enough to deal out tiles of them.
	manyRows = 64 * panel.MaxMR
)

// New completes a kind of product that an inner loop computes. Other implementations
// of its Rows, for devices that are no CPUs, come with it.
func New(kd Kind, inner *panel.Kernel, others ...graph.Impl) *Kind {
	kd.inner = inner
	kd.Rows = workload.With(graph.GoKernel(kd.Name+".rows", rowsPer, graph.All), others...)
	kd.packed = graph.GoKernel(kd.Name+".packed", packedPer, graph.All)
	kd.pack = graph.GoKernel(kd.Name+".pack", packPer)
	const f = graph.F4
	kd.kernels = []signature.Kernel{
		rows(signature.Kernel{
			Name: kd.Rows.Name, Does: "the product of M × K and K × N matrices, " + kd.Name, Grid: "M, N", Per: []uint32{rowsPer, graph.All},
			Args: []signature.Arg{signature.In("a", f), signature.In("b", f), signature.Out("c", f)},
		}, inner.Rows, rowsPer, panel.Scratch, func(k, n int) int64 { return signature.Product(k, n) }),
		rows(signature.Kernel{
			Name: kd.packed.Name, Does: "the product of " + kd.Rows.Name + ", with the second matrix packed by " + kd.pack.Name, Grid: "M, N", Per: []uint32{packedPer, graph.All},
			Args: []signature.Arg{signature.In("a", f), signature.In("packed b", f), signature.Out("c", f)},
		}, inner.PackedRows, packedPer, panel.PackedScratch, packedSize),
		signature.Of(signature.Kernel{
			Name: kd.pack.Name, Does: "panels of a k × n matrix for " + kd.packed.Name, Grid: "count", Per: []uint32{packPer},
			Args: []signature.Arg{signature.In("b", f), signature.Out("packed b", f)},
		}, packNeed, pack),
	}
	return &kd
}

// packedSize returns the number of floats of a packed matrix.
func packedSize(k, n int) int64 {
	return signature.Product(k, panel.Columns, int(signature.Parts(n, panel.Columns)))
}

// Funcs are the Go kernels of this kind of product.
func (kd *Kind) Funcs() map[string]weft.Func {
	return signature.Funcs(kd.kernels)
}

// atOnce is the number of terms computed between two checks for cancellation, about one to
// two seconds of work. It is rounded to whole blocks of rows, since each block reads B again.
const atOnce = 1 << 35

// scratches is memory for packed blocks.
var scratches workload.Scratch[float32]

// rows makes a kernel whose arguments are rows of A, B as it is or packed, which has as many
// floats as floatsB says, and rows of C.
func rows(k signature.Kernel, compute func(c, a, b []float32, k, n, lo, hi int, scratch []float32), per, size int, floatsB func(k, n int) int64) signature.Kernel {
	need := func(_ *weft.Call, p graph.MatMul) (n signature.Need, err error) {
		n.Items = signature.Parts(p.M, per)
		n.Elements[0], n.Elements[1], n.Elements[2] = signature.Product(p.M, p.K), floatsB(p.K, p.N), signature.Product(p.M, p.N)
		return n, signature.Positive([]string{"M", "K", "N"}, p.M, p.K, p.N)
	}
	return signature.Of(k, need, func(c *weft.Call, p graph.MatMul, lo, hi int) {
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

func packNeed(_ *weft.Call, p packParams) (n signature.Need, err error) {
	if err := signature.Positive([]string{"k", "n", "first", "count"}, p.k, p.n, p.first+1, p.count); err != nil {
		return n, err
	}
	if panels := panel.Count(p.k, p.n); p.first+p.count > panels {
		return n, fmt.Errorf("panels %d to %d of %d", p.first, p.first+p.count-1, panels)
	}
	n.Items = signature.Parts(p.count, packPer)
	n.Elements[0] = signature.Product(p.k, p.n)
	if packedSize(p.k, p.n) < math.MaxInt64 { // else the matrix is too large by itself
		n.Elements[1] = int64(panel.Start(p.k, p.n, p.first+p.count) - panel.Start(p.k, p.n, p.first))
	}
	return n, nil
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

// maxSide bounds the rows and columns of what one task multiplies: shaders and GPUs
// count elements in 32 bits.
const maxSide = 1 << 16

// Validate reports sizes that make no product.
func (c Config) Validate() error {
	for _, n := range []int{c.M, c.K, c.N} {
		if n < 1 || n > maxSide {
			return fmt.Errorf("%d × %d times %d × %d: %w: sizes must be from 1 to %d", c.M, c.K, c.K, c.N, workload.ErrConfig, maxSide)
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

// Job is one product C of A and B, all row-major but for blocks of columns.
type Job struct {
	workload.Declared
	n     Numbers
	kind  *Kind
	width int  // columns of a block of B and C
	whole bool // blocks are dealt out whole, which deals out columns

	packed bool      // the form for CPUs alone
	panels []float32 // B packed, for that
	misses []workload.Miss
}

// New makes the operands: uniform in (-1, 1), by logical index, so they do not
// depend on who computes.
func (kd *Kind) New(c Config) (*Job, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", kd.Name, err)
	}
	n := Numbers{Config: c, A: make([]float32, c.M*c.K), B: make([]float32, c.K*c.N), C: make([]float32, c.M*c.N)}
	philox.Fill32(n.A, c.Seed, 0)
	philox.Fill32(n.B, c.Seed, 1)
	return (&Job{n: n, kind: kd, width: c.N}).declare(), nil
}

// Hosted returns the job in its form for CPUs alone, which reads B packed. Further
// calls share the memory for that.
func (j *Job) Hosted() workload.Job {
	if j.width < j.n.N {
		return j
	}
	if j.panels == nil {
		j.panels = make([]float32, panel.Start(j.n.K, j.n.N, panel.Count(j.n.K, j.n.N)))
	}
	packed := *j
	packed.packed = true
	return packed.declare()
}

// blocks is the number of blocks of columns.
func (j *Job) blocks() int64 { return int64((j.n.N + j.width - 1) / j.width) }

// columns returns how many columns blocks lo to hi-1 have.
func (j *Job) columns(lo, hi int64) int64 {
	return min(hi*int64(j.width), int64(j.n.N)) - lo*int64(j.width)
}

// before returns how many elements of C the items before one have.
func (j *Job) before(piece int64) int64 {
	m := int64(j.n.M)
	block := piece / m
	if block == j.blocks() {
		return m * int64(j.n.N)
	}
	return block*m*int64(j.width) + piece%m*j.columns(block, block+1)
}

// The data of the graph, in the order of ports.
const (
	_ = graph.DataID(iota)
	dataB
	_
	dataPacked
)

// declare says what the job is: the rows of C in every block of columns, block after block. No sum is cut. While rows
// are computed, the next rows of A are copied to a GPU and the previous rows of C are copied back.
func (j *Job) declare() *Job {
	m, k := int64(j.n.M), int64(j.n.K)
	from := workload.All("B", j.n.B)
	if j.blocks() > 1 {
		from = from.Within(func(lo, hi int64) (int64, int64) {
			return 4 * k * (lo / m) * int64(j.width), 4 * k * j.columns(lo/m, (hi+m-1)/m)
		})
	}
	c := func(lo, hi int64) (int64, int64) { return 4 * j.before(lo), 4 * (j.before(hi) - j.before(lo)) }
	d := workload.Declaration{
		Name: fmt.Sprintf("%s %d × %d × %d", j.kind.Name, j.n.M, j.n.K, j.n.N), Class: j.kind.Class, Of: "rows", Extent: m * j.blocks(),
		Grain: rowsPer / 2, // from which packing a block of B, as every task does, is cheap
		Ports: []workload.Port{
			workload.In("A", j.n.A, 0).Within(func(lo, hi int64) (int64, int64) { return 4 * (lo % m) * k, 4 * (hi - lo) * k }), from,
			workload.Out("C", j.n.C, 0).Within(c).Elements(graph.F4),
		},
		Cost: func(lo, hi int64) float64 { return 2 * float64(k) * float64(j.before(hi)-j.before(lo)) },
		Bytes: func(lo, hi int64) (in, out int64) {
			if hi == lo {
				return 0, 0
			}
			_, out = c(lo, hi)
			return 4 * k * (min(hi-lo, m) + j.columns(lo/m, (hi+m-1)/m)), out
		},
		Ends: func(lo int64) int64 { return min(lo+maxSide, (lo/m+1)*m) },
		Task: j.task,
	}
	switch {
	case j.whole:
		d.Align, d.Grain = m, m
	case j.packed:
		d.Grain = packedPer / 2 // from which reading all of the packed B is cheap
		if m >= manyRows {
			d.Align = panel.MaxMR // rows that are no whole tile take as long as one
		}
		d.Ports[dataB] = from.NoRange()
		// An output, so that its tasks write into one piece of memory that need not be gathered,
		// and so that the job's memory is allocated once.
		d.Ports, d.First = append(d.Ports, workload.Made("packed B", j.panels).Elements(graph.F4)), j.addPacking
	}
	j.Declared = workload.Declare(d)
	return j
}

// task completes the task of rows of a block of columns, or of all.
func (j *Job) task(t *graph.Task, lo, hi int64) {
	m, kernel := int64(j.n.M), j.kind.Rows
	rows, columns := min(hi-lo, m), j.columns(lo/m, (hi+m-1)/m)
	t.Name = fmt.Sprintf("rows %d-%d", lo%m, lo%m+rows)
	if first := lo / m * int64(j.width); columns < int64(j.n.N) {
		t.Name += fmt.Sprintf(", columns %d-%d", first, first+columns)
	}
	if j.packed {
		kernel = j.kind.packed
		t.Uses[1], t.Uses[2] = t.Uses[2], t.Uses[1] // C is behind the packed B
	}
	p := graph.MatMul{M: int(rows), K: j.n.K, N: int(columns)}
	t.Steps = []graph.Step{graph.Step{Kernel: kernel, Launch: graph.Grid(rows, columns)}.With(p)}
	t.Work = graph.Work{Ops: Ops(p.M, p.K, p.N), Bytes: Bytes(p.M, p.K, p.N)}
}

// addPacking adds tasks that pack B.
func (j *Job) addPacking(b *graph.Builder, tasks int) {
	panels := panel.Count(j.n.K, j.n.N)
	start := func(p int) int64 { return 4 * int64(panel.Start(j.n.K, j.n.N, p)) }
	for i := range tasks {
		lo, hi := i*panels/tasks, (i+1)*panels/tasks
		if lo == hi {
			continue
		}
		size := start(hi) - start(lo)
		b.Add(graph.Task{
			Name: fmt.Sprintf("panels %d-%d", lo, hi),
			Steps: []graph.Step{
				graph.Step{Kernel: j.kind.pack, Launch: graph.Grid(int64(hi - lo))}.With(packParams{j.n.K, j.n.N, lo, hi - lo}),
			},
			Uses: []graph.Use{
				{Data: dataB, Access: graph.Read},
				{Data: dataPacked, Offset: start(lo), Bytes: size, Access: graph.Write},
			},
			Work: graph.Work{Bytes: 2 * float64(size)},
		})
	}
}

// Operands are A and B in the job's own memory. Between runs a caller may set
// them to the numbers it wants multiplied.
func (j *Job) Operands() (a, b []float32) { return j.n.A, j.n.B }

// Result is C after a run, in the job's own memory.
func (j *Job) Result() []float32 { return j.n.C }

// Rate is operations a second.
func (j *Job) Rate(d time.Duration) string {
	return fmt.Sprintf("%.1f %s/s", Ops(j.n.M, j.n.K, j.n.N)/d.Seconds()/1e9, j.kind.Unit)
}

// Check compares C with an independent reference.
func (j *Job) Check() (err error) {
	j.misses, err = j.kind.Check(j.n)
	return err
}

// Misses returns the errors that the last Check may not have seen.
func (j *Job) Misses() []workload.Miss { return j.misses }

// Ops returns the operations, additions and multiplications of the semiring, of
// an m × k by k × n product.
func Ops(m, k, n int) float64 { return 2 * float64(m) * float64(n) * float64(k) }

// Bytes returns the bytes that product has to read and write at least.
func Bytes(m, k, n int) float64 {
	fm, fk, fn := float64(m), float64(k), float64(n)
	return 4 * (fm*fk + fk*fn + fm*fn)
}
