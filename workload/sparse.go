package workload

// Sparse is a square sparse matrix in compressed rows, or a graph with its nodes as rows: row
// i has the columns Columns[Starts[i]:Starts[i+1]], in increasing order. Values has one entry
// per column; nil means that all are one.
type Sparse struct {
	Starts  []uint32
	Columns []uint32
	Values  []float64
}

// Rows is the number of rows, and of columns.
func (m *Sparse) Rows() int { return len(m.Starts) - 1 }

// Nonzeros is the number of entries that are stored.
func (m *Sparse) Nonzeros() int { return len(m.Columns) }

// Row returns the columns and values of a row; values are nil where all are one.
func (m *Sparse) Row(i int) ([]uint32, []float64) {
	lo, hi := m.Starts[i], m.Starts[i+1]
	if m.Values == nil {
		return m.Columns[lo:hi], nil
	}
	return m.Columns[lo:hi], m.Values[lo:hi]
}
