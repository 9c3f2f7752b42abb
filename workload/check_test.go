package workload

import (
	"errors"
	"sync/atomic"
	"testing"
)

// Every number is in one part, whatever their number; the lowest part's error is
// returned.
func TestSweep(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 65, 1000} {
		seen := make([]atomic.Int32, n)
		if err := Sweep(n, func(lo, hi int) error {
			for i := lo; i < hi; i++ {
				seen[i].Add(1)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for i := range seen {
			if got := seen[i].Load(); got != 1 {
				t.Errorf("number %d of %d was looked at %d times", i, n, got)
			}
		}
	}
	low, high := errors.New("low"), errors.New("high")
	for range 100 {
		err := Sweep(1000, func(lo, hi int) error {
			switch {
			case lo <= 300 && 300 < hi:
				return low
			case hi > 600:
				return high
			}
			return nil
		})
		if err != low {
			t.Fatalf("got %v, want the lowest error", err)
		}
	}
}
