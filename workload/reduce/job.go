package reduce

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/workload"
)

// errWrong is returned by [job.Check] for a number that is not the result.
var errWrong = errors.New("not the reduction")

// operation is an operation to reduce with: a kernel that folds blocks into partial
// results, and one that folds these.
type operation struct {
	name         string
	blocks, fold *graph.Kernel
}

// The kernels that fold blocks: their arguments are elements and the partial
// results of their blocks, their param the number of elements, their grid the
// blocks.
var (
	sumKernel = blocksKernel("sum")
	maxKernel = blocksKernel("max")
	minKernel = blocksKernel("min")
)

// The kernels that fold partial results have all of them, the result and a
// workspace as large as the first as arguments.
var operations = []operation{
	{"sum", sumKernel, foldKernel("sum")},
	{"average", sumKernel, foldKernel("average")},
	{"max", maxKernel, foldKernel("max")},
	{"min", minKernel, foldKernel("min")},
}

func blocksKernel(name string) *graph.Kernel {
	return workload.With(graph.GoKernel("reduce."+name, itemBlocks), workload.PTX(ptx, "reduce_"+name, 256, 8), workload.SPIRV(spirv, "reduce_"+name, 64, 2))
}

func foldKernel(name string) *graph.Kernel {
	return workload.With(graph.GoKernel("reduce.fold."+name), workload.PTX(ptx, "reduce_fold_"+name, 1024), workload.SPIRV(spirv, "reduce_fold_"+name, 128))
}

// Operations are the names a Config may have as its Op.
func Operations() (names []string) {
	for _, o := range operations {
		names = append(names, o.name)
	}
	return names
}

// Config says what to reduce.
type Config struct {
	Op   string // one of Operations
	N    int    // elements
	Seed uint64
}

// Validate reports an unknown operation or a bad number of elements.
func (c Config) Validate() error {
	if !slices.Contains(Operations(), c.Op) {
		return fmt.Errorf("reduce: no operation %q: %w: there is %s", c.Op, workload.ErrConfig, strings.Join(Operations(), ", "))
	}
	if c.N < 1 || c.N > math.MaxUint32 {
		return fmt.Errorf("reduce: %d elements: %w: the number must be from 1 to 2³²-1", c.N, workload.ErrConfig)
	}
	return nil
}

// Bytes is the host memory that the job takes: the elements and the result.
func (c Config) Bytes() float64 { return 4*float64(c.N) + 4 }

// job reduces one vector of float32. Blocks are dealt out; one last task folds
// the partial results of all.
type job struct {
	workload.Declared
	c   Config
	op  operation
	x   []float32
	out [1]float32
}

// New makes the vector: uniform in (-1, 1), by logical index, so it does not
// depend on who computes.
// The job is a [workload.Job].
func New(c Config) (*job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	j := &job{c: c, x: make([]float32, c.N)}
	j.op = operations[slices.Index(Operations(), c.Op)]
	philox.Fill32(j.x, c.Seed, 0)
	return j.declare(), nil
}

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func {
	return signature.Funcs(kernels)
}

var kernels = []signature.Kernel{
	foldBlocks("sum", sumBlocks[float32]),
	foldBlocks("max", maxBlocks[float32]),
	foldBlocks("min", minBlocks[float32]),
	foldPartials("sum", func(partial []float32, _ int) float32 { return sumOf(partial) }),
	foldPartials("average", averageOf[float32]),
	foldPartials("max", func(partial []float32, _ int) float32 { return maxOf(partial) }),
	foldPartials("min", func(partial []float32, _ int) float32 { return minOf(partial) }),
}

// itemBlocks is the number of blocks in one item of the Go kernels: half a mebibyte, some
// tens of microseconds.
const itemBlocks = 32

// blockParams are the parameters of kernels that fold blocks.
type blockParams struct {
	n int // elements
}

// foldParams are the parameters of kernels that fold partial results.
type foldParams struct {
	count, n int // partial results, and elements
}

