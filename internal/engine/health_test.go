package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// unknown is a sample that says nothing.
var unknown = engine.Sample{Util: -1, MemUsed: -1, TempC: -1, PowerW: -1, MemErrors: -1}

// noStealing is the default policy without stealing: where a task is placed is
// where it runs, unless the balancer moves it.
func noStealing(p sched.Problem) sched.Policy {
	return struct{ sched.Policy }{sched.Policies()["finish"](p)}
}

func celsius(c float64) engine.Sample {
	s := unknown
	s.TempC = c
	return s
}

// placesOn runs n tasks of 1 ms and returns how many ran on each device.
func placesOn(r *rig, n int) []int {
	r.t.Helper()
	rep := r.mustRun(r.submit(independent(r.t, n, 1), engine.RunOptions{}))
	var out []int
	for _, d := range rep.Devices {
		out = append(out, d.Tasks)
	}
	return out
}

// At 85 °C a device is taken for half as fast; if it stays there it is drained;
// it comes back when it is 5 °C cooler, not when it is just below.
func TestThermalLadder(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{Policy: noStealing})
	r.sample(0, celsius(84.9))
	got := placesOn(r, 30)
	equal(t, "share at 84.9 °C", got[0], 15)

	r.sample(0, celsius(85))
	if got := placesOn(r, 30); got[0] != 10 {
		t.Errorf("at 85 °C %v ran on it, want half of what the other ran", got)
	}
	r.sample(0, celsius(86))
	if got := placesOn(r, 30); got[0] != 10 {
		t.Errorf("at the second sample %v ran on it, want it slowed and not drained yet", got)
	}
	r.sample(0, celsius(86))
	equal(t, "share when drained", placesOn(r, 30)[0], 0)
	r.sample(0, celsius(82))
	equal(t, "share when just below", placesOn(r, 30)[0], 0)
	r.sample(0, celsius(79))
	equal(t, "share when cool", placesOn(r, 30)[0], 15)
}

// Memory and power do the same as heat.
func TestOtherStrain(t *testing.T) {
	full, hungry := unknown, unknown
	full.MemUsed, hungry.PowerW = 0.96, 310
	for name, s := range map[string]engine.Sample{"memory": full, "power": hungry} {
		r := newRig(t, cpus(2), engine.Options{Health: engine.HealthRules{PowerBudget: 300}})
		for range 3 {
			r.sample(0, s)
		}
		equal(t, "share when drained for "+name, placesOn(r, 30)[0], 0)
		cool := unknown
		cool.MemUsed, cool.PowerW = 0.5, 200
		r.sample(0, cool)
		equal(t, "share afterwards", placesOn(r, 30)[0], 15)
	}
}

// The last device is slowed but never drained.
func TestLastDeviceIsNotDrained(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{})
	for range 10 {
		r.sample(0, celsius(95))
	}
	equal(t, "tasks", placesOn(r, 5)[0], 5)
}

// Draining finishes what runs and gives the rest to others.
func TestDrain(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{Depth: 2})
	id := r.submit(independent(t, 20, 1), engine.RunOptions{})
	r.until("some done", func() bool { return len(r.ran) >= 4 })
	before := r.launchedOn("cpu:0")
	r.step(engine.Event{Kind: engine.Drain, Device: 0})
	rep := r.mustRun(id)
	equal(t, "launches after the drain", r.launchedOn("cpu:0"), before)
	equal(t, "retries", rep.Retries, 0)
	equal(t, "executions", len(r.ran), 20)
	r.step(engine.Event{Kind: engine.Undrain, Device: 0})
	equal(t, "share afterwards", placesOn(r, 20)[0], 10)
}

