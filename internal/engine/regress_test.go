package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// A device refused by the engine-wide limit is looked at again when another
// device's task ends.
func TestConcurrentOverDevices(t *testing.T) {
	r := newRig(t, cpus(4), engine.Options{Concurrent: 3, Policy: noStealing})
	r.mustRun(r.submit(independent(t, 40, 1), engine.RunOptions{}))
	equal(t, "most in flight", r.peak, 3)
}

// A stream of urgent runs, each with a task of its own, does not keep an old
// task of another run waiting for ever.
func TestNothingStarvesAcrossRuns(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{Depth: 2})
	var patient engine.RunID
	for i := range 3000 {
		r.submit(single(t, urgent(fmt.Sprint("u", i), 1)), engine.RunOptions{})
		if i == 10 {
			patient = r.submit(single(t, job("patient", 1)), engine.RunOptions{})
		}
		n := max(i-10, 0) // ten are always waiting
		r.until("service", func() bool { return len(r.ran) >= n })
	}
	if _, ok := r.ended[patient]; !ok {
		t.Fatal("the patient task starved behind 3000 newer urgent ones")
	}
}

// derive makes resident v (bound to data 1) from resident w (data 0).
func derive(t *testing.T) *graph.Graph {
	return build(t, func(b *graph.Builder) {
		w := b.Data(graph.Data{Name: "w", Bytes: mb, Input: true})
		v := b.Data(graph.Data{Name: "v", Bytes: mb, Input: true})
		b.Add(job("derive", 1, reads(w), writes(v)))
	})
}

// Data given up by the caller stays while something that exists only on a device
// would have to be computed from it.
func TestFreeDataKeepsWhatRecoveryNeeds(t *testing.T) {
	r := newRig(t, gpus(2, 10*mb), engine.Options{})
	w, v := r.e.NewData("w", mb, graph.Versioned), r.e.NewData("v", mb, graph.Versioned)
	r.mustRun(r.submit(derive(t), engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: w}, {Data: 1, Ref: v}}}))
	r.e.FreeData(w)
	for range 10 { // whatever it does to make v safe first may take a while
		r.step()
		r.advance()
	}
	r.lose(0, false)
	r.mustRun(r.submit(over(t, "read v", 1, reads), bound(v)))
}

// Data given up by the caller stays while something that exists only on a device would
// have to be computed from an older version of it.
func TestFreeDataKeepsOlderVersions(t *testing.T) {
	for _, kind := range []graph.Durability{graph.Mirrored, graph.Versioned} { // of w: the older version has a copy, or not
		r := newRig(t, gpus(2, 10*mb), engine.Options{})
		w, v := r.e.NewData("w", mb, kind), r.e.NewData("v", mb, graph.Versioned)
		r.mustRun(r.submit(over(t, "make w", 1, writes), bound(w)))
		r.mustRun(r.submit(derive(t), engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: w}, {Data: 1, Ref: v}}}))
		r.mustRun(r.submit(over(t, "replace w", 1, writes), bound(w)))
		r.e.FreeData(w)
		r.step()
		r.lose(r.ranOn("derive"), false) // before v is safe
		r.mustRun(r.submit(over(t, "read v", 1, reads), bound(v)))
		r.until("the end of w", func() bool { return strings.Contains(r.e.Left(), "1 resident data") })
		r.lose(r.ranOn("read v"), false)
		r.back(0, false)
		r.back(1, false)
		r.mustRun(r.submit(over(t, "read v again", 1, reads), bound(v)))
	}
}

// Data computed from older versions of each other is given up together, though nothing
// can be copied home.
func TestFreeDataOfEachOther(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{})
	r.failCopy = func(c copied) bool { return c.to == "host" }
	w, v := r.e.NewData("w", mb, graph.Versioned), r.e.NewData("v", mb, graph.Versioned)
	r.mustRun(r.submit(build(t, func(b *graph.Builder) {
		w := b.Data(graph.Data{Name: "w", Bytes: mb, Input: true})
		v := b.Data(graph.Data{Name: "v", Bytes: mb, Input: true})
		b.Add(job("mix", 1, updates(w), updates(v)))
	}), engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: w}, {Data: 1, Ref: v}}}))
	r.e.FreeData(w)
	r.e.FreeData(v)
	r.until("the end of both", func() bool { return r.e.Left() == "" })
}

