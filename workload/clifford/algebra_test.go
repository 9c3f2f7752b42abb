package clifford

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weft-run/weft/workload"
)

// all are the algebras.
func all() (out []*Algebra) {
	for p := range algebras {
		for q := range algebras[p] {
			if a := algebras[p][q]; a != nil {
				out = append(out, a)
			}
		}
	}
	return out
}

func random(r *rand.Rand, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = 2*r.Float64() - 1
	}
	return out
}

func (a *Algebra) times(x, y []float64) []float64 {
	out := make([]float64, a.Size())
	a.Product(out, x, y)
	return out
}

// blade is a multivector of one blade.
func (a *Algebra) blade(i int) []float64 {
	out := make([]float64, a.Size())
	out[i] = 1
	return out
}

func near(x, y []float64, within float64) bool {
	for i := range x {
		if !(math.Abs(x[i]-y[i]) <= within) {
			return false
		}
	}
	return true
}

// The products of Cl(3,0) have the indices and signs of the table, row by row.
func TestProduct(t *testing.T) {
	indices := [8]string{"01234567", "10452376", "24061735", "35607124", "42170653", "53716042", "67325401", "76543210"}
	signs := [8]string{"++++++++", "++++++++", "+-++--+-", "+--++--+", "+-++--+-", "+--++--+", "++-+-+--", "++-+-+--"}
	a := algebras[3][0]
	for i := range 8 {
		for j := range 8 {
			k, sign := a.BladeProduct(i, j)
			if k != int(indices[i][j]-'0') || (sign > 0) != (signs[i][j] == '+') {
				t.Errorf("%s times %s is %v %s", a.Blade(i), a.Blade(j), sign, a.Blade(k))
			}
		}
	}
}

// Vectors square to what the signature says and anticommute, products are associative,
// reversal turns products around, and Norm2 is the scalar part of x ~x.
func TestAxioms(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	if len(all()) != 27 {
		t.Errorf("%d algebras, want 27", len(all()))
	}
	for _, a := range all() {
		for i := 1; i <= a.p+a.q; i++ {
			want := 1.
			if i > a.p {
				want = -1
			}
			if k, sign := a.BladeProduct(i, i); k != 0 || sign != want {
				t.Errorf("%v: %s squares to %v %s", a, a.Blade(i), sign, a.Blade(k))
			}
			for j := 1; j < i; j++ {
				k, one := a.BladeProduct(i, j)
				l, other := a.BladeProduct(j, i)
				if k != l || one != -other {
					t.Errorf("%v: %s and %s do not anticommute", a, a.Blade(i), a.Blade(j))
				}
			}
		}
		n := a.Size()
		x, y, z := random(r, n), random(r, n), random(r, n)
		if !near(a.times(a.times(x, y), z), a.times(x, a.times(y, z)), 1e-12) {
			t.Errorf("%v: products are not associative", a)
		}
		rx, ry, rxy := make([]float64, n), make([]float64, n), a.times(x, y)
		a.Reverse(rx, x)
		a.Reverse(ry, y)
		a.Reverse(rxy, rxy)
		if !near(rxy, a.times(ry, rx), 1e-12) {
			t.Errorf("%v: the reverse of a product is not that of its reverses", a)
		}
		if norm := a.times(x, rx)[0]; math.Abs(norm-a.Norm2(x)) > 1e-12 {
			t.Errorf("%v: the norm is %v, want %v", a, a.Norm2(x), norm)
		}
	}
}

// square is a complex matrix for oracles that are written out.
type square [][]complex128

func (a square) times(b square) square {
	out := make(square, len(a))
	for i := range a {
		out[i] = make([]complex128, len(a))
		for j := range a {
			for k := range a {
				out[i][j] += a[i][k] * b[k][j]
			}
		}
	}
	return out
}

// sum is a multivector as a matrix, with matrices for vectors.
func (a *Algebra) sum(x []float64, vectors []square) square {
	dim := len(vectors[0])
	out := make(square, dim)
	for i := range out {
		out[i] = make([]complex128, dim)
	}
	for i, v := range x {
		blade := make(square, dim)
		for k := range blade {
			blade[k] = make([]complex128, dim)
			blade[k][k] = 1
		}
		for _, digit := range a.Blade(i)[min(i, 1):] {
			if i > 0 {
				blade = blade.times(vectors[digit-'1'])
			}
		}
		for k := range out {
			for l := range out {
				out[k][l] += complex(v, 0) * blade[k][l]
			}
		}
	}
	return out
}

// Products are those of Pauli matrices in Cl(3,0), and of Dirac's gamma matrices in Cl(1,3);
// in Cl(4,1) those of gammas and their product, times i where squares differ in sign.
func TestMatrices(t *testing.T) {
	pauli := []square{{{0, 1}, {1, 0}}, {{0, -1i}, {1i, 0}}, {{1, 0}, {0, -1}}}
	gamma := []square{{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, -1, 0}, {0, 0, 0, -1}}}
	for _, s := range pauli {
		gamma = append(gamma, square{{0, 0, s[0][0], s[0][1]}, {0, 0, s[1][0], s[1][1]}, {-s[0][0], -s[0][1], 0, 0}, {-s[1][0], -s[1][1], 0, 0}})
	}
	by := func(f complex128, m square) square {
		out := make(square, len(m))
		for i := range m {
			for _, v := range m[i] {
				out[i] = append(out[i], f*v)
			}
		}
		return out
	}
	fifth := by(1i, gamma[0].times(gamma[1]).times(gamma[2]).times(gamma[3]))
	conformal := []square{gamma[0], by(1i, gamma[1]), by(1i, gamma[2]), by(1i, gamma[3]), by(1i, fifth)}
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		a       *Algebra
		vectors []square
	}{{algebras[3][0], pauli}, {algebras[1][3], gamma}, {algebras[4][1], conformal}} {
		x, y := random(r, c.a.Size()), random(r, c.a.Size())
		got, want := c.a.sum(c.a.times(x, y), c.vectors), c.a.sum(x, c.vectors).times(c.a.sum(y, c.vectors))
		for i := range want {
			for k := range want {
				if d := got[i][k] - want[i][k]; math.Hypot(real(d), imag(d)) > 1e-12 {
					t.Fatalf("%v: entry %d, %d is %v, want %v", c.a, i, k, got[i][k], want[i][k])
				}
			}
		}
	}
}

