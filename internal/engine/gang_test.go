package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// pair is a task of two members.
func pair(name string, millis float64, uses ...graph.Use) graph.Task {
	g := job(name, millis, uses...)
	g.Gang = 2
	return g
}

// second makes a use one of the second member.
func second(u graph.Use) graph.Use {
	u.Rank = 1
	return u
}

// member returns a launch in flight of a gang.
func (r *rig) member(rank int16) *op {
	r.t.Helper()
	for _, o := range r.ops {
		if o.a.Kind == engine.Launch && o.a.Gang && o.a.Rank == rank {
			return o
		}
	}
	r.t.Fatalf("no member %d of a gang in flight: %v", rank, r.inFlight())
	return nil
}

// A gang one of whose candidates cannot reach the data goes to those that can, waits
// for them where they are away, and fails where there are too few.
func TestGangWithinReach(t *testing.T) {
	m := gpus(3, 10*mb)
	m.Links = m.Links[1:] // gpu:0 has no link to the host
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 1000, Input: true})
		b.Add(pair("gang", 1, reads(x)))
	})
	r := newRig(t, m, engine.Options{})
	r.mustRun(r.submit(g, engine.RunOptions{}))
	equalLists(t, "launches", r.launched, []string{"gang@gpu:1", "gang@gpu:2"})

	r = newRig(t, m, engine.Options{})
	r.step(engine.Event{Kind: engine.Drain, Device: 2})
	id := r.submit(g, engine.RunOptions{})
	r.step()
	equal(t, "launches while only one is within reach", len(r.launched), 0)
	r.step(engine.Event{Kind: engine.Undrain, Device: 2})
	r.mustRun(id)

	m = gpus(2, 10*mb)
	m.Links = m.Links[1:]
	r = newRig(t, m, engine.Options{})
	is(t, r.finish(r.submit(g, engine.RunOptions{})), engine.ErrNoDevice)
}

// Limits of tasks in flight count a gang as one, together with other tasks, and every
// task that waits for the limit is issued in the end.
func TestGangsWithinLimits(t *testing.T) {
	g := build(t, func(b *graph.Builder) {
		for i := range 10 {
			b.Add(pair(fmt.Sprint("gang", i), 1))
		}
	})
	mixed := build(t, func(b *graph.Builder) {
		for i := range 10 {
			b.Add(pair(fmt.Sprint("gang", i), 1))
			b.Add(job(fmt.Sprint("one", i), 1))
		}
	})
	for _, o := range []struct {
		e engine.Options
		r engine.RunOptions
	}{{engine.Options{Concurrent: 1}, engine.RunOptions{}}, {engine.Options{}, engine.RunOptions{Concurrent: 1}}} {
		r := newRig(t, gpus(4, 10*mb), o.e)
		r.mustRun(r.submit(g, o.r))
		equal(t, "most launches at once", r.peak, 2)
		r.mustRun(r.submit(mixed, o.r))
		equal(t, "most launches at once", r.peak, 2)
		var ids []engine.RunID
		for range 4 {
			ids = append(ids, r.submit(mixed, o.r))
		}
		r.starts("gang0")
		r.step(engine.Event{Kind: engine.Cancel, Run: ids[1]})
		r.finish(ids...)
		is(t, r.ended[ids[1]].Err, engine.ErrCancelled)
	}
}

// A gang that waits for another to be read gives its place to that one.
func TestGangPassesItsPlaceOn(t *testing.T) {
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 1000})
		y := b.Data(graph.Data{Name: "y", Bytes: 1000})
		for range 2 {
			b.Add(pair("write x", 1, writes(x)))
			b.Add(pair("read x", 5, reads(x), second(writes(y))))
		}
		for i := range 4 {
			b.Add(pair(fmt.Sprint("over", i), 1, writes(x)))
		}
	})
	for limit := range 3 {
		for _, o := range []struct {
			e engine.Options
			r engine.RunOptions
		}{{engine.Options{Concurrent: limit}, engine.RunOptions{}}, {engine.Options{}, engine.RunOptions{Concurrent: limit}}} {
			r := newRig(t, gpus(2, 10*mb), o.e)
			r.mustRun(r.submit(g, o.r))
		}
	}
}

