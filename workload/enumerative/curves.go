package enumerative

import (
	"context"
	"fmt"
	"math/big"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/workload"
)

// Curves is the problem of the rational plane curves of a degree d through 3d−1 general points,
// which [NewCurves] counts.
const Curves = "curves"

// CurveConfig says which curves are counted.
type CurveConfig struct {
	Degree int
}

// Validate returns an error for a degree that is too small or too large.
func (c CurveConfig) Validate() error {
	if c.Degree < 1 || c.Degree > maxCurves {
		return fmt.Errorf("enumerative: curves of degree %d: %w: the degree must be 1 to %d", c.Degree, workload.ErrConfig, maxCurves)
	}
	return nil
}

// primes returns primes whose product is above N_d, which is below (3d−1)!.
func (c CurveConfig) primes() []uint32 {
	return primesFor(new(big.Int).MulRange(1, int64(3*c.Degree-1)))
}

// Bytes is the host memory that the job takes: numbers of all degrees modulo each prime.
func (c CurveConfig) Bytes() float64 {
	if c.Validate() != nil {
		return 8 * float64(c.Degree) * float64(max(c.Degree, 1)) // NewCurves refuses such a degree
	}
	return 4 * float64(len(c.primes())) * float64(fieldLen+c.row())
}

// row is the number of words that a prime has: five for each degree from 0 on.
func (c CurveConfig) row() int { return curveRows * (c.Degree + 1) }

// curveJob computes the number of curves of one degree modulo primes, and joins them to one integer.
//
// With f_d = N_d ÷ (3d−1)! Kontsevich's recursion is
//
//	f_d (3d−1)(3d−2)(3d−3) = Σ_{a+b=d} f_a f_b a²b(3b−1)(2a−b)
//
// so that kernels have neither binomials nor long numbers, and a prime needs nothing of others.
type curveJob struct {
	workload.Declared
	c       CurveConfig
	primes  []uint32
	fields  []uint32 // the fieldLen numbers of each prime's field
	numbers []uint32 // by prime, after a run
}

// fieldLen is the number of words of a field. curveRows is the number of rows that a prime has: f_a,
// and f_a times a³, b(3b−1), a² and b²(3b−1).
const (
	fieldLen  = 4
	curveRows = 5
)

// NewCurves prepares the curves of a degree.
// The job is a [workload.Job].
func NewCurves(c CurveConfig) (*curveJob, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	j := &curveJob{c: c, primes: c.primes()}
	for _, p := range j.primes {
		f := newField(p)
		j.fields = append(j.fields, f.p, f.neg, f.one, f.square)
	}
	j.numbers = make([]uint32, len(j.primes)*c.row())
	return j.declare(), nil
}

// CurvesOf counts curves of a degree, like [Of].
func CurvesOf(ctx context.Context, rt *weft.Runtime, degree int) (*big.Int, error) {
	j, err := NewCurves(CurveConfig{degree})
	if err != nil {
		return nil, err
	}
	if _, err := workload.Call(ctx, rt, j, "enumerative"); err != nil {
		return nil, err
	}
	return j.Result(), nil
}

// curvesOnDevices goes on with the recursion from a degree to another, modulo each of some primes.
// Its arguments are their fields and the numbers.
var curvesOnDevices = workload.With(graph.GoKernel("enumerative.curves", 1),
	workload.PTX(ptx, "enumerative_curves", 32, 32), workload.SPIRV(spirv, "enumerative_curves", 64, 64))

// curveParams are the parameters of curvesOnDevices.
type curveParams struct {
	primes, degree int
	from, to       int // degrees from one to before another
}

var curvesKernel = signature.Of(signature.Kernel{
	Name: "enumerative.curves", Does: "numbers of rational plane curves, modulo primes", Grid: "primes", Per: []uint32{1},
	Args: []signature.Arg{signature.In("fields", graph.U4), signature.InOut("numbers", graph.U4)},
}, func(_ *weft.Call, p curveParams) (n signature.Need, err error) {
	if err := signature.Positive([]string{"primes", "degree", "from"}, p.primes, p.degree, p.from); err != nil {
		return n, err
	}
	if p.degree > maxCurves || p.to > p.degree+1 || p.from > p.to {
		return n, fmt.Errorf("degrees %d to %d of %d: they must be in order, and %d at most", p.from, p.to, p.degree, maxCurves)
	}
	n.Items = int64(p.primes)
	n.Elements[0], n.Elements[1] = signature.Product(p.primes, fieldLen), signature.Product(p.primes, CurveConfig{p.degree}.row())
	return n, nil
}, func(c *weft.Call, p curveParams, lo, hi int) {
	fields, numbers := weft.View[uint32](c.Args[0]), weft.View[uint32](c.Args[1])
	row := CurveConfig{p.degree}.row()
	for i := lo; i < hi && !c.Stopped(); i++ {
		t := fields[fieldLen*i:]
		f := field{t[0], t[1], t[2], t[3]}
		f.curves(numbers[row*i:row*(i+1)], &p)
	}
})

