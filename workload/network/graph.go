package network

import (
	"fmt"
	"slices"

	"github.com/weft-run/weft/workload"
)

// Graph is a graph in compressed rows: row i has the nodes that edges from node i lead to.
// Values are the weights of edges; nil means that all are one. An undirected edge is stored
// both ways.
type Graph struct {
	workload.Sparse
	Name string // for reports
}

// Limits of graphs. Starts of rows are 32 bits.
const (
	MaxNodes = 1 << 27
	MaxEdges = 1 << 31 // before undirected ones are stored both ways
)

// edge is an edge as files and generators list them.
type edge struct{ from, to uint32 }

// newGraph sorts edges into rows. Of several edges from one node to another the last counts.
// Weights are beside the edges, or nil.
func newGraph(name string, nodes int, edges []edge, weights []float64, undirected bool) *Graph {
	g := &Graph{Name: name}
	g.Starts = make([]uint32, nodes+1)
	for _, e := range edges {
		g.Starts[e.from+1]++
		if undirected && e.from != e.to {
			g.Starts[e.to+1]++
		}
	}
	for i := range nodes {
		g.Starts[i+1] += g.Starts[i]
	}
	g.Columns = make([]uint32, g.Starts[nodes])
	if weights != nil {
		g.Values = make([]float64, g.Starts[nodes])
	}
	next := slices.Clone(g.Starts[:nodes])
	put := func(from, to uint32, k int) {
		at := next[from]
		next[from]++
		g.Columns[at] = to
		if weights != nil {
			g.Values[at] = weights[k]
		}
	}
	for k, e := range edges {
		put(e.from, e.to, k)
		if undirected && e.from != e.to {
			put(e.to, e.from, k)
		}
	}
	g.sortRows(next)
	return g
}

// sortRows sorts the columns of every row, and takes out all but the last of equal ones. kept is
// room for a number for each row.
func (g *Graph) sortRows(kept []uint32) {
	_ = workload.Sweep(len(kept), func(lo, hi int) error {
		for i := lo; i < hi; i++ {
			kept[i] = uint32(sortRow(g.Row(i)))
		}
		return nil
	})
	at := uint32(0)
	for i, n := range kept {
		from := g.Starts[i]
		copy(g.Columns[at:], g.Columns[from:from+n])
		if g.Values != nil {
			copy(g.Values[at:], g.Values[from:from+n])
		}
		g.Starts[i] = at
		at += n
	}
	g.Starts[len(kept)] = at
	g.Columns = g.Columns[:at]
	if g.Values != nil {
		g.Values = g.Values[:at]
	}
}

// sortRow sorts a row and returns the number of its columns that differ, which are then first.
func sortRow(columns []uint32, values []float64) int {
	if values == nil {
		slices.Sort(columns)
		return len(slices.Compact(columns))
	}
	type entry struct {
		column uint32
		value  float64
	}
	row := make([]entry, len(columns))
	for k, c := range columns {
		row[k] = entry{c, values[k]}
	}
	slices.SortStableFunc(row, func(a, b entry) int { return int(a.column) - int(b.column) })
	n := 0
	for k, e := range row {
		if k+1 < len(row) && row[k+1].column == e.column {
			continue
		}
		columns[n], values[n] = e.column, e.value
		n++
	}
	return n
}

// Transposed returns the graph with every edge turned round.
func (g *Graph) Transposed() *Graph {
	out := &Graph{Name: g.Name}
	n := g.Rows()
	out.Starts, out.Columns = make([]uint32, n+1), make([]uint32, len(g.Columns))
	if g.Values != nil {
		out.Values = make([]float64, len(g.Values))
	}
	for _, c := range g.Columns {
		out.Starts[c+1]++
	}
	for i := range n {
		out.Starts[i+1] += out.Starts[i]
	}
	next := slices.Clone(out.Starts[:n])
	for i := range n {
		columns, values := g.Row(i)
		for k, c := range columns {
			at := next[c]
			next[c]++
			out.Columns[at] = uint32(i)
			if values != nil {
				out.Values[at] = values[k]
			}
		}
	}
	return out
}

// byLength returns the graph with its nodes in the order of the lengths of their rows, the longest
// first, and the place of each node in that order. Of rows of one length the first remains first.
func (g *Graph) byLength() (sorted *Graph, place []uint32) {
	n := g.Rows()
	order := make([]uint32, n)
	for i := range order {
		order[i] = uint32(i)
	}
	length := func(i uint32) int { return int(g.Starts[i+1] - g.Starts[i]) }
	slices.SortStableFunc(order, func(a, b uint32) int { return length(b) - length(a) })
	place = make([]uint32, n)
	sorted = &Graph{Name: g.Name}
	sorted.Starts, sorted.Columns = make([]uint32, n+1), make([]uint32, len(g.Columns))
	if g.Values != nil {
		sorted.Values = make([]float64, len(g.Values))
	}
	for p, i := range order {
		place[i] = uint32(p)
		sorted.Starts[p+1] = sorted.Starts[p] + uint32(length(i))
	}
	_ = workload.Sweep(n, func(lo, hi int) error {
		for p := lo; p < hi; p++ {
			from, values := g.Row(int(order[p]))
			columns, to := sorted.Row(p)
			for k, c := range from {
				columns[k] = place[c]
			}
			copy(to, values)
			sortRow(columns, to)
		}
		return nil
	})
	return sorted, place
}

