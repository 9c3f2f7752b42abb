//go:build !amd64

package network

// wide says whether rows are added eight numbers at a time: not here.
var wide = false

// add adds a row times a factor to another.
func add(to, row []float32, by float32) { addScalar(to, row, by) }
