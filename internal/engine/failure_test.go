package engine_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// A task that fails is tried again after 1, 2 and 4 ms, then its run fails and
// names everything that did not finish.
func TestRetriesBackOffThenFail(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{})
	r.fail["bad"] = 100
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 8})
		b.Add(job("good", 1))
		b.Add(job("bad", 1, writes(x)))
		b.Add(job("behind", 1, reads(x)))
		b.Add(graph.Task{Name: "further", Steps: []graph.Step{{Kernel: anywhere}}, After: []graph.TaskID{2}})
	})
	id := r.submit(g, engine.RunOptions{})
	var starts []time.Duration
	r.step()
	for seen := 0; len(r.ended) == 0; {
		if n := r.count("bad"); n > seen {
			seen = n
			starts = append(starts, r.now)
		}
		if !r.advance() {
			t.Fatal("stopped")
		}
	}
	err := r.ended[id].Err
	is(t, err, errBoom)
	var re *engine.RunError
	if !errors.As(err, &re) {
		t.Fatalf("%v is no RunError", err)
	}
	equalLists(t, "unfinished", re.Names, []string{"bad", "behind", "further"})
	var te *engine.TaskError
	if !errors.As(err, &te) || te.Task != "bad" || te.Device != "cpu:0" {
		t.Errorf("the error does not name the task and its device: %v", err)
	}
	// Issued at 0 behind good, it fails at 2 ms; then pause, and 1 ms to fail again.
	want := []time.Duration{0, 2*ms + 1*ms, 4*ms + 2*ms, 7*ms + 4*ms}
	if !slices.Equal(starts, want) {
		t.Errorf("tries at %v, want %v", starts, want)
	}
	equal(t, "retries", r.ended[id].Report.Retries, 3)
}

// A failed task is tried elsewhere first, and its run can allow fewer retries.
func TestRetriesElsewhere(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{})
	r.fail["t0"] = 1
	id := r.submit(independent(t, 1, 1), engine.RunOptions{})
	r.mustRun(id)
	equalLists(t, "launches", r.launched, []string{"t0@cpu:0", "t0@cpu:1"})

	r = newRig(t, cpus(2), engine.Options{})
	r.fail["t0"] = 2
	id = r.submit(independent(t, 1, 1), engine.RunOptions{Retries: 1})
	is(t, r.finish(id), errBoom)
	equal(t, "tries", r.count("t0"), 2)

	r = newRig(t, cpus(2), engine.Options{})
	r.fail["once"] = 1
	once := job("once", 1)
	once.Retries = -1
	is(t, r.finish(r.submit(single(t, once), engine.RunOptions{})), errBoom)
	equal(t, "tries of a task never to be retried", r.count("once"), 1)
}

// What fails because of something else's failure uses up no retries.
func TestDependentsAreNotBlamed(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{Retries: 2})
	r.fail["c0"] = 2
	id := r.submit(chain(t, 4, 1, graph.Versioned), engine.RunOptions{})
	rep := r.mustRun(id)
	equal(t, "retries", rep.Retries, 2)
	equal(t, "executed", rep.Executed, 4)
}

// A hung task costs its device, which is dropped; the ladder is climbed rung by
// rung while the work runs elsewhere, and at its end the device is given up.
func TestHungDevice(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{TaskTimeout: 10 * ms, Health: engine.HealthRules{RungTimeout: 50 * ms}})
	r.hang["t0"] = true
	id := r.submit(independent(t, 1, 1), engine.RunOptions{})
	r.until("dropped", func() bool { return len(r.drops) > 0 })
	equal(t, "dropped at", r.now, 10*ms)
	equalLists(t, "dropped", r.drops, []string{"cpu:0"})
	equalLists(t, "launches", r.launched, []string{"t0@cpu:0", "t0@cpu:1"})
	r.hang["t0"] = false
	r.mustRun(id)
	equal(t, "done at", r.now, 11*ms)
	for r.advance() {
	}
	equalLists(t, "rungs", r.rungs, []string{"cpu:0 standby", "cpu:0 restart", "cpu:0 reopen"})
	equal(t, "given up at", r.now, 10*ms+3*50*ms)

	// Broken, it gets nothing more.
	id = r.submit(independent(t, 4, 1), engine.RunOptions{})
	r.mustRun(id)
	equal(t, "launches on the broken device", r.launchedOn("cpu:0"), 1)
}