// New uncorrectable memory errors take a device out; old ones do not.
func TestMemoryErrors(t *testing.T) {
	errs := func(n int64) engine.Sample {
		s := unknown
		s.MemErrors = n
		return s
	}
	r := newRig(t, cpus(2), engine.Options{})
	r.sample(0, errs(7)) // since boot
	r.sample(0, unknown)
	r.sample(0, errs(7))
	equal(t, "drops without a new error", len(r.drops), 0)
	r.sample(0, errs(8))
	equalLists(t, "drops", r.drops, []string{"cpu:0"})
	equalLists(t, "rungs", r.rungs, []string{"cpu:0 standby"})
	r.sample(0, errs(9)) // while it is lost
	r.step(engine.Event{Kind: engine.DeviceBack, Device: 0})
	r.sample(0, errs(9))
	equal(t, "drops for errors that were known", len(r.drops), 1)
	r.sample(0, errs(10))
	equal(t, "drops", len(r.drops), 2)
}

// A fault of the device itself takes it out, once.
func TestDeviceFaults(t *testing.T) {
	faults := func(n int64) engine.Sample {
		s := unknown
		s.Faults = n
		return s
	}
	r := newRig(t, cpus(2), engine.Options{})
	r.sample(0, faults(0))
	r.sample(0, faults(-1))
	equal(t, "drops without a fault", len(r.drops), 0)
	r.sample(0, faults(1))
	equalLists(t, "drops", r.drops, []string{"cpu:0"})
	r.step(engine.Event{Kind: engine.DeviceBack, Device: 0})
	r.sample(0, faults(1)) // the same one
	r.sample(0, faults(-1))
	r.sample(0, faults(1))
	equal(t, "drops for a fault that was known", len(r.drops), 1)
	r.sample(0, faults(0)) // a worker that counts anew
	r.sample(0, faults(1))
	equal(t, "drops", len(r.drops), 2)
}

// A device that does not respond is lost at once.
func TestUnresponsive(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{})
	s := unknown
	s.Unresponsive = true
	r.sample(1, s)
	equalLists(t, "drops", r.drops, []string{"cpu:1"})
	equal(t, "share", placesOn(r, 10)[1], 0)
}

// A device that comes back from a rung works; lost again before it is trusted
// it goes on with the next rung, and from the first once it was up long enough.
func TestLadderGoesOn(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{Health: engine.HealthRules{Trust: 100 * ms}})
	for range 2 {
		r.lose(0, false)
		r.now += ms
		r.back(0, false)
		r.now += ms
	}
	r.now += 200 * ms
	r.lose(0, false)
	equalLists(t, "rungs", r.rungs, []string{"cpu:0 standby", "cpu:0 restart", "cpu:0 standby"})
}

// Without options a rung has 5 s, and the ladder of a device that was up for 5 s goes on
// with the next rung; only after longer does it start over.
func TestLadderDefaults(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{})
	r.now = time.Second
	r.lose(0, false)
	r.until("the second rung", func() bool { return len(r.rungs) == 2 })
	equal(t, "time of a rung", r.now, 6*time.Second)
	r.back(0, false)
	r.now += 5 * time.Second
	r.lose(0, false)
	r.back(0, false)
	r.now += 5*time.Second + 1
	r.lose(0, false)
	equalLists(t, "rungs", r.rungs, []string{"cpu:0 standby", "cpu:0 restart", "cpu:0 reopen", "cpu:0 standby"})
}

// A device that comes back is judged anew: it is not strained, and is slowed and drained
// as one that was never hot.
func TestBackIsNotStrained(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{})
	for range 2 {
		r.sample(0, celsius(86))
		equal(t, "slowness when hot", r.e.Status(0).Slow, 2)
		r.sample(0, celsius(86))
		equal(t, "state when hot for two samples", r.e.Status(0).State, engine.Healthy)
		r.sample(0, celsius(86))
		equal(t, "state when it stays hot", r.e.Status(0).State, engine.Draining)
		r.lose(0, false)
		r.back(0, false)
		equal(t, "state when it is back", r.e.Status(0).State, engine.Healthy)
		r.sample(0, celsius(82)) // neither hot nor cool
		equal(t, "slowness when it is back", r.e.Status(0).Slow, 1)
	}
}

