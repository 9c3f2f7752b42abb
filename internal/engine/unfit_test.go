package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/sched"
)

// numbered is a policy that notes what tasks cost by CostID.
type numbered struct {
	sched.Policy
	t     *testing.T
	costs map[uint64][]time.Duration
}

func (n numbered) Place(v *sched.Situation, out []sched.Placement) []sched.Placement {
	for i := range v.Tasks {
		task := &v.Tasks[i]
		if was, ok := n.costs[task.CostID]; ok && !slices.Equal(was, task.Cost) {
			n.t.Errorf("what costs %v has number %d, and so has what costs %v", was, task.CostID, task.Cost)
		}
		n.costs[task.CostID] = slices.Clone(task.Cost)
	}
	return n.Policy.Place(v, out)
}

// Costs of one number do not change when a class is found unable to run a kernel.
func TestUnfitHasOtherCosts(t *testing.T) {
	m := cpus(3)
	m.Devices[0].Name, m.Devices[0].Backend, m.Devices[0].Model = "gpu:0", "gpu", "another"
	costs := map[uint64][]time.Duration{}
	r := newRig(t, m, engine.Options{Policy: func(p sched.Problem) sched.Policy { return numbered{noStealing(p), t, costs} }})
	r.outcome = func(_, dev string) engine.Status {
		if strings.HasPrefix(dev, "gpu") {
			return engine.Unfit
		}
		return engine.OK
	}
	rep := r.mustRun(r.submit(independent(t, 40, 1), engine.RunOptions{}))
	unable := 0
	for _, c := range costs {
		if slices.Min(c) < 0 {
			unable++
		}
	}
	if rep.Retries == 0 || unable == 0 {
		t.Errorf("nothing was tried in vain: %s", fmt.Sprint(costs))
	}
}
