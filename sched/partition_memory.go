package sched

import "fmt"

// Memory shares work by rate but never gives a device more than its free
// bytes less its margin; what one cannot hold goes to the others. Use it when
// the work is large for the memory of the devices. It fails with ErrTooBig
// when all of them together cannot hold it.
func Memory(p Items, shares []Share) (Partition, error) {
	if err := check(p, shares); err != nil {
		return Partition{}, err
	}
	holds := func(s *Share, lo, hi int64) bool {
		in, out := p.bytes(lo, hi)
		return in+out <= max(s.FreeBytes-s.MarginBytes, 0)
	}
	computing := func(s *Share, lo, hi int64) float64 { return s.computes(p, lo, hi) }
	ranges, ok := fill(p, shares, computing, holds)
	if !ok {
		in, out := p.bytes(0, p.Extent)
		room := int64(0)
		for _, s := range shares {
			if s.Rate > 0 {
				room += max(s.FreeBytes-s.MarginBytes, 0)
			}
		}
		return Partition{}, fmt.Errorf("%w: %d bytes on %d devices with room for %d, margins kept; only the first %d of %d items fit: free memory, add a device or run it in parts",
			ErrTooBig, in+out, len(shares), room, ranges[len(ranges)-1].Hi, p.Extent)
	}
	return Measured(p, shares, ranges), nil
}