// A slowed device gets less, and what was queued there in the belief that it
// was fast is placed anew.
func TestSlowed(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{Policy: noStealing})
	r.step(engine.Event{Kind: engine.Slowed, Device: 0, Factor: 4})
	if got := placesOn(r, 50); got[0] != 10 {
		t.Errorf("four times slower it got %v of 50, want 10", got)
	}
	r.step(engine.Event{Kind: engine.Slowed, Device: 0, Factor: 1})
	equal(t, "share afterwards", placesOn(r, 20)[0], 10)
}

// Telemetry that shows one device hot and another cold moves queued tasks, and
// not again before the minimum interval has passed.
func TestRebalance(t *testing.T) {
	util := func(u float64) engine.Sample {
		s := unknown
		s.Util = u
		return s
	}
	r := newRig(t, cpus(2), engine.Options{Depth: 2, Policy: noStealing})
	// The other is thought to be slow, so nearly all is placed on the first.
	r.step(engine.Event{Kind: engine.Slowed, Device: 1, Factor: 100})
	id := r.submit(independent(t, 40, 1), engine.RunOptions{})
	r.until("some done", func() bool { return len(r.ran) >= 3 })
	if r.launchedOn("cpu:1") > 0 {
		t.Fatal("the slow device got work at once")
	}
	r.step(engine.Event{Kind: engine.Slowed, Device: 1, Factor: 1})
	r.sample(1, util(0.1))
	equal(t, "launches before the other is hot", r.launchedOn("cpu:1"), 0)
	r.sample(0, util(0.95))
	moved := r.launchedOn("cpu:1")
	if moved == 0 {
		t.Error("nothing moved from a device at 95 % to one at 10 %")
	}
	rep := r.mustRun(id)
	if rep.Moves == 0 || rep.Moves > 10 {
		t.Errorf("%d moves, want 1 to 10", rep.Moves)
	}
	listed := 0
	latest, all := r.e.Rebalances()
	for _, b := range latest {
		if listed += b.Tasks; b.From != 0 || b.To != 1 || b.At < rep.Started || b.At > rep.Ended {
			t.Errorf("listed: %+v", b)
		}
	}
	equal(t, "moves listed", listed, rep.Moves)
	equal(t, "rebalances", int(all), len(latest))
	equal(t, "executions", len(r.ran), 40)
}

// What a device did is in the report of the run: tasks, time busy, and what
// was predicted.
func TestDeviceReport(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{})
	rep := r.mustRun(r.submit(independent(t, 1, 100), engine.RunOptions{}))
	equal(t, "first device", rep.Devices[0], engine.DeviceReport{Tasks: 1, Busy: 100 * ms, Predicted: 100 * ms})
	equal(t, "second device", rep.Devices[1], engine.DeviceReport{})
	equal(t, "tasks", rep.Tasks, 1)
	equal(t, "time", rep.Ended-rep.Started, 100*ms)
}

// A device's statistics: one task of 100 ms.
func TestDeviceStats(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{})
	id := r.submit(independent(t, 1, 100), engine.RunOptions{})
	r.starts("t0")
	equal(t, "active", r.e.Status(0).Stats.Active, 1)
	equal(t, "queued", r.e.Status(0).Queued, 1)
	r.mustRun(id)
	st := r.e.Status(0).Stats
	equal(t, "statistics", st, machine.Stats{Tasks: 1, Total: 100 * ms})
	equal(t, "mean", st.Avg(), 100*ms)
	equal(t, "the other's", r.e.Status(1).Stats, machine.Stats{})
	r.lose(0, false)
	equal(t, "state", r.e.Status(0).State, engine.Lost)
}

