package infer

import (
	"math"
	"math/rand/v2"
	"sort"
	"testing"
)

// A duration is counted where a search over the bounds puts it, those on a bound too.
func TestHistogram(t *testing.T) {
	h := newHistogram()
	if h.Bounds[0] != 10e-6 || h.Bounds[len(h.Bounds)-1] < 100 || len(h.Counts) != len(h.Bounds)+1 {
		t.Fatalf("bounds from %v to %v with %d counts for %d bounds", h.Bounds[0], h.Bounds[len(h.Bounds)-1], len(h.Counts), len(h.Bounds))
	}
	want := make([]uint64, len(h.Counts))
	try := []float64{0, -1, 1e-9, 1e9}
	for i, b := range h.Bounds {
		try = append(try, b, math.Nextafter(b, 0), math.Nextafter(b, 1e9), b*1.1)
		if i > 0 && math.Abs(b/h.Bounds[i-1]-1.2) > 1e-9 {
			t.Errorf("bound %d is %v, after %v", i, b, h.Bounds[i-1])
		}
	}
	for _, s := range try {
		h.add(s)
		want[sort.SearchFloat64s(bounds, s)]++
	}
	for i := range want {
		if h.Counts[i] != want[i] {
			t.Errorf("bucket %d has %d, not %d", i, h.Counts[i], want[i])
		}
	}
}

// A quantile of what was counted in between is that of the durations sorted, to within the
// bucket that it is in.
func TestQuantile(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		h := newHistogram()
		for range r.IntN(100) {
			h.add(r.ExpFloat64())
		}
		before := h.clone()
		durations := make([]float64, 1+r.IntN(1000))
		for i := range durations {
			durations[i] = 1e-4 * math.Exp(3*r.NormFloat64())
			h.add(durations[i])
		}
		sort.Float64s(durations)
		since := h.Since(before)
		if since.Count() != uint64(len(durations)) {
			t.Fatalf("%d of %d durations", since.Count(), len(durations))
		}
		for _, q := range []float64{0.01, 0.5, 0.95, 0.99, 1} {
			want := durations[int(math.Ceil(q*float64(len(durations))))-1]
			got, ok := since.Quantile(q)
			i := sort.SearchFloat64s(bounds, want)
			low, high := 0.0, bounds[min(i, len(bounds)-1)]
			if i > 0 {
				low = bounds[i-1]
			}
			if !ok || got < low || got > high*(1+1e-9) {
				t.Errorf("the %v quantile of %d durations is %v, and %v is between %v and %v", q, len(durations), got, want, low, high)
			}
		}
	}
	// 8 durations of 1 to 2 s and 2 of 4 to 8 s, then one above all bounds.
	h := Histogram{Bounds: []float64{1, 2, 4, 8}, Counts: []uint64{0, 8, 0, 2, 0}, Sum: 30}
	for q, want := range map[float64]float64{0.5: 1.625, 0.95: 7, 1: 8} {
		if got, ok := h.Quantile(q); !ok || math.Abs(got-want) > 1e-12 {
			t.Errorf("quantile %v is %v, not %v", q, got, want)
		}
	}
	above := Histogram{Bounds: h.Bounds, Counts: []uint64{0, 0, 0, 0, 3}}
	if got, ok := above.Quantile(0.5); !ok || got != 8 {
		t.Errorf("above all bounds: %v, %v", got, ok)
	}
	if _, ok := h.Since(h).Quantile(0.5); ok {
		t.Error("nothing has a median")
	}
	if got := above.Since(h); got.Count() != 3 {
		t.Errorf("a histogram that has begun anew counts %d", got.Count())
	}
	if _, ok := (Histogram{}).Quantile(0.5); ok {
		t.Error("no buckets have a median")
	}
}

func BenchmarkHistogram(b *testing.B) {
	h := newHistogram()
	x := 1e-6
	for b.Loop() {
		if h.add(x); x > 200 {
			x = 1e-6
		}
		x *= 1.37
	}
}
