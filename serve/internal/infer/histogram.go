package infer

import (
	"math"
	"sort"
)

// Histogram counts durations in buckets, in seconds: Counts[i] are those of at most
// Bounds[i] and more than the bound before; the last of Counts, which has one more than
// Bounds, are those above all bounds.
type Histogram struct {
	Bounds []float64
	Counts []uint64
	Sum    float64
}

// bounds are those of every histogram: each is 1.2 times the one before, from 10 µs to
// at least 100 s, so that a quantile is known to 20 %.
var bounds = func() (b []float64) {
	for i := 0; len(b) == 0 || b[len(b)-1] < 100; i++ {
		b = append(b, 10e-6*math.Pow(1.2, float64(i)))
	}
	return b
}()

func newHistogram() Histogram {
	return Histogram{Bounds: bounds, Counts: make([]uint64, len(bounds)+1)}
}

// firsts has the bucket of the least number of each exponent, from that of bounds[0] on: the
// bucket of a number is that of the least number with its exponent, or one of the few after it.
var firsts = func() (f []int) {
	for e := exponent(bounds[0]); e <= exponent(bounds[len(bounds)-1]); e++ {
		f = append(f, sort.SearchFloat64s(bounds, math.Float64frombits(uint64(e)<<52)))
	}
	return f
}()

// exponent is the exponent of a positive number, as it is stored.
func exponent(x float64) int { return int(math.Float64bits(x) >> 52) }

// add counts a duration.
func (h *Histogram) add(seconds float64) {
	i := 0
	if seconds > bounds[0] {
		i = len(bounds)
		if e := exponent(seconds) - exponent(bounds[0]); e < len(firsts) {
			for i = firsts[e]; i < len(bounds) && seconds > bounds[i]; i++ {
			}
		}
	}
	h.Counts[i]++
	h.Sum += seconds
}

// clone returns a copy that does not change. Bounds are shared: nobody changes them.
func (h *Histogram) clone() Histogram {
	return Histogram{Bounds: h.Bounds, Counts: append([]uint64(nil), h.Counts...), Sum: h.Sum}
}

// Since returns what was counted after an earlier state of the histogram, or all if that is of
// one that has begun anew since.
func (h Histogram) Since(before Histogram) Histogram {
	out := h.clone()
	if len(before.Counts) != len(h.Counts) {
		return out
	}
	for i, n := range before.Counts {
		if n > h.Counts[i] {
			return h.clone()
		}
		out.Counts[i] -= n
	}
	out.Sum -= before.Sum
	return out
}

// Count returns the number of durations.
func (h Histogram) Count() (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Quantile returns the duration that a part q of those counted does not exceed: between the
// bounds of its bucket, in proportion to the counts. Of what is above all bounds nothing is
// known but that, so it is the last bound. It is false if nothing was counted.
func (h Histogram) Quantile(q float64) (seconds float64, ok bool) {
	n := h.Count()
	if n == 0 || len(h.Counts) != len(h.Bounds)+1 || len(h.Bounds) == 0 {
		return 0, false
	}
	rank, seen, low := q*float64(n), 0.0, 0.0
	for i, bound := range h.Bounds {
		c := float64(h.Counts[i])
		if c > 0 && seen+c >= rank {
			return low + (bound-low)*max(rank-seen, 0)/c, true
		}
		seen += c
		low = bound
	}
	return low, true
}
