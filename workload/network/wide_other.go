//go:build !amd64

package network

// wide says whether rows are added eight numbers at a time: not here.
var wide = false

// add adds a row times a factor to another.
func add(to, row []float32, by float32) { addScalar(to, row, by) }

// gathers says whether gather reads eight numbers at a time: not here.
var gathers = false

// gather sets to[i] to what node i gives after a step.
func gather(to, shares []float64, starts, columns []uint32, x []float64, damping float64, base uint32) bool {
	return gatherScalar(to, shares, starts, columns, x, damping, base)
}