// A wake that is asked for is one at which something happens.
func TestNextWake(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{TaskTimeout: 50 * ms, Health: engine.HealthRules{RungTimeout: 30 * ms}})
	if at, ok := r.e.NextWake(); ok {
		t.Errorf("an idle engine wants to be woken at %v", at)
	}
	r.hang["t0"] = true
	r.submit(independent(t, 1, 1), engine.RunOptions{})
	if at, ok := r.e.NextWake(); !ok || at != 0 {
		t.Errorf("after Submit: %v %t, want at once", at, ok)
	}
	r.step()
	if at, ok := r.e.NextWake(); !ok || at != 50*ms {
		t.Errorf("with a task in flight: %v %t, want its timeout at 50ms", at, ok)
	}
	r.now = 10 * ms
	r.lose(machine.DeviceID(1), false)
	if at, ok := r.e.NextWake(); !ok || at != 40*ms {
		t.Errorf("with a device on the ladder: %v %t, want its rung's end at 40ms", at, ok)
	}
}

// A device that is broken for good and lacks capacity is looked at when it may have that
// again, and not before.
func TestNextWakeOfABrokenDevice(t *testing.T) {
	r := newRig(t, gpus(2, 10*mb), engine.Options{})
	r.outcome = func(_, dev string) engine.Status {
		if dev == "gpu:0" {
			return engine.OutOfMemory
		}
		return engine.OK
	}
	id := r.submit(large(t), engine.RunOptions{})
	r.until("less memory", func() bool { return r.e.Status(0).MemBytes < 10*mb })
	until := r.now + 100*ms
	r.lose(0, false)
	r.step(engine.Event{Kind: engine.RecoverFailed, Device: 0, Never: true})
	equal(t, "state", r.e.Status(0).State, engine.Broken)
	r.mustRun(id)
	if at, ok := r.e.NextWake(); !ok || at != until {
		t.Errorf("the next wake is at %v %t, want %v", at, ok, until)
	}
}

// A run's own timeout takes the place of the engine's, a task's of both.
func TestTimeouts(t *testing.T) {
	for _, c := range []struct{ engine, run, task, want time.Duration }{
		{7 * ms, 0, 0, 7 * ms},
		{7 * ms, 5 * ms, 0, 5 * ms},
		{7 * ms, 5 * ms, 9 * ms, 9 * ms},
		{0, 0, 3 * ms, 3 * ms},
	} {
		r := newRig(t, cpus(2), engine.Options{TaskTimeout: c.engine})
		k := job("k", 1)
		k.Timeout = c.task
		r.hang["k"] = true
		r.submit(single(t, k), engine.RunOptions{Timeout: c.run})
		r.until("dropped", func() bool { return len(r.drops) > 0 })
		equal(t, "timeout", r.now, c.want)
	}
}

// What one data's chain costs does not depend on the device it is lost on:
// a graph over two chains loses only the one that was there.
func TestLossIsLocal(t *testing.T) {
	r := newRig(t, gpus(2, 1<<20), engine.Options{})
	g := build(t, func(b *graph.Builder) {
		for _, name := range []string{"p", "q"} {
			x := b.Data(graph.Data{Name: name, Bytes: 1000, Input: true, Output: true})
			for range 6 {
				k := job(name, 1, updates(x))
				k.On.Hint = map[string]string{"p": "gpu:0", "q": "gpu:1"}[name]
				b.Add(k)
			}
		}
	})
	id := r.submit(g, engine.RunOptions{})
	r.until("half way", func() bool { return len(r.ran) == 6 })
	r.lose(0, false)
	rep := r.mustRun(id)
	equal(t, "replays", rep.Replays, 3)
}

