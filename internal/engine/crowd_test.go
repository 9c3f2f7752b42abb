package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// viewed is a policy that notes when the devices it is asked about are free.
type viewed struct {
	sched.Policy
	freeAt *[]time.Duration
}

func (p viewed) Place(v *sched.Situation, out []sched.Placement) []sched.Placement {
	*p.freeAt = nil
	for i := range v.Devices {
		*p.freeAt = append(*p.freeAt, v.Devices[i].FreeAt)
	}
	return p.Policy.Place(v, out)
}

// Devices that compute on the same cores are free when the cores are: after the work of all
// of them.
func TestCrowdIsFreeTogether(t *testing.T) {
	m := cpus(3)
	m.Resources = []machine.Resource{{Name: machine.HostCores, Cores: 4}}
	for i := range 2 {
		m.Devices[i].ComputeUnits, m.Devices[i].Resources = 4, []string{machine.HostCores}
	}
	var freeAt []time.Duration
	r := newRig(t, m, engine.Options{Policy: func(p sched.Problem) sched.Policy { return viewed{noStealing(p), &freeAt} }})
	r.submit(build(t, func(b *graph.Builder) {
		for i, millis := range []float64{10, 20, 40} {
			k := job(fmt.Sprint("t", i), millis)
			k.On.Only = []string{m.Devices[i].Name}
			b.Add(k)
		}
	}), engine.RunOptions{})
	r.until("the first to end", func() bool { return len(r.ran) == 1 })
	equal(t, "time", r.now, 10*ms)
	r.submit(independent(t, 1, 1), engine.RunOptions{})
	r.step()
	// What has run of a task is not taken off.
	equalLists(t, "free at", []string{fmt.Sprint(freeAt)}, []string{fmt.Sprint([]time.Duration{30 * ms, 30 * ms, 40 * ms})})
}