// Data given up while runs wait for it is theirs first, and its number is free
// when they have ended, those that were cancelled among them.
func TestFreeDataWaitsForWaitingRuns(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{})
	w := r.e.NewData("w", mb, graph.Versioned)
	first, second := r.submit(over(t, "update", 1, updates), bound(w)), r.submit(over(t, "update", 1, updates), bound(w))
	third := r.submit(over(t, "update", 1, updates), bound(w))
	r.e.FreeData(w)
	r.step()
	r.step(engine.Event{Kind: engine.Cancel, Run: third})
	r.mustRun(first)
	r.mustRun(second)
	is(t, r.ended[third].Err, engine.ErrCancelled)
	for r.advance() {
	}
	r.step()
	equal(t, "number of the next data", r.e.NewData("v", mb, graph.Versioned), w)
}

// Cutting resident data into other pieces waits until nothing would have to be
// computed from the old ones.
func TestRecutKeepsWhatRecoveryNeeds(t *testing.T) {
	r := newRig(t, gpus(2, 10*mb), engine.Options{})
	w, v := r.e.NewData("w", mb, graph.Versioned), r.e.NewData("v", mb, graph.Versioned)
	r.mustRun(r.submit(derive(t), engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: w}, {Data: 1, Ref: v}}}))
	r.mustRun(r.submit(sliced(t, 4, graph.Read), bound(w)))
	r.lose(0, false)
	r.mustRun(r.submit(over(t, "read v", 1, reads), bound(v)))
}

// Cutting resident data into other pieces waits for copies that touch its home.
func TestRecutWaitsForCopies(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{})
	w := r.e.NewData("w", mb, graph.Versioned)
	g := build(t, func(b *graph.Builder) {
		ww := b.Data(graph.Data{Name: "w", Bytes: mb, Input: true})
		x := b.Data(graph.Data{Name: "x", Bytes: mb, Input: true})
		b.Add(job("both", 1, reads(x), reads(ww)))
	})
	first := r.submit(g, bound(w))
	r.failCopy = func(c copied) bool { return c.data == "x" }
	// Cancelled, the run waits for its launch, which ends when the copy of x
	// fails: then the copy of w, behind that of x, is still under way.
	r.step()
	r.step(engine.Event{Kind: engine.Cancel, Run: first})
	second := r.submit(sliced(t, 4, graph.Read), bound(w))
	r.finish(first)
	r.failCopy = nil
	r.mustRun(second)
}

// A rung that fails at once leads to the next without waiting.
func TestFailedRungGoesOnAtOnce(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{})
	r.answer = func(dev machine.DeviceID, rung engine.Rung) (engine.Event, bool) {
		return engine.Event{Kind: engine.RecoverFailed, Device: dev}, true
	}
	r.lose(0, false)
	r.until("given up", func() bool { return len(r.rungs) == 3 })
	equal(t, "time", r.now, 0)
}

// Versions without readers do not pile up however far a lane is issued ahead.
func TestUnreadVersionsDoNotPileUp(t *testing.T) {
	r := newRig(t, gpus(1, 100*mb), engine.Options{Depth: 16, Ahead: 1000 * ms})
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: mb, Output: true})
		for i := range 16 {
			b.Add(job(fmt.Sprint("w", i), 1, writes(x)))
		}
	})
	id := r.submit(g, engine.RunOptions{})
	most := 0
	r.until("the end", func() bool {
		used := make(map[engine.Inst]bool)
		for _, o := range r.ops {
			if o.a.Kind == engine.Launch {
				used[o.a.Args[0].Inst] = true
			}
		}
		most = max(most, len(used))
		_, ok := r.ended[id]
		return ok
	})
	if most > 2 {
		t.Errorf("%d buffers for one piece of data at once, want at most 2", most)
	}
}

// A task that is placed anew keeps its turn, so a run whose tasks were moved by a
// drain does not fall behind.
func TestPlacingAnewIsNotCharged(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{Depth: 2, Policy: noStealing})
	a := r.submit(independent(t, 200, 1), engine.RunOptions{})
	r.step()
	for range 3 {
		r.step(engine.Event{Kind: engine.Drain, Device: 0})
		r.step(engine.Event{Kind: engine.Undrain, Device: 0})
	}
	b := r.submit(independent(t, 200, 1), engine.RunOptions{})
	byRun := map[engine.RunID]int{}
	seen := map[engine.Op]bool{}
	r.until("a while", func() bool {
		for _, o := range r.ops {
			if !seen[o.a.Op] {
				seen[o.a.Op] = true
				byRun[o.a.Run]++
			}
		}
		return len(seen) >= 100
	})
	if byRun[a] < 40 {
		t.Errorf("of 100 tasks %d are of the run whose tasks were placed anew, %d of the other", byRun[a], byRun[b])
	}
}
