// Package network makes sparse symmetric matrices of the C-alpha atoms of a protein, and finds
// their slowest modes: the Kirchhoff matrix of the Gaussian network model, the Hessian of the
// anisotropic network model, and the graph of contacts. It computes on the caller's goroutine;
// workload/protein/elastic does the same on the devices of a runtime. Coordinates are x, y and z of
// each bead in angstrom.
//
// Files: network.go (matrices), modes.go (their slowest modes), tridiagonal.go (eigenvalues of
// a tridiagonal matrix).
package network

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/protein"
)

// ErrNetwork is wrapped by every error of this package.
var ErrNetwork = errors.New("bad network")

// Cutoffs of the three networks in angstrom.
const (
	GaussianCutoff    = 10.0 // Kirchhoff matrix: at most this far apart
	AnisotropicCutoff = 15.0 // Hessian: at most this far apart
	ContactCutoff     = 8.0  // contacts: nearer than this
)

// MaxBeads is the most beads of a network: a Hessian has about 500 entries for each of them.
const MaxBeads = 20_000

// Matrix is a sparse symmetric matrix. The diagonal is always among its entries.
type Matrix struct{ workload.Sparse }

// Mul sets y to the product of the matrix and x. Entries of a row are added in their order.
func (m *Matrix) Mul(y, x []float64) {
	for i := range y {
		columns, values := m.Row(i)
		sum := 0.0
		for k, c := range columns {
			sum += float64(values[k] * x[c])
		}
		y[i] = sum
	}
}

// Permuted returns the matrix with rows and columns in another order: its row i is row
// order[i] of m.
func (m *Matrix) Permuted(order []int) *Matrix {
	at := make([]uint32, len(order))
	for i, from := range order {
		at[from] = uint32(i)
	}
	out := &Matrix{workload.Sparse{Starts: make([]uint32, 1, len(m.Starts)), Columns: make([]uint32, 0, len(m.Columns)), Values: make([]float64, 0, len(m.Values))}}
	type entry struct {
		column uint32
		value  float64
	}
	var row []entry
	for _, from := range order {
		columns, values := m.Row(from)
		row = row[:0]
		for k, c := range columns {
			row = append(row, entry{at[c], values[k]})
		}
		slices.SortFunc(row, func(a, b entry) int { return int(a.column) - int(b.column) })
		for _, e := range row {
			out.Columns, out.Values = append(out.Columns, e.column), append(out.Values, e.value)
		}
		out.Starts = append(out.Starts, uint32(len(out.Columns)))
	}
	return out
}

// neighbours returns for each bead those that within says are joined to it, in increasing
// order, itself included. No two beads farther apart than cutoff are joined.
func neighbours(xyz []float64, cutoff float64, within func(d float64) bool) ([][]uint32, error) {
	n := len(xyz) / 3
	if n < 2 || n > MaxBeads || len(xyz)%3 != 0 {
		return nil, fmt.Errorf("network: %d coordinates: %w: there must be three for each of 2 to %d beads", len(xyz), ErrNetwork, MaxBeads)
	}
	if !(cutoff > 0) || math.IsInf(cutoff, 1) {
		return nil, fmt.Errorf("network: cutoff %v Å: %w: it must be a positive number", cutoff, ErrNetwork)
	}
	for i, v := range xyz {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("network: a coordinate of bead %d is %v: %w: coordinates must be finite", i/3, v, ErrNetwork)
		}
	}
	near := make([][]uint32, n)
	for i := range near {
		near[i] = append(near[i], uint32(i))
	}
	for c := range protein.Near(xyz, math.Nextafter(cutoff, math.Inf(1))) {
		if c.Distance == 0 {
			return nil, fmt.Errorf("network: beads %d and %d are in the same place: %w: remove one", c.I, c.J, ErrNetwork)
		}
		if within(c.Distance) {
			near[c.I] = append(near[c.I], uint32(c.J))
			near[c.J] = append(near[c.J], uint32(c.I))
		}
	}
	for _, row := range near {
		slices.Sort(row)
	}
	return near, nil
}

