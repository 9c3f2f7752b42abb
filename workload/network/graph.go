package network

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/workload"
)

// Graph is a graph in compressed rows: row i has the nodes that edges from node i lead to.
// Values are the weights of edges; nil means that all are one. An undirected edge is stored
// both ways.
type Graph struct {
	workload.Sparse
	Name string // for reports
	// Repeated is the number of edges of the file that join two nodes as one before them does, and rule
	// says what became of them.
	Repeated int
	rule     Repeated
}

// Repeated says what becomes of an edge that a file lists more than once: from one node to the same other,
// or between the same two where the file says that edges count both ways. Edges from each of two nodes to
// the other are not repeated. Files of METIS are refused if they have any.
type Repeated string

const (
	// RepeatedSum adds up the weights, as readers of MatrixMarket do: an edge without a weight counts as
	// one of weight 1. The order of lines then does not matter. It is what "" means.
	RepeatedSum Repeated = "sum"
	// RepeatedLast takes the last.
	RepeatedLast Repeated = "last"
	// RepeatedError refuses the file.
	RepeatedError Repeated = "error"
)

var repeatedRules = []Repeated{RepeatedSum, RepeatedLast, RepeatedError}

// validRepeated returns an error for a rule that there is none of.
func validRepeated(r Repeated) error {
	if r == "" || slices.Contains(repeatedRules, r) {
		return nil
	}
	return fmt.Errorf("network: %w: repeated edges by %q: use %s, %s or %s", workload.ErrConfig, r, RepeatedSum, RepeatedLast, RepeatedError)
}

// edges is the number of edges, for the names of jobs.
func (g *Graph) edges() string {
	out := text.Count(g.Nonzeros(), "edge")
	switch {
	case g.Repeated == 0:
		return out
	case g.rule == RepeatedLast:
		return fmt.Sprintf("%s (%d repeated, of which the last count)", out, g.Repeated)
	}
	return fmt.Sprintf("%s (%d repeated, whose weights are added)", out, g.Repeated)
}

// Limits of graphs. Starts of rows are 32 bits.
const (
	MaxNodes = 1 << 27
	MaxEdges = 1 << 31 // before undirected ones are stored both ways
)

// edge is an edge as files and generators list them.
type edge struct{ from, to uint32 }

// newGraph sorts edges into rows. weights has one entry per edge, or is nil. Errors count nodes
// from first.
func newGraph(name string, nodes int, edges []edge, weights []float64, undirected bool, rule Repeated, first int) (*Graph, error) {
	g := &Graph{Name: name, rule: rule}
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
	return g, g.join(undirected, first)
}

// join sorts the columns of every row, and makes one edge of equal ones.
func (g *Graph) join(undirected bool, first int) error {
	var more atomic.Int64 // columns like the one before them
	_ = workload.Sweep(g.Rows(), func(lo, hi int) error {
		for i := lo; i < hi; i++ {
			columns, values := g.Row(i)
			sortRow(columns, values)
			for k := 1; k < len(columns); k++ {
				if columns[k] == columns[k-1] {
					more.Add(1)
				}
			}
		}
		return nil
	})
	if more.Load() == 0 {
		return nil
	}
	all := g.Sparse
	g.Starts, g.Columns, g.Values = make([]uint32, 1, len(all.Starts)), all.Columns[:0], all.Values[:0]
	if all.Values == nil && g.rule != RepeatedLast {
		g.Values = make([]float64, 0, len(all.Columns)-int(more.Load()))
	}
	for i := range all.Rows() {
		for columns, values := all.Row(i); len(columns) > 0; {
			c, same := columns[0], 1
			for same < len(columns) && columns[same] == c {
				same++
			}
			var weights []float64
			if columns = columns[same:]; values != nil {
				weights, values = values[:same], values[same:]
			}
			if err := g.put(c, same, weights); err != nil {
				return fmt.Errorf("network: %s: %w: the edge from node %d to node %d is there %s: %w", g.Name, ErrGraph, i+first, int(c)+first, text.Count(same, "time"), err)
			}
			// An edge that counts both ways is in two rows.
			if !undirected || int(c) >= i {
				g.Repeated += same - 1
			}
		}
		g.Starts = append(g.Starts, uint32(len(g.Columns)))
	}
	return nil
}

// put appends an edge that is there some times, with these weights or nil, to the last row.
func (g *Graph) put(to uint32, times int, weights []float64) error {
	if times > 1 && g.rule == RepeatedError {
		return errors.New("leave all but one out, or add their weights (sum), or let the last count (last)")
	}
	g.Columns = append(g.Columns, to)
	switch {
	case g.Values == nil:
		return nil
	case weights == nil:
		g.Values = append(g.Values, float64(times))
		return nil
	case g.rule == RepeatedLast:
		g.Values = append(g.Values, weights[times-1])
		return nil
	}
	slices.Sort(weights) // so that the order of lines does not matter to rounding
	sum := 0.
	for _, w := range weights {
		sum += w
	}
	if math.IsInf(sum, 1) {
		return fmt.Errorf("the weights add up to more than %.4g, the largest float64: divide all weights by one number", math.MaxFloat64)
	}
	g.Values = append(g.Values, sum)
	return nil
}

// sortRow sorts a row by its columns. Equal ones stay in their order.
func sortRow(columns []uint32, values []float64) {
	if values == nil {
		slices.Sort(columns)
		return
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
	for k, e := range row {
		columns[k], values[k] = e.column, e.value
	}
}

// Transposed returns the graph with every edge turned round.
func (g *Graph) Transposed() *Graph {
	out := &Graph{Name: g.Name, Repeated: g.Repeated, rule: g.rule}
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
// weights, the larger counts, as with Kipf and Welling: a file that lists every edge from both of its
// nodes has the same graph as one that lists it from one of them.
func (g *Graph) Undirected() *Graph {
	t := g.Transposed()
	if slices.Equal(t.Starts, g.Starts) && slices.Equal(t.Columns, g.Columns) && slices.Equal(t.Values, g.Values) {
		return g
	}
	out := &Graph{Name: g.Name, Repeated: g.Repeated, rule: g.rule}
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

// valid checks a caller's graph.
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
	// rowWork is the cost of a row in addition to its entries, in entries. On one core PageRank
	// takes 1.6 to 2.2 ns for a row and 0.3 to 0.5 ns for an entry, if neighbouring rows have
	// equal length.
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
