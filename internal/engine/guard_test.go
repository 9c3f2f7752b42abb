package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// only makes a task one for a device, after others.
func only(dev string, j graph.Task, after ...graph.TaskID) graph.Task {
	j.On.Only, j.After = []string{dev}, after
	return j
}

// An operation that is told of twice ended once.
func TestCompletionToldTwice(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{})
	id := r.submit(chain(t, 6, 1, graph.Versioned), engine.RunOptions{})
	r.starts("c2")
	var told []engine.Event
	for l, info := range r.e.Lanes() {
		if n := r.last[engine.Lane(l)]; n > 0 && info.Device >= 0 {
			told = append(told, engine.Event{Kind: engine.OpDone, Op: engine.Op{Lane: engine.Lane(l), Seq: n}, Start: r.now, End: r.now})
		}
	}
	if len(told) == 0 {
		t.Fatal("nothing has ended yet")
	}
	r.step(told...)
	rep := r.mustRun(id)
	equal(t, "executed", rep.Executed, 6)
}

// An output that is lost while the place it is to go to is taken is made again at once,
// and not when that place is free.
func TestOutputLostWhileItsPlaceIsTaken(t *testing.T) {
	m := cpus(2)
	for i, d := range gpus(2, 10*mb).Devices {
		m.Links = append(m.Links, machine.Link{A: machine.DeviceID(2 + i), B: machine.Host, BPS: 1e9})
		m.Devices = append(m.Devices, d)
	}
	r := newRig(t, m, engine.Options{})
	r.hang["reader"] = true
	id := r.submit(build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 1000, Input: true, Output: true})
		reader := only("cpu", job("reader", 1, reads(x)))
		reader.Timeout = 10 * ms
		b.Add(reader)
		b.Add(only("cuda", job("before", 50)))
		b.Add(only("cuda", job("over", 1, writes(x)), 1))
	}), engine.RunOptions{})
	r.until("dropped", func() bool { return len(r.drops) == 1 })
	r.events = nil // the hung reader goes on with what it reads
	delete(r.hang, "reader")
	r.until("the output made", func() bool { return slices.ContainsFunc(r.ran, func(s string) bool { return s[:4] == "over" }) })
	before := r.count("over")
	r.lose(r.ranOn("over"), false)
	equal(t, "launches of what makes the output when it is lost", r.count("over")-before, 1)
	r.step(engine.Event{Kind: engine.DeviceQuiet, Device: 0})
	r.step(engine.Event{Kind: engine.DeviceQuiet, Device: 1})
	r.mustRun(id)
}

// What comes after a gang waits for all its members.
func TestWaitsForAllMembers(t *testing.T) {
	r := newRig(t, gpus(3, 10*mb), engine.Options{})
	id := r.submit(build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 1000})
		b.Add(pair("gang", 1, writes(x)))
		b.Add(job("next", 1, reads(x)))
	}), engine.RunOptions{})
	r.step()
	next := slices.IndexFunc(r.ops, func(o *op) bool { return o.a.Kind == engine.Launch && !o.a.Gang })
	if next < 0 {
		t.Fatal("what comes after the gang is not in flight")
	}
	for rank := range int16(2) {
		if op := r.member(rank).a.Op; !slices.Contains(r.ops[next].a.Waits, op) {
			t.Errorf("what comes after a gang waits for %v and not for member %d, %v", r.ops[next].a.Waits, rank, op)
		}
	}
	r.mustRun(id)
}

// Members of a gang that share a memory need room for all of them.
func TestGangMembersShareMemory(t *testing.T) {
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 60})
		y := b.Data(graph.Data{Name: "y", Bytes: 60})
		b.Add(pair("gang", 1, writes(x), second(writes(y))))
	})
	m := cpus(2)
	m.HostBytes = 100
	r := newRig(t, m, engine.Options{})
	is(t, r.finish(r.submit(g, engine.RunOptions{})), engine.ErrOutOfMemory)
	m.HostBytes = 120
	r = newRig(t, m, engine.Options{})
	r.mustRun(r.submit(g, engine.RunOptions{}))
}

// The clock of a timeout starts when what a task waits for on another device has ended,
// whether that is after the timeout since it was issued or before.
func TestTimeoutCountsFromTheEndOfOthers(t *testing.T) {
	for _, long := range []float64{50, 5} {
		r := newRig(t, cpus(2), engine.Options{Ahead: 1000 * ms})
		id := r.submit(build(t, func(b *graph.Builder) {
			x := b.Data(graph.Data{Name: "x", Bytes: 8})
			b.Add(only("cpu:0", job("long", long, writes(x))))
			next := only("cpu:1", job("next", 8, reads(x)))
			next.Timeout = 10 * ms
			b.Add(next)
		}), engine.RunOptions{})
		r.starts("long")
		equal(t, "launches of what waits", r.count("next"), 1)
		r.mustRun(id)
		equal(t, "drops", len(r.drops), 0)
		equal(t, "end", r.now, time.Duration(long+8)*ms)
	}
}

