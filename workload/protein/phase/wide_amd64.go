package phase

import "github.com/weft-run/weft/internal/simd"

// The assembly multiplies and adds in the order of the Go code and without fusing, so that all
// agree to the last bit. n is the length of the real parts of a row, a multiple of lanes.
//
//go:noescape
func productAVX512(out, a, b *float64, count, n int)

//go:noescape
func productAVX2(out, a, b *float64, count, n int)

// productWide does the work of product if there is a kernel for it.
func productWide(out, a, b []float64) bool {
	if use == simd.Go || len(out) == 0 || len(a) == 0 {
		return false
	}
	_ = b[:len(out)/2*len(a)]
	if use == simd.AVX512 {
		productAVX512(&out[0], &a[0], &b[0], len(out)/2, len(a)/2)
	} else {
		productAVX2(&out[0], &a[0], &b[0], len(out)/2, len(a)/2)
	}
	return true
}
