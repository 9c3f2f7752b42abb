package network

import (
	"math"
	"slices"
)

// Tridiagonal returns the eigenvalues of a symmetric tridiagonal matrix in increasing order,
// and eigenvectors of the first count of them. Its arguments are the diagonal and the
// off-diagonal, which has one number less and no zeros. It finds eigenvalues by the implicit
// QL method (Bowdler et al. 1968) and eigenvectors by inverse iteration. ok is false if an
// eigenvalue is not found after 60 rounds, as in a matrix with a NaN.
func Tridiagonal(diagonal, beside []float64, count int) (values []float64, vectors [][]float64, ok bool) {
	n := len(diagonal)
	d, e := slices.Clone(diagonal), append(slices.Clone(beside), 0)
	for l := range d {
		for round := 0; ; round++ {
			m := l
			for m < n-1 && !(math.Abs(e[m]) <= 0x1p-53*(math.Abs(d[m])+math.Abs(d[m+1]))) {
				m++
			}
			if m == l {
				break
			}
			if round == 60 {
				return nil, nil, false
			}
			chase(d, e, l, m)
		}
	}
	slices.Sort(d)
	norm := max(math.Abs(d[0]), math.Abs(d[n-1]))
	for i := range min(count, n) {
		x := make([]float64, n)
		for k := range x { // any vector that has something of all
			x[k] = 1 + float64(k*7919%1013)/1013
		}
		for range 3 {
			solve(diagonal, beside, d[i], x, norm)
			for k := i - 1; k >= 0 && d[i]-d[k] < 1e-3*norm; k-- {
				axpy(x, vectors[k], -dot(x, vectors[k]))
			}
			scale(x, 1/math.Sqrt(dot(x, x)))
		}
		vectors = append(vectors, x)
	}
	return d, vectors, true
}

// chase is one round of QL with a shift on rows l to m.
func chase(d, e []float64, l, m int) {
	g := (d[l+1] - d[l]) / (2 * e[l])
	r := math.Hypot(g, 1)
	g = d[m] - d[l] + e[l]/(g+math.Copysign(r, g))
	s, c, p := 1.0, 1.0, 0.0
	for i := m - 1; i >= l; i-- {
		f, b := s*e[i], c*e[i]
		r = math.Hypot(f, g)
		e[i+1] = r
		if r == 0 { // the matrix falls apart here
			d[i+1] -= p
			e[m] = 0
			return
		}
		s, c = f/r, g/r
		g = d[i+1] - p
		r = (d[i]-g)*s + 2*c*b
		p = s * r
		d[i+1] = g + p
		g = c*r - b
	}
	d[l] -= p
	e[l], e[m] = g, 0
}

// solve sets x to (T - shift)⁻¹ x up to a factor, by elimination with row exchanges. A pivot
// of zero is replaced by a small one.
func solve(diagonal, beside []float64, shift float64, x []float64, norm float64) {
	n := len(diagonal)
	least := 0x1p-53 * norm
	// Row i of the triangle has the entries u, v, w in columns i, i+1, i+2.
	u, v, w := make([]float64, n), make([]float64, n), make([]float64, n)
	next := func(i int) float64 {
		if i < n-1 {
			return beside[i]
		}
		return 0
	}
	u[0], v[0] = diagonal[0]-shift, next(0)
	for i := 1; i < n; i++ {
		below, on, after := beside[i-1], diagonal[i]-shift, next(i)
		if math.Abs(below) > math.Abs(u[i-1]) {
			u[i-1], below = below, u[i-1]
			v[i-1], on = on, v[i-1]
			w[i-1], after = after, 0
			x[i-1], x[i] = x[i], x[i-1]
		}
		if math.Abs(u[i-1]) < least {
			u[i-1] = least
		}
		f := below / u[i-1]
		u[i], v[i] = on-f*v[i-1], after-f*w[i-1]
		x[i] -= f * x[i-1]
	}
	if math.Abs(u[n-1]) < least {
		u[n-1] = least
	}
	for i := n - 1; i >= 0; i-- {
		if i < n-1 {
			x[i] -= v[i] * x[i+1]
		}
		if i < n-2 {
			x[i] -= w[i] * x[i+2]
		}
		x[i] /= u[i]
		if math.Abs(x[i]) > 1e100 { // only its direction matters
			scale(x, 1e-100)
		}
	}
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// axpy adds f times x to y.
func axpy(y, x []float64, f float64) {
	for i, v := range x {
		y[i] += f * v
	}
}

func scale(x []float64, f float64) {
	for i := range x {
		x[i] *= f
	}
}