// foldBlocks makes a kernel whose arguments are elements and the partial results of
// their blocks.
func foldBlocks(op string, kernel func(dst, src []float32, lo, hi int)) signature.Kernel {
	return signature.Of(signature.Kernel{
		Name: "reduce." + op, Does: fmt.Sprintf("the %s of each block of %d elements", op, Block), Grid: "blocks", Per: []uint32{itemBlocks},
		Args: []signature.Arg{signature.In("elements", graph.F4), signature.Out("partial results", graph.F4)},
	}, func(_ *weft.Call, p blockParams) (n signature.Need, err error) {
		blocks := signature.Parts(p.n, Block)
		n.Items = signature.Parts(int(blocks), itemBlocks)
		n.Elements[0], n.Elements[1] = int64(p.n), blocks
		return n, signature.Positive([]string{"n"}, p.n)
	}, func(c *weft.Call, p blockParams, lo, hi int) {
		src, dst := weft.View[float32](c.Args[0])[:p.n], weft.View[float32](c.Args[1])
		kernel(dst, src, lo*itemBlocks, min(hi*itemBlocks, blocksOf(p.n)))
	})
}

// foldPartials makes a kernel of one item. It folds a copy: folding overwrites,
// and a task that is run again must find its input whole.
func foldPartials(op string, kernel func(partial []float32, n int) float32) signature.Kernel {
	return signature.Of(signature.Kernel{
		Name: "reduce.fold." + op, Does: fmt.Sprintf("the %s of n elements, from count partial results", op), Grid: "1",
		Args: []signature.Arg{signature.In("partial results", graph.F4), signature.Out("result", graph.F4), signature.Work("a copy of them", graph.F4)},
	}, func(_ *weft.Call, p foldParams) (n signature.Need, err error) {
		n.Items = 1
		n.Elements[0], n.Elements[1], n.Elements[2] = int64(p.count), 1, int64(p.count)
		return n, signature.Positive([]string{"count", "n"}, p.count, p.n)
	}, func(c *weft.Call, p foldParams, _, _ int) {
		work := weft.View[float32](c.Args[2])[:p.count]
		copy(work, weft.View[float32](c.Args[0]))
		weft.View[float32](c.Args[1])[0] = kernel(work, p.n)
	})
}

// declare says what the job is: elements, cut at blocks, and a last task that folds the partial results of all. The
// tree is fixed, and so results are exact. The time to fold partial results is negligible.
func (j *job) declare() *job {
	partials := blocksOf(j.c.N)
	j.Declared = workload.Declare(workload.Declaration{
		Name: fmt.Sprintf("reduce %s of %d", j.c.Op, j.c.N), Class: workload.Exact, Of: "elements", Extent: int64(j.c.N), Align: Block,
		Ports: []workload.Port{
			workload.In("elements", j.x, 1), workload.Between("partials", int64(4*partials), 4).Per(Block).Elements(graph.F4),
			workload.Out("result", j.out[:], 0).NoRange().Elements(graph.F4),
		},
		Cost: func(lo, hi int64) float64 { return ops(int(hi - lo)) },
		Task: func(t *graph.Task, lo, hi int64) {
			n := int(hi - lo)
			t.Steps = []graph.Step{graph.Step{Kernel: j.op.blocks, Launch: graph.Grid(int64(blocksOf(n)))}.With(blockParams{n})}
			t.Work = graph.Work{Ops: ops(n), Bytes: traffic(n, 4)}
		},
		Then: func(b *graph.Builder) {
			b.Add(graph.Task{
				Name:      "fold",
				Steps:     []graph.Step{graph.Step{Kernel: j.op.fold, Launch: graph.Grid(1)}.With(foldParams{partials, j.c.N})},
				Uses:      []graph.Use{{Data: 1, Access: graph.Read}, {Data: 2, Access: graph.Write}},
				Work:      graph.Work{Ops: ops(partials), Bytes: traffic(partials, 4)},
				Workspace: int64(4 * partials),
			})
		},
	})
	return j
}