// A spare of the same class takes a lost device's place before any other.
func TestSpareOfTheSameClass(t *testing.T) {
	m := gpus(3, 10*mb)
	m.Devices[1].Rates.Ops[graph.FP32] /= 2
	r := newRig(t, m, engine.Options{Spares: []machine.DeviceID{1, 2}})
	r.step()
	r.lose(0, false)
	equal(t, "the spare of another class", r.e.Status(1).State, engine.Spare)
	equal(t, "the spare of the same class", r.e.Status(2).State, engine.Healthy)
	r.lose(2, false)
	equal(t, "the spare that is left", r.e.Status(1).State, engine.Healthy)
}

// A task that awaits the readers of a version is placed again once they are done, and
// not when that version is made.
func TestAwaitsReadersWithoutAsking(t *testing.T) {
	placed := 0
	r := newRig(t, gpus(1, 10*mb), engine.Options{Ahead: 1000 * ms, Explain: func(x sched.Explanation) {
		if x.Task == "third" {
			placed++
		}
	}})
	id := r.submit(build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 1000})
		b.Add(job("first", 1, writes(x)))
		b.Add(job("reader", 1, reads(x)))
		b.Add(job("second", 1, writes(x)))
		b.Add(job("third", 1, writes(x)))
	}), engine.RunOptions{})
	r.mustRun(id)
	equal(t, "placements of the third version's maker", placed, 2)
}

// An idle device takes no task of another that it has no memory for.
func TestStealsOnlyWhatFits(t *testing.T) {
	m := gpus(2, 100*mb)
	m.Devices[1].MemBytes = mb
	r := newRig(t, m, engine.Options{Depth: 2})
	r.mustRun(r.submit(build(t, func(b *graph.Builder) {
		for i := range 20 {
			x := b.Data(graph.Data{Bytes: 2 * mb})
			b.Add(job(string(rune('a'+i)), 5, writes(x)))
		}
		b.Add(only("gpu:1", job("small", 1))) // after which it has nothing left
	}), engine.RunOptions{}))
	equal(t, "launches on the small device", r.launchedOn("gpu:1"), 1)
}

// A device that is lost is held against the task that ran there, and not against those
// that were behind it.
func TestQueuedTasksAreNotImplicated(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{Retries: -1})
	bad := job("bad", 1)
	bad.Priority = 100
	guilty := r.submit(single(t, bad), engine.RunOptions{})
	innocent := r.submit(single(t, job("innocent", 1)), engine.RunOptions{})
	r.step()
	for range 3 {
		equalLists(t, "in flight", r.inFlight(), []string{"bad@gpu:0", "innocent@gpu:0"})
		r.lose(0, false)
		r.back(0, false)
	}
	is(t, r.finish(guilty), engine.ErrDeviceLost)
	r.mustRun(innocent)
}

// A replay that fails costs only the results that were lost: the other results of its task
// keep the copies they have.
func TestFailedReplayKeepsOtherResults(t *testing.T) {
	r := newRig(t, gpus(2, 10*mb), engine.Options{Retries: 1, Health: engine.HealthRules{MaxFailures: 1000}})
	x, y := r.e.NewData("x", mb, graph.Versioned), r.e.NewData("y", mb, graph.Versioned)
	r.mustRun(r.submit(build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: mb, Input: true})
		y := b.Data(graph.Data{Name: "y", Bytes: mb, Input: true})
		b.Add(only("gpu:0", job("both", 1, writes(x), writes(y))))
	}), engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: x}, {Data: 1, Ref: y}}}))
	reader := func(ref engine.DataRef) error {
		return r.finish(r.submit(build(t, func(b *graph.Builder) {
			d := b.Data(graph.Data{Name: "d", Bytes: mb, Input: true})
			b.Add(only("gpu:1", job("reader", 1, reads(d))))
		}), engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: ref}}}))
	}
	if err := reader(x); err != nil { // which leaves a copy of x there, and none of y
		t.Fatal(err)
	}
	r.fail["both"] = 1000
	r.lose(0, false)
	r.back(0, false)
	if err := reader(y); err == nil {
		t.Fatal("y was read, though nothing could make it again")
	}
	if err := reader(x); err != nil {
		t.Errorf("x has a copy still: %v", err)
	}
}

// When a task fails, the copies that were to be made of its result count no more, even before
// they are heard of: who reads the result then is given new ones.
func TestFailureEndsCopiesNotHeardOf(t *testing.T) {
	r := newRig(t, gpus(2, 10*mb), engine.Options{Ahead: 1000 * ms, Backoff: 1})
	id := r.submit(build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: mb})
		b.Add(only("gpu:0", job("first", 1, writes(x))))
		b.Add(only("gpu:1", job("second", 1, reads(x))))
	}), engine.RunOptions{})
	r.step()
	equalLists(t, "in flight", r.inFlight(), []string{"first@gpu:0", "x gpu:0>host", "x host>gpu:1", "second@gpu:1"})
	first, second := r.ops[0], r.ops[3]
	r.fail["first"] = 1
	r.end(first, engine.OK)
	r.end(second, engine.DepFailed)
	r.now += ms
	r.step()
	equalLists(t, "in flight again", r.inFlight(), []string{"x gpu:0>host", "x host>gpu:1", "first@gpu:0", "x gpu:0>host", "x host>gpu:1", "second@gpu:1"})
	r.mustRun(id)
	equal(t, "launches of second", r.count("second"), 2)
}
