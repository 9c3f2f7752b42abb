package fold

import "golang.org/x/sys/cpu"

//go:generate simd/step.sh

// best is the fastest kernel this machine has.
var best = func() kernel {
	x := &cpu.X86
	switch {
	case x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512VL:
		return avx512
	case x.HasAVX2:
		return avx2
	}
	return inGo
}()

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
	case avx512:
		enterAVX512(a, what)
	case avx2:
		enterAVX2(a, what)
	default:
		a.lanes(what)
	}
}