// Exponentials of blades are cosines and sines, or hyperbolic ones, by their squares, and
// those of x and −x are inverse.
func TestExp(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, a := range all() {
		for i := range a.Size() {
			for _, angle := range []float64{0, 1e-3, 20} {
				if i%7 != 0 && a.Size() > 16 { // of many some will do
					continue
				}
				x, want := a.blade(i), make([]float64, a.Size())
				x[i] = angle
				_, sign := a.BladeProduct(i, i)
				scale := 1.
				switch {
				case i == 0:
					want[0] = math.Exp(angle)
					scale = want[0]
				case sign < 0:
					want[0], want[i] = math.Cos(angle), math.Sin(angle)
				default:
					want[0], want[i] = math.Cosh(angle), math.Sinh(angle)
					scale = want[0]
				}
				if err := a.Exp(x, x); err != nil || !near(x, want, 1e-13*scale) {
					t.Errorf("%v: the exponential of %v %s is %v, want %v: %v", a, angle, a.Blade(i), x, want, err)
				}
			}
		}
		x := random(r, a.Size())
		minus := make([]float64, len(x))
		for i := range x {
			x[i] /= 4
			minus[i] = -x[i]
		}
		if err := errors.Join(a.Exp(x, x), a.Exp(minus, minus)); err != nil || !near(a.times(x, minus), a.blade(0), 1e-9) {
			t.Errorf("%v: exponentials of x and −x are not inverse: %v", a, err)
		}
		x[0] = math.Inf(1)
		if err := a.Exp(x, x); !errors.Is(err, workload.ErrConfig) {
			t.Errorf("%v: the exponential of infinity: %v", a, err)
		}
	}
}

// A quarter turn in the plane of e1 and e2 takes e1 to e2; a boost keeps Norm2.
func TestRotor(t *testing.T) {
	a := algebras[3][0]
	r, err := a.Rotor(math.Pi/2, a.blade(4))
	got := make([]float64, 8)
	a.Sandwich(got, r, a.blade(1))
	if err != nil || !near(got, a.blade(2), 1e-15) {
		t.Errorf("e1 turns to %v: %v", got, err)
	}
	a = algebras[1][3]
	r, err = a.Rotor(1, a.blade(5)) // e12
	x := []float64{1: 2, 2: 0.5, 3: -1, 4: 0.3, 15: 0}
	got = make([]float64, 16)
	a.Sandwich(got, r, x)
	if err != nil || math.Abs(a.Norm2(got)-a.Norm2(x)) > 1e-12 || math.Abs(got[1]-(2*math.Cosh(1)+0.5*math.Sinh(1))) > 1e-12 {
		t.Errorf("%v is boosted to %v: %v", x, got, err)
	}
	for _, plane := range [][]float64{a.blade(1), a.blade(0), make([]float64, 8), {5: math.NaN(), 15: 0}} {
		if _, err := a.Rotor(1, plane); !errors.Is(err, workload.ErrConfig) {
			t.Errorf("the plane %v: %v", plane, err)
		}
	}
}

// Products eight at a time have the bits of those one at a time, in every algebra.
func TestWide(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, a := range all() {
		n := a.Size()
		const count = 37
		for _, steps := range [][2]int{{n, n}, {0, n}, {n, 0}} {
			x, y, got, want := make([]float32, count*n), make([]float32, count*n), make([]float32, count*n), make([]float32, count*n)
			for i := range x {
				x[i], y[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
			}
			if !a.wide.products(got, x, y, steps[0], steps[1]) {
				if wide && n >= 8 {
					t.Errorf("%v has no wide products", a)
				}
				continue
			}
			a.products(want, x, y, steps[0], steps[1])
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%v, steps %v: number %d is %v, want %v", a, steps, i, got[i], want[i])
				}
			}
		}
	}
}

// BenchmarkProducts times a core's products beside a plain loop over the tables, in turns.
func BenchmarkProducts(b *testing.B) {
	for _, a := range []*Algebra{algebras[3][0], algebras[1][3], algebras[4][1], algebras[3][3]} {
		b.Run(a.String(), func(b *testing.B) {
			n := a.Size()
			const count = 512
			x, y, out := make([]float32, count*n), make([]float32, count*n), make([]float32, count*n)
			for i := range x {
				x[i], y[i] = float32(i%7)-3, float32(i%5)-2
			}
			var plain, fast int64
			for b.Loop() {
				start := b.Elapsed()
				a.products(out, x, y, n, n)
				between := b.Elapsed()
				if !a.wide.products(out, x, y, n, n) {
					a.products(out, x, y, n, n)
				}
				plain, fast = plain+int64(between-start), fast+int64(b.Elapsed()-between)
			}
			b.ReportMetric(float64(fast)/float64(b.N)/count, "ns/product")
			b.ReportMetric(float64(plain)/float64(fast), "times-plain")
		})
	}
}
