package tropical

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/philox"
)

// ErrWrong is returned by [Job.Check] for a matrix that is not the product.
var ErrWrong = errors.New("not the max-plus product")

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
			return fmt.Errorf("tropical: %d × %d times %d × %d: sizes must be from 1 to %d", c.M, c.K, c.K, c.N, most)
		}
	}
	return nil
}

// Job is one max-plus product C of A and B. Rows of C are dealt out; B is read
// by all.
type Job struct {
	c       Config
	a, b, z []float32
}

// New makes the operands: uniform in (-1, 1), by logical index, so they do not
// depend on who computes.
func New(c Config) (*Job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	j := &Job{c: c, a: make([]float32, c.M*c.K), b: make([]float32, c.K*c.N), z: make([]float32, c.M*c.N)}
	fill(j.a, c.Seed, 0)
	fill(j.b, c.Seed, 1)
	return j, nil
}

// fill sets x to the numbers of a stream of the seed.
func fill(x []float32, seed uint64, stream uint32) {
	s := philox.Source{Seed: uint32(seed), Stream: stream}
	for i := 0; i < len(x); i += 4 {
		words := s.Block(uint64(i/4), uint32(seed>>32), 0)
		for k := range min(4, len(x)-i) {
			x[i+k] = philox.Symmetric32(words[k])
		}
	}
}

// Kernel computes rows of C; its arguments are rows of A, B, rows of C.
var Kernel = workload.GoKernel("tropical.rows")

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func { return map[string]weft.Func{"tropical.rows": rows} }

// scratch memory of calls that run at the same time.
var scratches = sync.Pool{New: func() any { s := make([]float32, Scratch); return &s }}

// blockRows is how many rows one item of a launch's grid is: every call packs
// all of B, which must be nothing beside the work.
const blockRows = 240

func rows(c *weft.Call, lo, hi int) {
	k, n := int(binary.LittleEndian.Uint32(c.Params)), int(binary.LittleEndian.Uint32(c.Params[4:]))
	a, b, out := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[1]), weft.View[float32](c.Args[2])
	s := scratches.Get().(*[]float32)
	defer scratches.Put(s)
	Rows(out, a, b, k, n, lo*blockRows, min(hi*blockRows, len(out)/n), *s)
}

// Name says which product it is.
func (j *Job) Name() string { return fmt.Sprintf("tropical %d × %d × %d", j.c.M, j.c.K, j.c.N) }

// Class is X: a maximum is never rounded, so the cut cannot be seen.
func (j *Job) Class() workload.Class { return workload.Exact }

// Pieces are the rows of C.
func (j *Job) Pieces() sched.Pieces {
	k, n := int64(j.c.K), int64(j.c.N)
	return sched.Pieces{
		Extent: int64(j.c.M),
		Cost:   func(lo, hi int64) float64 { return Ops(int(hi-lo), j.c.K, j.c.N) },
		Bytes: func(lo, hi int64) (in, out int64) {
			if hi == lo {
				return 0, 0
			}
			return 4 * ((hi-lo)*k + k*n), 4 * (hi - lo) * n
		},
	}
}

// Whole is the product as one task.
func (j *Job) Whole() graph.Task { return j.task(0, int64(j.c.M)) }

func (j *Job) task(lo, hi int64) graph.Task {
	params := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, uint32(j.c.K)), uint32(j.c.N))
	m := int(hi - lo)
	return graph.Task{
		Name:  fmt.Sprintf("rows %d-%d", lo, hi),
		Steps: []graph.Step{{Kernel: Kernel, Launch: workload.Grid(int64((m + blockRows - 1) / blockRows)), Params: params}},
		Work:  graph.Work{Ops: Ops(m, j.c.K, j.c.N), Bytes: Bytes(m, j.c.K, j.c.N)},
	}
}

// Graph has a task for each range of rows.
func (j *Job) Graph(ranges []sched.Range) (*graph.Graph, error) {
	k, n := int64(j.c.K), int64(j.c.N)
	var b graph.Builder
	da := b.Data(graph.Data{Name: "A", Bytes: int64(4 * len(j.a)), Input: true})
	db := b.Data(graph.Data{Name: "B", Bytes: int64(4 * len(j.b)), Input: true})
	dc := b.Data(graph.Data{Name: "C", Bytes: int64(4 * len(j.z)), Output: true})
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

// Bind ties A, B and C to the job's memory.
func (j *Job) Bind() []weft.Binding {
	return []weft.Binding{weft.Bind("A", j.a), weft.Bind("B", j.b), weft.Bind("C", j.z)}
}

// Operands are A and B in the job's own memory. Between runs a caller may set
// them to the numbers it wants multiplied.
func (j *Job) Operands() (a, b []float32) { return j.a, j.b }

// Result is C after a run, in the job's own memory.
func (j *Job) Result() []float32 { return j.z }

// Check compares C with the definition, bit for bit. A product of more than
// 2²⁸ terms is compared in 16 random columns of every row and 16 random rows of
// every column, so a task that was left out or that read the wrong slice shows,
// while a single wrong element may not. The error is [ErrWrong] and names the
// element.
func (j *Job) Check() error {
	const most, sampled = 1 << 28, 16
	rows, cols := upTo(j.c.M), upTo(j.c.N)
	if float64(j.c.M)*float64(j.c.K)*float64(j.c.N) <= most {
		return j.compare(rows, cols)
	}
	r := rand.New(rand.NewPCG(j.c.Seed, 0))
	if err := j.compare(rows, r.Perm(j.c.N)[:min(sampled, j.c.N)]); err != nil {
		return err
	}
	return j.compare(r.Perm(j.c.M)[:min(sampled, j.c.M)], cols)
}

// upTo returns the numbers below n.
func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// compare checks the elements of C in the given rows and columns.
func (j *Job) compare(rows, cols []int) error {
	k, n := j.c.K, j.c.N
	column := make([]float32, k)
	for _, col := range cols {
		for p := range column {
			column[p] = j.b[p*n+col]
		}
		for _, row := range rows {
			want := float32(math.Inf(-1))
			for p, x := range j.a[row*k:][:k] {
				if s := x + column[p]; s > want {
					want = s
				}
			}
			if got := j.z[row*n+col]; math.Float32bits(got) != math.Float32bits(want) {
				return fmt.Errorf("tropical: element (%d, %d) is %v, want %v: %w", row, col, got, want, ErrWrong)
			}
		}
	}
	return nil
}

// Rate is additions and comparisons a second.
func (j *Job) Rate(d time.Duration) string {
	return fmt.Sprintf("%.1f Gop/s", Ops(j.c.M, j.c.K, j.c.N)/d.Seconds()/1e9)
}

// Grain is how many rows make packing all of B, which every task does, cheap.
func (j *Job) Grain() int64 { return blockRows / 2 }
