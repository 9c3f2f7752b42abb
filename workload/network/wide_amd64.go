package network

import "golang.org/x/sys/cpu"

// wide says whether rows are added eight numbers at a time. Tests set it to run the Go code.
var wide = cpu.X86.HasAVX2

// gathers says whether gather reads eight numbers at a time.
var gathers = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512DQ && cpu.X86.HasBMI2

// gatherAVX512 does the work of gatherScalar for rows whose columns are there. It adds in the
// same order.
//
//go:noescape
func gatherAVX512(to, shares *float64, starts, columns *uint32, x *float64, rows, n int, damping float64, base uint32) bool

// gather sets to[i] to what node i gives after a step: the share of one and of the damped sum of x[c]
// over the columns c of row i. It returns false if a column is outside of x. Row i is
// columns[starts[i]-base : starts[i+1]-base].
func gather(to, shares []float64, starts, columns []uint32, x []float64, damping float64, base uint32) bool {
	if !gathers || len(columns) == 0 || len(x) > MaxNodes {
		return gatherScalar(to, shares, starts, columns, x, damping, base)
	}
	shares = shares[:len(to)]
	return gatherAVX512(&to[0], &shares[0], &starts[0], &columns[0], &x[0], len(to), len(x), damping, base)
}

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
