// Package gemm multiplies dense float32 matrices: C = A·B, all row-major. [Mul] multiplies
// a caller's matrices on the devices of a runtime.
//
// Its results are of class R: rows are bitwise the same however they are dealt
// out, because every element is one chain of additions in rising order of the
// inner index, starting from zero. With AVX-512, AVX2 and NEON the chain is of
// fused multiply-adds and they agree in every bit; without any, products are
// rounded before they are added, alike on every architecture, and results
// differ from the fused ones by rounding. With integer entries small enough for
// all sums to stay below 2²⁴, every path is exact (class X). A term that is not a number
// makes its sum none, on all backends; so does it in package conv.
package gemm

import (
	"github.com/weft-run/weft/internal/panel"
	"github.com/weft-run/weft/internal/product"
)

// kernel is the inner loop in use: the fastest this machine runs. Tests set it
// to each in turn.
var kernel = panel.SumProduct()[0]

// scratchFloats is the number of floats of scratch memory that [computeRows] needs.
const scratchFloats = panel.Scratch

// computeRows sets rows lo to hi of C, m × n, to those of A·B, where A is m × k and B
// is k × n. Rows are counted from the beginning of c and a, which need not reach
// beyond row hi. The slices must not overlap; scratch has at least [scratchFloats]
// floats with any contents. Rows panics when a slice is too short.
//
// It runs on the calling goroutine, allocates nothing, and returns to Go every
// few microseconds, so it does not hold up the garbage collector. Calls may run
// at the same time with different scratch and rows. Each call packs all of b, so
// ranges should have a hundred rows or more.
func computeRows(c, a, b []float32, k, n, lo, hi int, scratch []float32) {
	kernel.Rows(c, a, b, k, n, lo, hi, scratch)
}

// ops returns the floating-point operations of an m × k by k × n product.
func ops(m, k, n int) float64 { return product.Ops(m, k, n) }

// traffic returns the bytes that product has to read and write at least.
func traffic(m, k, n int) float64 { return product.Bytes(m, k, n) }