// A task that hangs wherever it runs fails its run with a timeout.
func TestTimeoutIsTheTasksFault(t *testing.T) {
	r := newRig(t, cpus(5), engine.Options{Retries: 1})
	r.hang["slow"] = true
	slow := job("slow", 1)
	slow.Timeout = 5 * ms
	err := r.finish(r.submit(single(t, slow), engine.RunOptions{}))
	is(t, err, engine.ErrTimeout)
	equal(t, "tries", r.count("slow"), 2)
	equal(t, "failed at", r.now, 10*ms)
}

// The clock of a timeout starts when the task can start, not when it is issued.
func TestTimeoutCountsFromStart(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{TaskTimeout: 3 * ms})
	id := r.submit(chain(t, 5, 2, graph.Versioned), engine.RunOptions{})
	r.mustRun(id)
	equal(t, "drops", len(r.drops), 0)
}

// A task issued behind another device's result starts when that is there, however
// much later than its own timeout that is.
func TestTimeoutCountsFromInputs(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{})
	r.hang["reader"] = true
	id := r.submit(build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Bytes: 8})
		maker, reader := job("maker", 20, writes(x)), job("reader", 1, reads(x))
		maker.On.Only, reader.On.Only = []string{"cpu:0"}, []string{"cpu:1"}
		reader.Timeout, reader.Retries = 5*ms, -1
		b.Add(maker)
		b.Add(reader)
	}), engine.RunOptions{})
	is(t, r.finish(id), engine.ErrTimeout)
	equal(t, "failed at", r.now, 25*ms)
}

// Cancelling lets what is in flight complete, starts nothing else, and reports.
func TestCancel(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{})
	id := r.submit(independent(t, 10, 1), engine.RunOptions{})
	r.until("t0 done", func() bool { return len(r.ran) == 1 })
	flying := len(r.inFlight())
	launched := len(r.launched)
	r.step(engine.Event{Kind: engine.Cancel, Run: id})
	if len(r.ended) != 0 || flying == 0 {
		t.Fatalf("ended with %d tasks in flight", flying)
	}
	err := r.finish(id)
	is(t, err, engine.ErrCancelled)
	equal(t, "launches", len(r.launched), launched)
	equal(t, "executions", len(r.ran), launched)
	equal(t, "in flight at the end", len(r.inFlight()), 0)
	var re *engine.RunError
	if !errors.As(err, &re) || len(re.Names) != 10-launched {
		t.Errorf("%v, want %d unfinished", err, 10-launched)
	}
	// The engine goes on with others.
	r.mustRun(r.submit(independent(t, 3, 1), engine.RunOptions{}))

	// Who cancels again changes nothing.
	id = r.submit(independent(t, 2, 1), engine.RunOptions{})
	r.step()
	for range 3 {
		r.step(engine.Event{Kind: engine.Cancel, Run: id})
	}
	if err := r.finish(id); strings.Count(err.Error(), engine.ErrCancelled.Error()) != 1 {
		t.Errorf("cancelled three times, the run ended with %q", err)
	}
}

// What several tasks failed of is told in one line.
func TestFailuresInALine(t *testing.T) {
	err := &engine.RunError{Err: errors.Join(errors.New("a"), errors.New("b")), Names: []string{"t0"}}
	equal(t, "error", err.Error(), "a; b; 1 task unfinished: t0")
}

// What is in flight of a run that is cancelled or fails is to stop: nothing of
// another run, and nothing that may be half way through resident data.
func TestFailedRunsStop(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{})
	other := r.submit(independent(t, 4, 5), engine.RunOptions{})
	r.step()
	id := r.submit(build(t, func(b *graph.Builder) {
		for i := range 4 {
			b.Add(job(fmt.Sprint("mine", i), 1))
		}
	}), engine.RunOptions{})
	r.until("some of both in flight", func() bool {
		return slices.ContainsFunc(r.inFlight(), func(w string) bool { return strings.HasPrefix(w, "mine") })
	})
	var mine []string
	for _, w := range r.inFlight() {
		if strings.HasPrefix(w, "mine") {
			mine = append(mine, w)
		}
	}
	r.step(engine.Event{Kind: engine.Cancel, Run: id})
	equalLists(t, "stopped", r.stops, mine)
	is(t, r.finish(id), engine.ErrCancelled)
	r.mustRun(other)

	r = newRig(t, cpus(2), engine.Options{Retries: -1})
	r.fail["bad"] = 1
	id = r.submit(build(t, func(b *graph.Builder) {
		b.Add(job("bad", 1))
		b.Add(job("long", 9))
	}), engine.RunOptions{})
	if r.finish(id) == nil {
		t.Error("a run whose task failed did not")
	}
	equalLists(t, "stopped when another failed", r.stops, []string{"long@cpu:1"})

	r = newRig(t, cpus(1), engine.Options{})
	ref := r.e.NewData("w", 8, graph.Versioned)
	id = r.submit(build(t, func(b *graph.Builder) {
		w := b.Data(graph.Data{Name: "w", Bytes: 8, Input: true})
		b.Add(job("write", 1, updates(w)))
	}), engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: ref}}})
	r.step()
	r.step(engine.Event{Kind: engine.Cancel, Run: id})
	equalLists(t, "stopped of what writes resident data", r.stops, nil)
	is(t, r.finish(id), engine.ErrCancelled)
}

