package sim

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/weft-run/weft/internal/engine"
)

// Little host memory beside little device memory: every run ends, and one that fails
// says that memory is short. Most must not fail. The simulation minds the limits.
func TestSeedsWithHostLimit(t *testing.T) {
	const seeds = 60
	failed := 0
	for seed := uint64(1); seed <= seeds; seed++ {
		r := rand.New(rand.NewPCG(seed, 1))
		c := newTrial(r, seed, faulty|unstable|held|ganged|selective|bare).Config
		tighten(r, &c)
		c.Machine.HostBytes = 2*randomNeed + r.Int64N(8*randomNeed)
		if seed%4 > 0 {
			c.Faults = nil
		}
		res, err := Run(c)
		if err != nil {
			t.Errorf("seed %d, policy %s: %v", seed, c.Policy, err)
			continue
		}
		for _, run := range res.Runs {
			if run.Err == nil {
				continue
			}
			failed++
			if !errors.Is(run.Err, engine.ErrOutOfMemory) && c.Faults == nil {
				t.Errorf("seed %d: %v", seed, run.Err)
			}
		}
	}
	if failed > seeds/6 {
		t.Errorf("%d runs of %d seeds failed for lack of memory", failed, seeds)
	}
}
