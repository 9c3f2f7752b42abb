package batch

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// The estimate finds the cost that batches have, from any prior, and follows it.
func TestEstimate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, prior := range []Cost{{}, {Fixed: time.Second}, {Fixed: ms, Example: ms}} {
		e := newEstimate(prior)
		for _, c := range [][2]float64{{1e-3, 1e-4}, {3e-3, 2e-4}, {1e-2, 0}, {0, 5e-4}} {
			for range 400 {
				n := 1 + float64(r.IntN(32))
				e.measured(n, (c[0]+c[1]*n)*(0.95+0.1*r.Float64()))
			}
			for _, n := range []float64{1, 8, 32} {
				got, want := e.of(n), c[0]+c[1]*n
				if math.Abs(got-want) > 0.1*want {
					t.Errorf("prior %v, cost %v: %v examples are predicted to take %.3g s, not %.3g", prior, c, n, got, want)
				}
			}
			if e.w[0] < 0 || e.w[1] < 0 {
				t.Errorf("a coefficient of %v is negative", e.w)
			}
		}
	}
}

// Batches that are all alike say what such a batch takes, and leave nothing undefined.
func TestEstimateOfOneSize(t *testing.T) {
	e := newEstimate(Cost{Fixed: 100 * ms})
	for range 100 {
		e.measured(1, 2e-3)
	}
	if got := e.of(1); math.Abs(got-2e-3) > 2e-4 {
		t.Errorf("predicted %v", got)
	}
	for _, w := range e.w {
		if math.IsNaN(w) || w < 0 {
			t.Errorf("coefficients %v", e.w)
		}
	}
}

// A prediction that is much too high does not refuse everything for ever.
func TestPessimismEnds(t *testing.T) {
	w := newWorld(t, 1)
	d := &Device{}
	w.m.AddDevice(d)
	mod := &Model{MaxBatch: 8}
	w.m.AddModel(mod, Cost{Fixed: time.Minute}, d)
	w.cost = func(*Batch) time.Duration { return ms }
	refused := 0
	w.onAnswer = func(_ *entry, k Kind) {
		if k != Done {
			refused++
		}
	}
	for i := range 1000 {
		if i == 200 {
			refused = 0
		}
		w.add(mod, &Item{Examples: 1, Deadline: w.now + 10*ms}, false)
		w.until(w.now + ms)
	}
	if refused > 0 {
		t.Errorf("%d of the last 800 items were not computed", refused)
	}
}