// Elements are the vector in the job's own memory. Between runs a caller may set
// them to the numbers it wants reduced.
func (j *job) Elements() []float32 { return j.x }

// Result is the result of the last run.
func (j *job) Result() float32 { return j.out[0] }

// Summary is the result.
func (j *job) Summary() string { return fmt.Sprintf("%s %v", j.c.Op, j.Result()) }

// Check compares the result bit for bit with the order of operations that the
// package prescribes, followed one element at a time. Sums and averages are
// also compared with the sum in float64, within what rounding and overflows can give along
// the longest way through the tree. The error is [errWrong].
func (j *job) Check() error {
	got := j.Result()
	var want float32
	switch j.c.Op {
	case "max":
		want = slices.Max(j.x)
	case "min":
		want = slices.Min(j.x)
	default:
		levels := bits.Len(uint(blocksOf(j.c.N) - 1))
		if want = j.tree(levels, 0); j.c.Op == "average" {
			want /= float32(j.c.N)
		}
		if err := j.checkSum(got, Block/lanes+bits.Len(lanes-1)+levels+2); err != nil {
			return err
		}
	}
	if math.Float32bits(got) != math.Float32bits(want) && (got == got || want == want) {
		return fmt.Errorf("%s: %v, want %v: %w", j.Name(), got, want, errWrong)
	}
	return nil
}

// checkSum compares a sum or average with the one in float64, within the error of a number
// of roundings. It may be infinite where the terms of one sign exceed float32, and not a
// number where those of both signs do.
func (j *job) checkSum(got float32, roundings int) error {
	above, below := 0., 0.
	for _, v := range j.x {
		if x := float64(v); x > 0 {
			above += x
		} else {
			below -= x // NaN too
		}
	}
	if sum := above + below; math.IsInf(sum, 0) || math.IsNaN(sum) { // of elements that are not finite: it has no distance to anything
		return nil
	}
	relative := 0x1p-23 * float64(roundings)
	up, down := above*(1+relative) > math.MaxFloat32, below*(1+relative) > math.MaxFloat32
	n := 1.
	if j.c.Op == "average" {
		n = float64(j.c.N)
	}
	// What is below the normal numbers is rounded to a multiple of the smallest.
	sum, limit := (above-below)/n, relative*(above+below)/n+math.SmallestNonzeroFloat32
	ok := math.Abs(float64(got)-sum) <= limit
	switch g := float64(got); {
	case math.IsInf(g, 1):
		ok = up
	case math.IsInf(g, -1):
		ok = down
	case math.IsNaN(g):
		ok = up && down
	}
	if !ok {
		return fmt.Errorf("%s: %v, want %v ± %v: %w", j.Name(), got, sum, limit, errWrong)
	}
	return nil
}

// tree returns the sum of 2^level blocks, or those there are of them, from block
// i·2^level on.
func (j *job) tree(level, i int) float32 {
	if level == 0 {
		var sum [lanes]float32
		for k, v := range j.x[i*Block : min((i+1)*Block, len(j.x))] {
			sum[k%lanes] += v
		}
		for half := lanes / 2; half > 0; half /= 2 {
			for l := range half {
				sum[l] += sum[l+half]
			}
		}
		return sum[0]
	}
	left := j.tree(level-1, 2*i)
	if (2*i+1)<<(level-1) >= blocksOf(len(j.x)) {
		return left
	}
	return left + j.tree(level-1, 2*i+1)
}

// Misses is nothing: the result is compared in every bit.
func (j *job) Misses() []workload.Miss {
	return []workload.Miss{{What: "a wrong result", Chance: 0}}
}

// Rate is bytes read a second.
func (j *job) Rate(d time.Duration) string {
	return fmt.Sprintf("%.2f GB/s", traffic(j.c.N, 4)/d.Seconds()/1e9)
}