// A run that is cancelled behind a long task of another ends at once: its own were
// not given to the device yet.
func TestCancelBehindLong(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{})
	long := r.submit(independent(t, 1, 50), engine.RunOptions{})
	r.step()
	id := r.submit(independent(t, 1, 1), engine.RunOptions{})
	for range 3 {
		r.step()
	}
	r.step(engine.Event{Kind: engine.Cancel, Run: id})
	if end, ok := r.ended[id]; !ok {
		t.Error("the run waits for another's task")
	} else {
		is(t, end.Err, engine.ErrCancelled)
	}
	r.mustRun(long)
}

// Cancelling a run that waits for its data ends it without starting it.
func TestCancelWaiting(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{})
	ref := r.e.NewData("w", 8, graph.Versioned)
	g := build(t, func(b *graph.Builder) {
		w := b.Data(graph.Data{Name: "w", Bytes: 8, Input: true})
		b.Add(job("write", 1, updates(w)))
	})
	bind := engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: ref}}}
	first, second := r.submit(g, bind), r.submit(g, bind)
	r.step()
	r.step(engine.Event{Kind: engine.Cancel, Run: second})
	if _, ok := r.ended[second]; !ok {
		t.Error("the waiting run did not end at once")
	}
	is(t, r.ended[second].Err, engine.ErrCancelled)
	r.mustRun(first)
	equal(t, "launches", len(r.launched), 1)
}

// A device with more than three failures in a row is taken out, and a success
// in between starts the count over.
func TestConsecutiveFailures(t *testing.T) {
	only := func(name string) graph.Task {
		k := job(name, 1)
		k.On.Only = []string{"cpu:0"}
		k.Retries = 20
		return k
	}
	var cause error
	r := newRig(t, cpus(2), engine.Options{Changed: func(c engine.StateChange) { cause = cmp.Or(cause, c.Cause) }})
	r.fail["bad"] = 4 + 3 // the count starts over when it comes back
	r.answer = func(dev machine.DeviceID, rung engine.Rung) (engine.Event, bool) {
		return engine.Event{Kind: engine.DeviceBack, Device: dev}, true
	}
	r.mustRun(r.submit(single(t, only("bad")), engine.RunOptions{}))
	equalLists(t, "dropped after the fourth", r.drops, []string{"cpu:0"})
	if cause == nil || !strings.Contains(cause.Error(), errBoom.Error()) {
		t.Errorf("the device was lost for %q, which does not say how tasks failed", cause)
	}
	equalLists(t, "rungs", r.rungs, []string{"cpu:0 standby"})

	r = newRig(t, cpus(2), engine.Options{})
	for i := range 3 {
		name := fmt.Sprint("bad", i)
		r.fail[name] = 3
		r.mustRun(r.submit(single(t, only(name)), engine.RunOptions{}))
	}
	equal(t, "drops with successes in between", len(r.drops), 0)
}

// The last device is not taken out for failing: there is nothing better.
func TestLastDeviceStays(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{Retries: 10})
	r.fail["t0"] = 8
	r.mustRun(r.submit(independent(t, 1, 1), engine.RunOptions{}))
	equal(t, "drops", len(r.drops), 0)
}

// A task under which three devices died is held to be the cause, and what only
// waited on those devices is not.
func TestKillerIsBlamed(t *testing.T) {
	r := newRig(t, cpus(5), engine.Options{Retries: 1})
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 8})
		b.Add(job("killer", 10, writes(x)))
		b.Add(job("bystander", 10, reads(x)))
	})
	id := r.submit(g, engine.RunOptions{})
	r.fail["killer"] = 0
	for range 4 {
		r.starts("killer")
		r.now += ms
		for _, o := range r.ops {
			if o.a.Kind == engine.Launch && o.a.Graph.TaskName(o.a.Task) == "killer" {
				r.lose(o.a.Device, false)
				break
			}
		}
		if r.ended[id].Err != nil {
			break
		}
	}
	err := r.finish(id)
	is(t, err, engine.ErrDeviceLost)
	var te *engine.TaskError
	if !errors.As(err, &te) || te.Task != "killer" {
		t.Errorf("blamed: %v", err)
	}
}

