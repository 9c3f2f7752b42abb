package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// Losing a device in the middle of a chain replays exactly the tasks whose
// results were only there: c0 … c4 were done, c5 ran.
func TestReplaysOfAChain(t *testing.T) {
	r := newRig(t, gpus(2, 1<<20), engine.Options{})
	id := r.submit(chain(t, 8, 1, graph.Versioned), engine.RunOptions{})
	r.starts("c5")
	r.lose(0, false)
	rep := r.mustRun(id)
	equal(t, "replays", rep.Replays, 5)
	equal(t, "longest replay", rep.LongestReplay, 5)
	equal(t, "executed", rep.Executed, 8+5)
	equal(t, "retries", rep.Retries, 0)
	equalLists(t, "executions", r.ran, []string{
		"c0@gpu:0", "c1@gpu:0", "c2@gpu:0", "c3@gpu:0", "c4@gpu:0",
		"c0@gpu:1", "c1@gpu:1", "c2@gpu:1", "c3@gpu:1", "c4@gpu:1", "c5@gpu:1", "c6@gpu:1", "c7@gpu:1",
	})
}

// Mirrored data is copied to the host after every write, so losing its device
// replays nothing that was committed. A commit that fails is made again.
func TestMirroredCommitsEveryWrite(t *testing.T) {
	r := newRig(t, gpus(2, 1<<20), engine.Options{})
	failed := 0
	r.failCopy = func(c copied) bool { // the first and the last commit fail once
		if c.to == "host" && (len(r.ran) == 1 || len(r.ran) == 5) && failed < len(r.ran) {
			failed = len(r.ran)
			return true
		}
		return false
	}
	id := r.submit(chain(t, 8, 1, graph.Mirrored), engine.RunOptions{})
	r.starts("c5")
	commits := 0
	for _, c := range r.copies {
		if c.from == "gpu:0" && c.to == "host" {
			commits++
		}
	}
	equal(t, "commits while c5 runs, the first of them twice", commits, 6)
	r.until("the commit of c4", func() bool {
		for _, o := range r.ops {
			if o.a.Kind == engine.Copy && o.a.From == 0 {
				return false
			}
		}
		return true
	})
	r.lose(0, false)
	rep := r.mustRun(id)
	equal(t, "replays", rep.Replays, 0)
}

// The chain a loss may replay is bounded: at every fourth version one is
// committed, and no loss replays more than four tasks.
func TestReplayDepthCommits(t *testing.T) {
	for at := range 12 {
		r := newRig(t, gpus(2, 1<<20), engine.Options{ReplayDepth: 4})
		id := r.submit(chain(t, 12, 1, graph.Versioned), engine.RunOptions{})
		r.until("far enough", func() bool { return len(r.ran) == at })
		r.lose(0, false)
		rep := r.mustRun(id)
		if rep.Commits < 2 {
			t.Errorf("lost after %d: %d commits of 12 versions, want 2 or more", at, rep.Commits)
		}
		// A commit under way when the device goes is lost with it.
		if rep.LongestReplay > 5 {
			t.Errorf("lost after %d: a chain of %d was replayed, want at most 4, or 5 while a commit is under way", at, rep.LongestReplay)
		}
	}
}

// The same for predicted time: a version that would take longer than the bound
// to make again is committed.
func TestReplayBoundCommits(t *testing.T) {
	r := newRig(t, gpus(1, 1<<20), engine.Options{ReplayBound: 25 * ms})
	rep := r.mustRun(r.submit(chain(t, 9, 10, graph.Versioned), engine.RunOptions{}))
	// Of every three versions the third would take 30 ms to make again.
	equal(t, "commits", rep.Commits, 3)
	r = newRig(t, gpus(1, 1<<20), engine.Options{})
	rep = r.mustRun(r.submit(chain(t, 9, 10, graph.Versioned), engine.RunOptions{}))
	// The caller's memory holds what all would be computed from again until the
	// result is safe beside it.
	equal(t, "commits within the bounds", rep.Commits, 1)
}

