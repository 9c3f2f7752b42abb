package autodiff

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"gonum.org/v1/gonum/diff/fd"

	"github.com/weft-run/weft/internal/workloadtest"
)

// bits are those of exact references.
const bits = 240

func exact(x float64) *big.Float { return new(big.Float).SetPrec(bits).SetFloat64(x) }

// ring has arithmetic of many digits, and sums up how large the terms of a sum are.
type ring struct{ size float64 }

func (*ring) add(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(bits).Add(a, b) }
func (*ring) sub(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(bits).Sub(a, b) }
func (*ring) mul(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(bits).Mul(a, b) }
func (*ring) div(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(bits).Quo(a, b) }

// log splits x into m·2ᵉ, and computes the logarithms of m and 2 as 2 artanh((m−1)/(m+1)).
func (r *ring) log(x *big.Float) *big.Float {
	series := func(m *big.Float) *big.Float {
		t := r.div(r.sub(m, exact(1)), r.add(m, exact(1)))
		square, sum, power := r.mul(t, t), exact(0), t
		for k := 1.; k < 2*bits; k += 2 {
			sum = r.add(sum, r.div(power, exact(k)))
			power = r.mul(power, square)
		}
		return r.mul(exact(2), sum)
	}
	m := new(big.Float)
	e := x.MantExp(m)
	return r.add(series(m), r.mul(exact(float64(e)), series(exact(2))))
}

// term adds a term to a sum.
func (r *ring) term(sum, t *big.Float) *big.Float {
	v, _ := t.Float64()
	r.size = max(r.size, math.Abs(v))
	return r.add(sum, t)
}

// rosenbrockAt is derivative k, and the size of its largest term.
func (r *ring) rosenbrockAt(x []float64, k int) *big.Float {
	sum, at := exact(0), func(i int) *big.Float { return exact(x[i]) }
	if k+1 < len(x) {
		sum = r.term(sum, r.mul(r.mul(exact(-400), at(k)), at(k+1)))
		sum = r.term(sum, r.mul(r.mul(r.mul(exact(400), at(k)), at(k)), at(k)))
		sum = r.term(sum, r.mul(exact(-2), r.sub(exact(1), at(k))))
	}
	if k > 0 {
		sum = r.term(sum, r.mul(exact(200), at(k)))
		sum = r.term(sum, r.mul(exact(-200), r.mul(at(k-1), at(k-1))))
	}
	return sum
}

// helmholtzAt is derivative k of a mixture's energy.
func (r *ring) helmholtzAt(m *mixture, x []float64, k int) *big.Float {
	volume, attraction, total, row := exact(0), exact(0), exact(0), exact(0)
	for i := range x {
		volume = r.add(volume, r.mul(exact(m.b[i]), exact(x[i])))
		total = r.add(total, exact(x[i]))
		row = r.add(row, r.mul(exact(m.a[k][i]), exact(x[i])))
		for j := range x {
			attraction = r.add(attraction, r.mul(exact(m.a[i][j]), r.mul(exact(x[i]), exact(x[j]))))
		}
	}
	// The constants are rounded to float64, as those of the expression are.
	p, q, root, b := exact(1+math.Sqrt2), exact(1-math.Sqrt2), exact(math.Sqrt(8)), exact(m.b[k])
	over, under, free := r.add(exact(1), r.mul(p, volume)), r.add(exact(1), r.mul(q, volume)), r.sub(exact(1), volume)
	u, s := r.log(r.div(over, under)), r.mul(root, volume)
	sum := r.term(exact(0), r.log(r.div(exact(x[k]), free)))
	sum = r.term(sum, exact(1))
	sum = r.term(sum, r.div(r.mul(total, b), free))
	sum = r.term(sum, r.div(r.mul(r.mul(exact(-2), row), u), s))
	sum = r.term(sum, r.div(r.mul(attraction, r.mul(b, u)), r.mul(s, volume)))
	return r.term(sum, r.mul(r.div(r.mul(attraction, b), s), r.sub(r.div(q, under), r.div(p, over))))
}

