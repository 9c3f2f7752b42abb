package workload

import (
	"fmt"
	"math"
)

// Matrix is a dense matrix, row by row: element (i, j) is Data[i*Cols+j].
type Matrix struct {
	Rows, Cols int
	Data       []float32
}

// At returns the element in a row and column.
func (m Matrix) At(row, col int) float32 { return m.Data[row*m.Cols+col] }

// Validate reports sizes below zero, and data of another length than the sizes say.
func (m Matrix) Validate() error {
	switch {
	case m.Rows < 0 || m.Cols < 0 || m.Cols > 0 && m.Rows > math.MaxInt/4/m.Cols:
		return fmt.Errorf("%d × %d is no size of a matrix", m.Rows, m.Cols)
	case len(m.Data) != m.Rows*m.Cols:
		return fmt.Errorf("%d × %d takes %d numbers, given are %d", m.Rows, m.Cols, m.Rows*m.Cols, len(m.Data))
	}
	return nil
}

// Product is a job that multiplies two matrices, C of A and B, all row-major.
type Product interface {
	Job
	Hosted
	Inspected
	// Operands are A and B in the job's own memory. Between runs a caller may set them to
	// the numbers it wants multiplied.
	Operands() (a, b []float32)
	// Result is C after a run, in the job's own memory.
	Result() []float32
}

// Split says how the product of two matrices is dealt out. The result is the same bits.
type Split string

// What of the product devices share. They read the rows of A and the columns of B that
// they need.
const (
	// AnySplit leaves the choice to weft.
	AnySplit Split = ""
	// Rows: a device has some rows of C and reads all of B.
	Rows Split = "rows"
	// Columns: a device has some columns of C and reads all of A. It helps where rows are few.
	Columns Split = "columns"
	// Blocks: a device has rows and columns of C, as in SUMMA. The less of A and B a device
	// reads, the sooner it begins: it helps with many devices that have memory of their own.
	Blocks Split = "blocks"
)
