package partition

import (
	"fmt"
	"slices"

	"github.com/weft-run/weft/internal/protein/network"
)

// slack is the most by which a part of ContactClusters may differ from its weight's share, as
// METIS has it; a residue is always allowed.
const slack = 0.03

// ContactClusters cuts a protein into parts with few contacts between them, with sizes as the
// weights, which are rates of devices, or Equal, within 3 %, or one residue. It bisects the
// graph of contacts, which network.Contacts returns, recursively: by its slowest mode
// (Fiedler's vector), by the chain, and by growing a part from residues far apart, each
// improved by moving residues (Fiduccia and Mattheyses 1982), and takes the best cut. At the end
// residues move among all parts. The result depends on nothing but the arguments.
func ContactClusters(contacts *network.Matrix, weights []float64) (*Parts, error) {
	sizes, err := quotas(contacts.Rows(), weights)
	if err != nil {
		return nil, err
	}
	all := make([]int, contacts.Rows())
	for i := range all {
		all[i] = i
	}
	p := &Parts{Of: make([]int, len(all)), Count: len(weights)}
	if err := p.bisect(contacts, all, sizes, 0); err != nil {
		return nil, err
	}
	refine(contacts, p.Of, sizes, slices.Repeat([]int{1}, len(sizes)))
	return p, nil
}

// bisect assigns residues to parts from first on, with the given sizes.
func (p *Parts) bisect(contacts *network.Matrix, residues, sizes []int, first int) error {
	if len(sizes) == 1 {
		for _, r := range residues {
			p.Of[r] = first
		}
		return nil
	}
	half := len(sizes) / 2
	left := 0
	for _, s := range sizes[:half] {
		left += s
	}
	sub := subgraph(contacts, residues)
	side, err := split(sub, []int{left, len(residues) - left}, []int{half, len(sizes) - half})
	if err != nil {
		return err
	}
	var halves [2][]int
	for i, r := range residues {
		halves[side[i]] = append(halves[side[i]], r)
	}
	// The halves may be a little off: the levels below use the same proportions, with at least
	// one residue per part.
	for h, s := range [][]int{sizes[:half], sizes[half:]} {
		weights := make([]float64, len(s))
		for k, size := range s {
			weights[k] = float64(max(size, 1))
		}
		below, err := quotas(len(halves[h]), weights)
		if err != nil {
			return err
		}
		if err := p.bisect(contacts, halves[h], below, first+h*half); err != nil {
			return err
		}
	}
	return nil
}

// subgraph returns the Laplacian among some residues, which are in increasing order.
func subgraph(m *network.Matrix, residues []int) *network.Matrix {
	at := make(map[uint32]uint32, len(residues))
	for i, r := range residues {
		at[uint32(r)] = uint32(i)
	}
	out := &network.Matrix{}
	out.Starts = []uint32{0}
	for i, r := range residues {
		own, degree := 0, 0
		columns, _ := m.Row(r)
		for _, c := range columns {
			to, ok := at[c]
			if !ok {
				continue
			}
			if int(to) == i {
				own = len(out.Values)
			} else {
				degree++
			}
			out.Columns, out.Values = append(out.Columns, to), append(out.Values, -1)
		}
		out.Values[own] = float64(degree)
		out.Starts = append(out.Starts, uint32(len(out.Columns)))
	}
	return out
}

// split returns on which side each residue of a graph is, with few contacts between the sides,
// which have least residues.
func split(m *network.Matrix, sizes, least []int) ([]int, error) {
	n := m.Rows()
	orders := [][]int{make([]int, n)} // the first sizes[0] of each are a side
	for i := range n {
		orders[0][i] = i
	}
	modes, err := m.Slowest(network.Uniform(n), 3)
	if err != nil {
		return nil, fmt.Errorf("partition: %w", err)
	}
	for _, v := range modes.Vectors {
		by := slices.Clone(orders[0])
		slices.SortStableFunc(by, func(a, b int) int {
			switch {
			case v[a] < v[b]:
				return -1
			case v[a] > v[b]:
				return 1
			}
			return 0
		})
		orders = append(orders, by)
	}
	for s := range min(starts, n) {
		orders = append(orders, grown(m, s*n/min(starts, n)))
	}
	var best []int
	fewest := 0
	for _, order := range orders {
		// From either end, as the sides may differ in size.
		for end := range 2 {
			side := slices.Repeat([]int{1}, n)
			for k := range sizes[0] {
				at := order[k]
				if end == 1 {
					at = order[n-1-k]
				}
				side[at] = 0
			}
			refine(m, side, sizes, least)
			if cut := (&Parts{Of: side}).Cut(m); best == nil || cut < fewest {
				best, fewest = side, cut
			}
		}
	}
	return best, nil
}

// starts is the number of residues from which a side is grown.
const starts = 16

// grown returns residues in the order of a breadth-first walk from one, and behind them those
// that it does not reach.
func grown(m *network.Matrix, from int) []int {
	order, seen := []int{from}, make([]bool, m.Rows())
	seen[from] = true
	for at := 0; at < len(order); at++ {
		columns, _ := m.Row(order[at])
		for _, c := range columns {
			if !seen[c] {
				seen[c] = true
				order = append(order, int(c))
			}
		}
	}
	for i, s := range seen {
		if !s {
			order = append(order, i)
		}
	}
	return order
}