// Gradients are the closed forms, computed with 240 bits, to 4 ulp of themselves or of their
// largest term.
func TestClosedForms(t *testing.T) {
	for _, c := range []Config{
		{Problem: Rosenbrock, Dims: 2, Count: 2000}, {Problem: Rosenbrock, Dims: 10, Count: 300, Seed: 1},
		{Problem: Helmholtz, Dims: 1, Count: 100}, {Problem: Helmholtz, Dims: 8, Count: 16, Seed: 2},
	} {
		j := workloadtest.New[*job](t)(New(c))
		direct(t, j)
		n, worst := c.Dims, 0.0
		for i := range j.count {
			x := j.points[i*n : (i+1)*n]
			for k := range n {
				r := &ring{}
				var want *big.Float
				if c.Problem == Rosenbrock {
					want = r.rosenbrockAt(x, k)
				} else {
					want = r.helmholtzAt(newMixture(n, c.Seed), x, k)
				}
				w, _ := want.Float64()
				r.size = max(r.size, math.Abs(w))
				off, _ := r.sub(exact(j.derivatives[i*n+k]), want).Float64()
				ulp := math.Nextafter(r.size, math.Inf(1)) - r.size
				if worst = max(worst, math.Abs(off)/ulp); math.Abs(off) > 4*ulp {
					t.Fatalf("%s: %s: derivative %d is %v, want %v: off by %.1f ulp of %v", j.Name(), j.point(i), k, j.derivatives[i*n+k], w, math.Abs(off)/ulp, r.size)
				}
			}
		}
		t.Logf("%s: at most %.2f ulp off", j.Name(), worst)
	}
}

// However many directions a pass has, derivatives have the same bits.
func TestDirections(t *testing.T) {
	for _, c := range []Config{{Problem: Rosenbrock, Dims: 70, Count: 50}, {Problem: Helmholtz, Dims: 40, Count: 20}} {
		var want string
		for _, c.Directions = range []int{0, 1, 7, 33} {
			j := workloadtest.New[*job](t)(New(c))
			direct(t, j)
			got := string(workloadtest.Bytes(j.derivatives)) + string(workloadtest.Bytes(j.values))
			if want == "" {
				want = got
			}
			if got != want {
				t.Errorf("%s: other derivatives with %d directions of a pass", j.Name(), c.Directions)
			}
		}
	}
}

// A program computes equal values once, and reuses slots.
func TestPrograms(t *testing.T) {
	for _, c := range []struct {
		expr                string
		instructions, slots int
	}{
		{"x + y", 2 + 1 + 1 + 1 + 2, 2},                           // loads, the sum, a number, three stores
		{"sin(x*y)*sin(y*x)", 2 + 1 + 2 + 6 + 3, 5},               // a sine and a cosine
		{"(x+y+1)^8", 2 + 2 + 3 + 6 + 3, 3},                       // three squares
		{strings.Repeat("x*y+", 100) + "x*y", 2 + 1 + 300 + 3, 5}, // one product
	} {
		f, err := Parse(c.expr)
		if err != nil {
			t.Fatal(err)
		}
		p, err := f.program(MaxDirections)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(p.code) / words; n > c.instructions || p.passes[0].slots > c.slots {
			t.Errorf("%.20s: %d instructions with %d slots, want %d and %d at most", c.expr, n, p.passes[0].slots, c.instructions, c.slots)
		}
	}
	for n, most := range map[int]int{8: 32, 64: 96} {
		j := workloadtest.New[*job](t)(New(Config{Problem: Rosenbrock, Dims: n, Count: 1}))
		if slots := j.p.passes[0].slots; len(j.p.passes) != 1 || slots > most {
			t.Errorf("%s takes %d passes with %d slots, want 1 and %d", j.Name(), len(j.p.passes), slots, most)
		}
	}
}

// A kernel refuses a program that reaches beyond its memory.
func TestVerify(t *testing.T) {
	p := params{n: 1, variables: 2, outputs: 1, columns: 2, slots: 3}
	for _, in := range [][words]uint32{
		{uint32(opAdd) | 3<<8}, {uint32(opAdd), 3}, {uint32(opAdd), 0, 3}, {uint32(opMulAdd), 0, 0, 3}, {uint32(opMulAdd), 0, 3},
		{uint32(opNumber), 0, 2}, {uint32(opVariable), 2}, {uint32(opValue), 0, 1}, {uint32(opValue), 3}, {uint32(opDerivative), 0, 2},
		{uint32(opMulAddNumber), 0, 2}, {uint32(opAddNumber), 3}, {uint32(opSin), 3}, {uint32(opPow)}, {255}, {uint32(opNeg), math.MaxUint32},
	} {
		if p.verify(in[:], 2) == nil {
			t.Errorf("%v passes", in)
		}
	}
	for _, in := range [][words]uint32{{uint32(opAdd) | 2<<8, 2, 2}, {uint32(opDerivative), 2, 1}, {uint32(opVariable), 1}, {uint32(opMulAddNumber), 2, 1, 2}} {
		if err := p.verify(in[:], 2); err != nil {
			t.Error(err)
		}
	}
}

