package engine_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// detach does what the loop does with a launch that keeps a device from others: what is
// behind it on its lane is forgotten. The launch goes on as r.held.
func (r *rig) detach() bool {
	r.t.Helper()
	o, upto, ok := r.e.Blocks(r.now, 0)
	if !ok {
		return false
	}
	i := slices.IndexFunc(r.ops, func(p *op) bool { return p.a.Op == o.Op })
	r.held = r.ops[i]
	r.ops = slices.DeleteFunc(r.ops, func(p *op) bool { return p.a.Op.Lane == o.Op.Lane })
	for seq := o.Op.Seq; seq <= upto; seq++ {
		r.failed[engine.Op{Lane: o.Op.Lane, Seq: seq}] = true
	}
	r.last[o.Op.Lane] = upto
	r.step(engine.Event{Kind: engine.Detached, Op: o.Op})
	return true
}

// learner is a cost model that notes the tasks it is told of.
type learner struct {
	machine.Cost
	told []string
}

func (l *learner) Observe(t *graph.Task, _ machine.DeviceID, _ time.Duration) {
	l.told = append(l.told, t.Name)
}

func (l *learner) ObserveCopy(int64, machine.DeviceID, machine.DeviceID, time.Duration) {}

// A launch in host memory that keeps other runs waiting leaves its lane: they go on,
// what follows it waits, and its result counts when it comes.
func TestDetach(t *testing.T) {
	for _, st := range []engine.Status{engine.OK, engine.Failed} {
		learns := &learner{Cost: machine.NewRoofline(cpus(1))}
		r := newRig(t, cpus(1), engine.Options{Cost: learns})
		r.hang["slow"] = true
		stuck := r.submit(build(t, func(b *graph.Builder) {
			x := b.Data(graph.Data{Name: "x", Bytes: 8, Output: true})
			b.Add(job("slow", 1, writes(x)))
			b.Add(job("after", 1, updates(x)))
		}), engine.RunOptions{})
		r.starts("slow")
		r.now += time.Minute
		if _, _, ok := r.e.Blocks(r.now, 0); ok {
			t.Error("a launch blocks nobody and is said to")
		}
		other := r.submit(independent(t, 3, 1), engine.RunOptions{})
		r.step()
		if !r.detach() {
			t.Fatal("a launch that keeps a device from another run is not found")
		}
		equal(t, "tasks on the device besides", r.e.Status(0).Queued, 3)
		equal(t, "operations that ended on the lane", r.e.Ended(r.held.a.Op.Lane), r.last[r.held.a.Op.Lane])
		r.mustRun(other)
		if held, _ := r.e.Holding(stuck); len(held) != 1 || !held[0].Begun || held[0].Graph.TaskName(held[0].Task) != "slow" {
			t.Errorf("the run holds %+v", held)
		}
		equal(t, "launches of what follows", r.count("after"), 1) // and it never began
		delete(r.hang, "slow")
		var err error
		if st != engine.OK {
			err = errBoom
		}
		o := r.held
		r.held = nil
		r.step(engine.Event{Kind: engine.OpDone, Op: o.a.Op, Status: st, Err: err, Start: o.start, End: r.now})
		rep := r.mustRun(stuck)
		equal(t, "executions", rep.Executed, 2)
		equal(t, "executions of it that were learned from", slices.Contains(learns.told, "slow"), st != engine.OK)
		equal(t, "executions of others that were", slices.Contains(learns.told, "after"), true)
		equal(t, "launches of what follows", r.count("after"), 2)
		equal(t, "retries", rep.Retries, map[engine.Status]int{engine.OK: 0, engine.Failed: 1}[st])
	}
}

// A time that no launch reaches means never, however many are detached.
func TestDetachNever(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{DetachAfter: math.MaxInt64})
	r.hang["slow"] = true
	r.submit(single(t, job("slow", 1)), engine.RunOptions{})
	r.starts("slow")
	r.submit(independent(t, 3, 1), engine.RunOptions{})
	r.now += time.Minute
	r.step()
	if _, _, ok := r.e.Blocks(r.now, 0); ok {
		t.Error("a launch is to be detached after a minute")
	}
}