// Where the cause of a loss is known, tasks that ran meanwhile have nothing to do
// with it, however often that happens.
func TestBystanderIsNotBlamed(t *testing.T) {
	m := cpus(1)
	m.Devices[0].Lanes = 2
	r := newRig(t, m, engine.Options{Retries: -1})
	id := r.submit(independent(t, 1, 10), engine.RunOptions{})
	r.starts("t0")
	for i := range 10 {
		name := fmt.Sprint("culprit", i)
		r.fail[name] = 1
		culprit := r.submit(single(t, job(name, 1)), engine.RunOptions{})
		is(t, r.finish(culprit), errBoom)
		r.starts("t0")
		r.giveUp(0)
		r.step(engine.Event{Kind: engine.DeviceLost, Blamed: true})
		r.back(0, false)
	}
	r.mustRun(id)
	equal(t, "launches", r.count("t0"), 11)
	for _, rung := range r.rungs {
		equal(t, "rung of a loss with a known cause", rung, "cpu:0 standby")
	}
}

// A device that says a failed launch cost it, where none failed, is not believed:
// the task that ran is implicated as by any loss, and the ladder goes on, so that
// there is an end to it.
func TestBlameNeedsAFailure(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{Retries: 1})
	id := r.submit(independent(t, 1, 10), engine.RunOptions{})
	n := 0
	for ; r.ended[id].Err == nil && n < 20; n++ {
		r.starts("t0")
		r.now += 6 * time.Second // trusted again: the ladder alone never ends it
		r.giveUp(0)
		r.step(engine.Event{Kind: engine.DeviceLost, Blamed: true})
		r.back(0, false)
		r.now += time.Second
		r.step()
	}
	is(t, r.finish(id), engine.ErrDeviceLost)
	equal(t, "losses until the task is held to be the cause", n, 3)

	// Nor before anything ran, when the run can only end with the device.
	r = newRig(t, gpus(1, 1<<20), engine.Options{})
	id = r.submit(chain(t, 1, 1, graph.Versioned), engine.RunOptions{})
	for n = 0; r.ended[id].Err == nil && n < 20; n++ {
		r.until("copying", func() bool { return len(r.ops) > 0 || len(r.ended) > 0 })
		r.giveUp(0)
		r.step(engine.Event{Kind: engine.DeviceLost, Blamed: true})
		if r.e.Status(0).State == engine.Lost {
			r.back(0, false)
		}
	}
	is(t, r.finish(id), engine.ErrDeviceLost)
	equalLists(t, "rungs", r.rungs, []string{"gpu:0 standby", "gpu:0 restart", "gpu:0 reopen"})
	equal(t, "launches that ran", len(r.ran), 0)
}

// A kernel that a device refuses says nothing about the device: only failures
// count, refusals neither add to them nor start the count over.
func TestRefusedIsNotSick(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		r := newRig(t, cpus(2+rnd.IntN(3)), engine.Options{Retries: 100})
		r.answer = func(dev machine.DeviceID, rung engine.Rung) (engine.Event, bool) {
			return engine.Event{Kind: engine.DeviceBack, Device: dev}, true
		}
		inRow, refusals := map[string]int{}, 0
		var want []string // drops
		r.outcome = func(_, dev string) engine.Status {
			switch rnd.IntN(4) {
			case 0:
				inRow[dev] = 0
				return engine.OK
			case 1:
				if inRow[dev]++; inRow[dev] > 3 {
					inRow[dev] = 0
					want = append(want, dev)
				}
				return engine.Failed
			}
			refusals++
			return engine.Refused
		}
		rep := r.mustRun(r.submit(independent(t, 1+rnd.IntN(20), 1), engine.RunOptions{}))
		if !slices.Equal(r.drops, want) || rep.Retries < refusals {
			t.Fatalf("seed %d: dropped %v, want %v; %d retries, %d refusals", seed, r.drops, want, rep.Retries, refusals)
		}
	}

	// Without any failure no device goes, however often it refuses.
	r := newRig(t, cpus(2), engine.Options{Retries: 20})
	r.outcome = func(string, string) engine.Status { return engine.Refused }
	is(t, r.finish(r.submit(independent(t, 1, 1), engine.RunOptions{})), errBoom)
	equal(t, "tries", r.count("t0"), 21)
	equal(t, "drops", len(r.drops), 0)
}