// Volatile data is updated in one buffer; versioned data alternates.
func TestVolatileIsInPlace(t *testing.T) {
	buffers := func(kind graph.Durability) int {
		r := newRig(t, gpus(1, 1<<20), engine.Options{})
		used := make(map[engine.Inst]bool)
		g := build(t, func(b *graph.Builder) {
			x := b.Data(graph.Data{Name: "x", Bytes: 1000, Durability: kind, Output: true})
			b.Add(job("make", 1, writes(x)))
			for range 5 {
				b.Add(job("update", 1, updates(x)))
			}
		})
		id := r.submit(g, engine.RunOptions{})
		r.until("the end", func() bool {
			for _, o := range r.ops {
				if o.a.Kind == engine.Launch {
					for _, a := range o.a.Args {
						used[a.Inst] = true
					}
				}
			}
			return len(r.ended) == 1
		})
		if err := r.ended[id].Err; err != nil {
			t.Fatal(err)
		}
		return len(used)
	}
	equal(t, "buffers of volatile data", buffers(graph.Volatile), 1)
	if n := buffers(graph.Versioned); n < 2 {
		t.Errorf("versioned data used %d buffers", n)
	}
}

// Volatile data lost within the replay depth comes back; beyond it the run
// fails, and says which data.
func TestVolatileLoss(t *testing.T) {
	r := newRig(t, gpus(2, 1<<20), engine.Options{ReplayDepth: 4})
	id := r.submit(chain(t, 8, 1, graph.Volatile), engine.RunOptions{})
	r.starts("c3")
	r.lose(0, false)
	equal(t, "replays", r.mustRun(id).Replays, 3)

	r = newRig(t, gpus(2, 1<<20), engine.Options{ReplayDepth: 4})
	id = r.submit(chain(t, 8, 1, graph.Volatile), engine.RunOptions{})
	r.starts("c6")
	r.lose(0, false)
	is(t, r.finish(id), engine.ErrDataLost)
}

// Volatile data that a failed task spoilt comes back within the replay depth as well;
// beyond it the run fails.
func TestSpoiltVolatileData(t *testing.T) {
	for depth, want := range map[int]error{5: engine.ErrDataLost, 6: nil} {
		r := newRig(t, cpus(1), engine.Options{ReplayDepth: depth})
		r.fail["c6"] = 1
		id := r.submit(build(t, func(b *graph.Builder) {
			x := b.Data(graph.Data{Name: "x", Bytes: 1000, Output: true, Durability: graph.Volatile})
			b.Add(job("c0", 1, writes(x)))
			for i := range 7 {
				b.Add(job(fmt.Sprint("c", i+1), 1, updates(x)))
			}
		}), engine.RunOptions{})
		if err := r.finish(id); !errors.Is(err, want) {
			t.Errorf("replay depth %d: %v", depth, err)
		}
		equal(t, "longest replay", r.ended[id].Report.LongestReplay, depth)
	}
}

// A result that was freed counts as not made while its task runs again for another, and
// may be asked for meanwhile.
func TestReplayMakesAllResultsAnew(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{})
	r.fail["spoil a"], r.fail["spoil c"] = 1, 1
	rep := r.mustRun(r.submit(build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "a", Bytes: 8, Output: true, Durability: graph.Volatile})
		y := b.Data(graph.Data{Name: "b", Bytes: 8})
		z := b.Data(graph.Data{Name: "c", Bytes: 8, Output: true, Durability: graph.Volatile})
		for _, j := range []graph.Task{
			job("make a and b", 3, writes(x), writes(y)), job("make c of b", 1, reads(y), writes(z)),
			job("spoil a", 5, updates(x)), job("spoil c", 5, updates(z)),
		} {
			j.On.Only = []string{"cpu:0"}
			if j.Name == "make a and b" || j.Name == "spoil a" {
				j.On.Only = []string{"cpu:1"}
			}
			b.Add(j)
		}
	}), engine.RunOptions{}))
	equal(t, "replays", rep.Replays, 2)
}

