//go:build !amd64

package network

// wide says whether rows are added eight numbers at a time: not here.
var wide = false

// add adds a row times a factor to another.
func add(to, row []float32, by float32) { addScalar(to, row, by) }

// gathers says whether what rows name is gathered eight numbers at a time: not here.
var gathers = false

// gather sets sums to those of the numbers in x that the columns of some rows name, unless one is
// outside of x. Rows begin at starts less base in columns, and there is one more start than rows.
func gather(sums []float64, starts, columns []uint32, x []float64, base uint32) bool {
	return gatherScalar(sums, starts, columns, x, base)
}