// A task under which a device was lost three times is quarantined: its run's error tells
// of each loss, and the device, whose ladder begins anew, stays.
func TestQuarantine(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{})
	id := r.submit(single(t, job("bad", 1)), engine.RunOptions{})
	for i := range 3 {
		r.starts("bad")
		r.now += time.Duration(i+1) * ms
		r.giveUp(0)
		r.step(engine.Event{Kind: engine.DeviceLost, Device: 0, Err: errBoom})
		r.back(0, false)
	}
	err := r.finish(id)
	is(t, err, engine.ErrDeviceLost)
	is(t, err, errBoom)
	var te *engine.TaskError
	var q *engine.Quarantine
	if !errors.As(err, &te) || te.Task != "bad" || !errors.As(err, &q) || len(q.Losses) != 3 {
		t.Fatalf("got %v", err)
	}
	for i, at := range []time.Duration{1 * ms, 3 * ms, 6 * ms} {
		equal(t, "device", q.Losses[i].Device, "gpu:0")
		equal(t, "time", q.Losses[i].At, at)
		is(t, q.Losses[i].Err, errBoom)
	}
	if text := err.Error(); strings.Count(text, "gpu:0 at ") != 3 || strings.Count(text, "boom") != 3 {
		t.Errorf("the error says %s", text)
	}
	equalLists(t, "rungs", r.rungs, []string{"gpu:0 standby", "gpu:0 restart", "gpu:0 standby"})
	equal(t, "state", r.e.Status(0).State, engine.Healthy)
	r.mustRun(r.submit(single(t, job("good", 1)), engine.RunOptions{}))
}

// MaxFailures and MaxLosses mean the same: as many are borne, and the next is not.
func TestMaxIsBorne(t *testing.T) {
	for _, most := range []int{-1, 1, 2, 4} {
		borne := max(most, 0) // -1 stands for none
		o := engine.Options{Retries: 100, Health: engine.HealthRules{MaxFailures: most, MaxLosses: most, Trust: 1}}
		r := newRig(t, gpus(2, 10*mb), o)
		task := job("bad", 1)
		task.On.Hint = "gpu:0"
		r.fail["bad"] = borne
		r.mustRun(r.submit(single(t, task), engine.RunOptions{}))
		equal(t, "losses of devices that bore their failures", r.e.Status(0).Losses+r.e.Status(1).Losses, 0)

		r = newRig(t, gpus(1, 10*mb), o)
		id := r.submit(single(t, job("bad", 1)), engine.RunOptions{})
		for range borne + 1 {
			r.starts("bad")
			r.now += ms / 2
			r.lose(0, false)
			r.back(0, false)
		}
		var q *engine.Quarantine
		if err := r.finish(id); !errors.As(err, &q) || len(q.Losses) != borne+1 {
			t.Errorf("with %d losses borne a task ended with %v", borne, err)
		}

		// Failures on one device alone: it is dropped at the one that is not borne.
		r = newRig(t, gpus(2, 10*mb), o)
		r.outcome = func(_, dev string) engine.Status {
			if dev == "gpu:0" {
				return engine.Failed
			}
			return engine.OK
		}
		failed := 0
		for r.e.Status(0).Losses == 0 && failed < 100 {
			task := job(fmt.Sprint("t", failed), 1)
			task.On.Hint = "gpu:0"
			r.mustRun(r.submit(single(t, task), engine.RunOptions{}))
			failed++
		}
		equal(t, "failures in a row until a device was dropped", failed, borne+1)
	}
}

// A task that has succeeded is not implicated any more by the losses before: computed
// again, it may be lost with its device as often as any other.
func TestSuccessClears(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{Health: engine.HealthRules{Trust: 1}})
	id := r.submit(build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 8})
		y := b.Data(graph.Data{Name: "y", Bytes: 8, Output: true})
		b.Add(job("make", 1, writes(x)))
		b.Add(job("use", 1, reads(x), writes(y)))
	}), engine.RunOptions{})
	for _, task := range []string{"make", "make", "use", "make"} {
		r.starts(task)
		r.now += ms / 2
		r.lose(0, false)
		r.back(0, false)
		r.now += ms / 2
	}
	rep := r.mustRun(id)
	equal(t, "losses", r.e.Status(0).Losses, 4)
	equal(t, "executions", rep.Executed, 3)
}

