package sched

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
)

// Mistakes a partitioner reports.
var (
	// ErrNoShare is returned when no share can take anything: there are none,
	// or none has a rate.
	ErrNoShare = errors.New("no device to share the work")
	// ErrTooBig is returned when the work does not fit the devices' memory.
	ErrTooBig = errors.New("work does not fit in device memory")
	// ErrItems is returned for Items that contradict themselves, and for a partition that
	// does not cover them.
	ErrItems = errors.New("bad items")
)

// Partitioner cuts work into one contiguous range for each share, in the order
// of the shares. Adapting to history is the caller's business: the rates of
// the shares are an input.
type Partitioner func(p Items, shares []Share) (Partition, error)

// Items describes the items of some work, which can be cut between any two of them, or at
// multiples of Align. Partitioners look at neither Grain nor Streamed, by which the part of a
// device is cut into tasks.
type Items struct {
	// Extent is the number of items: ranges cover [0, Extent).
	Extent int64
	// Align is the number of which every boundary but the last must be a multiple; 0
	// means 1.
	Align int64
	// Cost returns the work in a range, in any unit that does not depend on
	// the device. It must not fall when the range grows. Nil means an item
	// costs 1.
	Cost func(lo, hi int64) float64
	// Bytes returns what a range reads and writes. Neither may fall when the
	// range grows. Nil means nothing.
	Bytes func(lo, hi int64) (in, out int64)
	// Grain is the least number of items in a task; 0 means 1. Use it where every task
	// does something anew that is only worth it for several items.
	Grain int64
	// Streamed says that ranges need nothing of one another. Where their data
	// is in host memory, a device with memory of its own then gets as many tasks as are
	// predicted to be done first: the data of one is copied while another is computed.
	Streamed bool
}

// Share is a device as a partitioner sees it.
type Share struct {
	Device machine.DeviceID
	// Rate is work per second in the unit of Items.Cost, or a score when only
	// proportions matter. A share without a rate gets nothing.
	Rate float64
	// FreeBytes is memory not in use, MarginBytes what must stay free of it.
	FreeBytes, MarginBytes int64
	// Util is the part of the device, 0 to 1, that other work will use meanwhile.
	Util float64
	// LinkBPS is the rate of copies of inputs and results in bytes per second; 0 means that
	// none are needed.
	LinkBPS float64
	// Latency is the time from handing over a range to its first item: launch and link.
	Latency time.Duration
}

// Range is the items from Lo up to but not including Hi.
type Range struct{ Lo, Hi int64 }

// Len returns the number of items.
func (r Range) Len() int64 { return r.Hi - r.Lo }

// Partition is a division of work among devices.
type Partition struct {
	// Ranges has one range for each share; they cover the extent, do not
	// overlap and may be empty.
	Ranges []Range
	// Completion is the predicted end of the last share, with transfers and latencies.
	Completion time.Duration
	// Balance is the mean of the predicted times of all shares that have a
	// rate over the largest: 1 is perfect, and on equal devices it is the
	// efficiency.
	Balance float64
	// BytesMoved is the number of bytes copied to devices and back.
	BytesMoved int64
	// Choice compares one device with several, nil where the partitioner did not compare
	// them. Why is the same in words.
	Choice *Choice
	Why    string
}

// Partitioners returns every partitioner by name. The map is the caller's.
func Partitioners() map[string]Partitioner {
	return map[string]Partitioner{
		"dynamic":      Dynamic,
		"equal":        Equal,
		"latency":      Latency,
		"memory":       Memory,
		"proportional": Proportional,
	}
}

// PartitionerNames returns the names of all partitioners, sorted.
func PartitionerNames() []string { return slices.Sorted(maps.Keys(Partitioners())) }

// DefaultPartitioner is the name of the partitioner used when none is asked for.
const DefaultPartitioner = "latency"

// NewPartitioner returns the partitioner with a name; an empty name means
// DefaultPartitioner. The error wraps ErrUnknown and lists the names there are.
func NewPartitioner(name string) (Partitioner, error) {
	if name == "" {
		name = DefaultPartitioner
	}
	if p, ok := Partitioners()[name]; ok {
		return p, nil
	}
	return nil, fmt.Errorf("partitioner %q: %w%s; use one of %s", name, ErrUnknown, hint("partitioner", name), strings.Join(PartitionerNames(), ", "))
}

// check reports what makes a partition impossible.
func check(p Items, shares []Share) error {
	if p.Extent < 0 || p.Align < 0 {
		return fmt.Errorf("%w: extent %d, align %d; neither may be negative", ErrItems, p.Extent, p.Align)
	}
	usable := false
	for k, s := range shares {
		if math.IsNaN(s.Rate) || math.IsInf(s.Rate, 0) {
			return fmt.Errorf("%w: share %d has rate %v; rates must be finite", ErrItems, k, s.Rate)
		}
		usable = usable || s.Rate > 0
	}
	if !usable {
		return fmt.Errorf("%w: none of %s has a positive rate", ErrNoShare, text.Count(len(shares), "share"))
	}
	return nil
}

// CheckPartition returns an error unless part has one range for each share and the ranges
// cover the extent in order, on aligned boundaries.
func CheckPartition(p Items, shares []Share, part Partition) error {
	if len(part.Ranges) != len(shares) {
		return fmt.Errorf("%w: the partitioner made %s for %s", ErrItems, text.Count(len(part.Ranges), "range"), text.Count(len(shares), "device"))
	}
	at := int64(0)
	for i, r := range part.Ranges {
		if r.Len() == 0 {
			continue
		}
		if r.Lo != at || r.Hi < r.Lo || r.Hi > p.Extent || r.Hi < p.Extent && r.Hi%max(p.Align, 1) != 0 {
			return fmt.Errorf("%w: the partitioner gave device %d items %d to %d, want a range that begins at %d and ends at a multiple of %d or at %d",
				ErrItems, shares[i].Device, r.Lo, r.Hi, at, max(p.Align, 1), p.Extent)
		}
		at = r.Hi
	}
	if at != p.Extent {
		return fmt.Errorf("%w: the partitioner left items from %d to %d out", ErrItems, at, p.Extent)
	}
	return nil
}

