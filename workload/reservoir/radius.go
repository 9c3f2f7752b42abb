package reservoir

import (
	"math"

	"github.com/weft-run/weft/internal/philox"
)

const (
	// subspace is the number of dimensions in which the largest eigenvalues are looked
	// for. A smaller matrix is looked at as a whole.
	subspace = 80
	// filter is the number of times a vector is multiplied with the matrix before that. It
	// reduces an eigenvalue 1 % below the largest to 2 %, and by the circular law some 2 % of
	// the eigenvalues of a random matrix are above that.
	filter = 400
	// rounds is the number of further filterings tried until two results agree to within agree.
	// Random matrices take two or three.
	rounds = 12
	agree  = 1e-7
	// doublings is the number of times a small matrix is squared: its power is 2 to this, and
	// the root of its norm the radius to within rounding.
	doublings = 48
)

// SpectralRadius returns the largest magnitude of an eigenvalue of a square matrix: to
// within a millionth for matrices with random entries. Plain power iteration would not
// do: the largest eigenvalues of a real random matrix are usually a complex pair, along
// which a vector never settles. The vector is therefore where a Krylov subspace begins
// (Arnoldi's method), which has the eigenvalues of the matrix that are left in it.
func (m *Matrix) SpectralRadius() float64 {
	n := len(m.Start) - 1
	if n <= subspace {
		return smallRadius(m.dense(n), n)
	}
	source := philox.Source{Stream: streamStart}
	v := make([]float64, n)
	for i := range v {
		v[i] = philox.Symmetric(source.Uint32(uint64(i), 0, 0))
	}
	k := krylov{m: m, next: make([]float64, n), h: make([]float64, subspace*subspace)}
	k.basis = make([]float64, subspace*n)
	last := 0.0
	for range rounds {
		growth := k.power(v)
		if growth == 0 {
			return 0
		}
		// Where more eigenvalues are equally large than the subspace has dimensions, as those
		// of a long cycle, it has none of them, and the growth tells.
		radius := max(k.radius(v), growth)
		if math.Abs(radius-last) <= agree*radius {
			return radius
		}
		last = radius
	}
	return last
}

// dense returns a matrix of n rows with its zeros.
func (m *Matrix) dense(n int) []float64 {
	out := make([]float64, n*n)
	for i := range n {
		for e := m.Start[i]; e < m.Start[i+1]; e++ {
			out[i*n+int(m.Column[e])] = float64(m.Value[e])
		}
	}
	return out
}

// krylov is the workspace of SpectralRadius.
type krylov struct {
	m     *Matrix
	next  []float64
	basis []float64 // rows are vectors
	h     []float64
}

// power multiplies v by the matrix as often as filter says, keeps it at length one, and
// returns the rate at which it would have grown: the slope of the logarithm of its length
// over the second half, by least squares, which averages over the turns of a complex
// pair. It is 0 for a vector that vanishes.
func (k *krylov) power(v []float64) float64 {
	var size, top, bottom float64
	for i := 1; i <= filter; i++ {
		k.m.multiply(k.next, v)
		norm := length(k.next)
		if norm == 0 {
			return 0
		}
		for j, x := range k.next {
			v[j] = x / norm
		}
		size += math.Log(norm)
		if i >= filter/2 {
			d := float64(i) - 0.75*filter
			top += d * size
			bottom += d * d
		}
	}
	return math.Exp(top / bottom)
}

// radius returns the spectral radius of the matrix in the subspace that begins with a
// vector of length one.
func (k *krylov) radius(v []float64) float64 {
	n := len(v)
	clear(k.h)
	copy(k.basis, v)
	size := subspace
	for j := range subspace {
		k.m.multiply(k.next, k.basis[j*n:(j+1)*n])
		scale := length(k.next)
		// Twice, so that rounding leaves the vectors orthogonal.
		for range 2 {
			for i := range j + 1 {
				b := k.basis[i*n : (i+1)*n]
				var dot float64
				for l, x := range k.next {
					dot += x * b[l]
				}
				for l, x := range b {
					k.next[l] -= dot * x
				}
				k.h[i*subspace+j] += dot
			}
		}
		norm := length(k.next)
		if norm <= 1e-12*scale { // the subspace holds all that the vector leads to
			size = j + 1
			break
		}
		if j+1 < subspace {
			k.h[(j+1)*subspace+j] = norm
			for l, x := range k.next {
				k.basis[(j+1)*n+l] = x / norm
			}
		}
	}
	small := make([]float64, 0, size*size)
	for i := range size {
		small = append(small, k.h[i*subspace:i*subspace+size]...)
	}
	return smallRadius(small, size)
}

func length(v []float64) float64 {
	var sum float64
	for _, x := range v {
		sum += x * x
	}
	return math.Sqrt(sum)
}

// smallRadius returns the spectral radius of an n×n matrix, which it changes: by Gelfand's
// formula, the limit of the k-th root of the norm of the k-th power, for k a power of
// two.
func smallRadius(a []float64, n int) float64 {
	b := make([]float64, n*n)
	var log float64 // of what a was divided by, as a share of its power
	share := 1.0
	for range doublings {
		norm := length(a)
		if norm == 0 {
			return 0
		}
		log += share * math.Log(norm)
		share /= 2
		for i, x := range a {
			a[i] = x / norm
		}
		square(b, a, n)
		a, b = b, a
	}
	return math.Exp(log)
}

// square sets b to the square of an n×n matrix. Every sum is in the order of its terms, four of
// which are taken at a time. Both matrices are the caller's alone: the race detector would find
// nothing, and take most of its time here.
//
//go:norace
func square(b, a []float64, n int) {
	clear(b)
	for i := range n {
		row, f := b[i*n:(i+1)*n], a[i*n:(i+1)*n]
		k := 0
		for ; k+4 <= n; k += 4 {
			f0, f1, f2, f3 := f[k], f[k+1], f[k+2], f[k+3]
			r0, r1, r2, r3 := a[k*n:][:n], a[(k+1)*n:][:n], a[(k+2)*n:][:n], a[(k+3)*n:][:n]
			for j, sum := range row {
				sum += f0 * r0[j]
				sum += f1 * r1[j]
				sum += f2 * r2[j]
				row[j] = sum + f3*r3[j]
			}
		}
		for ; k < n; k++ {
			for j, x := range a[k*n:][:n] {
				row[j] += f[k] * x
			}
		}
	}
}
