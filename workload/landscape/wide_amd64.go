package landscape

import "golang.org/x/sys/cpu"

// kernel is a way to add a pair to a row.
type kernel int

const (
	scalar kernel = iota // one angle after the other, in Go
	avx2                 // four angles at once
	avx512               // eight angles at once
)

// best is the fastest kernel this machine has.
var best = func() kernel {
	switch {
	case cpu.X86.HasAVX512F:
		return avx512
	case cpu.X86.HasAVX2:
		return avx2
	}
	return scalar
}()

// use is the kernel in use. Tests set it to run the others.
var use = best

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
	case avx512:
		addAVX512(&row[0], &cos[0], &sin[0], len(row)/8, p)
	case avx2:
		addAVX2(&row[0], &cos[0], &sin[0], len(row)/4, p)
	default:
		return false
	}
	return true
}