// A gang fails by the member that failed by itself, whichever ended first, and on
// that member's account.
func TestGangFailsByItsCulprit(t *testing.T) {
	for _, st := range []engine.Status{engine.Failed, engine.Refused, engine.OutOfMemory} {
		for culprit := range 3 {
			for tell := range 3 { // which member ends last
				r := newRig(t, cpus(3), engine.Options{})
				three := job("three", 1)
				three.Gang, three.Retries = 3, -1
				id := r.submit(single(t, three), engine.RunOptions{})
				r.starts("three")
				ops := slices.Clone(r.ops)
				ops = append(ops[tell+1:], ops[:tell+1]...)
				for _, o := range ops {
					ev := engine.Event{Kind: engine.OpDone, Op: o.a.Op, Status: engine.DepFailed, Start: r.now, End: r.now}
					if int(o.a.Device) == culprit {
						ev.Status, ev.Err = st, errBoom
					}
					r.ops = slices.DeleteFunc(r.ops, func(p *op) bool { return p == o })
					r.last[o.a.Op.Lane] = o.a.Op.Seq
					r.step(ev)
				}
				err := r.finish(id)
				is(t, err, errBoom)
				var te *engine.TaskError
				if want := fmt.Sprint("cpu:", culprit); !errors.As(err, &te) || te.Device != want {
					t.Errorf("status %d of %s: %v", st, want, err)
				}
			}
		}
	}
}

// A lost device's task runs elsewhere at once, in the same step.
func TestLossMovesWorkAtOnce(t *testing.T) {
	r := newRig(t, gpus(2, 1<<20), engine.Options{})
	id := r.submit(chain(t, 1, 5, graph.Versioned), engine.RunOptions{})
	r.starts("c0")
	r.now += ms
	at := r.now
	r.lose(0, false)
	equalLists(t, "launches", r.launched, []string{"c0@gpu:0", "c0@gpu:1"})
	equal(t, "time of the second launch", r.now, at)
	rep := r.mustRun(id)
	equal(t, "replays: nothing finished was lost", rep.Replays, 0)
}

// With recovery off a lost device fails its runs at once.
func TestNoFaultTolerance(t *testing.T) {
	r := newRig(t, gpus(2, 1<<20), engine.Options{NoFaultTolerance: true})
	id := r.submit(chain(t, 3, 5, graph.Versioned), engine.RunOptions{})
	elsewhere := job("elsewhere", 50)
	elsewhere.On.Only = []string{"gpu:1"}
	bystander := r.submit(single(t, elsewhere), engine.RunOptions{})
	r.starts("c1")
	r.starts("elsewhere")
	r.lose(0, false)
	is(t, r.finish(id), engine.ErrDeviceLost)
	r.mustRun(bystander) // it had nothing there

	// A run that reads a value only the lost memory held fails.
	r = newRig(t, gpus(2, 1<<20), engine.Options{NoFaultTolerance: true})
	id = r.submit(build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 8})
		first, second := job("first", 1, writes(x)), job("second", 1, reads(x))
		first.On.Only, second.On.Only = []string{"gpu:0"}, []string{"gpu:1"}
		between := job("between", 50)
		between.On.Only = []string{"gpu:1"}
		b.Add(between)
		b.Add(first)
		second.After = []graph.TaskID{0}
		b.Add(second)
	}), engine.RunOptions{Concurrent: 2})
	r.until("first to end", func() bool { return len(r.ran) == 1 })
	r.lose(0, false)
	is(t, r.finish(id), engine.ErrDataLost)
}

// Any number of retries comes to an end.
func TestManyRetries(t *testing.T) {
	for _, n := range []int{254, 255, 256, 300, 1000} {
		r := newRig(t, cpus(1), engine.Options{Retries: n, Backoff: 1})
		tries := 0
		r.outcome = func(string, string) engine.Status {
			tries++
			if tries > n+1 {
				t.Fatalf("%d retries allowed, and it was tried %d times", n, tries)
			}
			return engine.Refused
		}
		is(t, r.finish(r.submit(independent(t, 1, 0.001), engine.RunOptions{})), errBoom)
		equal(t, "tries", tries, n+1)
	}
}

// Copies for a task that fail together are one failure, however many they are, and
// copies that keep failing end the run.
func TestCopiesThatFailTogether(t *testing.T) {
	g := build(t, func(b *graph.Builder) {
		var uses []graph.Use
		for i := range 12 {
			x := b.Data(graph.Data{Name: fmt.Sprint("x", i), Bytes: 1000, Input: true})
			uses = append(uses, reads(x))
		}
		b.Add(job("t", 1, uses...))
	})
	r := newRig(t, gpus(1, 10*mb), engine.Options{})
	n := 0
	r.failCopy = func(copied) bool { n++; return n <= 12 }
	r.mustRun(r.submit(g, engine.RunOptions{}))

	r = newRig(t, gpus(1, 10*mb), engine.Options{})
	r.failCopy = func(copied) bool { return true }
	err := r.finish(r.submit(g, engine.RunOptions{}))
	is(t, err, errBoom)
	if n := r.count("t"); n < 5 || n > 20 {
		t.Errorf("it was issued %d times before the run failed", n)
	}
}

