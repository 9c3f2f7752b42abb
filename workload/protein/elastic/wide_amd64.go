package elastic

import "github.com/weft-run/weft/internal/simd"

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
	if len(out) == 0 || use == simd.Go {
		return false
	}
	_ = v[:len(out)*len(w)]
	if use == simd.AVX512 {
		dotsAVX512(&out[0], &v[0], &w[0], len(out), len(w))
	} else {
		dotsAVX2(&out[0], &v[0], &w[0], len(out), len(w))
	}
	return true
}

// subtractWide does the work of subtract if there is a kernel for it.
func subtractWide(w, v, h []float64) bool {
	if len(h) == 0 || use == simd.Go {
		return false
	}
	_ = v[:len(h)*len(w)]
	if use == simd.AVX512 {
		subtractAVX512(&w[0], &v[0], &h[0], len(h), len(w))
	} else {
		subtractAVX2(&w[0], &v[0], &h[0], len(h), len(w))
	}
	return true
}