// Values without a number are not finite, and the first point with one is named.
func TestNotFinite(t *testing.T) {
	f, err := Parse("1/x + log(y)", "x", "y")
	if err != nil {
		t.Fatal(err)
	}
	j := jobAt(t, f, 1, 1, 0, 1, 1, -1, 1, 0)
	direct(t, j)
	if err := j.Check(); err != nil {
		t.Error(err)
	}
	if n, first := j.NotFinite(); n != 3 || first != 1 || !math.IsInf(j.values[1], 1) || !math.IsNaN(j.values[2]) || !math.IsInf(j.values[3], -1) {
		t.Errorf("%d points from %d on: %v", n, first, j.values)
	}
	if s := j.Summary(); !strings.HasSuffix(s, "; not finite at 3 points, the first of which is point 1 (x = 0, y = 1)") {
		t.Error(s)
	}
	j.values[2] = 0
	if err := j.Check(); !errors.Is(err, errWrong) || !strings.Contains(err.Error(), "point 2 (x = 1, y = -1): value 0 is 0, want NaN") {
		t.Error(err)
	}
}

// BenchmarkGradient compares gradients of Rosenbrock's function at 4096 points on one core with
// finite differences (gonum) and with a gradient written by hand.
func BenchmarkGradient(b *testing.B) {
	const count = 4096
	for _, n := range []int{2, 8, 64} {
		j := workloadtest.New[*job](b)(New(Config{Problem: Rosenbrock, Dims: n, Count: count}))
		name := func(what string) string { return what + "-" + string(rune('0'+n/10)) + string(rune('0'+n%10)) }
		each := func(b *testing.B) {
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/point")
		}
		b.Run(name("forward"), func(b *testing.B) {
			for b.Loop() {
				direct(b, j)
			}
			each(b)
		})
		b.Run(name("hand"), func(b *testing.B) {
			for b.Loop() {
				clear(j.derivatives)
				for i := range count {
					x := j.points[i*n : (i+1)*n]
					j.values[i] = plainRosenbrock(x)
					rosenbrockSlope(j.derivatives[i*n:(i+1)*n], x)
				}
			}
			each(b)
		})
		b.Run(name("differences"), func(b *testing.B) {
			for b.Loop() {
				for i := range count {
					x := j.points[i*n : (i+1)*n]
					fd.Gradient(j.derivatives[i*n:(i+1)*n], plainRosenbrock, x, nil)
				}
			}
			each(b)
		})
	}
}

func plainRosenbrock(x []float64) (sum float64) {
	for i := range len(x) - 1 {
		valley, far := x[i+1]-x[i]*x[i], 1-x[i]
		sum += 100*valley*valley + far*far
	}
	return sum
}

// Tangents are as exact near their poles and for small angles as elsewhere: their series is the
// reference, with π/2 in two parts.
func TestTangent(t *testing.T) {
	const half, rest = math.Pi / 2, 6.123233995736766e-17
	for x := 1e-9; x < 2e-6; x *= 1.07 {
		pole := half - x
		d := (half - pole) + rest
		for at, want := range map[float64]float64{x: x + x*x*x/3, pole: 1/d - d/3} {
			if got := compute(opTan, at); math.Abs(got-want) > 6*0x1p-53*math.Abs(want) {
				t.Errorf("tan %v is %v, want %v", at, got, want)
			}
		}
	}
}

// A check of many derivatives of a long expression looks at some of the points, and says so.
func TestCheckSamples(t *testing.T) {
	j := workloadtest.New[*job](t)(New(Config{Problem: Rosenbrock, Dims: 8, Count: 100}))
	direct(t, j)
	if err := j.check(1 << 40); err != nil || j.unseen != 0 {
		t.Errorf("all points: %v, unseen %v", err, j.unseen)
	}
	tree := newTree(j.f)
	each := len(tree.list) * len(j.directions)
	if err := j.check(10 * each); err != nil || math.Abs(j.unseen-0.9) > 1e-9 {
		t.Errorf("ten points: %v, unseen %v", err, j.unseen)
	}
	if err := j.check(1); err != nil || math.Abs(j.unseen-0.99) > 1e-9 {
		t.Errorf("one point: %v, unseen %v", err, j.unseen)
	}
	for i := range j.values {
		j.values[i]++
	}
	if err := j.check(1); !errors.Is(err, errWrong) {
		t.Errorf("wrong values: %v", err)
	}
}
