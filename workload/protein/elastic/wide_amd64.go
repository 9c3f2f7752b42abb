package elastic

import "golang.org/x/sys/cpu"

// kernelSet is a way to compute with a block of the basis.
type kernelSet int

const (
	scalar kernelSet = iota // in Go
	avx2                    // four rows at once
	avx512                  // eight rows at once
)

// best is the fastest this machine has.
var best = func() kernelSet {
	switch {
	case cpu.X86.HasAVX512F:
		return avx512
	case cpu.X86.HasAVX2:
		return avx2
	}
	return scalar
}()

// use is what is in use. Tests set it to run the others.
var use = best

// The assembly multiplies and adds in the order of the Go code and without fusing, so that all
// agree to the last bit. rows is a multiple of lanes.
//
//go:noescape
func dotsAVX512(out, v, w *float64, count, rows int)

//go:noescape
func dotsAVX2(out, v, w *float64, count, rows int)

//go:noescape
func subtractAVX512(w, v, h *float64, count, rows int)

//go:noescape
func subtractAVX2(w, v, h *float64, count, rows int)

// dotsWide does the work of dots if there is a kernel for it.
func dotsWide(out, v, w []float64) bool {
	if len(out) == 0 || use == scalar {
		return false
	}
	_ = v[:len(out)*len(w)]
	if use == avx512 {
		dotsAVX512(&out[0], &v[0], &w[0], len(out), len(w))
	} else {
		dotsAVX2(&out[0], &v[0], &w[0], len(out), len(w))
	}
	return true
}

// subtractWide does the work of subtract if there is a kernel for it.
func subtractWide(w, v, h []float64) bool {
	if len(h) == 0 || use == scalar {
		return false
	}
	_ = v[:len(h)*len(w)]
	if use == avx512 {
		subtractAVX512(&w[0], &v[0], &h[0], len(h), len(w))
	} else {
		subtractAVX2(&w[0], &v[0], &h[0], len(h), len(w))
	}
	return true
}
