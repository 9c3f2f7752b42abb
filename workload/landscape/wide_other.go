//go:build !amd64

package landscape

// kernel is a way to add a pair to a row: in Go, where there is no assembly.
type kernel int

const scalar kernel = 0

const best = scalar

// use is the kernel in use.
var use = best

// addWide does nothing: add does all the work.
func (p *pair) addWide(row, cos, sin []float64) bool { return false }
