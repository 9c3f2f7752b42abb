package autodiff

import "golang.org/x/sys/cpu"

// vector is the number that block lengths are multiples of: two vectors of AVX2, eight numbers.
const vector = 8

// wide says whether blocks are computed in vectors. Tests set it to run the Go code.
var wide = cpu.X86.HasAVX2

// The kernels for vectors do what the Go loops do, with the same roundings. n is a multiple of
// eight.

//go:noescape
func addAVX2(out, a, b *float64, n int)

//go:noescape
func subAVX2(out, a, b *float64, n int)

//go:noescape
func mulAVX2(out, a, b *float64, n int)

//go:noescape
func divAVX2(out, a, b *float64, n int)

//go:noescape
func addNumberAVX2(out, a *float64, b float64, n int)

//go:noescape
func subNumberAVX2(out, a *float64, b float64, n int)

//go:noescape
func mulNumberAVX2(out, a *float64, b float64, n int)

//go:noescape
func divNumberAVX2(out, a *float64, b float64, n int)

//go:noescape
func mulAddAVX2(out, a, b, c *float64, n int)

//go:noescape
func mulAddNumberAVX2(out, a *float64, b float64, c *float64, n int)

//go:noescape
func sqrtAVX2(out, a *float64, n int)

func add(out, a, b []float64) {
	if !wide {
		addGo(out, a, b)
		return
	}
	addAVX2(&out[0], &a[0], &b[0], len(out))
}

func sub(out, a, b []float64) {
	if !wide {
		subGo(out, a, b)
		return
	}
	subAVX2(&out[0], &a[0], &b[0], len(out))
}

func mul(out, a, b []float64) {
	if !wide {
		mulGo(out, a, b)
		return
	}
	mulAVX2(&out[0], &a[0], &b[0], len(out))
}

func div(out, a, b []float64) {
	if !wide {
		divGo(out, a, b)
		return
	}
	divAVX2(&out[0], &a[0], &b[0], len(out))
}

func addNumber(out, a []float64, b float64) {
	if !wide {
		addNumberGo(out, a, b)
		return
	}
	addNumberAVX2(&out[0], &a[0], b, len(out))
}

func subNumber(out, a []float64, b float64) {
	if !wide {
		subNumberGo(out, a, b)
		return
	}
	subNumberAVX2(&out[0], &a[0], b, len(out))
}

func mulNumber(out, a []float64, b float64) {
	if !wide {
		mulNumberGo(out, a, b)
		return
	}
	mulNumberAVX2(&out[0], &a[0], b, len(out))
}

func divNumber(out, a []float64, b float64) {
	if !wide {
		divNumberGo(out, a, b)
		return
	}
	divNumberAVX2(&out[0], &a[0], b, len(out))
}

func mulAdd(out, a, b, c []float64) {
	if !wide {
		mulAddGo(out, a, b, c)
		return
	}
	mulAddAVX2(&out[0], &a[0], &b[0], &c[0], len(out))
}

func mulAddNumber(out, a []float64, b float64, c []float64) {
	if !wide {
		mulAddNumberGo(out, a, b, c)
		return
	}
	mulAddNumberAVX2(&out[0], &a[0], b, &c[0], len(out))
}

func sqrt(out, a []float64) {
	if !wide {
		sqrtGo(out, a)
		return
	}
	sqrtAVX2(&out[0], &a[0], len(out))
}