// The ladder of a device that did not come back starts over after a pause, which grows
// until the device has been trusted; not that of one which cannot come back. Each
// change of state is told once.
func TestLadderStartsOver(t *testing.T) {
	var changes []string
	o := engine.Options{Health: engine.HealthRules{RungTimeout: ms, Again: time.Second, Trust: time.Minute}}
	o.Changed = func(c engine.StateChange) { changes = append(changes, fmt.Sprint(c.Device, " ", c.From, " ", c.To)) }
	r := newRig(t, gpus(1, mb), o)
	r.lose(0, false)
	var broken []time.Duration
	for range 9 {
		r.until("broken", func() bool { return r.e.Status(0).State == engine.Broken })
		broken = append(broken, r.now)
		r.until("tried again", func() bool { return r.e.Status(0).State == engine.Lost })
	}
	for i := range broken[1:] {
		equal(t, fmt.Sprint("pause ", i), broken[i+1]-broken[i], time.Second<<min(i, 6)+3*ms)
	}
	equal(t, "rungs", len(r.rungs), 9*3+1)
	equal(t, "changes", len(changes), 1+2*9)
	r.back(0, false)
	r.now += 2 * time.Minute
	changes = nil
	r.lose(0, false)
	at := r.now
	r.until("broken", func() bool { return r.e.Status(0).State == engine.Broken })
	r.until("tried again", func() bool { return r.e.Status(0).State == engine.Lost })
	equal(t, "pause once it was trusted", r.now-at, time.Second+3*ms)
	r.step(engine.Event{Kind: engine.RecoverFailed, Device: 0, Never: true})
	equalLists(t, "changes", changes, []string{"0 healthy lost", "0 lost broken", "0 broken lost", "0 lost broken"})
	if at, ok := r.e.NextWake(); ok {
		t.Errorf("a device that cannot come back is to be tried at %v", at)
	}
}

// A call that hangs on a dropped CPU device may use its memory until the device is
// quiet, also where what it reads has been copied elsewhere in host memory since.
func TestDroppedCallKeepsItsMemory(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{TaskTimeout: 50 * ms})
	r.mute, r.hang["hangs"] = true, true
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 2 * mb})
		half := func(lo int64, a graph.Access) graph.Use {
			return graph.Use{Data: x, Offset: lo, Bytes: mb, Access: a}
		}
		low := b.Add(job("low", 1, half(0, graph.Write)))
		high := job("high", 1, half(mb, graph.Write))
		high.After = []graph.TaskID{low}
		second := b.Add(high)
		hangs := job("hangs", 1, half(0, graph.Read))
		hangs.On.Hint = "cpu:0"
		b.Add(hangs)
		both := job("both", 1, reads(x)) // gathers the halves
		both.After, both.On.Hint = []graph.TaskID{second}, "cpu:1"
		b.Add(both)
	})
	id := r.submit(g, engine.RunOptions{})
	r.until("a drop", func() bool { return len(r.drops) > 0 })
	delete(r.hang, "hangs")
	r.mustRun(id)
	equal(t, "calls on the dropped device", len(r.afterDrop), 1)
	dev := r.afterDrop[0].a.Device
	r.afterDrop = nil
	r.step(engine.Event{Kind: engine.DeviceQuiet, Device: dev})
	r.until("the end of its memory", func() bool { return r.e.Left() == "" })
}

// A report has the condition of a device that told any part of it, and of no other.
func TestReportedCondition(t *testing.T) {
	none := engine.Sample{Util: 0.5, MemUsed: -1, MemBytes: -1, TempC: -1, PowerW: -1, ClockMHz: -1, MemErrors: -1, Faults: -1}
	temp, power, used := none, none, none
	temp.TempC, power.PowerW, used.MemUsed = 0, 0, 0
	r := newRig(t, gpus(5, 1<<30), engine.Options{})
	for i, s := range []engine.Sample{none, temp, power, used} { // the last device is never sampled
		r.sample(machine.DeviceID(i), s)
	}
	id := r.submit(chains(t, 2, 2), engine.RunOptions{})
	r.mustRun(id)
	for i, d := range r.ended[id].Report.Devices {
		if told := i >= 1 && i <= 3; (d.Health != nil) != told {
			t.Errorf("device %d: condition %+v, want one: %v", i, d.Health, told)
		}
	}
}
