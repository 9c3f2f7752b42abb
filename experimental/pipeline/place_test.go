package pipeline_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weft-run/weft/experimental/pipeline"
)

var names = []string{"a", "b", "c", "d", "e", "f", "g", "h"}

func TestPlace(t *testing.T) {
	for _, c := range []struct {
		mode    pipeline.Mode
		devices int
		costs   []float64
		copies  int
		want    string
		rate    float64
	}{
		{pipeline.DataParallel, 2, []float64{1, 2, 1}, 0, "copy 0: a → a → a\ncopy 1: b → b → b\n", 2. / 4},
		{pipeline.PipelineParallel, 3, []float64{1, 2, 1}, 0, "copy 0: a → b → c\n", 1. / 2},
		{pipeline.PipelineParallel, 2, []float64{1, 2, 1, 4}, 0, "copy 0: a → a → a → b\n", 1. / 4},
		{pipeline.PipelineParallel, 5, []float64{1, 2, 1}, 0, "copy 0: a+b → c+d → e\n", 1. / 1},
		{pipeline.PipelineParallel, 1, []float64{1, 0}, 0, "copy 0: a → a\n", 1},
		{pipeline.Hybrid, 4, []float64{1, 1}, 2, "copy 0: a → b\ncopy 1: c → d\n", 2},
		// Two pipelines of equal steps lose nothing against one with four
		// devices, and three would: the fewest of the best are taken.
		{pipeline.Hybrid, 4, []float64{1, 1}, 0, "copy 0: a+b → c+d\n", 2},
		// One pipeline cannot divide this evenly; four devices with all of it can.
		{pipeline.Hybrid, 4, []float64{3, 2}, 0, "copy 0: a → a\ncopy 1: b → b\ncopy 2: c → c\ncopy 3: d → d\n", 4. / 5},
	} {
		p, err := pipeline.Place(c.mode, names[:c.devices], c.costs, c.copies)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if p.String() != c.want {
			t.Errorf("%s, %v on %d:\n%swant\n%s", c.mode, c.costs, c.devices, p, c.want)
		}
		if r := p.Rate(c.costs); math.Abs(r-c.rate) > 1e-12 {
			t.Errorf("%s, %v on %d: rate %v, want %v", c.mode, c.costs, c.devices, r, c.rate)
		}
	}
}

// Fewer devices than steps: the cut is as good as the best of all cuts.
func TestPlaceBalances(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		costs := make([]float64, 2+r.IntN(7))
		for i := range costs {
			costs[i] = float64(1 + r.IntN(9))
		}
		n := 1 + r.IntN(min(len(costs), 4))
		p, err := pipeline.Place(pipeline.PipelineParallel, names[:n], costs, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := p.Rate(costs), 1/lightest(costs, n); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v on %d: rate %v, want %v", costs, n, got, want)
		}
	}
}

// lightest tries every cut of costs into n runs.
func lightest(costs []float64, n int) float64 {
	sum := 0.
	if n == 1 {
		for _, c := range costs {
			sum += c
		}
		return sum
	}
	best := math.Inf(1)
	for i := 1; i <= len(costs)-n+1; i++ {
		sum += costs[i-1]
		best = min(best, max(sum, lightest(costs[i:], n-1)))
	}
	return best
}

func TestPlaceRefuses(t *testing.T) {
	one := []float64{1}
	for _, c := range []struct {
		mode    pipeline.Mode
		devices []string
		costs   []float64
		copies  int
	}{
		{"sideways", names, one, 0}, {pipeline.Hybrid, nil, one, 0}, {pipeline.Hybrid, names, nil, 0},
		{pipeline.Hybrid, names, one, 9}, {pipeline.Hybrid, names, one, -1}, {pipeline.DataParallel, names, one, 2},
		{pipeline.Hybrid, names, []float64{math.NaN()}, 0}, {pipeline.Hybrid, names, []float64{-1}, 0},
	} {
		if _, err := pipeline.Place(c.mode, c.devices, c.costs, c.copies); !errors.Is(err, pipeline.ErrStages) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
