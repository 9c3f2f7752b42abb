package network

import "golang.org/x/sys/cpu"

// wide says whether rows are added eight numbers at a time. Tests set it to run the Go code.
var wide = cpu.X86.HasAVX2

// addAVX2 adds n numbers times a factor to others; n is a multiple of eight. It rounds as the Go
// code does.
//
//go:noescape
func addAVX2(to, row *float32, n int, by float32)

// add adds a row times a factor to another.
func add(to, row []float32, by float32) {
	n := len(to) &^ 7
	if !wide || n == 0 {
		addScalar(to, row, by)
		return
	}
	row = row[:len(to)]
	addAVX2(&to[0], &row[0], n, by)
	addScalar(to[n:], row[n:], by)
}
