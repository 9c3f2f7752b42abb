//go:build !amd64

package phase

// kernelSet is a way to multiply rows: in Go, where there is no assembly.
type kernelSet int

const scalar kernelSet = 0

const best = scalar

// use is what is in use.
var use = best

// productWide does nothing: product does all the work.
func productWide(out, a, b []float64) bool { return false }
