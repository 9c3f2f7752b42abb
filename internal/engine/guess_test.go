package engine_test

import (
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// truth is what tasks really take, by device, in a rig whose engine has to learn it.
type truth struct {
	machine.Cost
	takes []time.Duration
}

func (c truth) Task(_ *graph.Task, on machine.DeviceID) machine.Estimate {
	return machine.Estimate{Median: c.takes[on]}
}

// unmeasured returns a rig whose engine knows nothing about tasks that take so long, by device.
func unmeasured(t *testing.T, m *machine.Machine, takes ...time.Duration) *rig {
	base := machine.NewRoofline(m)
	r := newRig(t, m, engine.Options{Cost: machine.NewHistory(base, m)})
	r.cost = truth{base, takes}
	return r
}

// teams is a machine of n equal devices of some cores each.
func teams(n, cores int) *machine.Machine {
	m := cpus(n)
	for i := range m.Devices {
		d := &m.Devices[i]
		d.ComputeUnits, d.Lanes, d.Team = cores, cores, true
	}
	return m
}

// The first run of a kernel of which nothing is known uses all devices, and one that turns
// out to be slow gives the tasks it has not begun to the others.
func TestFirstRun(t *testing.T) {
	for _, c := range []struct {
		name  string
		m     *machine.Machine
		takes []time.Duration
		most  time.Duration // ideal, and the longest task twice: at the beginning and at the end
	}{
		{"equal", cpus(2), []time.Duration{5 * ms, 5 * ms}, 250 * ms},
		{"one slow", cpus(2), []time.Duration{50 * ms, 5 * ms}, 455*ms + 100*ms},
		{"equal GPUs", gpus(2, 1<<20), []time.Duration{5 * ms, 5 * ms}, 250*ms + 10*ms},
		{"slow GPU", gpus(2, 1<<20), []time.Duration{50 * ms, 5 * ms}, 455*ms + 100*ms},
		{"teams", teams(2, 4), []time.Duration{5 * ms, 5 * ms}, 65 * ms},
		{"slow team", teams(2, 4), []time.Duration{50 * ms, 5 * ms}, 114*ms + 100*ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := unmeasured(t, c.m, c.takes...)
			rep := r.mustRun(r.submit(independent(t, 100, 0), engine.RunOptions{}))
			if took := rep.Elapsed(); took > c.most {
				t.Errorf("100 tasks took %v, want %v at most; devices ran %d and %d", took, c.most, rep.Devices[0].Tasks, rep.Devices[1].Tasks)
			}
		})
	}
}

// A device that is drained while nothing is known about its tasks finishes what runs, and
// at most one launch behind that if it has memory of its own; the rest goes elsewhere.
func TestDrainFirstRun(t *testing.T) {
	for _, c := range []struct {
		name string
		m    *machine.Machine
		most int // launches it finishes
	}{{"host memory", cpus(2), 1}, {"own memory", gpus(2, 1<<20), 2}, {"team", teams(2, 4), 4}} {
		t.Run(c.name, func(t *testing.T) {
			r := unmeasured(t, c.m, 5*ms, 5*ms)
			id := r.submit(independent(t, 100, 0), engine.RunOptions{})
			r.starts("t0")
			drained := false
			r.step(engine.Event{Kind: engine.Drain, Device: 0, Answer: func(err error) { drained = err == nil }})
			r.until("drained", func() bool { return drained })
			rep := r.mustRun(id)
			if n := rep.Devices[0].Tasks; n > c.most {
				t.Errorf("the device ran %d tasks, want %d at most", n, c.most)
			}
		})
	}
}

// Tasks that are queued when their cost becomes known have that cost: the device is
// predicted to be busy for as long as they take.
func TestGuessBecomesKnown(t *testing.T) {
	r := unmeasured(t, cpus(2), 5*ms, 5*ms)
	id := r.submit(independent(t, 40, 0), engine.RunOptions{})
	r.until("10 ran", func() bool { return len(r.ran) == 10 })
	rep := r.mustRun(id)
	// The first of each device, and those behind them until three have ended, are guesses.
	for d := range 2 {
		if got, want := rep.Devices[d].Predicted, 5*ms*time.Duration(rep.Devices[d].Tasks-3); got < want*9/10 {
			t.Errorf("device %d was predicted to take %v, want at least %v", d, got, want)
		}
	}
}

// Tasks that take no time by the clock of their device are known once they have run: many
// are in flight at a time then.
func TestNoTimeIsKnown(t *testing.T) {
	r := unmeasured(t, cpus(2), 0, 0)
	r.mustRun(r.submit(independent(t, 100, 0), engine.RunOptions{}))
	r.peak = 0
	r.mustRun(r.submit(independent(t, 100, 0), engine.RunOptions{}))
	if r.peak <= 2 {
		t.Errorf("%d launches in flight at once", r.peak)
	}
}
