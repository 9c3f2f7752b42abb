package simd_test

import (
	"testing"

	"github.com/weft-run/weft/internal/simd"
)

// The sets of a machine begin with that of Go and end with its best.
func TestSets(t *testing.T) {
	sets := simd.Sets()
	if sets[0] != simd.Go || sets[len(sets)-1] != simd.Best {
		t.Errorf("sets %v, the best is %v", sets, simd.Best)
	}
}

// Sum adds each lane once, halves first: the small ones are lost in another order.
func TestSum(t *testing.T) {
	s := [simd.Lanes]float64{1, 2, 4, 8, 16, 32, 64, 128}
	if got := simd.Sum(&s); got != 255 {
		t.Error(got)
	}
	s = [simd.Lanes]float64{0: 1e20, 1: 1, 4: -1e20, 5: 1}
	if got := simd.Sum(&s); got != 2 {
		t.Error(got)
	}
}
