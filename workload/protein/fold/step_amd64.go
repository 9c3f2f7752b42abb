package fold

import "github.com/weft-run/weft/internal/simd"

//go:generate simd/step.sh

// enterAVX512 and enterAVX2 run the code of simd/step.c, which takes some microseconds for a short
// chain and some milliseconds for a very long one.
//
//go:noescape
func enterAVX512(a *args, what int)

//go:noescape
func enterAVX2(a *args, what int)

// do does what the bits of what ask for.
func (a *args) do(what int) {
	switch use {
	case simd.AVX512:
		enterAVX512(a, what)
	case simd.AVX2:
		enterAVX2(a, what)
	default:
		a.lanes(what)
	}
}