// A device whose memory was kept comes back, and nothing that was done is done
// again.
func TestKeptMemoryComesBack(t *testing.T) {
	r := newRig(t, gpus(1, 1<<20), engine.Options{})
	id := r.submit(chain(t, 6, 1, graph.Versioned), engine.RunOptions{})
	r.starts("c4")
	r.lose(0, true)
	r.now += 3 * ms
	r.back(0, true)
	rep := r.mustRun(id)
	equal(t, "replays", rep.Replays, 0)
	equal(t, "executed", rep.Executed, 6)
	equal(t, "launches of c4", r.count("c4"), 2)
}

// Where another device works, it does not wait for the memory to come back.
func TestKeptMemoryIsNotWaitedFor(t *testing.T) {
	r := newRig(t, gpus(2, 1<<20), engine.Options{})
	id := r.submit(chain(t, 6, 1, graph.Versioned), engine.RunOptions{})
	r.starts("c4")
	r.lose(0, true)
	rep := r.mustRun(id)
	equal(t, "replays", rep.Replays, 4)
}

// Memory said to be kept that turns out to be empty is computed again.
func TestKeptMemoryTurnsOutEmpty(t *testing.T) {
	r := newRig(t, gpus(1, 1<<20), engine.Options{})
	id := r.submit(chain(t, 6, 1, graph.Versioned), engine.RunOptions{})
	r.starts("c4")
	r.lose(0, true)
	r.now += 3 * ms
	r.back(0, false)
	rep := r.mustRun(id)
	equal(t, "replays", rep.Replays, 4)
	equal(t, "executed", rep.Executed, 10)
}

// What no task makes and only a memory that was kept holds is waited for; here
// volatile resident data that was updated in place.
func TestOnlyCopyIsWaitedFor(t *testing.T) {
	r := newRig(t, gpus(1, 1<<20), engine.Options{Health: engine.HealthRules{RungTimeout: 1000 * ms}})
	id := r.submit(chain(t, 2, 1, graph.Volatile), engine.RunOptions{})
	r.starts("c1")
	r.lose(0, true)
	for range 5 {
		r.now += ms
		r.step()
	}
	equal(t, "ended while away", len(r.ended), 0)
	r.back(0, true)
	r.mustRun(id)
}

// A spare takes the place of a lost device by itself, and only then works.
func TestSpareIsCalled(t *testing.T) {
	r := newRig(t, gpus(3, 1<<20), engine.Options{Spares: []machine.DeviceID{2}})
	r.mustRun(r.submit(independent(t, 20, 1), engine.RunOptions{}))
	equal(t, "launches on the spare before", r.launchedOn("gpu:2"), 0)
	id := r.submit(independent(t, 20, 1), engine.RunOptions{})
	r.until("half way", func() bool { return len(r.ran) == 30 })
	r.lose(0, false)
	r.mustRun(id)
	if r.launchedOn("gpu:2") == 0 {
		t.Error("the spare did nothing after the loss")
	}
}

// A device that was drained is not missed when it is lost: no spare is called.
func TestSpareStandsByForDrained(t *testing.T) {
	r := newRig(t, gpus(3, 1<<20), engine.Options{Spares: []machine.DeviceID{2}})
	r.step(engine.Event{Kind: engine.Drain, Device: 0})
	r.lose(0, false)
	r.mustRun(r.submit(independent(t, 20, 1), engine.RunOptions{}))
	equal(t, "launches on the spare", r.launchedOn("gpu:2"), 0)
}

// Hot-swap: the device finishes what runs and takes nothing new, the spare
// takes over at once, state moves without being computed again.
func TestHotSwap(t *testing.T) {
	r := newRig(t, gpus(2, 1<<20), engine.Options{Spares: []machine.DeviceID{1}})
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 1000})
		y := b.Data(graph.Data{Name: "y", Bytes: 1000, Output: true})
		b.Add(job("make", 1, writes(x)))
		b.Add(job("long", 10))
		b.Add(job("use", 1, reads(x), writes(y)))
		for range 5 {
			b.Add(job("more", 3, updates(y)))
		}
	})
	id := r.submit(g, engine.RunOptions{})
	r.starts("long")
	before := r.launchedOn("gpu:0")
	r.step(engine.Event{Kind: engine.HotSwap, Device: 0, Spare: 1})
	rep := r.mustRun(id)
	equal(t, "launches on the device afterwards", r.launchedOn("gpu:0"), before)
	equal(t, "replays", rep.Replays, 0)
	equal(t, "tasks finished there", rep.Devices[0].Tasks, before)
	if rep.Devices[1].Tasks != 8-before {
		t.Errorf("the spare ran %d tasks of %d", rep.Devices[1].Tasks, 8-before)
	}
}

