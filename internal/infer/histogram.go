package infer

import "math"

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

// add counts a duration.
func (h *Histogram) add(seconds float64) {
	// The logarithm finds the bucket up to rounding at its ends.
	i := 0
	if seconds > bounds[0] {
		i = min(int(math.Ceil(math.Log(seconds/bounds[0])/math.Log(1.2))), len(bounds))
		for i > 0 && seconds <= bounds[i-1] {
			i--
		}
		for i < len(bounds) && seconds > bounds[i] {
			i++
		}
	}
	h.Counts[i]++
	h.Sum += seconds
}

// clone returns a copy that does not change. Bounds are shared: nobody changes them.
func (h *Histogram) clone() Histogram {
	return Histogram{Bounds: h.Bounds, Counts: append([]uint64(nil), h.Counts...), Sum: h.Sum}
}
