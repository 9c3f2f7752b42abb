package fold

import "github.com/weft-run/weft/internal/simd"

// enterNEON runs the code of simd/step.c, which takes some microseconds for a short chain and some
// milliseconds for a very long one.
//
//go:noescape
func enterNEON(a *args, what int)

// do takes those parts of a step whose bits are set in what.
func (a *args) do(what int) {
	if use == simd.NEON {
		enterNEON(a, what)
		return
	}
	a.lanes(what)
}
