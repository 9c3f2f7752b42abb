package network

import (
	"fmt"
	"math"

	"github.com/weft-run/weft/internal/philox"
)

// Modes are eigenvectors of a network's matrix with the smallest eigenvalues that are not
// zero, in increasing order. Vectors are of length one, and their largest entry is positive.
type Modes struct {
	Values  []float64
	Vectors [][]float64
}

// Uniform returns the vector that a Kirchhoff matrix of n beads maps to zero, of length one.
func Uniform(n int) [][]float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = 1 / math.Sqrt(float64(n))
	}
	return [][]float64{v}
}

// Rigid returns the six vectors that a Hessian maps to zero, orthogonal and of length one: the
// three translations and the three rotations about the centre. The error is for beads that
// lie on a line, which have one rotation less.
func Rigid(xyz []float64) ([][]float64, error) {
	n := float64(len(xyz) / 3)
	var centre [3]float64
	for i, x := range xyz {
		centre[i%3] += x / n
	}
	out := make([][]float64, 6)
	for k := range out {
		v := make([]float64, len(xyz))
		for i := range len(xyz) / 3 {
			if k < 3 {
				v[3*i+k] = 1
				continue
			}
			c := k - 3 // about this axis
			p, q := (c+1)%3, (c+2)%3
			v[3*i+p], v[3*i+q] = centre[q]-xyz[3*i+q], xyz[3*i+p]-centre[p]
		}
		before := math.Sqrt(dot(v, v))
		for range 2 {
			for _, u := range out[:k] {
				axpy(v, u, -dot(u, v))
			}
		}
		length := math.Sqrt(dot(v, v))
		if !(length > 1e-8*before) {
			return nil, fmt.Errorf("network: the beads lie on a line: %w: an anisotropic network needs a structure in three dimensions", ErrNetwork)
		}
		scale(v, 1/length)
		out[k] = v
	}
	return out, nil
}

// Tolerance is the residual |Ax - λx| below which a mode is taken as found, relative to the
// largest eigenvalue.
const Tolerance = 1e-10

// Slowest returns the count slowest modes of a matrix, apart from the given vectors that it
// maps to zero, by the Lanczos method with full reorthogonalisation. Fewer are returned if the
// matrix has fewer. Of modes with equal eigenvalues one is found; package elastic finds all.
func (m *Matrix) Slowest(null [][]float64, count int) (*Modes, error) {
	n := m.Rows()
	most := n - len(null)
	count = min(count, most)
	if count < 1 {
		return &Modes{}, nil
	}
	basis := append(make([][]float64, 0, n), null...)
	w := Start(n, 1)
	var alpha, beta []float64
	size := 0.0 // of the matrix, as far as it shows
	for step := range most {
		for range 2 {
			for _, v := range basis {
				axpy(w, v, -dot(v, w))
			}
		}
		length := math.Sqrt(dot(w, w))
		if step > 0 {
			if length <= 1e-13*size { // the space is whole: modes that are equal count once
				return m.ritz(basis[len(null):], alpha, beta, count)
			}
			beta = append(beta, length)
		}
		scale(w, 1/length)
		basis = append(basis, w)
		next := make([]float64, n)
		m.Mul(next, w)
		alpha = append(alpha, dot(next, w))
		size = max(size, math.Abs(alpha[step])+length*float64(min(step, 1)))
		w = next
		if done := step+1 == most; done || step+1 >= count && (step+1)%max(10, most/20) == 0 {
			if modes, err := m.ritz(basis[len(null):], alpha, beta, count); err != nil || done || m.residual(modes) <= Tolerance*size {
				return modes, err
			}
		}
	}
	return nil, fmt.Errorf("network: no end: %w", ErrNetwork) // not reached
}

// Start returns the vector that an iteration begins with: numbers in (-1, 1) by their index.
func Start(n int, seed uint32) []float64 {
	out, source := make([]float64, n), philox.Source{Seed: seed}
	for i := range out {
		out[i] = float64(int32(source.Uint32(uint64(i), 0, 0))) / (1 << 31)
	}
	return out
}

// ritz returns modes from a basis and the tridiagonal matrix in it.
func (m *Matrix) ritz(basis [][]float64, alpha, beta []float64, count int) (*Modes, error) {
	values, vectors, ok := Tridiagonal(alpha, beta, count)
	if !ok {
		return nil, fmt.Errorf("network: eigenvalues do not converge: %w: is every entry finite?", ErrNetwork)
	}
	out := &Modes{}
	for k, s := range vectors {
		x := make([]float64, m.Rows())
		for i, v := range basis {
			axpy(x, v, s[i])
		}
		Orient(x)
		out.Values, out.Vectors = append(out.Values, values[k]), append(out.Vectors, x)
	}
	return out, nil
}

// Orient makes the largest entry of a vector positive, and its length one.
func Orient(x []float64) {
	largest := 0.0
	for _, v := range x {
		if math.Abs(v) > math.Abs(largest) {
			largest = v
		}
	}
	scale(x, math.Copysign(1/math.Sqrt(dot(x, x)), largest))
}

// residual returns the largest |Ax - λx| of some modes.
func (m *Matrix) residual(of *Modes) float64 {
	worst, y := 0.0, make([]float64, m.Rows())
	for k, x := range of.Vectors {
		m.Mul(y, x)
		axpy(y, x, -of.Values[k])
		worst = max(worst, math.Sqrt(dot(y, y)))
	}
	return worst
}

// Fluctuations returns the mean square fluctuation of each bead by some modes, in units of
// the temperature over the spring constant: the sum of the squares of its entries, each divided
// by its eigenvalue. B-factors are proportional to them.
func (m *Modes) Fluctuations(beads int) []float64 {
	out := make([]float64, beads)
	for k, x := range m.Vectors {
		each := len(x) / beads // 1 or 3 entries
		for i, v := range x {
			out[i/each] += v * v / m.Values[k]
		}
	}
	return out
}

// Correlation is Pearson's of two series of equal length, NaN where one is constant.
func Correlation(a, b []float64) float64 {
	n := float64(len(a))
	var sa, sb, aa, bb, ab float64
	for i := range a {
		sa, sb = sa+a[i]/n, sb+b[i]/n
	}
	for i := range a {
		x, y := a[i]-sa, b[i]-sb
		aa, bb, ab = aa+x*x, bb+y*y, ab+x*y
	}
	return ab / math.Sqrt(aa*bb)
}
