//go:build !amd64

package network

// wide says whether rows are added eight numbers at a time: not here.
var wide = false

// add adds a row times a factor to another.
func add(to, row []float32, by float32) { addScalar(to, row, by) }

// gathers says whether gather reads eight numbers at a time: not here.
var gathers = false

// gather sets sums[i] to the sum of x[c] over the columns c of row i. It returns false if a column is
// outside of x. Row i is columns[starts[i]-base : starts[i+1]-base].
func gather(sums []float64, starts, columns []uint32, x []float64, base uint32) bool {
	return gatherScalar(sums, starts, columns, x, base)
}
