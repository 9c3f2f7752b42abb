package engine_test

import (
	"math"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
)

// Lanes go on when the numbers of their operations begin again, with what was filled
// before that.
func TestNumbersWrap(t *testing.T) {
	for _, first := range []uint32{math.MaxInt32 - 20, math.MaxUint32 - 20, math.MaxUint32} {
		m := gpus(2, 10*mb)
		begun := make([]uint32, len(engine.LanesOf(m)))
		for l := range begun {
			begun[l] = first
		}
		r := newRig(t, m, engine.Options{Begun: begun})
		for l := range begun {
			r.last[engine.Lane(l)] = first
		}
		r.mustRun(r.submit(chain(t, 200, 1, graph.Versioned), engine.RunOptions{}))
		if len(r.ran) < 200 {
			t.Errorf("from %d on %d of 200 tasks ran", first, len(r.ran))
		}
	}
}