// A copy that keeps failing is given up, and the runs that need it fail with its error.
func TestCopiesHomeThatKeepFailing(t *testing.T) {
	out := build(t, func(b *graph.Builder) {
		y := b.Data(graph.Data{Name: "y", Bytes: 1000, Output: true})
		b.Add(job("make", 5, writes(y)))
	})
	r := newRig(t, gpus(1, 10*mb), engine.Options{})
	home := func(c copied) bool { return c.to == "host" }
	r.failCopy = home
	is(t, r.finish(r.submit(out, engine.RunOptions{})), errBoom)
	n := len(r.copies)
	if n < 5 || n > 20 {
		t.Errorf("%d copies before the run failed", n)
	}
	// A few failures are made up for.
	r.failCopy = func(c copied) bool { n--; return home(c) && n > 5 }
	r.mustRun(r.submit(out, engine.RunOptions{}))

	// Who fetches resident data is told, and so is a run that cuts it anew.
	r = newRig(t, gpus(1, 10*mb), engine.Options{})
	w := r.e.NewData("w", mb, graph.Versioned)
	r.mustRun(r.submit(over(t, "update", 1, updates), bound(w)))
	r.failCopy = home
	r.e.Fetch(w)
	r.until("an answer", func() bool { return len(r.fetched) == 1 })
	is(t, r.fetchErr, errBoom)
	is(t, r.finish(r.submit(sliced(t, 4, graph.Read), bound(w))), errBoom)
	r.mustRun(r.submit(over(t, "read", 1, reads), bound(w))) // it is on the device still
	r.failCopy = nil
	r.e.Fetch(w)
	r.until("the data", func() bool { return len(r.fetched) == 2 })
	is(t, r.fetchErr, nil)

	// Mirrored data whose commits fail is computed on with.
	r = newRig(t, gpus(1, 10*mb), engine.Options{})
	m := r.e.NewData("m", mb, graph.Mirrored)
	r.failCopy = home
	for i := range 3 {
		r.mustRun(r.submit(over(t, fmt.Sprint("update", i), 1, updates), bound(m)))
		for r.advance() {
		}
	}
	if n := len(r.copies); n > 60 {
		t.Errorf("%d copies of data updated three times", n)
	}
}

// A task that needs room which only copies that keep failing would make fails.
func TestSpillsThatKeepFailing(t *testing.T) {
	r := newRig(t, gpus(1, 3*mb), engine.Options{})
	w := r.e.NewData("w", 2*mb, graph.Versioned)
	r.mustRun(r.submit(build(t, func(b *graph.Builder) {
		w := b.Data(graph.Data{Name: "w", Bytes: 2 * mb, Input: true})
		b.Add(job("fill", 1, writes(w)))
	}), bound(w)))
	r.failCopy = func(c copied) bool { return c.to == "host" }
	err := r.finish(r.submit(build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 2 * mb})
		b.Add(job("more", 1, writes(x)))
	}), engine.RunOptions{}))
	is(t, err, engine.ErrOutOfMemory)
	is(t, err, errBoom)
}

// State that cannot be copied to a spare stays where it is.
func TestSwapCopiesThatKeepFailing(t *testing.T) {
	r := newRig(t, gpus(2, 10*mb), engine.Options{Spares: []machine.DeviceID{1}})
	w := r.e.NewData("w", mb, graph.Versioned)
	r.mustRun(r.submit(over(t, "update", 1, updates), bound(w)))
	r.failCopy = func(c copied) bool { return c.from == "gpu:0" }
	r.step(engine.Event{Kind: engine.HotSwap, Device: 0, Spare: 1})
	for range 1000 {
		if !r.advance() {
			break
		}
	}
	if n := len(r.copies); n > 30 {
		t.Errorf("%d copies for a swap", n)
	}
	r.failCopy = nil
	r.mustRun(r.submit(over(t, "read", 1, reads), bound(w)))
}

// Copies for a gang that keep failing end its run.
func TestGangCopiesThatKeepFailing(t *testing.T) {
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 1000, Input: true})
		y := b.Data(graph.Data{Name: "y", Bytes: 1000, Input: true})
		gang := job("gang", 1, reads(x), graph.Use{Data: y, Access: graph.Read, Rank: 1})
		gang.Gang = 2
		b.Add(gang)
	})
	for _, name := range []string{"x", "y"} {
		r := newRig(t, gpus(2, 10*mb), engine.Options{})
		r.failCopy = func(c copied) bool { return c.data == name }
		is(t, r.finish(r.submit(g, engine.RunOptions{})), errBoom)
		if n := r.count("gang"); n > 40 {
			t.Errorf("%d launches of a gang whose copies of %s fail", n, name)
		}
	}
}