// curves goes on with the recursion.
func (f *field) curves(numbers []uint32, p *curveParams) {
	n := p.degree + 1
	number, cubes, ones, squares, twos := numbers[:n], numbers[n:2*n], numbers[2*n:3*n], numbers[3*n:4*n], numbers[4*n:]
	for d := p.from; d < p.to; d++ {
		small := func(i int) uint32 { return f.mul(uint32(i), f.square) }
		at := f.inverse(small(2)) // f₁
		if d == 1 {
			for _, row := range [][]uint32{number, cubes, ones, squares, twos} {
				row[0] = 0
			}
		} else {
			twice, once := uint32(0), uint32(0)
			for a := 1; a < d; a++ {
				twice = f.add(twice, f.mul(cubes[a], ones[d-a]))
				once = f.add(once, f.mul(squares[a], twos[d-a]))
			}
			below := f.mul(f.mul(small(3*d-1), small(3*d-2)), small(3*d-3))
			at = f.mul(f.sub(f.add(twice, twice), once), f.inverse(below))
		}
		number[d] = at
		by := small(d)
		squares[d] = f.mul(f.mul(at, by), by)
		cubes[d] = f.mul(squares[d], by)
		ones[d] = f.mul(f.mul(at, by), small(3*d-1))
		twos[d] = f.mul(ones[d], by)
	}
}

// declare says what the job is. A task has a launch for as many degrees as a shader takes at a time.
func (j *curveJob) declare() *curveJob {
	d, row := float64(j.c.Degree), j.c.row()
	j.Declared = workload.Declare(workload.Declaration{
		Name:  fmt.Sprintf("enumerative curves of degree %d, %s", j.c.Degree, text.Count(len(j.primes), "prime")),
		Class: workload.Exact, Of: "primes", Extent: int64(len(j.primes)),
		Ports: []workload.Port{workload.In("fields", j.fields, fieldLen), workload.Out("numbers", j.numbers, row)},
		Ops:   mulOps * (d*d + 60*d), Unit: graph.Int32,
		Task: func(t *graph.Task, lo, hi int64) {
			t.Work.Bytes = float64(4*row) * float64(hi-lo)
			for from := 1; from <= j.c.Degree; {
				to, rounds := from, 0
				for to <= j.c.Degree && (to == from || rounds+to+64 < launchRounds) {
					rounds += to + 64
					to++
				}
				p := curveParams{int(hi - lo), j.c.Degree, from, to}
				t.Steps = append(t.Steps, graph.Step{Kernel: curvesOnDevices, Launch: graph.Grid(hi - lo)}.With(p))
				from = to
			}
		},
	})
	return j
}

// launchRounds is the number of rounds that a shader's loops take in a launch, at most: lavapipe
// ends all loops after 65,535.
const launchRounds = 50_000

// Result is the number of curves, joined from the last run.
func (j *curveJob) Result() *big.Int {
	remainders, row := make([]uint32, len(j.primes)), j.c.row()
	for q, p := range j.primes {
		f := newField(p)
		all := j.numbers[row*q+j.c.Degree] % p
		for i := 2; i < 3*j.c.Degree; i++ {
			all = f.mul(all, f.in(int64(i)))
		}
		remainders[q] = f.out(all)
	}
	return join(remainders, j.primes)
}

// Check compares the number of curves with Kontsevich's recursion in long integers.
func (j *curveJob) Check() error {
	want, err := Kontsevich(j.c.Degree)
	if err != nil {
		return err
	}
	if got := j.Result(); got.Cmp(want) != 0 {
		return fmt.Errorf("%s: %v, want %v: %w", j.Name(), got, want, errWrong)
	}
	return nil
}

// Misses is nothing: the number is known.
func (j *curveJob) Misses() []workload.Miss {
	return []workload.Miss{{What: "a wrong number", Chance: 0}}
}

// Summary is the number with all its digits.
func (j *curveJob) Summary() string {
	n := j.Result()
	plural := "s"
	if n.IsInt64() && n.Int64() == 1 {
		plural = ""
	}
	return fmt.Sprintf("%v rational curve%s of degree %d through %s", n, plural, j.c.Degree, text.Count(3*j.c.Degree-1, "point"))
}

// Rate is terms of the recursion a second.
func (j *curveJob) Rate(d time.Duration) string {
	n := float64(j.c.Degree)
	return fmt.Sprintf("%.2f Mterm/s", n*(n-1)/2*float64(len(j.primes))/d.Seconds()/1e6)
}