// blocks returns the number of blocks of Align items, the last perhaps shorter.
func (p Items) blocks() int64 {
	if p.Align <= 1 {
		return p.Extent
	}
	return (p.Extent + p.Align - 1) / p.Align
}

// at returns the item a block begins at.
func (p Items) at(block int64) int64 { return min(block*max(p.Align, 1), p.Extent) }

func (p Items) cost(lo, hi int64) float64 {
	switch {
	case lo >= hi:
		return 0
	case p.Cost == nil:
		return float64(hi - lo)
	}
	return p.Cost(lo, hi)
}

func (p Items) bytes(lo, hi int64) (in, out int64) {
	if p.Bytes == nil || lo >= hi {
		return 0, 0
	}
	return p.Bytes(lo, hi)
}

// computes returns the seconds s computes on a range.
func (s *Share) computes(p Items, lo, hi int64) float64 {
	c := p.cost(lo, hi)
	if c == 0 {
		return 0
	}
	return c / s.Rate
}

// ends returns the seconds until s is done with a range: latency, inputs,
// computation and results one after the other.
func (s *Share) ends(p Items, lo, hi int64) float64 {
	if lo >= hi {
		return 0
	}
	t := s.Latency.Seconds() + s.computes(p, lo, hi)
	if s.LinkBPS > 0 {
		in, out := p.bytes(lo, hi)
		t += float64(in+out) / s.LinkBPS
	}
	return t
}

// Measured returns a partition into ranges, one for each share, with all that is predicted of
// it. Partitioners of a caller's own end with it.
func Measured(p Items, shares []Share, ranges []Range) Partition {
	out := Partition{Ranges: ranges, Balance: 1}
	longest, sum, n := 0.0, 0.0, 0
	for k := range shares {
		s, r := &shares[k], ranges[k]
		if s.Rate <= 0 {
			continue
		}
		t := s.ends(p, r.Lo, r.Hi)
		longest = max(longest, t)
		sum += t
		n++
		if s.LinkBPS > 0 {
			in, back := p.bytes(r.Lo, r.Hi)
			out.BytesMoved += in + back
		}
	}
	if longest > 0 {
		out.Balance = sum / float64(n) / longest
	}
	out.Completion = duration(longest)
	return out
}

func duration(seconds float64) time.Duration {
	if seconds >= float64(math.MaxInt64)/float64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(math.Round(seconds * float64(time.Second)))
}

// apportion gives n blocks to shares by weight with largest remainders: every
// share gets its exact quota rounded down, and the blocks left over go to the
// largest fractions, the earlier share on a tie.
func apportion(n int64, weights []float64) []int64 {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	counts := make([]int64, len(weights))
	rest := make([]float64, len(weights))
	left := n
	for k, w := range weights {
		quota := float64(n) * (w / total)
		counts[k] = min(int64(quota), left) // rounding must not hand out more than there is
		rest[k] = quota - float64(counts[k])
		left -= counts[k]
	}
	order := make([]int, 0, len(weights))
	for k, w := range weights {
		if w > 0 {
			order = append(order, k)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case rest[a] > rest[b]:
			return -1
		case rest[a] < rest[b]:
			return 1
		}
		return 0
	})
	// Fewer are left than there are weights, save for rounding in huge extents.
	for k := 0; left > 0; k = (k + 1) % len(order) {
		counts[order[k]]++
		left--
	}
	return counts
}

// laid turns counts of blocks into ranges one after the other.
func laid(p Items, counts []int64) []Range {
	ranges := make([]Range, len(counts))
	block := int64(0)
	for k, c := range counts {
		ranges[k] = Range{p.at(block), p.at(block + c)}
		block += c
	}
	return ranges
}

// fill cuts the extent so that the longest time is as short as possible: it
// bisects on that time, giving each share in turn as many blocks as it can do
// within it. For contiguous ranges in share order and times that grow with the
// range this is the optimum. limit, when not nil, says whether a share may
// hold a range at all. ok is false when no time is long enough.
func fill(p Items, shares []Share, time func(s *Share, lo, hi int64) float64, limit func(s *Share, lo, hi int64) bool) (ranges []Range, ok bool) {
	n := p.blocks()
	ranges = make([]Range, len(shares))
	within := func(bound float64) bool {
		block := int64(0)
		for k := range shares {
			s, lo := &shares[k], p.at(block)
			fitting := func(b int64) bool {
				hi := p.at(b)
				return s.Rate > 0 && time(s, lo, hi) <= bound && (limit == nil || limit(s, lo, hi))
			}
			// The largest end that fits; block itself, the empty range, does.
			low, high := block, n
			for low < high {
				mid := low + (high-low+1)/2
				if fitting(mid) {
					low = mid
				} else {
					high = mid - 1
				}
			}
			ranges[k] = Range{lo, p.at(low)}
			block = low
		}
		return block == n
	}
	if !within(math.Inf(1)) {
		return ranges, false
	}
	// Bounds: no time suffices below low, high always does.
	low, high := 0.0, 0.0
	for k, r := range ranges {
		if r.Len() > 0 {
			high = max(high, time(&shares[k], r.Lo, r.Hi))
		}
	}
	// Sixty halvings reach the resolution of the numbers.
	for range 60 {
		mid := low + (high-low)/2
		if within(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	within(high)
	return ranges, true
}