// A buffer in host memory that is given up a second time, having been used again in
// between, stays until those who would have read it then have ended too.
func TestBufferGivenUpTwice(t *testing.T) {
	r := newRig(t, cpus(3), engine.Options{Ahead: 1000 * ms, Policy: noStealing, Backoff: 30 * ms})
	on := func(dev string, j graph.Task, after ...graph.TaskID) graph.Task {
		j.On.Only, j.After = []string{dev}, after
		return j
	}
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 100 * mb}) // too large to be kept for others
		b.Add(on("cpu:1", job("long", 100)))
		maker := on("cpu:0", job("make", 1, writes(x)))
		maker.Workspace = 8 // which it does not get in one pass
		b.Add(maker)
		b.Add(on("cpu:1", job("reader", 1, reads(x))))
		b.Add(on("cpu:2", job("blocker", 2000)))
		b.Add(on("cpu:2", job("gate", 1)))
		b.Add(on("cpu:1", job("longer", 100), 4))
		b.Add(on("cpu:1", job("late reader", 1, reads(x)), 5))
	})
	// It fails at 1 and 32 ms, and at 93 ms, before the first reader comes back at 100 ms.
	r.fail["make"] = 3
	id := r.submit(g, engine.RunOptions{})
	r.until("a failure", func() bool { return r.fail["make"] == 2 })
	equal(t, "launches of the late reader", r.count("late reader"), 0)
	r.end(r.ops[slices.IndexFunc(r.ops, func(o *op) bool { return o.what == "blocker@cpu:2" })], engine.OK)
	r.until("the late reader behind the second try", func() bool { return r.count("late reader") == 1 })
	equal(t, "tries left to fail", r.fail["make"], 2)
	r.mustRun(id)
}

// Copies for a task that fail now and then are no failure in a row, though the task
// came back each time between for what it waits for.
func TestCopiesThatFailNowAndThen(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{Retries: 100, Health: engine.HealthRules{MaxFailures: 100}})
	r.fail["first"] = 30
	n := 0
	r.failCopy = func(c copied) bool { n++; return c.data == "x" && n%2 == 0 }
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 1000, Input: true})
		y := b.Data(graph.Data{Name: "y", Bytes: 1000})
		b.Add(job("first", 1, writes(y)))
		b.Add(job("second", 1, reads(y), updates(x))) // x is copied anew for each attempt
	})
	r.mustRun(r.submit(g, engine.RunOptions{}))
	if n < 20 {
		t.Errorf("%d copies were made", n)
	}
}

// Copies for a task that fail always end its run also where the task is heard of first.
func TestCopiesHeardOfLast(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{})
	g := build(t, func(b *graph.Builder) {
		b.Add(job("task", 1, reads(b.Data(graph.Data{Name: "x", Bytes: 1000, Input: true}))))
	})
	id := r.submit(g, engine.RunOptions{})
	r.step()
	for n := 0; len(r.ended) == 0; n++ {
		if n == 100 {
			t.Fatal("it is tried for ever")
		}
		copying, launch := r.ops[0].a, r.ops[1].a
		r.ops = nil
		r.step(
			engine.Event{Kind: engine.OpDone, Op: launch.Op, Status: engine.DepFailed},
			engine.Event{Kind: engine.OpDone, Op: copying.Op, Status: engine.Failed, Err: errBoom})
	}
	is(t, r.ended[id].Err, errBoom)
}

