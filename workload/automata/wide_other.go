//go:build !amd64

package automata

// kernel is a way to compute a row: in Go, where there is no assembly.
type kernel int

const scalar kernel = 0

const best = scalar

// use is the kernel in use.
var use = best

// rowWide computes nothing: the calling kernel does all the work.
func rowWide(dst, up, mid, down []uint64) int { return 0 }
