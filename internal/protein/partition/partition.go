package partition

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weft-run/weft/internal/protein/network"
	"github.com/weft-run/weft/sched"
)

// ErrPartition is wrapped by every error of this package.
var ErrPartition = errors.New("bad partition")

// Parts says to which part each residue belongs.
type Parts struct {
	Of    []int // by residue
	Count int
}

// positionBytes is a position, three float64.
const positionBytes = 24

// Cut returns the number of contacts between residues of different parts. The graph is what
// network.Contacts returns.
func (p *Parts) Cut(contacts *network.Matrix) int {
	cut := 0
	for i, part := range p.Of {
		columns, _ := contacts.Row(i)
		for _, c := range columns {
			if int(c) < i && p.Of[c] != part {
				cut++
			}
		}
	}
	return cut
}

// Communication returns the bytes that parts on different devices are expected to exchange in
// a step: two positions for each contact that is cut.
func (p *Parts) Communication(contacts *network.Matrix) int64 {
	return 2 * positionBytes * int64(p.Cut(contacts))
}

// Sizes returns the number of residues of each part.
func (p *Parts) Sizes() []int {
	out := make([]int, p.Count)
	for _, part := range p.Of {
		out[part]++
	}
	return out
}

// Order returns the residues by part, and within a part in the order of the chain. In this
// order every part is a range.
func (p *Parts) Order() []int {
	out := make([]int, len(p.Of))
	for i := range out {
		out[i] = i
	}
	slices.SortStableFunc(out, func(a, b int) int { return p.Of[a] - p.Of[b] })
	return out
}

// Partitioner returns a partitioner of items that are the residues in the order of Order: part
// i goes to the i-th share that has a rate. It errs for another number of items, and unless there
// are as many parts as shares with a rate.
func (p *Parts) Partitioner() sched.Partitioner {
	return func(items sched.Items, shares []sched.Share) (sched.Partition, error) {
		if items.Extent != int64(len(p.Of)) || items.Align > 1 {
			return sched.Partition{}, fmt.Errorf("partition: %d items, aligned to %d, for %d residues: %w: items must be residues", items.Extent, items.Align, len(p.Of), ErrPartition)
		}
		sizes, next, at := p.Sizes(), 0, int64(0)
		out := sched.Partition{Ranges: make([]sched.Range, len(shares))}
		for k, s := range shares {
			r := sched.Range{Lo: at, Hi: at}
			if s.Rate > 0 {
				if next < len(sizes) {
					r.Hi += int64(sizes[next])
				}
				next++
			}
			out.Ranges[k], at = r, r.Hi
		}
		if next != p.Count {
			return sched.Partition{}, fmt.Errorf("partition: %d parts for %d devices: %w: make one for each", p.Count, next, ErrPartition)
		}
		return sched.Measured(items, shares, out.Ranges), nil
	}
}

// quotas returns how many of n residues each part gets by weights, which are positive:
// rounded by largest remainders, but at least one.
func quotas(n int, weights []float64) ([]int, error) {
	if len(weights) < 1 || len(weights) > n {
		return nil, fmt.Errorf("partition: %d parts of %d residues: %w: there must be 1 to %d", len(weights), n, ErrPartition, n)
	}
	var shares []sched.Share
	for k, w := range weights {
		if !(w > 0) || math.IsInf(w, 1) {
			return nil, fmt.Errorf("partition: part %d has weight %v: %w: it must be a positive number", k, w, ErrPartition)
		}
		shares = append(shares, sched.Share{Rate: w})
	}
	cut, err := sched.Proportional(sched.Items{Extent: int64(n)}, shares)
	if err != nil {
		return nil, fmt.Errorf("partition: %w", err)
	}
	out := make([]int, len(weights))
	for k, r := range cut.Ranges {
		out[k] = int(r.Len())
	}
	for k := range out {
		if out[k] == 0 { // from the largest
			out[k]++
			out[slices.Index(out, slices.Max(out))]--
		}
	}
	return out, nil
}

// Equal returns equal weights for a number of parts.
func Equal(parts int) []float64 {
	return slices.Repeat([]float64{1}, max(parts, 0))
}

// ResidueRanges cuts a chain of n residues into ranges with lengths as the weights, which are
// rates of devices, or Equal.
func ResidueRanges(n int, weights []float64) (*Parts, error) {
	lengths, err := quotas(n, weights)
	if err != nil {
		return nil, err
	}
	p := &Parts{Count: len(weights)}
	for part, length := range lengths {
		p.Of = append(p.Of, slices.Repeat([]int{part}, length)...)
	}
	return p, nil
}