// Kirchhoff returns the Kirchhoff matrix of the Gaussian network model: -1 for every two beads
// at most cutoff apart, and on the diagonal the number of these. (Bahar, Atilgan and Erman 1997.)
func Kirchhoff(xyz []float64, cutoff float64) (*Matrix, error) {
	near, err := neighbours(xyz, cutoff, func(d float64) bool { return d <= cutoff })
	if err != nil {
		return nil, err
	}
	return laplacian(near), nil
}

// Contacts returns the Laplacian of the graph of contacts: beads nearer than cutoff.
func Contacts(xyz []float64, cutoff float64) (*Matrix, error) {
	near, err := neighbours(xyz, cutoff, func(d float64) bool { return d < cutoff })
	if err != nil {
		return nil, err
	}
	return laplacian(near), nil
}

// newMatrix returns a matrix without rows, with capacity for the neighbours in near and each rows and
// columns per residue.
func newMatrix(near [][]uint32, each int) *Matrix {
	entries := 0
	for _, row := range near {
		entries += each * each * len(row)
	}
	return &Matrix{workload.Sparse{Starts: make([]uint32, 1, each*len(near)+1), Columns: make([]uint32, 0, entries), Values: make([]float64, 0, entries)}}
}

func laplacian(near [][]uint32) *Matrix {
	m := newMatrix(near, 1)
	for i, row := range near {
		for _, j := range row {
			m.Columns = append(m.Columns, j)
			if int(j) == i {
				m.Values = append(m.Values, float64(len(row)-1))
			} else {
				m.Values = append(m.Values, -1)
			}
		}
		m.Starts = append(m.Starts, uint32(len(m.Columns)))
	}
	return m
}

// Hessian returns the Hessian of the anisotropic network model with springs of constant 1: for
// every two beads at most cutoff apart the block -d dᵀ/|d|², where d is the vector from one to
// the other, and on the diagonal minus the sum of these. It has three rows for each bead.
// (Atilgan et al. 2001.)
func Hessian(xyz []float64, cutoff float64) (*Matrix, error) {
	near, err := neighbours(xyz, cutoff, func(d float64) bool { return d <= cutoff })
	if err != nil {
		return nil, err
	}
	m := newMatrix(near, 3)
	for i, row := range near {
		var own [3][3]float64
		blocks := make([][3][3]float64, len(row))
		for k, j := range row {
			if int(j) == i {
				continue
			}
			blocks[k] = spring(xyz[3*i:3*i+3], xyz[3*j:3*j+3])
			for r := range 3 {
				for c := range 3 {
					own[r][c] -= blocks[k][r][c]
				}
			}
		}
		for r := range 3 {
			for k, j := range row {
				block := &blocks[k]
				if int(j) == i {
					block = &own
				}
				for c := range 3 {
					m.Columns = append(m.Columns, 3*j+uint32(c))
					m.Values = append(m.Values, block[r][c])
				}
			}
			m.Starts = append(m.Starts, uint32(len(m.Columns)))
		}
	}
	return m, nil
}

// spring is the block of two beads. It is the same both ways round, to the last bit.
func spring(a, b []float64) (out [3][3]float64) {
	var d [3]float64
	d2 := 0.0
	for c := range d {
		d[c] = a[c] - b[c]
		d2 += float64(d[c] * d[c])
	}
	for r := range 3 {
		for c := range 3 {
			out[r][c] = -d[r] * d[c] / d2
		}
	}
	return out
}

// Parts returns the number of parts of a network that nothing joins.
func (m *Matrix) Parts() int {
	seen := make([]bool, m.Rows())
	parts := 0
	for i := range seen {
		if seen[i] {
			continue
		}
		parts++
		seen[i] = true
		for queue := []int{i}; len(queue) > 0; queue = queue[1:] {
			columns, _ := m.Row(queue[0])
			for _, c := range columns {
				if !seen[c] {
					seen[c] = true
					queue = append(queue, int(c))
				}
			}
		}
	}
	return parts
}
