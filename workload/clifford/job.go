package clifford

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/workload"
)

// The operations.
const (
	// Product multiplies pairs of multivectors.
	Product = "product"
	// Rotor turns multivectors by one rotor: R x ~R.
	Rotor = "rotor"
	// Norm divides multivectors by their norms.
	Norm = "normalize"
)

var operations = []string{Product, Rotor, Norm}

// Operations are the names a Config may have as its Op.
func Operations() []string { return slices.Clone(operations) }

// errWrong is returned by [job.Check] for multivectors that are not the result.
var errWrong = errors.New("not the multivectors")

// maxCount is the limit of launches.
const maxCount = 1 << 28

// Config says what is computed.
type Config struct {
	Op    string // one of Operations
	P, Q  int    // of Cl(p,q)
	Count int    // multivectors
	Seed  uint64
}

// Validate returns an error for a configuration that cannot be computed.
func (c Config) Validate() error {
	if !slices.Contains(operations, c.Op) {
		return fmt.Errorf("clifford: no operation %q: %w: there is %s", c.Op, workload.ErrConfig, strings.Join(operations, ", "))
	}
	a, err := NewAlgebra(c.P, c.Q)
	if err != nil {
		return err
	}
	if most := maxCount / a.Size(); c.Count < 1 || c.Count > most {
		return fmt.Errorf("clifford: %d multivectors of %v: %w: there must be 1 to %d", c.Count, a, workload.ErrConfig, most)
	}
	return nil
}

// Bytes is the host memory that the job takes: factors and results.
func (c Config) Bytes() float64 {
	size := float64(int(1) << max(0, min(c.P+c.Q, MaxDim)))
	return 4 * size * ((c.traffic()-c.between())*float64(c.Count) + size + 3)
}

// traffic returns the number of multivectors read and written per result; between returns
// the number among them that are passed between steps.
func (c Config) traffic() float64 {
	switch c.Op {
	case Product:
		return 3
	case Rotor:
		return 4
	}
	return 2
}

func (c Config) between() float64 {
	if c.Op == Rotor {
		return 2
	}
	return 0
}

// job is one batch of multivectors.
type job struct {
	workload.Declared
	c       Config
	a       *Algebra
	x, y    []float32 // y is the right factors of products
	rotor   []float32 // R, and then ~R
	entries []uint32  // the algebra's tables
	out     []float32
}

// Streams of random numbers.
const (
	streamLeft = iota
	streamRight
	streamPlane
)

// New draws multivectors by logical index, and a rotor.
// The job is a [workload.Job].
func New(c Config) (*job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	j := newJob(c, make([]float32, c.Count<<(c.P+c.Q)))
	philox.Fill32(j.x, c.Seed, streamLeft)
	switch c.Op {
	case Product:
		j.y = make([]float32, len(j.x))
		philox.Fill32(j.y, c.Seed, streamRight)
	case Rotor:
		draw := philox.Source{Seed: uint32(c.Seed), Stream: streamPlane}
		plane := make([]float64, j.a.Size())
		for i := range plane {
			if bits.OnesCount32(j.a.blades[i]) == 2 {
				plane[i] = philox.Symmetric(draw.Uint32(uint64(i), 0, 0))
			}
		}
		r, err := j.a.Rotor(2, plane)
		if err != nil {
			return nil, err
		}
		j.turnBy(r)
	}
	return j.declare(), nil
}

// newJob is a job with multivectors.
func newJob(c Config, x []float32) *job {
	a := algebras[c.P][c.Q]
	return &job{c: c, a: a, x: x, entries: a.entries, out: make([]float32, len(x))}
}

// turnBy sets the rotor.
func (j *job) turnBy(r []float64) {
	back := make([]float64, len(r))
	j.a.Reverse(back, r)
	j.rotor = make([]float32, 0, 2*len(r))
	for _, v := range append(slices.Clone(r), back...) {
		j.rotor = append(j.rotor, float32(v))
	}
}

// Summary is the sum of all coefficients of the result and of their squares.
func (j *job) Summary() string {
	sum, squares := 0.0, 0.0
	for _, x := range j.out {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	return fmt.Sprintf("sum %.6g and norm %.6g of all coefficients", sum, math.Sqrt(squares))
}

// bytes of a multivector.
func (j *job) bytes() int64 { return int64(4 * j.a.Size()) }

// declare says what the job is. A multivector does not depend on others, and so rows are exact.
func (j *job) declare() *job {
	size := j.a.Size()
	d := workload.Declaration{
		Name:  fmt.Sprintf("clifford %s of %d multivectors of %v", j.c.Op, j.c.Count, j.a),
		Class: workload.RowExact, Of: "multivectors", Extent: int64(j.c.Count),
		Ports: []workload.Port{workload.In("x", j.x, size), workload.All("tables", j.entries), workload.Out("out", j.out, size)},
		Task:  j.task,
	}
	switch j.c.Op {
	case Product:
		d.Ports = append(d.Ports, workload.In("y", j.y, size))
	case Rotor:
		d.Ports = append(d.Ports, workload.All("rotor", j.rotor))
	}
	j.Declared = workload.Declare(d)
	return j
}

// task completes the task of a range. Kernels take factors, tables and the result in this order.
func (j *job) task(t *graph.Task, lo, hi int64) {
	n, size := float64(hi-lo), float64(j.a.Size())
	step := func(k *graph.Kernel, left, right int, args ...int) graph.Step {
		return graph.Step{Kernel: k, Launch: graph.Grid(hi - lo), Args: args}.With(params{j.c.P, j.c.Q, int(hi - lo), left, right})
	}
	t.Work = graph.Work{Ops: 2 * size * size * n, Bytes: float64(j.bytes()) * j.c.traffic() * n}
	x, tables, out := t.Uses[0], t.Uses[1], t.Uses[2]
	switch j.c.Op {
	case Product:
		t.Uses = []graph.Use{x, t.Uses[3], tables, out}
		t.Steps = []graph.Step{step(productKernel, 1, 1)}
	case Rotor: // the uses are x, the rotor, its reverse, tables and the result, with R x behind them
		r, back := t.Uses[3], t.Uses[3]
		r.Bytes, back.Offset, back.Bytes = j.bytes(), j.bytes(), j.bytes()
		t.Uses = []graph.Use{x, r, back, tables, out}
		t.Steps = []graph.Step{step(productKernel, 0, 1, 1, 0, 3, 5), step(productKernel, 1, 0, 5, 2, 3, 4)}
		t.Work.Ops *= 2
		t.Workspace = j.bytes() * (hi - lo)
	default:
		t.Steps = []graph.Step{step(normalizeKernel, 1, 1)}
		t.Work.Ops = 4 * size * n
	}
}

// Operands are the multivectors, and those they are multiplied with, if they are, in the job's
// own memory. Between runs a caller may set them.
func (j *job) Operands() (x, y []float32) { return j.x, j.y }

// Result is the multivectors after a run.
func (j *job) Result() []float32 { return j.out }

// Rate is multivectors a second, and the memory that they take.
func (j *job) Rate(d time.Duration) string {
	n := float64(j.c.Count) / d.Seconds()
	return fmt.Sprintf("%.1f M/s, %.2f GB/s", n/1e6, n*j.c.traffic()*float64(j.bytes())/1e9)
}
