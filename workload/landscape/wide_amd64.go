package landscape

import "github.com/weft-run/weft/internal/simd"

// addAVX512 and addAVX2 add a pair at a number of vectors of angles. They multiply
// and add in the order of the Go code and without fusing, so that all kernels
// agree to the last bit.
//
//go:noescape
func addAVX512(row, cos, sin *float64, vectors int, p *pair)

//go:noescape
func addAVX2(row, cos, sin *float64, vectors int, p *pair)

// addWide does the work of add if there is a kernel for it. The length of row is a
// multiple of lanes.
func (p *pair) addWide(row, cos, sin []float64) bool {
	switch use {
	case simd.AVX512:
		addAVX512(&row[0], &cos[0], &sin[0], len(row)/8, p)
	case simd.AVX2:
		addAVX2(&row[0], &cos[0], &sin[0], len(row)/4, p)
	default:
		return false
	}
	return true
}
