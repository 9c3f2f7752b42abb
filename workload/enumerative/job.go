package enumerative

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/workload"
)

// job is one integral.
type job struct {
	workload.Declared
	c      Config
	p      params // of all points
	fields []field
	primes []uint32
	space  []uint32
	tables []uint32
	sums   []uint32 // by chunk and prime, after a run
	misses []workload.Miss
	most   int64 // points of a task at most; 0 means as many as its range has
}

// New prepares an integral: the primes, and their tables.
// The job is a [workload.Job].
func New(c Config) (*job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	j := &job{c: c, primes: primesFor(c.bound()), space: c.space(), p: c.params()}
	roots := make([]int64, c.N)
	for i := range roots {
		roots[i] = -int64(i + 1)
	}
	for _, p := range j.primes {
		f := newField(p)
		j.fields = append(j.fields, f)
		j.tables = append(j.tables, j.p.table(&f, roots)...)
	}
	j.sums = make([]uint32, chunks(c.points())*int64(len(j.primes)))
	return j.declare(), nil
}

// params are the parameters of a task for all points.
func (c Config) params() params {
	p := params{
		problem: slices.Index(problems, c.Problem), n: c.N, k: c.K, exponent: c.Degree,
		classes: len(c.Classes), primes: len(primesFor(c.bound())), count: int(c.points()),
	}
	if c.Problem == Degree {
		p.exponent = c.dim()
	}
	return p
}

// Of computes an integral on the devices of a runtime that was opened with [Funcs] among its
// kernels. What is not counted is an error that wraps [workload.ErrConfig].
func Of(ctx context.Context, rt *weft.Runtime, c Config) (*big.Int, error) {
	j, err := New(c)
	if err != nil {
		return nil, err
	}
	if _, err := workload.Call(ctx, rt, j, "enumerative"); err != nil {
		return nil, err
	}
	return j.Result(), nil
}

// name describes what is counted.
func (j *job) name() string {
	name := fmt.Sprintf("enumerative %s of Gr(%d,%d)", j.c.Problem, j.c.K, j.c.N)
	switch j.c.Problem {
	case Hypersurface:
		name = fmt.Sprintf("enumerative hypersurface of degree %d, Gr(%d,%d)", j.c.Degree, j.c.K, j.c.N)
	case Schubert:
		name = fmt.Sprintf("enumerative schubert, %s of Gr(%d,%d)", text.Count(len(j.c.Classes), "class"), j.c.K, j.c.N)
	}
	return fmt.Sprintf("%s, %s, %s", name, text.Count(j.p.count, "point"), text.Count(len(j.primes), "prime"))
}

// declare says what the job is: fixed points, cut at chunks.
func (j *job) declare() *job {
	row := len(j.primes)
	d := workload.Declaration{
		Name: j.name(), Class: workload.Exact, Of: "points", Extent: int64(j.p.count), Align: chunk,
		Ports: []workload.Port{workload.All("space", j.space), workload.All("fields", j.tables), workload.Out("sums", j.sums, row).Per(chunk)},
		Unit:  graph.Int32,
		Task: func(t *graph.Task, lo, hi int64) {
			p := j.p
			p.first, p.count = int(lo), int(hi-lo)
			t.Steps = []graph.Step{graph.Step{Kernel: integralKernel, Launch: graph.Grid(chunks(hi-lo), int64(p.primes))}.With(p)}
			t.Work.Ops, t.Work.Bytes = float64(hi-lo)*float64(p.primes)*j.ops(), float64(4*chunks(hi-lo)*int64(row))
		},
	}
	if j.most > 0 {
		d.Ends = func(lo int64) int64 { return lo + j.most }
	}
	j.Declared = workload.Declare(d)
	return j
}

// mulOps is the number of operations of a modular multiplication.
const mulOps = 6

// ops is the number of operations for a point and a prime.
func (j *job) ops() float64 {
	k, n, muls := float64(j.c.K), float64(j.c.N), 0.0
	switch j.c.Problem {
	case Degree:
		muls = 12
	case Hypersurface:
		muls = float64(j.c.dim()) * (k + 1)
	case Schubert:
		muls = k * n
		for _, parts := range j.c.Classes {
			l := float64(len(parts))
			muls += l * (l*l/3 + 60)
		}
	}
	return mulOps * (1.5*k + 4 + muls)
}

// taskOps is the number of operations that a core does in half a second.
const taskOps = 1 << 30

// Hosted is the job in tasks of a second at most, between which a run can be stopped, seen to
// progress and kept in a checkpoint. A GPU has all points done in that time.
func (j *job) Hosted() workload.Job {
	h := *j
	h.most = chunk * max(int64(taskOps/(j.ops()*float64(len(j.primes)))/chunk), 1)
	return h.declare()
}

// Sums are the sums of each chunk of points, modulo each prime, after a run, in the job's own
// memory.
func (j *job) Sums() []uint32 { return j.sums }

// Result is the integral, joined from the sums of the last run.
func (j *job) Result() *big.Int {
	remainders := make([]uint32, len(j.primes))
	for i, s := range j.sums {
		q := i % len(j.primes)
		remainders[q] = j.fields[q].add(remainders[q], s%j.primes[q])
	}
	for q, f := range j.fields {
		// Squares of differences stand for products of both orders, which differ in sign.
		if j.c.K*(j.c.K-1)/2%2 == 1 {
			remainders[q] = f.sub(0, remainders[q])
		}
		remainders[q] = f.out(remainders[q])
	}
	return join(remainders, j.primes)
}

// Summary is the integral with all its digits, and what it counts.
func (j *job) Summary() string {
	n := j.Result()
	if j.c.Problem == Degree {
		return "degree " + n.String()
	}
	what, where := fmt.Sprintf("space%%s of dimension %d", j.c.K-1), "in all classes"
	if j.c.K <= 3 {
		what = []string{"point%s", "line%s", "plane%s"}[j.c.K-1]
	}
	if j.c.Problem == Hypersurface {
		where = fmt.Sprintf("on a hypersurface of degree %d", j.c.Degree)
	}
	plural := "s"
	if n.IsInt64() && n.Int64() == 1 {
		plural = ""
	}
	return fmt.Sprintf("%v "+what+" %s", n, plural, where)
}

// Rate is terms a second.
func (j *job) Rate(d time.Duration) string {
	return fmt.Sprintf("%.2f Mterm/s", float64(j.p.count)*float64(len(j.primes))/d.Seconds()/1e6)
}
