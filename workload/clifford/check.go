package clifford

import (
	"fmt"
	"math"
	"math/bits"
	"math/cmplx"

	"github.com/weft-run/weft/internal/rounding"
	"github.com/weft-run/weft/workload"
)

// Check compares every multivector with the result of complex matrices, in float64: vectors
// are represented by products of Pauli matrices (Jordan and Wigner), and the product of
// multivectors by the product of their matrices. A number may be off by the rounding of sums
// of as many products as there are blades. Where a product overflows float32, or a norm is as
// small as its rounding, the numbers are compared with the definition evaluated in float32.
func (j *job) Check() error {
	m := represent(j.a)
	n := j.a.Size()
	return workload.Sweep(j.c.Count, func(lo, hi int) error {
		for i := lo; i < hi; i++ {
			want, within := j.reference(m, i)
			for k, got := range j.out[i*n : (i+1)*n] {
				if !rounding.Same(got, want[k], within(want[k])) {
					return fmt.Errorf("%s: multivector %d, %s: %v, want %v ± %.2g: %w", j.Name(), i, j.a.Blade(k), got, want[k], within(want[k]), errWrong)
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

// length is the root of the sum of squares.
func length(x []float32) float64 {
	sum := 0.
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum)
}

// reference is multivector i of the result, and how far a number of it may be off. The
// terms of a sum have at most the size of the product of both lengths together.
func (j *job) reference(m *representation, i int) (want []float64, within func(v float64) float64) {
	want, size, off := j.byMatrices(m, i)
	if !(size < math.MaxFloat32/4) {
		return j.plain(i), func(v float64) float64 {
			if math.IsInf(v, 0) {
				return 0
			}
			return 16*rounding.Unit*math.Abs(v) + rounding.Tiny
		}
	}
	return want, func(float64) float64 { return off }
}

// byMatrices is multivector i of the result, the largest size that numbers may have on the
// way to it, and how far they may be off.
func (j *job) byMatrices(m *representation, i int) (want []float64, size, within float64) {
	n := j.a.Size()
	x := j.x[i*n : (i+1)*n]
	unit := rounding.Unit * float64(n+2)
	size = length(x)
	tiny := 2 * float64(n) * rounding.Tiny
	switch j.c.Op {
	case Product:
		y := j.y[i*n : (i+1)*n]
		size *= length(y)
		want, within = m.numbers(m.matrix(x).times(m.matrix(y))), unit*size+tiny
	case Rotor:
		turn, back := j.rotor[:n], j.rotor[n:]
		r := length(turn)
		size *= r * r
		want = m.numbers(m.matrix(turn).times(m.matrix(x)).times(m.matrix(back)))
		within = 2*unit*size*math.Sqrt(float64(n)) + tiny*(1+r)*float64(n)
	default:
		reverse := make([]float32, n)
		for k, v := range x {
			reverse[k] = v
			if reversed(j.a.blades[k]) {
				reverse[k] = -v
			}
		}
		norm2 := math.Abs(m.numbers(m.matrix(x).times(m.matrix(reverse)))[0])
		relative := unit * size * size / norm2
		for _, v := range x {
			want = append(want, float64(v)/math.Sqrt(norm2))
		}
		within = (relative+4*rounding.Unit)*size/math.Sqrt(norm2) + rounding.Tiny
		if size = 0; !(relative < 0.1) {
			size = math.Inf(1)
		}
	}
	return want, size, within
}

// plain is multivector i of the result by definition, in float32.
func (j *job) plain(i int) (want []float64) {
	n := j.a.Size()
	out, x := make([]float32, n), j.x[i*n:(i+1)*n]
	switch j.c.Op {
	case Product:
		j.a.products(out, x, j.y[i*n:(i+1)*n], 0, 0)
	case Rotor:
		half := make([]float32, n)
		j.a.products(half, j.rotor, x, 0, 0)
		j.a.products(out, half, j.rotor[n:], 0, 0)
	default:
		return j.plainNorm(x)
	}
	for _, v := range out {
		want = append(want, float64(v))
	}
	return want
}

// plainNorm is a normalized multivector by definition: squares are rounded to float32 with the largest number
// scaled to less than one, and added one after the other.
func (j *job) plainNorm(x []float32) (want []float64) {
	largest, exponent := 0., 0
	for _, v := range x {
		largest = max(largest, math.Abs(float64(v))) // NaN if one is
	}
	if !math.IsInf(largest, 0) && !math.IsNaN(largest) {
		_, exponent = math.Frexp(largest)
	}
	scaled := func(v float32) float64 { return math.Ldexp(float64(v), -exponent) }
	sum := float32(0)
	for k, v := range x {
		square := float32(scaled(v) * scaled(v))
		if bits.OnesCount32(j.a.blades[k]>>j.a.p)%2 == 1 {
			square = -square
		}
		sum += square
	}
	for _, v := range x {
		w := float64(v)
		if sum != 0 {
			w = scaled(v) / math.Sqrt(math.Abs(float64(sum)))
		}
		want = append(want, w)
	}
	return want
}

// representation has a matrix for each blade. Each has one number in a row, at a column that
// is the row with some bits changed.
type representation struct {
	dim    int // a power of two
	change []int
	number [][]complex128
}

// matrix is a square matrix, by rows.
type matrix [][]complex128

// represent makes the matrices of an algebra: for vectors 2i and 2i+1, Z for the bits below i
// and X or Y for bit i, times the imaginary unit if they square to minus one.
func represent(a *Algebra) *representation {
	m := &representation{dim: 1 << ((a.p + a.q + 1) / 2)}
	for _, set := range a.blades {
		change, number := 0, make([]complex128, m.dim)
		for row := range number {
			number[row] = 1
		}
		for v := range a.p + a.q {
			if set>>v&1 == 0 {
				continue
			}
			bit := 1 << (v / 2)
			for row := range number {
				at := row ^ change // where the product so far leads
				factor := complex128(1)
				for below := 1; below < bit; below <<= 1 {
					if at&below != 0 {
						factor = -factor
					}
				}
				if v%2 == 1 { // Y
					factor *= -1i
					if at&bit != 0 {
						factor = -factor
					}
				}
				if v >= a.p {
					factor *= 1i
				}
				number[row] *= factor
			}
			change ^= bit
		}
		m.change, m.number = append(m.change, change), append(m.number, number)
	}
	return m
}

// matrix represents a multivector.
func (m *representation) matrix(x []float32) matrix {
	out := make(matrix, m.dim)
	all := make([]complex128, m.dim*m.dim)
	for row := range out {
		out[row] = all[row*m.dim : (row+1)*m.dim]
		for i, v := range x {
			out[row][row^m.change[i]] += complex(float64(v), 0) * m.number[i][row]
		}
	}
	return out
}

func (a matrix) times(b matrix) matrix {
	out := make(matrix, len(a))
	for row := range out {
		out[row] = make([]complex128, len(a))
		for k, v := range a[row] {
			for col, w := range b[k] {
				out[row][col] += v * w
			}
		}
	}
	return out
}

// numbers returns the multivector of a matrix: the matrices of blades are orthogonal in the
// trace.
func (m *representation) numbers(a matrix) []float64 {
	out := make([]float64, len(m.change))
	for i := range out {
		for row := range a {
			out[i] += real(cmplx.Conj(m.number[i][row]) * a[row][row^m.change[i]])
		}
		out[i] /= float64(m.dim)
	}
	return out
}
