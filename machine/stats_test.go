package machine

import (
	"math"
	"testing"
	"time"
)

func TestStats(t *testing.T) {
	var s Stats
	if s.Avg() != 0 {
		t.Errorf("Avg of nothing = %v", s.Avg())
	}
	s.Start()
	if s.Active != 1 {
		t.Errorf("one task started, %d active", s.Active)
	}
	s.Observe(100 * time.Millisecond)
	if want := (Stats{Tasks: 1, Total: 100 * time.Millisecond}); s != want || s.Avg() != 100*time.Millisecond {
		t.Errorf("after one task of 100ms: %+v, average %v", s, s.Avg())
	}
	s.Start()
	s.Start()
	s.Observe(300 * time.Millisecond)
	if s.Active != 1 || s.Avg() != 200*time.Millisecond {
		t.Errorf("after 100ms and 300ms with one more running: %+v, average %v", s, s.Avg())
	}
	s.Observe(0)
	s.Observe(0)
	if s.Active != 0 {
		t.Errorf("a task that was never started left %d active", s.Active)
	}
}

func TestStatsLoad(t *testing.T) {
	var s Stats
	for n := 1; n <= 30; n++ {
		s.Sample(1)
		if want := 1 - math.Pow(0.9, float64(n)); math.Abs(s.Load-want) > 1e-12 {
			t.Fatalf("after %d samples of 1 the load is %v, want %v", n, s.Load, want)
		}
	}
	s = Stats{}
	s.Sample(7)
	s.Sample(-3)
	if want := 0.1 * 0.9; math.Abs(s.Load-want) > 1e-12 {
		t.Errorf("samples outside 0 to 1 made the load %v, want %v", s.Load, want)
	}
}

func TestImbalance(t *testing.T) {
	for _, c := range []struct {
		xs   []float64
		want float64
	}{
		{nil, 0},
		{[]float64{0, 0}, 0},
		{[]float64{5, 5, 5}, 0},
		{[]float64{0.95, 0.30}, 0.52}, // mean 0.625, both 0.325 off
		{[]float64{1, 1, 1, 5}, 1.5},  // mean 2, worst 3 off
		{[]float64{0, 4, 4, 4}, 1},    // an idle device
		{[]float64{0.65, 0.60}, 0.04}, // after rebalancing
	} {
		if got := Imbalance(c.xs); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("Imbalance(%v) = %v, want %v", c.xs, got, c.want)
		}
	}
}
