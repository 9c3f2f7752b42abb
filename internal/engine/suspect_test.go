package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

var errSick = errors.New("sick")

// probeRules are the health rules of a rig with probes.
func probeRules(every time.Duration) engine.HealthRules {
	return engine.HealthRules{Probe: true, ProbeEvery: every, ProbePause: 10 * ms, ProbeLate: 100 * ms, MaxLosses: 1000}
}

// pass lets time pass.
func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	end := r.now + d
	r.until("the time has passed", func() bool { return r.now >= end })
}

// state is the state of a device.
func (r *rig) state(dev machine.DeviceID) string { return r.e.Status(dev).State.String() }

// A healthy device is probed at the interval. One bad probe makes it suspect: it gets no work
// while it is, other devices do all, and it is healthy again after three good probes in a row.
func TestSuspect(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{Health: probeRules(50 * ms)})
	sick, probes := false, 0
	r.probe = func(dev machine.DeviceID) error {
		if probes++; sick && dev == 0 {
			return errSick
		}
		return nil
	}
	r.pass(220 * ms)
	equal(t, "probes of two devices", probes, 8)
	sick = true
	r.until("suspect", func() bool { return r.state(0) == "suspect" })
	if st := r.e.Status(0); !errors.Is(st.LastErr, errSick) || st.Stats.Tasks != 0 || st.Failed != 0 {
		t.Errorf("a suspect device: %+v", st)
	}
	sick, probes = false, 0
	r.launched = nil
	for i := range 4 {
		r.mustRun(r.submit(single(t, job(fmt.Sprint("t", i), 1)), engine.RunOptions{}))
	}
	for _, what := range r.launched {
		if strings.HasPrefix(what, "t") && strings.HasSuffix(what, "@cpu:0") && r.state(0) == "suspect" {
			t.Errorf("a suspect device got %s", what)
		}
	}
	r.until("healthy", func() bool { return r.state(0) == "healthy" })
	if probes < 3 {
		t.Errorf("trusted again after %d good probes", probes)
	}
	equal(t, "losses", r.e.Status(0).Losses, 0)
}

// A device that stays sick is given up at its third bad probe, and the ladder brings it back;
// what it ran meanwhile goes on elsewhere.
func TestSuspectIsGivenUp(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{Health: probeRules(50 * ms)})
	bad := 0
	r.probe = func(dev machine.DeviceID) error {
		if dev == 0 && bad < 3 {
			bad++
			return errSick
		}
		return nil
	}
	r.until("lost", func() bool { return r.e.Status(0).Losses == 1 })
	equal(t, "bad probes", bad, 3)
	equalLists(t, "dropped", r.drops, []string{"cpu:0"})
	is(t, r.e.Status(0).LastErr, errSick)
	r.back(0, false)
	equal(t, "state after it came back", r.state(0), "suspect")
	r.until("healthy", func() bool { return r.state(0) == "healthy" })
}

// A device whose probe is bad after it came back never gets work: the next rung is tried, and
// it is broken in the end. One that is good has its callers answered then, not before.
func TestVerifiedBeforeWork(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{Health: probeRules(0)})
	r.answer = func(dev machine.DeviceID, _ engine.Rung) (engine.Event, bool) {
		return engine.Event{Kind: engine.DeviceBack, Device: dev}, true
	}
	good := 0
	r.probe = func(machine.DeviceID) error {
		if good == 0 {
			return errSick
		}
		return nil
	}
	id := r.submit(independent(t, 1, 10), engine.RunOptions{})
	r.starts("t0")
	r.lose(0, false)
	err := r.finish(id)
	is(t, err, engine.ErrNoDevice)
	equal(t, "launches", r.count("t0"), 1)
	equalLists(t, "rungs", r.rungs, []string{"cpu:0 standby", "cpu:0 restart", "cpu:0 reopen"})
	equal(t, "state", r.state(0), "broken")

	good = 1
	asked := errBoom
	r.step(engine.Event{Kind: engine.Revive, Answer: func(err error) { asked = err }})
	r.until("an answer", func() bool {
		if s := r.state(0); (asked == nil) != (s == "healthy") {
			t.Fatalf("asked: %v while it is %s", asked, s)
		}
		return asked == nil
	})
	r.mustRun(r.submit(independent(t, 1, 10), engine.RunOptions{}))
}

