package load

import (
	"math"
	"math/bits"
	"time"
)

// Histogram counts durations in buckets of which each is at most 1/128 as wide as the least
// duration in it; those below 256 ns are counted exactly. A quantile is therefore off by less
// than 0.8 %, over the whole range of durations, and counting one takes no memory.
type Histogram struct {
	counts [buckets]uint64
	n      uint64
	sum    float64 // seconds
	least  time.Duration
	most   time.Duration
}

// longest is the greatest duration that is told from others: twenty years.
const longest = 20 * 365 * 24 * time.Hour

const (
	subBits = 7 // buckets for each doubling: 128
	buckets = (64-subBits-1)<<subBits + 1<<subBits
)

// bucket is the position of the bucket a duration belongs to.
func bucket(d time.Duration) int {
	v := uint64(max(d, 0))
	shift := max(bits.Len64(v)-subBits-1, 0)
	return shift<<subBits + int(v>>shift)
}

// bounds are the least and the greatest duration of a bucket.
func bounds(i int) (lo, hi time.Duration) {
	shift := max(i>>subBits-1, 0)
	first := uint64(i-shift<<subBits) << shift
	return time.Duration(first), time.Duration(first + 1<<shift - 1)
}

// Add counts a duration; a negative one as 0, and one that is longer than longest as that.
func (h *Histogram) Add(d time.Duration) {
	d = min(max(d, 0), longest)
	h.counts[bucket(d)]++
	if h.n == 0 || d < h.least {
		h.least = d
	}
	h.most = max(h.most, d)
	h.n++
	h.sum += d.Seconds()
}

// Count returns the number of durations.
func (h *Histogram) Count() uint64 { return h.n }

// min returns the least duration. It, Max and mean are exact, and 0 without durations.
func (h *Histogram) min() time.Duration { return h.least }

// Max returns the greatest duration.
func (h *Histogram) Max() time.Duration { return h.most }

// mean returns the mean duration.
func (h *Histogram) mean() time.Duration {
	if h.n == 0 {
		return 0
	}
	return time.Duration(h.sum / float64(h.n) * 1e9)
}

// Quantile returns a duration that a part q of all durations does not exceed: at least the one
// of rank ⌈q·n⌉, and less than 0.8 % above it.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	// q·n is a hair above a whole number where q has no exact binary form.
	rank := max(uint64(math.Ceil(q*float64(h.n)*(1-1e-13))), 1)
	seen := uint64(0)
	for i, c := range h.counts {
		if seen += c; seen >= rank {
			_, hi := bounds(i)
			return min(hi, h.most)
		}
	}
	return h.most
}

// below returns the number of durations less than d. Those in the bucket of d are not counted,
// unless d is above all durations.
func (h *Histogram) below(d time.Duration) uint64 {
	n := uint64(0)
	for i, c := range h.counts {
		if _, hi := bounds(i); min(hi, h.most) >= d {
			break
		}
		n += c
	}
	return n
}