// Undirected returns the graph with every edge both ways. Where there are both with different
// weights, the larger counts.
func (g *Graph) Undirected() *Graph {
	t := g.Transposed()
	if slices.Equal(t.Starts, g.Starts) && slices.Equal(t.Columns, g.Columns) && slices.Equal(t.Values, g.Values) {
		return g
	}
	out := &Graph{Name: g.Name}
	out.Starts = make([]uint32, 1, len(g.Starts))
	out.Columns = make([]uint32, 0, 2*len(g.Columns))
	for i := range g.Rows() {
		a, av := g.Row(i)
		b, bv := t.Row(i)
		for len(a) > 0 || len(b) > 0 {
			fromA := len(b) == 0 || len(a) > 0 && a[0] <= b[0]
			fromB := len(a) == 0 || len(b) > 0 && b[0] <= a[0]
			column, weight := uint32(0), 0.
			if fromA {
				column, a = a[0], a[1:]
				if av != nil {
					weight, av = av[0], av[1:]
				}
			}
			if fromB {
				column, b = b[0], b[1:]
				if bv != nil {
					weight, bv = max(weight, bv[0]), bv[1:]
				}
			}
			out.Columns = append(out.Columns, column)
			if g.Values != nil {
				out.Values = append(out.Values, weight)
			}
		}
		out.Starts = append(out.Starts, uint32(len(out.Columns)))
	}
	return out
}

// valid reports what is wrong with a caller's graph.
func (g *Graph) valid() error {
	if g == nil || len(g.Starts) < 2 || g.Starts[0] != 0 {
		return fmt.Errorf("network: %w: the graph has no nodes", ErrGraph)
	}
	n := g.Rows()
	if n > MaxNodes || int(g.Starts[n]) != len(g.Columns) || g.Values != nil && len(g.Values) != len(g.Columns) {
		return fmt.Errorf("network: %w: %d nodes with %d edges and %d weights, where rows have %d: there must be as many, and at most %d nodes",
			ErrGraph, n, len(g.Columns), len(g.Values), g.Starts[n], MaxNodes)
	}
	for i := range n {
		if g.Starts[i] > g.Starts[i+1] {
			return fmt.Errorf("network: %w: row %d ends before it begins", ErrGraph, i)
		}
		columns, values := g.Row(i)
		for k, c := range columns {
			if int(c) >= n || k > 0 && columns[k-1] >= c {
				return fmt.Errorf("network: %w: an edge of node %d to %d: edges must lead to other nodes of %d each, in increasing order", ErrGraph, i, c, n)
			}
			if values != nil && !positive(values[k]) {
				return fmt.Errorf("network: %w: the edge from %d to %d has weight %v: it must be positive and finite", ErrGraph, i, c, values[k])
			}
		}
	}
	return nil
}

// leastWeight and mostWeight bound the sum of the weights of a node's edges, so that neither its inverse
// nor ranks divided by it leave the range of float64.
const leastWeight, mostWeight = 0x1p-800, 0x1p800

// weighable returns an error for a node whose edges have weights that cannot be divided by their sum.
func (g *Graph) weighable() error {
	if g.Values == nil {
		return nil
	}
	for i := range g.Rows() {
		if out := g.out(i); !(out >= leastWeight && out <= mostWeight) {
			return fmt.Errorf("network: %w: the weights of the edges of node %d have the sum %.3g: it must be %.3g to %.3g; divide all weights by one number", ErrGraph, i, out, leastWeight, mostWeight)
		}
	}
	return nil
}

// Blocks of rows. A block has about blockWork entries, or is a single row of more than longRow
// entries. On GPUs a group of threads has a block, and shares a long row.
const (
	blockWork = 2048
	longRow   = 256
	// rowWork is the cost of a row besides that of its entries, in entries. On one core PageRank takes
	// 1.6 to 2.2 ns for a row and 0.3 to 0.5 ns for an entry, where rows of equal length are side by side.
	rowWork = 5
	// fewBlocks is the least number of blocks, so that small graphs can be shared by devices too.
	fewBlocks = 64
)

// blocks returns the first row of each block, with about equal numbers of entries in each, and the
// number of rows at the end.
func blocks(starts []uint32) []uint32 {
	n := len(starts) - 1
	most := max(1, min(blockWork, (int(starts[n])+rowWork*n)/fewBlocks))
	bounds := []uint32{0}
	work := 0
	for i := range n {
		entries := int(starts[i+1] - starts[i])
		alone := entries > longRow
		if work > 0 && (alone || work+entries+rowWork > most) {
			bounds = append(bounds, uint32(i))
			work = 0
		}
		if work += entries + rowWork; alone {
			work = most // the next row begins another
		}
	}
	return append(bounds, uint32(n))
}