// A device that is let in again before its state has moved keeps it: the swap is off, and
// nothing waits for it.
func TestUndrainCallsSwapOff(t *testing.T) {
	r := newRig(t, gpus(2, 100*mb), engine.Options{Spares: []machine.DeviceID{1}})
	id := r.submit(single(t, job("busy", 10)), engine.RunOptions{})
	r.starts("busy")
	r.step(engine.Event{Kind: engine.HotSwap, Device: 0, Spare: 1})
	r.step(engine.Event{Kind: engine.Undrain, Device: 0})
	r.mustRun(id)
	for _, dev := range []machine.DeviceID{0, 1} {
		equal(t, "state", r.e.Status(dev).State, engine.Healthy)
	}
}

// Resident state moves to the spare too, so that the old device can be pulled.
func TestHotSwapMovesResidentData(t *testing.T) {
	r := newRig(t, gpus(2, 1<<20), engine.Options{Spares: []machine.DeviceID{1}})
	ref := r.e.NewData("w", 1000, graph.Versioned)
	g := build(t, func(b *graph.Builder) {
		w := b.Data(graph.Data{Name: "w", Bytes: 1000, Input: true})
		b.Add(job("update", 1, updates(w)))
	})
	bind := engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: ref}}}
	r.mustRun(r.submit(g, bind))
	r.step(engine.Event{Kind: engine.HotSwap, Device: 0, Spare: 1})
	for r.advance() {
	}
	r.step()
	copies := len(r.copies) // through the host: no link joins the two
	if copies < 2 || r.copies[copies-2].from != "gpu:0" || r.copies[copies-1].to != "gpu:1" {
		t.Fatalf("nothing was handed over: %v", r.copies)
	}
	r.lose(0, false)
	rep := r.mustRun(r.submit(g, bind))
	equal(t, "replays after the old device is gone", rep.Replays, 0)
}

// State that goes to a spare through host memory waits for room there, and is where it
// was meanwhile. State that no link leads away from stays.
func TestHotSwapWithoutRoom(t *testing.T) {
	full := gpus(2, 10*mb)
	full.HostBytes = mb / 2
	apart := gpus(2, 10*mb)
	apart.Links = nil
	for name, c := range map[string]struct {
		m   *machine.Machine
		use func(graph.DataID) graph.Use
	}{
		"no room": {full, updates}, // what it was is kept in the caller's memory
		"no link": {apart, writes},
	} {
		r := newRig(t, c.m, engine.Options{Spares: []machine.DeviceID{1}})
		ref := r.e.NewData("w", mb, graph.Versioned)
		g := build(t, func(b *graph.Builder) {
			b.Add(job("make", 1, c.use(b.Data(graph.Data{Name: "w", Bytes: mb, Input: true, Output: true}))))
		})
		r.mustRun(r.submit(g, engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: ref}}}))
		copies := len(r.copies)
		r.step(engine.Event{Kind: engine.HotSwap, Device: 0, Spare: 1})
		for r.advance() {
		}
		equal(t, name+": copies", len(r.copies), copies)
		equal(t, name+": bytes on the old device", r.e.Status(0).MemUsed, mb)
	}
}

