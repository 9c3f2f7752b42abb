//go:build !amd64

package elastic

// kernelSet is a way to compute with a block of the basis: in Go, where there is no assembly.
type kernelSet int

const scalar kernelSet = 0

const best = scalar

// use is what is in use.
var use = best

// dotsWide and subtractWide do nothing: dots and subtract do all the work.
func dotsWide(out, v, w []float64) bool   { return false }
func subtractWide(w, v, h []float64) bool { return false }