// Every member of a gang counts as a task of its device.
func TestGangMembersAreCounted(t *testing.T) {
	r := newRig(t, gpus(3, 10*mb), engine.Options{})
	g := build(t, func(b *graph.Builder) {
		for i := range 6 {
			b.Add(pair(fmt.Sprint("gang", i), 1))
		}
	})
	r.fail["gang1"] = 2
	r.mustRun(r.submit(g, engine.RunOptions{}))
	tasks := 0
	for d := range r.m.Devices {
		s := r.e.Status(machine.DeviceID(d)).Stats
		equal(t, "tasks active at the end", s.Active, 0)
		tasks += int(s.Tasks)
	}
	if tasks < 12 {
		t.Errorf("%d members of 6 gangs of two were counted", tasks)
	}
}

// What a member made is lost with its device although the gang has not ended: the gang
// runs again, and nothing that could be computed is given up.
func TestGangMemberLostAfterItEnded(t *testing.T) {
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 1000, Input: true, Output: true})
		y := b.Data(graph.Data{Name: "y", Bytes: 1000})
		z := b.Data(graph.Data{Name: "z", Bytes: 1000, Output: true})
		b.Add(job("make", 1, updates(x)))
		b.Add(pair("gang", 1, reads(x), writes(y), second(reads(x))))
		b.Add(job("bump", 1, updates(x)))
		wait := job("wait", 50)
		wait.After = []graph.TaskID{2}
		b.Add(wait)
		use := job("use", 1, reads(y), writes(z))
		use.After = []graph.TaskID{3}
		b.Add(use)
	})
	for _, kept := range []bool{false, true} {
		for rank := range int16(2) {
			r := newRig(t, gpus(3, 10*mb), engine.Options{})
			id := r.submit(g, engine.RunOptions{})
			r.starts("gang")
			o := r.member(rank)
			r.now = max(r.now, o.start+r.takes(o))
			r.end(o, engine.OK)
			r.lose(o.a.Device, kept)
			r.mustRun(id)
			if rank == 1 { // it made nothing
				equal(t, "launches of members after the loss of one without results", r.count("gang"), 2)
			}
		}
	}
}

// What a gang made may be updated in place by a task issued behind it before the end of
// the gang is heard of: it is not lost.
func TestGangWhoseResultIsUpdatedInPlace(t *testing.T) {
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 1000, Input: true, Output: true, Durability: graph.Volatile})
		b.Add(pair("gang", 1, updates(x)))
		b.Add(job("update", 1, updates(x)))
	})
	for _, m := range []*machine.Machine{cpus(2), gpus(2, 10*mb)} {
		r := newRig(t, m, engine.Options{})
		r.mustRun(r.submit(g, engine.RunOptions{}))
		equal(t, "launches of the gang's members", r.count("gang"), 2)
	}
}

// A gang that fails after what a member made was copied to host memory makes it anew:
// what is remembered of the copy goes with it.
func TestGangFailsAfterItsResultWasCopied(t *testing.T) {
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 1000})
		y := b.Data(graph.Data{Name: "y", Bytes: 1000})
		b.Add(job("make", 1, writes(x)))
		b.Add(pair("gang", 1, reads(x), writes(y), second(reads(x))))
		far := job("far", 1, reads(y))
		far.On.Only = []string{"gpu:2"}
		b.Add(far)
		again := job("again", 1, reads(y))
		again.On.Only, again.After = []string{"gpu:2"}, []graph.TaskID{2}
		b.Add(again)
	})
	r := newRig(t, gpus(3, 10*mb), engine.Options{})
	id := r.submit(g, engine.RunOptions{})
	r.starts("gang")
	r.held = r.member(1)
	// far waits for the whole gang, but not the copy made for it through host memory.
	r.until("a copy of the first result", func() bool {
		return slices.ContainsFunc(r.copies, func(c copied) bool { return c.from == "gpu:1" && c.to == "host" })
	})
	for r.advance() {
	}
	r.fail["gang"] = 1
	r.end(r.held, engine.OK)
	r.starts("far")
	for d := range machine.DeviceID(2) {
		r.lose(d, false)
		r.back(d, false)
	}
	r.mustRun(id)
}

// A task behind a gang that gets its turn between the ends of two members waits for
// those in flight alone, since the failure of one heard of may be forgotten, and not at
// all for a gang that has failed already: it follows the next attempt.
func TestBehindGangThatEndsInParts(t *testing.T) {
	g := build(t, func(b *graph.Builder) {
		y := b.Data(graph.Data{Name: "y", Bytes: 1000})
		b.Add(pair("gang", 1, second(writes(y))))
		b.Add(job("other", 1))
		b.Add(job("use", 1, reads(y)))
	})
	for _, st := range []engine.Status{engine.OK, engine.Failed} {
		r := newRig(t, gpus(3, 10*mb), engine.Options{})
		id := r.submit(g, engine.RunOptions{Concurrent: 2})
		r.starts("gang")
		r.starts("other")
		first := r.member(0)
		r.end(first, st)
		equal(t, "launches while the limit is reached", r.count("use"), 0)
		r.end(r.op("other"), engine.OK)
		if st == engine.OK {
			if got, want := r.op("use").a.Waits, []engine.Op{r.member(1).a.Op}; !slices.Equal(got, want) {
				t.Errorf("it waits for %v instead of %v", got, want)
			}
		} else {
			equal(t, "launches behind a gang that has failed", r.count("use"), 0)
		}
		r.mustRun(id)
	}
}