// A probe that hangs makes its device suspect, then lost, unless it is in this process; that of the
// only device does not.
func TestLateProbe(t *testing.T) {
	for _, m := range []*machine.Machine{cpus(1), cpus(2), gpus(1, 1<<20), gpus(2, 1<<20)} {
		r := newRig(t, m, engine.Options{Health: probeRules(50 * ms)})
		r.pass(120 * ms)                                                                  // the first are not judged: kernels may be compiled
		r.hold = func(o *op) bool { return strings.HasSuffix(o.what, m.Devices[0].Name) } // or what it reads is on its way
		if len(m.Devices) == 1 {
			r.pass(time.Second)
			equal(t, "state of the only device", r.state(0), "healthy")
			continue
		}
		r.until("suspect", func() bool { return r.state(0) == "suspect" })
		if m.Devices[0].Name == "cpu:0" { // in this process, where it cannot be opened anew
			r.pass(time.Second)
			equal(t, "state of a device that is waited for", r.state(0), "suspect")
			r.hold = nil
		} else {
			r.until("lost", func() bool { return r.state(0) == "lost" })
			r.hold = nil
			r.back(0, false)
		}
		r.until("healthy", func() bool { return r.state(0) == "healthy" })
	}
}

// A device that is drained while it is suspect is suspect again when it is let in.
func TestSuspectDrained(t *testing.T) {
	r := newRig(t, gpus(2, 1<<20), engine.Options{Health: probeRules(50 * ms)})
	sick := true
	r.probe = func(dev machine.DeviceID) error {
		if sick && dev == 0 {
			return errSick
		}
		return nil
	}
	r.until("suspect", func() bool { return r.state(0) == "suspect" })
	drained := false
	r.step(engine.Event{Kind: engine.Drain, Answer: func(err error) { drained = err == nil }})
	r.until("drained", func() bool { return drained })
	r.pass(time.Second)
	equal(t, "state", r.state(0), "draining")
	// It takes no device's place before it was probed: no work would go on.
	var swapped error
	r.step(engine.Event{Kind: engine.HotSwap, Device: 1, Spare: 0, Answer: func(err error) { swapped = err }})
	if swapped == nil || !strings.Contains(swapped.Error(), "before its probes had cleared it") {
		t.Errorf("swapped in: %v", swapped)
	}
	equal(t, "states", r.state(0)+" "+r.state(1), "draining healthy")
	sick = false
	r.step(engine.Event{Kind: engine.Undrain})
	equal(t, "state once it is let in", r.state(0), "suspect")
	r.until("healthy", func() bool { return r.state(0) == "healthy" })
}

// Two of three failures in a row make a device suspect if there is another.
func TestFailuresMakeSuspect(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{Retries: 10, Health: probeRules(0)})
	r.outcome = func(task, dev string) engine.Status {
		if task != "probe" && dev == "cpu:0" {
			return engine.Failed
		}
		return engine.OK
	}
	id := r.submit(independent(t, 12, 1), engine.RunOptions{})
	r.until("suspect", func() bool { return r.state(0) == "suspect" })
	r.mustRun(id)
	r.until("trusted or lost", func() bool { return r.state(0) != "suspect" })
}