// Devices are heard in any order, so a task may be known to have ended before the
// task it waited for. What it made can be computed again all the same.
func TestHeardInAnyOrder(t *testing.T) {
	m := gpus(2, 100*mb)
	m.Links = append(m.Links, machine.Link{A: 0, B: 1, Kind: machine.NVLink, BPS: 10e9})
	r := newRig(t, m, engine.Options{})
	const links = 5
	g := build(t, func(b *graph.Builder) {
		last := b.Data(graph.Data{Name: "in", Bytes: mb, Input: true})
		for i := range links {
			d := graph.Data{Name: fmt.Sprint("d", i), Bytes: mb, Output: i == links-1}
			next := b.Data(d)
			j := job(fmt.Sprint("t", i), 1, reads(last), writes(next))
			j.On.Only = []string{fmt.Sprintf("gpu:%d", i%2)}
			b.Add(j)
			last = next
		}
	})
	id := r.submit(g, engine.RunOptions{})
	heard := 0
	for range 2 {
		// All that is in flight ends, and the lane that was given work last is
		// heard first.
		var evs []engine.Event
		for i := len(r.ops) - 1; i >= 0; i-- {
			l := r.ops[i].a.Op.Lane
			if slices.ContainsFunc(evs, func(ev engine.Event) bool { return ev.Op.Lane == l }) {
				continue
			}
			for _, o := range r.ops {
				if o.a.Op.Lane == l {
					evs = append(evs, engine.Event{Kind: engine.OpDone, Op: o.a.Op, Start: r.now, End: r.now})
					r.last[l] = o.a.Op.Seq
				}
			}
		}
		heard += len(evs)
		r.ops = nil
		r.step(evs...)
	}
	if heard < 4 {
		t.Errorf("%d operations were in flight; the test needs more to tell anything", heard)
	}
	r.lose(1, false)
	r.back(1, false)
	r.mustRun(id)
}

// With recovery off nothing is kept to recompute values from: data that others were
// computed from can be given back without a copy of those.
func TestNoFaultToleranceKeepsNoRecipes(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{NoFaultTolerance: true})
	w, v := r.e.NewData("w", mb, graph.Versioned), r.e.NewData("v", mb, graph.Versioned)
	r.mustRun(r.submit(build(t, func(b *graph.Builder) {
		w := b.Data(graph.Data{Name: "w", Bytes: mb, Input: true})
		v := b.Data(graph.Data{Name: "v", Bytes: mb, Input: true})
		y := b.Data(graph.Data{Name: "y", Bytes: 1000, Output: true})
		b.Add(job("put out", 1, reads(w), writes(y)))
		b.Add(job("derive", 1, reads(w), reads(y), writes(v)))
	}), engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: w}, {Data: 1, Ref: v}}}))
	r.e.FreeData(w)
	r.step()
	if left := r.e.Left(); !strings.Contains(left, "1 resident data") || !strings.Contains(left, "2 instances") {
		t.Errorf("left with v on the device alone: %s", left)
	}
	r.mustRun(r.submit(over(t, "reads v", 1, reads), bound(v)))
}

// A value that was made on a device, was lost and is made again in host memory takes nothing to
// recompute from there on; the recount checks that.
func TestMadeAgainInHostMemory(t *testing.T) {
	r := newRig(t, cpuAndGPU(10*mb), engine.Options{})
	wait := job("wait", 50)
	wait.On.Only = []string{"cpu"}
	id := r.submit(build(t, func(b *graph.Builder) {
		x, y := b.Data(graph.Data{Name: "x", Bytes: 1000}), b.Data(graph.Data{Name: "y", Bytes: 1000, Output: true})
		b.Add(job("make", 1, writes(x)))
		wait.After = []graph.TaskID{0}
		b.Add(wait)
		use := job("use", 1, reads(x), writes(y))
		use.After = []graph.TaskID{1}
		b.Add(use)
	}), engine.RunOptions{})
	r.step(engine.Event{Kind: engine.Drain, Device: 0})
	r.until("x is made", func() bool { return slices.Contains(r.ran, "make@gpu:0") })
	r.step(engine.Event{Kind: engine.Undrain, Device: 0})
	r.starts("wait")
	r.lose(1, false)
	r.mustRun(id)
	equalLists(t, "executions", r.ran, []string{"make@gpu:0", "wait@cpu:0", "make@cpu:0", "use@cpu:0"})
}
