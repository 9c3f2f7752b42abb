package fusion

import (
	"fmt"
	"math"
	"math/cmplx"

	"github.com/weft-run/weft/internal/rounding"
	"github.com/weft-run/weft/workload"
)

// Check compares every record with what other mathematics makes of it, in float64: the
// largest of all candidates, derivatives by 1 − tanh² = 1 ÷ cosh², and the rotor as a
// product of Pauli matrices. A number may be off by what rounding does to the operations
// that make it, of which tropical ones are exact.
func (j *job) Check() error {
	turn := j.turn()
	return workload.Sweep(j.c.Records, func(lo, hi int) error {
		for r := lo; r < hi; r++ {
			want, within := j.reference(j.in[r*Floats:(r+1)*Floats], &turn)
			for i, got := range j.out[r*Floats : (r+1)*Floats] {
				if !rounding.Same(got, want[i], within[i]) {
					return fmt.Errorf("fusion: record %d, number %d: %v, want %v ± %.2g: %w", r, i, got, want[i], within[i], errWrong)
				}
			}
		}
		return nil
	})
}

// Misses is nothing: every number is compared.
func (j *job) Misses() []workload.Miss {
	return []workload.Miss{{What: "one number off by more than its rounding", Chance: 0}}
}

// tanhWithin is the allowed relative error of a kernel's tanh.
const tanhWithin = 4e-7

// reference is a record after all stages, and how far a device's may be from it. turn is
// the rotor's matrix.
func (j *job) reference(in []float32, turn *[8][8]float64) (out, within [Floats]float64) {
	const u = rounding.Unit
	for i := range 8 {
		most := float32(math.Inf(-1))
		for k := range 8 {
			most = max(most, j.w.Tropical[8*i+k]+in[tropicalAt+k])
		}
		if j.c.Bind {
			most += in[tropicalAt+i]
		}
		out[tropicalAt+i] = float64(most)

		g, h, v, d := float64(j.w.Scale[i]), float64(j.w.Shift[i]), float64(in[valueAt+i]), float64(in[derivativeAt+i])
		a := g*v + h
		t, c := math.Tanh(a), math.Cosh(a)
		slope := 1 / (c * c)
		off := tanhWithin*math.Abs(t) + slope*u*(2*math.Abs(g*v)+math.Abs(h)) + rounding.Tiny
		dt := slope * g * d
		offD := math.Abs(g*d)*(2*off+2*u) + 4*u*math.Abs(dt) + rounding.Tiny
		if j.c.Bind { // the product rule, (t, dt) times (v, d)
			offD = math.Abs(d)*off + math.Abs(v)*offD + 3*u*(math.Abs(t*d)+math.Abs(dt*v))
			dt = t*d + dt*v
			off = math.Abs(v)*off + u*math.Abs(t*v)
			t *= v
		}
		out[valueAt+i], within[valueAt+i] = t, 2*(off+rounding.Tiny)
		out[derivativeAt+i], within[derivativeAt+i] = dt, 2*(offD+rounding.Tiny)
	}
	j.multivector(in[cliffordAt:], turn, out[cliffordAt:], within[cliffordAt:])
	return out, within
}

// multivector is the turned multivector of a record, and how far a device's may be off:
// each of its sums has eight products of a number that is rounded.
func (j *job) multivector(in []float32, turn *[8][8]float64, out, within []float64) {
	const u = 10 * rounding.Unit
	var c, turned, off [8]float64
	for i := range c {
		c[i] = float64(in[i])
	}
	for i := range turned {
		size := 0.0
		for k, x := range c {
			turned[i] += turn[i][k] * x
			size += math.Abs(turn[i][k] * x)
		}
		// A coefficient that ought to be zero is 1e-17 instead in either.
		off[i] = u*size + 16*rounding.Tiny
		if math.IsNaN(turned[i]) || math.IsInf(turned[i], 0) {
			off[i] = 0
		}
	}
	copy(out, turned[:])
	copy(within, off[:])
	if !j.c.Bind {
		return
	}
	bound := fromPauli(pauli(turned).times(pauli(c)))
	for k := range 8 {
		size, carried := 0.0, 0.0
		for i := range 8 {
			b, _ := algebra.BladeProduct(i, k) // the blade whose product with the i-th is the k-th
			size += math.Abs(turned[i] * c[b])
			carried += off[i] * math.Abs(c[b])
		}
		out[k], within[k] = bound[k], carried+u*size+16*rounding.Tiny
	}
}

// turn returns the matrix by which the rotor acts on a multivector. Each column is the
// image of a blade, computed with Pauli matrices.
func (j *job) turn() (m [8][8]float64) {
	r, back := pauli(j.rotor), pauli(reverse(j.rotor))
	for k := range 8 {
		var blade [8]float64
		blade[k] = 1
		for i, x := range fromPauli(r.times(pauli(blade)).times(back)) {
			m[i][k] = x
		}
	}
	return m
}

// matrix is a 2 × 2 complex matrix, by row.
type matrix [4]complex128

func (a matrix) times(b matrix) matrix {
	return matrix{
		a[0]*b[0] + a[1]*b[2], a[0]*b[1] + a[1]*b[3],
		a[2]*b[0] + a[3]*b[2], a[2]*b[1] + a[3]*b[3],
	}
}

// basis are the blades with Pauli matrices for e1, e2 and e3.
var basis = func() (out [8]matrix) {
	e := [3]matrix{{0, 1, 1, 0}, {0, -1i, 1i, 0}, {1, 0, 0, -1}}
	out[0] = matrix{1, 0, 0, 1}
	copy(out[1:], e[:])
	out[4], out[5], out[6] = e[0].times(e[1]), e[0].times(e[2]), e[1].times(e[2])
	out[7] = out[4].times(e[2])
	return out
}()

// pauli is a multivector as a matrix, and fromPauli the other way: blades are
// orthogonal in the trace of ~A B.
func pauli(c [8]float64) (m matrix) {
	for i, x := range c {
		for k := range m {
			m[k] += complex(x, 0) * basis[i][k]
		}
	}
	return m
}

func fromPauli(m matrix) (c [8]float64) {
	for i := range c {
		sum := 0.
		for k := range m {
			sum += real(cmplx.Conj(basis[i][k]) * m[k])
		}
		c[i] = sum / 2
	}
	return c
}
