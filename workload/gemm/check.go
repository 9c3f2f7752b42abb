package gemm

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// ErrWrong is returned by [Check] for a matrix that is not the product.
var ErrWrong = errors.New("not the product")

// rounds is how often Check multiplies by a random vector. Errors that cancel
// by chance do so with probability one half at most each time.
const rounds = 12

// Check tests whether c, m × n, is a·b but for rounding, in time proportional to
// the size of the matrices (Freivalds, "Probabilistic machines can use less
// running time", 1977): for random vectors x of ±1 it compares c·x with a·(b·x),
// in float64. It returns an error that is [ErrWrong] and names the first row
// that differs.
//
// A row passes while the difference is at most 4 ε √k |aᵢ| |b|, with ε = 2⁻²³
// and the Euclidean norms of a's row and of all b: what rounding gives, with room
// to spare, in a float32 sum of k terms for every element. So an error much
// smaller than √n elements' rounding goes unseen, and a matrix of finite numbers
// is never refused in practice for how it was summed. Entries that are not
// finite always are. The seed decides the vectors.
func Check(c, a, b []float32, m, k, n int, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 0))
	x, bx := make([]float64, n), make([]float64, k)
	tolerance := 4 * 0x1p-23 * math.Sqrt(float64(k)) * norm(b[:k*n])
	for range rounds {
		for j := range x {
			x[j] = float64(random.IntN(2)*2 - 1)
		}
		for p := range bx {
			bx[p] = dot(b[p*n:][:n], x)
		}
		for i := range m {
			row := a[i*k:][:k]
			got, want := dot(c[i*n:][:n], x), dot(row, bx)
			// Written so that a NaN fails.
			if limit := tolerance * norm(row); !(math.Abs(got-want) <= limit) {
				return fmt.Errorf("gemm: row %d: random sum %g, want %g ± %g: %w", i, got, want, limit, ErrWrong)
			}
		}
	}
	return nil
}

// Reference computes rows lo to hi of a·b in float64 with three plain loops, to
// compare [Rows] with. c is m × n like the c of Rows.
func Reference(c []float64, a, b []float32, k, n, lo, hi int) {
	for i := lo; i < hi; i++ {
		row := c[i*n:][:n]
		clear(row)
		for p := range k {
			x := float64(a[i*k+p])
			for j, y := range b[p*n:][:n] {
				row[j] += x * float64(y)
			}
		}
	}
}

func dot(xs []float32, ys []float64) (s float64) {
	for i, x := range xs {
		s += float64(x) * ys[i]
	}
	return s
}

func norm(xs []float32) float64 {
	s := 0.0
	for _, x := range xs {
		s += float64(x) * float64(x)
	}
	return math.Sqrt(s)
}