// Whatever happens to devices, work is launched on healthy ones alone, trust takes its good
// probes, no device stays suspect, and every run ends well while a device is left.
func TestSuspectSeeds(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 60
	}
	for seed := range seeds {
		suspectSeed(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func suspectSeed(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 2))
	m := cpus(2 + rnd.IntN(3))
	if rnd.IntN(2) == 0 {
		m = gpus(2+rnd.IntN(3), 1<<20)
	}
	n := len(m.Devices)
	good := make([]int, n) // probes in a row
	needs := make([]int, n)
	o := engine.Options{Retries: 1000, Health: probeRules(time.Duration(rnd.IntN(2)) * 20 * ms)}
	o.Health.MaxFailures = 1 + rnd.IntN(6)
	o.Health.Again = 50 * ms
	if o.Health.ProbeEvery == 0 {
		o.Health.ProbeEvery = 5 * ms
	}
	o.Changed = func(c engine.StateChange) {
		switch {
		case c.To == engine.Suspect && c.From == engine.Healthy:
			good[c.Device], needs[c.Device] = 0, 3
		case c.To == engine.Suspect:
			good[c.Device], needs[c.Device] = 0, 1
		case c.To == engine.Healthy && good[c.Device] < needs[c.Device]:
			t.Errorf("device %d was %s and is trusted after %d good probes of %d", c.Device, c.From, good[c.Device], needs[c.Device])
		}
	}
	r := newRig(t, m, o)
	well := false
	r.answer = func(dev machine.DeviceID, _ engine.Rung) (engine.Event, bool) {
		if !well && rnd.IntN(3) == 0 {
			return engine.Event{Kind: engine.RecoverFailed, Device: dev, Err: errBoom}, true
		}
		return engine.Event{Kind: engine.DeviceBack, Device: dev}, true
	}
	r.probe = func(dev machine.DeviceID) error {
		if !well && dev > 0 && rnd.IntN(3) == 0 {
			good[dev] = 0
			return errSick
		}
		good[dev]++
		return nil
	}
	r.outcome = func(task, dev string) engine.Status {
		if !well && task != "probe" && dev != m.Devices[0].Name && rnd.IntN(6) == 0 {
			return engine.Failed
		}
		return engine.OK
	}
	r.onLaunch = func(o *op) {
		if s := r.state(o.a.Device); s != "healthy" && !strings.HasPrefix(o.what, "probe@") {
			t.Errorf("%s is launched on a device that is %s", o.what, s)
		}
	}
	var ids []engine.RunID
	for range 6 {
		ids = append(ids, r.submit(independent(t, 8, 3), engine.RunOptions{}))
		r.pass(time.Duration(1+rnd.IntN(20)) * ms)
		if dev := machine.DeviceID(rnd.IntN(n)); dev > 0 && rnd.IntN(2) == 0 && slices.Contains([]string{"healthy", "suspect"}, r.state(dev)) {
			r.lose(dev, false)
		}
	}
	for _, id := range ids {
		if err := r.finish(id); err != nil {
			t.Errorf("a run failed with a device left: %v", err)
		}
	}
	well = true
	r.until("every device is trusted", func() bool {
		for i := range n {
			if r.state(machine.DeviceID(i)) != "healthy" {
				return false
			}
		}
		return true
	})
}

// Who asks for a suspect device to be recovered is answered when it is trusted again: after good
// probes, or after it was given up and the ladder has brought it back, or has not.
func TestRecoverSuspect(t *testing.T) {
	for _, sickFor := range []int{1, 3, 1000} {
		r := newRig(t, cpus(2), engine.Options{Health: probeRules(50 * ms)})
		r.answer = func(dev machine.DeviceID, _ engine.Rung) (engine.Event, bool) {
			return engine.Event{Kind: engine.DeviceBack, Device: dev}, true
		}
		bad := 0
		r.probe = func(dev machine.DeviceID) error {
			if dev == 0 && bad < sickFor {
				bad++
				return errSick
			}
			return nil
		}
		r.until("suspect", func() bool { return r.state(0) == "suspect" })
		var answers []error
		r.step(engine.Event{Kind: engine.Revive, Answer: func(err error) { answers = append(answers, err) }})
		if len(answers) > 0 {
			t.Fatalf("sick for %d probes: answered at once with %v while it is %s", sickFor, answers, r.state(0))
		}
		r.until("an answer", func() bool { return len(answers) > 0 })
		want := "healthy"
		if sickFor == 1000 {
			want = "broken"
			is(t, answers[0], errSick)
		} else if answers[0] != nil {
			t.Errorf("sick for %d probes: %v", sickFor, answers[0])
		}
		equal(t, "state when it was answered", r.state(0), want)
	}
}

// Who asks for a suspect device to be recovered is told that it is drained meanwhile, and for what.
func TestRecoverSuspectDrained(t *testing.T) {
	for _, accused := range []error{nil, errors.New("its results are wrong")} {
		r := newRig(t, cpus(2), engine.Options{Health: probeRules(50 * ms)})
		r.probe = func(dev machine.DeviceID) error {
			if dev == 0 {
				return errSick
			}
			return nil
		}
		r.until("suspect", func() bool { return r.state(0) == "suspect" })
		var answers []error
		r.step(engine.Event{Kind: engine.Revive, Answer: func(err error) { answers = append(answers, err) }})
		r.step(engine.Event{Kind: engine.Drain, Err: accused})
		if len(answers) != 1 || answers[0] == nil || !strings.Contains(answers[0].Error(), "drained") {
			t.Fatalf("drained for %v: answered with %v", accused, answers)
		}
		if accused != nil {
			is(t, answers[0], accused)
		}
		equal(t, "state", r.state(0), "draining")
	}
}
