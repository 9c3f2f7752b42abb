package infer

import (
	"math"
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