// While a launch is detached its device counts as free of it, and so it does after the launch has
// ended: further tasks are placed there, and it can be drained.
func TestDetachedCountsForNothing(t *testing.T) {
	alone, teams := cpus(2), cpus(2)
	teams.Devices[0] = team(4).Devices[0]
	for name, m := range map[string]*machine.Machine{"one lane": alone, "a team": teams} {
		var freeAt []time.Duration
		r := newRig(t, m, engine.Options{Policy: func(p sched.Problem) sched.Policy { return viewed{noStealing(p), &freeAt} }})
		on := func(task graph.Task) *graph.Graph {
			task.On.Only = []string{"cpu:0"}
			return single(t, task)
		}
		idle := func(when string) {
			t.Helper()
			probe := r.submit(single(t, job("look", 1)), engine.RunOptions{})
			r.step()
			equal(t, name+": cpu:0 is free "+when+", from now", freeAt[0]-r.now, 0)
			r.mustRun(probe)
		}
		r.hang["slow"] = true
		stuck := r.submit(on(grid("slow", 50, 4, 4)), engine.RunOptions{})
		r.starts("slow")
		r.now += time.Minute
		other := r.submit(on(grid("other", 50, 4, 4)), engine.RunOptions{})
		r.step()
		if !r.detach() {
			t.Fatalf("%s: a launch that keeps a device from another run is not found", name)
		}
		r.mustRun(other)
		idle("of a detached launch")
		equal(t, name+": tasks there", r.e.Status(0).Queued, 0)
		o := r.held
		r.held = nil
		r.step(engine.Event{Kind: engine.OpDone, Op: o.a.Op, Start: o.start, End: r.now})
		r.mustRun(stuck)
		idle("after it")
		equal(t, name+": tasks there afterwards", r.e.Status(0).Queued, 0)
		r.step(engine.Event{Kind: engine.Drain, Device: 0})
		r.until("cpu:0 is drained", func() bool { return r.e.Status(0).Drained })
	}
}

// A launch with a timeout is ended by that, with its device, and not detached.
func TestTimedIsNotDetached(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{TaskTimeout: time.Hour})
	r.hang["slow"] = true
	r.submit(single(t, job("slow", 1)), engine.RunOptions{})
	r.starts("slow")
	r.submit(independent(t, 3, 1), engine.RunOptions{})
	r.step()
	r.now += time.Minute
	if _, _, ok := r.e.Blocks(r.now, 0); ok {
		t.Error("a launch is to be detached that has a timeout")
	}
}

// Of several lanes each is looked at, whatever the others run.
func TestDetachOnAnotherLane(t *testing.T) {
	m := cpus(1)
	m.Devices[0].Lanes = 2
	r := newRig(t, m, engine.Options{})
	timed := job("timed", 1)
	timed.Timeout = time.Hour
	r.hang["timed"], r.hang["slow"] = true, true
	r.submit(single(t, timed), engine.RunOptions{})
	r.starts("timed")
	r.now += time.Second
	r.submit(single(t, job("slow", 1)), engine.RunOptions{})
	r.starts("slow")
	r.now += time.Minute
	r.submit(independent(t, 3, 1), engine.RunOptions{})
	r.step()
	if !r.detach() {
		t.Fatal("a launch that keeps its lane from another run is not found")
	}
	equal(t, "detached task", r.held.a.Graph.TaskName(r.held.a.Task), "slow")
}

// A run with a detached launch can be cancelled: the launch is told to stop, and the run
// ends with it.
func TestDetachCancelled(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{})
	r.hang["t0"] = true
	stuck := r.submit(independent(t, 1, 1), engine.RunOptions{})
	r.starts("t0")
	r.now += time.Minute
	delete(r.hang, "t0") // of the other run
	r.held = r.ops[0]
	other := r.submit(independent(t, 2, 1), engine.RunOptions{})
	r.step()
	if !r.detach() {
		t.Fatal("nothing was detached")
	}
	var stopped []engine.Op
	for _, a := range r.e.Step(r.now, []engine.Event{{Kind: engine.Cancel, Run: stuck}}, nil) {
		if a.Kind == engine.Stop {
			stopped = append(stopped, a.Op)
		}
	}
	equal(t, "stops", len(stopped), 1)
	equal(t, "what was to stop", stopped[0], r.held.a.Op)
	r.mustRun(other)
	r.step(engine.Event{Kind: engine.OpDone, Op: r.held.a.Op, Status: engine.DepFailed, Start: r.now, End: r.now})
	is(t, r.finish(stuck), engine.ErrCancelled)
}