// op returns a launch in flight.
func (r *rig) op(task string) *op {
	r.t.Helper()
	for _, o := range r.ops {
		if o.a.Kind == engine.Launch && o.a.Graph.TaskName(o.a.Task) == task {
			return o
		}
	}
	r.t.Fatalf("%s is not in flight: %v", task, r.inFlight())
	return nil
}

// The time a member of a gang waits for the others to get their turn is not held against
// it, nor against its device; from then on it is.
func TestGangTimeoutBeginsWithItsLastMember(t *testing.T) {
	before := build(t, func(b *graph.Builder) {
		long := job("long", 100)
		long.On.Only = []string{"gpu:1"}
		b.Add(long)
	})
	g := build(t, func(b *graph.Builder) {
		late := pair("gang", 1)
		late.Timeout, late.Retries = 20*ms, -1
		b.Add(late)
	})
	for _, hangs := range []bool{false, true} {
		r := newRig(t, gpus(2, 10*mb), engine.Options{})
		r.submit(before, engine.RunOptions{})
		r.starts("long")
		id := r.submit(g, engine.RunOptions{})
		r.step()
		r.held = r.member(0)
		r.until("the end of what one waits behind", func() bool { return slices.Contains(r.ran, "long@gpu:1") })
		equal(t, "devices given up meanwhile", len(r.drops), 0)
		if hangs {
			is(t, r.finish(id), engine.ErrTimeout)
			continue
		}
		r.held = nil
		r.mustRun(id)
		equal(t, "devices given up", len(r.drops), 0)
	}
}

// A gang that hangs has failed once, and its devices are given up one after another: when
// the first is gone, the other members may end by themselves.
func TestGangThatHangsFailsOnce(t *testing.T) {
	g := build(t, func(b *graph.Builder) {
		late := pair("gang", 1)
		late.Timeout, late.Retries = 20*ms, 1
		b.Add(late)
	})
	r := newRig(t, gpus(4, 10*mb), engine.Options{})
	r.hang["gang"] = true
	id := r.submit(g, engine.RunOptions{})
	r.until("a device given up", func() bool { return len(r.drops) == 1 })
	equal(t, "time", r.now, 20*ms)
	r.until("the other device given up", func() bool { return len(r.drops) == 2 })
	equal(t, "time", r.now, 40*ms)
	delete(r.hang, "gang")
	r.mustRun(id)
}

// The error of a gang names the member that failed first, with its cause, in whatever order
// failures are heard of; so do the notice and the trace.
func TestGangNamesWhoFailedFirst(t *testing.T) {
	follows := errors.New("left by others")
	for _, first := range []int16{0, 1} { // the rank that failed first
		for _, order := range [][]int16{{0, 1}, {1, 0}} { // in which they are heard of
			tr := trace.NewRecorder(0)
			r := newRig(t, gpus(2, 10*mb), engine.Options{Trace: tr})
			ns := watched(r)
			g := build(t, func(b *graph.Builder) {
				once := pair("gang", 1)
				once.Retries = -1
				b.Add(once)
			})
			id := r.submit(g, engine.RunOptions{})
			r.starts("gang")
			r.now += 10 * ms
			for _, rank := range order {
				end, err := r.now-ms, follows
				if rank == first {
					end, err = r.now-5*ms, errBoom
				}
				o := r.member(rank)
				r.ops = slices.DeleteFunc(r.ops, func(p *op) bool { return p == o })
				r.step(engine.Event{Kind: engine.OpDone, Op: o.a.Op, Status: engine.Failed, Err: err, Start: o.start, End: end})
			}
			err := r.finish(id)
			var te *engine.TaskError
			if name := fmt.Sprint("gpu:", first); !errors.As(err, &te) || te.Device != name || !errors.Is(err, errBoom) || errors.Is(err, follows) {
				t.Errorf("%s failed first, heard of in order %v: %v", name, order, err)
			}
			for _, n := range *ns {
				if n.Kind == engine.TaskFailed && (n.Device != machine.DeviceID(first) || n.Err != errBoom) {
					t.Errorf("member %d failed first, and device %d is told with %v", first, n.Device, n.Err)
				}
			}
			for _, e := range tr.Events() {
				if e.Kind == trace.Exec && e.Device != machine.DeviceID(first) {
					t.Errorf("member %d failed first, and the trace names device %d", first, e.Device)
				}
			}
		}
	}
}

