// Package tropical multiplies dense float32 matrices over the max-plus semiring:
// C[i,j] = max over p of A[i,p] + B[p,j], all row-major. With
// weights of edges as entries, powers of a matrix are longest paths; with
// negated weights, shortest ones; with log-probabilities, Viterbi decoding. [Mul]
// multiplies a caller's matrices on the devices of a runtime.
//
// Its results are of class X: bitwise the same for every partition and every
// path (AVX-512, AVX2, NEON, Go). A candidate is rounded once and a maximum is never
// rounded. Among equal candidates of different bits, +0 and -0, the one with the
// lowest p stays, and a candidate that is not a number is passed over.
package tropical

import (
	"github.com/weft-run/weft/internal/panel"
	"github.com/weft-run/weft/internal/product"
)

// kernel is the inner loop in use: the fastest this machine runs. Tests set it
// to each in turn.
var kernel = panel.MaxPlus()[0]

// scratchFloats is the number of floats of scratch memory that [computeRows] needs.
const scratchFloats = panel.Scratch

// computeRows sets rows lo to hi of C, m × n, to those of the max-plus product of A,
// m × k, and B, k × n. Where there is no candidate (k is 0, or all are not
// numbers) C is -Inf, the zero of the semiring. Rows are counted from the
// beginning of c and a, which need not reach beyond row hi. The slices must not
// overlap; scratch has at least [scratchFloats] floats with any contents. Rows panics
// when a slice is too short.
//
// It runs on the calling goroutine, allocates nothing, and returns to Go every
// few microseconds, so it does not hold up the garbage collector. Calls may run
// at the same time with different scratch and rows. Each call packs all of b, so
// ranges should have a hundred rows or more.
func computeRows(c, a, b []float32, k, n, lo, hi int, scratch []float32) {
	kernel.Rows(c, a, b, k, n, lo, hi, scratch)
}

// ops returns the operations, additions and comparisons, of an m × k by k × n product.
func ops(m, k, n int) float64 { return product.Ops(m, k, n) }

// traffic returns the bytes that product has to read and write at least.
func traffic(m, k, n int) float64 { return product.Bytes(m, k, n) }