// A task that fails for good has the history of its attempts, in order: where, when and why,
// whether it failed, was overdue or lost its device.
func TestHistoryOfAttempts(t *testing.T) {
	r := newRig(t, cpus(3), engine.Options{Retries: 2, Health: engine.HealthRules{MaxFailures: 100}})
	r.answer = func(dev machine.DeviceID, _ engine.Rung) (engine.Event, bool) {
		return engine.Event{Kind: engine.DeviceBack, Device: dev}, true
	}
	bad := job("bad", 1)
	bad.Timeout = 50 * ms
	id := r.submit(single(t, bad), engine.RunOptions{})
	on := func() string {
		r.starts("bad")
		return strings.TrimPrefix(r.launched[len(r.launched)-1], "bad@")
	}
	r.fail["bad"] = 1
	want := []string{on() + " boom"}
	r.until("a failure", func() bool { return len(r.launched) == 2 })
	want = append(want, on()+" lost")
	r.lose(machine.DeviceID(slices.IndexFunc(r.m.Devices, func(d machine.Device) bool { return d.Name == strings.Fields(want[1])[0] })), false)
	r.hang["bad"] = true
	err := error(nil)
	for range 2 {
		n := len(r.launched)
		want = append(want, on()+" timed out")
		r.until("a timeout", func() bool { err = r.ended[id].Err; return len(r.launched) > n || err != nil })
	}
	is(t, err, engine.ErrTimeout)
	var te *engine.TaskError
	if !errors.As(err, &te) || len(te.Attempts) != len(want) {
		t.Fatalf("%v: want %v", err, want)
	}
	for i, a := range te.Attempts {
		device, why, _ := strings.Cut(want[i], " ")
		if a.Device != device || !strings.Contains(a.Err.Error(), why) || a.Lost != (why == "lost") || i > 0 && a.At < te.Attempts[i-1].At {
			t.Errorf("attempt %d: %+v, want %s", i, a, want[i])
		}
		if !strings.Contains(err.Error(), a.Device+" at ") {
			t.Errorf("%v: names no attempt on %s", err, a.Device)
		}
	}
}

// A kernel that cannot run on a device is not tried on others of its class, and goes to those of
// another; where there is none, its run fails at the first try.
func TestUnfit(t *testing.T) {
	r := newRig(t, cpus(3), engine.Options{Retries: 9})
	r.outcome = func(string, string) engine.Status { return engine.Unfit }
	is(t, r.finish(r.submit(independent(t, 1, 1), engine.RunOptions{})), errBoom)
	equal(t, "tries", r.count("t0"), 1)
	equal(t, "drops", len(r.drops), 0)

	for _, class := range []string{"cpu", "gpu"} {
		m := cpus(5)
		for i := range 2 {
			m.Devices[i].Name, m.Devices[i].Backend, m.Devices[i].Model = fmt.Sprintf("gpu:%d", i), "gpu", "another"
		}
		r := newRig(t, m, engine.Options{})
		tried := map[string]int{}
		r.outcome = func(task, dev string) engine.Status {
			if strings.HasPrefix(dev, class) {
				tried[task]++
				return engine.Unfit
			}
			return engine.OK
		}
		rep := r.mustRun(r.submit(independent(t, 40, 1), engine.RunOptions{}))
		for task, n := range tried {
			if n > 1 {
				t.Errorf("%s is tried %d times on devices of the class that cannot run it", task, n)
			}
		}
		if len(tried) == 0 || len(tried) == 40 || rep.Retries != len(tried) {
			t.Errorf("%d of 40 tasks were tried in vain on %s, %d retries", len(tried), class, rep.Retries)
		}
	}
}

// A task whose inputs may have changed is not tried again.
func TestSpoilt(t *testing.T) {
	r := newRig(t, cpus(3), engine.Options{Retries: 9})
	r.outcome = func(string, string) engine.Status { return engine.Spoilt }
	is(t, r.finish(r.submit(independent(t, 1, 1), engine.RunOptions{})), errBoom)
	equal(t, "tries", r.count("t0"), 1)
}

// What tasks only read is compared where the task, the run or the engine asks for it.
func TestCompare(t *testing.T) {
	asks := job("asks", 1, reads(0), writes(1))
	asks.Retries = 1
	never := job("never", 1, reads(0), writes(2))
	never.Retries = -1
	g := build(t, func(b *graph.Builder) {
		for d := range 4 {
			b.Data(graph.Data{Name: fmt.Sprint("x", d), Bytes: 8, Input: d == 0})
		}
		b.Add(asks)
		b.Add(never)
		b.Add(job("leaves it", 1, reads(0), writes(3)))
	})
	all := []string{"asks", "never", "leaves it"}
	for _, c := range []struct {
		engine engine.Options
		run    engine.RunOptions
		want   []string
	}{
		{want: all[:1]}, {run: engine.RunOptions{Retries: -1}, want: all[:1]}, {run: engine.RunOptions{Retries: 1}, want: all},
		{run: engine.RunOptions{Compare: true}, want: all}, {engine: engine.Options{Compare: true}, want: all},
	} {
		r := newRig(t, cpus(1), c.engine)
		var compared []string
		r.onLaunch = func(o *op) {
			if o.a.Compare {
				compared = append(compared, o.a.Graph.TaskName(o.a.Task))
			}
		}
		r.mustRun(r.submit(g, c.run))
		equal(t, fmt.Sprintf("compared of %v, %v", c.engine.Compare, c.run), strings.Join(compared, ", "), strings.Join(c.want, ", "))
	}
}