// A gang that loses a device fails for that, whatever the others say of it later, and is
// tried again without being held against them.
func TestGangMemberLost(t *testing.T) {
	r := newRig(t, gpus(3, 10*mb), engine.Options{})
	id := r.submit(build(t, func(b *graph.Builder) {
		once := pair("gang", 1)
		once.Retries = -1
		b.Add(once)
	}), engine.RunOptions{})
	r.starts("gang")
	o := r.member(1)
	r.held = o
	r.lose(0, false)
	r.now += ms
	r.held = nil
	r.ops = slices.DeleteFunc(r.ops, func(p *op) bool { return p == o })
	r.last[o.a.Op.Lane] = o.a.Op.Seq
	r.step(engine.Event{Kind: engine.OpDone, Op: o.a.Op, Status: engine.Failed, Err: errBoom, Start: o.start, End: r.now})
	rep := r.mustRun(id)
	equal(t, "executions held against devices", rep.Devices[1].Failed+rep.Devices[2].Failed, 0)
}

// A gang for which too few devices are left says why the others are not.
func TestGangNamesWhatItLacks(t *testing.T) {
	r := newRig(t, gpus(2, 10*mb), engine.Options{NoFaultTolerance: true})
	r.step()
	r.step(engine.Event{Kind: engine.DeviceLost, Device: 1, Err: errBoom})
	g := build(t, func(b *graph.Builder) { b.Add(pair("gang", 1)) })
	err := r.finish(r.submit(g, engine.RunOptions{}))
	is(t, err, engine.ErrNoDevice)
	is(t, err, errBoom)
}

// Members of a gang count each other's bytes in host memory, through which their inputs go:
// both wait until there is room for both.
func TestGangMembersShareHostMemory(t *testing.T) {
	m := gpus(3, 10*mb)
	m.Devices = append(m.Devices, cpus(1).Devices...)
	m.HostBytes = 3 * mb
	r := newRig(t, m, engine.Options{})
	on := func(dev string, k graph.Task) graph.Task {
		k.On.Only = []string{dev}
		return k
	}
	hold := on("cpu", job("hold", 1))
	hold.Workspace = 3 * mb / 2
	r.hang["hold"] = true
	id := r.submit(build(t, func(b *graph.Builder) { // in one run: another would wait for the end of the first
		b.Add(hold)
		x, y := b.Data(graph.Data{Name: "x", Bytes: mb}), b.Data(graph.Data{Name: "y", Bytes: mb})
		b.Add(on("gpu:2", job("make", 1, writes(x), writes(y))))
		gang := pair("gang", 1, reads(x), second(reads(y)))
		gang.On.Only = []string{"gpu:0", "gpu:1"}
		b.Add(gang)
	}), engine.RunOptions{})
	r.starts("hold")
	for r.advance() {
	}
	equal(t, "tasks that have run before it", len(r.ran), 1)
	equal(t, "launches of the gang while host memory has room for one member's input", r.count("gang"), 0)
	delete(r.hang, "hold")
	r.mustRun(id) // the rig checks the limit of host memory
}

// A gang runs again if the device of a member that had ended is lost with a result, before
// the others end: nobody reads that output, so that nothing else would have it made again.
func TestGangMakesALostOutputAgain(t *testing.T) {
	for rank := range int16(2) {
		r := newRig(t, gpus(3, 10*mb), engine.Options{})
		id := r.submit(build(t, func(b *graph.Builder) {
			x := b.Data(graph.Data{Name: "x", Bytes: 1000, Output: true})
			y := b.Data(graph.Data{Name: "y", Bytes: 1000, Output: true})
			b.Add(pair("gang", 1, writes(x), second(writes(y))))
		}), engine.RunOptions{})
		r.starts("gang")
		o := r.member(rank)
		r.held = r.member(1 - rank)
		r.now = max(r.now, o.start+r.takes(o))
		r.end(o, engine.OK)
		r.lose(o.a.Device, false)
		r.held = nil
		rep := r.mustRun(id)
		equal(t, "launches of members", r.count("gang"), 4)
		equal(t, "copies home", rep.Copies, 2)
	}
}
