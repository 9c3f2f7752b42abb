package engine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// The caller's memory does not count against the limit of host memory, whether the
// device that computes there is alone or beside others.
func TestHostLimitLeavesOutHomes(t *testing.T) {
	for name, m := range map[string]*machine.Machine{"a cpu": cpus(1), "a cpu beside a gpu": cpuAndGPU(10 * mb)} {
		m.HostBytes = mb
		r := newRig(t, m, engine.Options{})
		kept := r.e.NewData("kept", 5*mb, graph.Versioned)
		g := build(t, func(b *graph.Builder) {
			in := b.Data(graph.Data{Name: "in", Bytes: 3 * mb, Input: true})
			res := b.Data(graph.Data{Name: "res", Bytes: 5 * mb, Input: true})
			out := b.Data(graph.Data{Name: "out", Bytes: 2 * mb, Output: true})
			k := job("t", 1, reads(in), reads(res), writes(b.Data(graph.Data{Name: "own", Bytes: mb})), writes(out))
			k.On.Only = []string{"cpu"}
			b.Add(k)
		})
		if err := r.finish(r.submit(g, engine.RunOptions{Bind: []engine.Binding{{Data: 1, Ref: kept}}})); err != nil {
			t.Errorf("%s: 1 MB of 1 MB beside the caller's memory: %v", name, err)
		}
		equal(t, name+": bytes used at the end", r.e.Status(0).MemUsed, 0)
	}
}

// cpuAndGPU is a machine of cpu:0, in host memory, and gpu:0.
func cpuAndGPU(memBytes int64) *machine.Machine {
	m := gpus(1, memBytes)
	m.Devices = append(cpus(1).Devices, m.Devices...)
	m.Links[0].A = 1
	return m
}

// A task that reads a part of a larger buffer has room beside that part, also where
// nothing can be moved to another memory.
func TestRoomBesideAPart(t *testing.T) {
	alone := gpus(1, 100)
	alone.Links = nil
	host := cpus(1)
	host.HostBytes = 100
	for name, m := range map[string]*machine.Machine{"gpu": gpus(1, 100), "gpu without a link": alone, "host": host} {
		r := newRig(t, m, engine.Options{})
		g := build(t, func(b *graph.Builder) {
			x := b.Data(graph.Data{Name: "x", Bytes: 60})
			b.Add(job("a", 1, writes(x)))
			b.Add(job("b", 1, graph.Use{Data: x, Bytes: 10, Access: graph.Read}, writes(b.Data(graph.Data{Name: "y", Bytes: 50}))))
		})
		if err := r.finish(r.submit(g, engine.RunOptions{})); err != nil {
			t.Errorf("%s: 60 of 100 bytes: %v", name, err)
		}
		equal(t, name+": bytes used at the end", r.e.Status(0).MemUsed, 0)
	}
}

// A task has room wherever its uses together have, also where it reads or writes a part
// of a buffer of which all else is needed later.
func TestRoomForAPartOfWhatIsNeeded(t *testing.T) {
	part := func(d graph.DataID, lo, n int64, a graph.Access) graph.Use {
		return graph.Use{Data: d, Offset: lo, Bytes: n, Access: a}
	}
	for _, access := range []graph.Access{graph.Read, graph.Write} {
		r := newRig(t, gpus(1, 100), engine.Options{})
		g := build(t, func(b *graph.Builder) {
			x := b.Data(graph.Data{Name: "x", Bytes: 60})
			y := b.Data(graph.Data{Name: "y", Bytes: 80})
			b.Add(job("make", 1, writes(x)))
			b.Add(job("first", 1, part(x, 0, 10, graph.Read)))
			large := b.Add(job("large", 1, part(x, 0, 10, access), writes(y)))
			rest := job("rest", 1, reads(x))
			rest.After = []graph.TaskID{large}
			b.Add(rest)
		})
		if err := r.finish(r.submit(g, engine.RunOptions{})); err != nil {
			t.Errorf("access %v: 90 of 100 bytes: %v", access, err)
		}
	}
}

// An output that finds no room in host memory is brought home once there is some.
func TestDeliveryWaitsForHostMemory(t *testing.T) {
	m := cpuAndGPU(10 * mb)
	m.HostBytes = mb
	r := newRig(t, m, engine.Options{})
	hold := job("hold", 20)
	hold.Workspace = mb - 8
	hold.On.Only = []string{"cpu"}
	first := r.submit(single(t, hold), engine.RunOptions{})
	r.starts("hold")
	g := build(t, func(b *graph.Builder) {
		k := job("update", 1, updates(b.Data(graph.Data{Name: "x", Bytes: mb, Input: true, Output: true})))
		k.On.Only = []string{"cuda"}
		b.Add(k)
	})
	rep := r.mustRun(r.submit(g, engine.RunOptions{}))
	r.mustRun(first)
	equal(t, "executed", rep.Executed, 1)
	if rep.Ended < 20*ms {
		t.Errorf("x was home at %v, before there was room to make it safe", rep.Ended)
	}
}

// What can never be brought home for lack of host memory is an error that says how
// much is short, for a run and for who asks for resident data.
func TestNoHostMemoryEver(t *testing.T) {
	m := gpus(1, 10*mb)
	m.HostBytes = mb / 2
	g := chainOf(t, mb)
	r := newRig(t, m, engine.Options{})
	err := r.finish(r.submit(g, engine.RunOptions{}))
	is(t, err, engine.ErrOutOfMemory)
	if err == nil || !strings.Contains(err.Error(), "1MB more are needed in host memory, of whose 500kB 500kB are free") {
		t.Errorf("the error is %v", err)
	}
	x := r.e.NewData("x", mb, graph.Versioned)
	r.mustRun(r.submit(g, engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: x}}}))
	r.e.Fetch(x)
	r.until("an answer", func() bool { return len(r.fetched) > 0 })
	is(t, r.fetchErr, engine.ErrOutOfMemory)
	// A graph that cuts it otherwise needs it at home as well.
	cut := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: mb, Input: true})
		b.Add(job("part", 1, graph.Use{Data: x, Bytes: mb / 4, Access: graph.Read}))
	})
	is(t, r.finish(r.submit(cut, engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: x}}})), engine.ErrOutOfMemory)
	// Nothing of that harms a run that needs less.
	r.mustRun(r.submit(chainOf(t, mb/4), engine.RunOptions{}))
}

// What can never be staged for lack of host memory is an error that names this memory, and
// not that of the device it was to go to.
func TestNoHostMemoryToStage(t *testing.T) {
	m := gpus(2, 10*mb)
	m.HostBytes = mb / 2
	r := newRig(t, m, engine.Options{})
	err := r.finish(r.submit(build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: mb})
		first, second := job("first", 1, writes(x)), job("second", 1, reads(x))
		first.On.Only, second.On.Only = []string{"gpu:0"}, []string{"gpu:1"}
		b.Add(first)
		b.Add(second)
	}), engine.RunOptions{}))
	is(t, err, engine.ErrOutOfMemory)
	if err == nil || !strings.Contains(err.Error(), "1MB more are needed in host memory, of whose 500kB 500kB are free") {
		t.Errorf("the error is %v", err)
	}
}

// chainOf is two tasks that update data of some bytes, one after the other.
func chainOf(t *testing.T, bytes int64) *graph.Graph {
	return build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: bytes, Input: true, Output: true})
		b.Add(job("first", 1, updates(x)))
		b.Add(job("second", 1, updates(x)))
	})
}

// When a run that waits for memory is cancelled, what is queued behind it goes on,
// though what it waited for has not ended.
func TestCancelWakesTheQueue(t *testing.T) {
	r := newRig(t, gpus(1, 4*mb), engine.Options{Depth: 8})
	r.hang["hold"] = true
	with := func(name string, workspace int64) *graph.Graph {
		k := job(name, 0.01)
		k.Workspace = workspace
		return single(t, k)
	}
	r.submit(with("hold", 2*mb), engine.RunOptions{})
	r.starts("hold")
	large := r.submit(with("large", 3*mb), engine.RunOptions{})
	r.submit(with("small", mb), engine.RunOptions{})
	r.step()
	equalLists(t, "launches", r.launched, []string{"hold@gpu:0"})
	r.step(engine.Event{Kind: engine.Cancel, Run: large})
	equalLists(t, "launches", r.launched, []string{"hold@gpu:0", "small@gpu:0"})
}

// A task that has no room while nothing in its memory is in flight lets those behind
// it pass: they may be what makes room.
func TestRoomBehindTheFirst(t *testing.T) {
	m := gpus(1, 4*mb)
	m.Links = nil // nothing can be moved out of the way
	r := newRig(t, m, engine.Options{Depth: 1})
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 3 * mb})
		first := b.Add(job("make", 1, writes(x)))
		large := job("large", 1)
		large.Workspace, large.Priority, large.After = 2*mb, 10, []graph.TaskID{first}
		b.Add(large)
		b.Add(job("use", 1, reads(x)))
	})
	r.mustRun(r.submit(g, engine.RunOptions{}))
	equalLists(t, "launches", r.launched, []string{"make@gpu:0", "use@gpu:0", "large@gpu:0"})
}

// A device that has waited for room and got it waits again, and is woken again, while something on
// another device goes on, so that nothing but the room wakes it.
func TestRoomWakesAgain(t *testing.T) {
	r := newRig(t, gpus(2, 10*mb), engine.Options{})
	on := func(name, dev string) {
		k := job(name, 1)
		k.Workspace = 6 * mb
		k.On.Only = []string{dev}
		r.hang[name] = true
		r.submit(single(t, k), engine.RunOptions{})
	}
	on("beside", "gpu:1")
	tasks := []string{"first", "second", "third", "fourth"}
	for _, name := range tasks {
		on(name, "gpu:0")
	}
	r.step()
	for i, name := range tasks {
		equal(t, "launches of the "+name, r.count(name), 1)
		if i+1 < len(tasks) {
			equal(t, "launches of the "+tasks[i+1]+" before there is room", r.count(tasks[i+1]), 0)
		}
		delete(r.hang, name)
		r.until("the end of the "+name, func() bool { return slices.Contains(r.ran, name+"@gpu:0") })
	}
	equal(t, "tasks that have run", len(r.ran), len(tasks))
}

// Of two runs that would each hold what the other lacks, one waits for the end of the other.
func TestOneRunWaitsForTwo(t *testing.T) {
	m := gpus(1, 10*mb)
	m.HostBytes = 8 * mb
	r := newRig(t, m, engine.Options{})
	two := func(name string) *graph.Graph {
		return build(t, func(b *graph.Builder) {
			x, y := b.Data(graph.Data{Name: "x", Bytes: 4 * mb}), b.Data(graph.Data{Name: "y", Bytes: 4 * mb})
			b.Add(job(name+"0", 1, writes(x)))
			b.Add(job(name+"1", 1, reads(x), writes(y)))
		})
	}
	a := r.submit(two("a"), engine.RunOptions{Concurrent: 1})
	b := r.submit(two("b"), engine.RunOptions{Concurrent: 1})
	r.mustRun(a)
	r.mustRun(b)
}

// An output that finds no room in host memory gets that of a buffer of which only a part is
// still needed, if that part can be copied out of it.
func TestDeliveryBesideAPart(t *testing.T) {
	is(t, deliverBesideAPart(t, 100, 10), nil)
	is(t, deliverBesideAPart(t, 65, 60), engine.ErrOutOfMemory)
}

// Copies that move values out of a buffer are given up when they fail in a row, and not for
// failures that were each followed by a success.
func TestSqueezeFailsNowAndThen(t *testing.T) {
	m := cpuAndGPU(10 * mb)
	m.HostBytes = 100
	r := newRig(t, m, engine.Options{})
	moves := 0
	r.failCopy = func(c copied) bool {
		if c.data != "y" || c.from != "host" || c.to != "host" {
			return false
		}
		moves++
		return moves%2 == 1
	}
	for round := range 12 {
		w := r.e.NewData("w", 10, graph.Versioned)
		is(t, outputBesideAPart(t, r, w), nil)
		equal(t, "copies out of the buffer", moves, 2*(round+1))
		r.e.FreeData(w)
		r.step()
	}
}

// deliverBesideAPart runs a task whose output needs 50 bytes of host memory, of which 60 are
// in a buffer that is needed for 10, and returns its error.
func deliverBesideAPart(t *testing.T, hostBytes, kept int64) error {
	t.Helper()
	m := cpuAndGPU(10 * mb)
	m.HostBytes = hostBytes
	r := newRig(t, m, engine.Options{})
	err := outputBesideAPart(t, r, r.e.NewData("w", 10, graph.Versioned))
	equal(t, "bytes kept afterwards", r.e.Status(0).MemUsed, kept)
	return err
}

// outputBesideAPart runs a task whose output needs 50 bytes of host memory, of which 60 are
// in a buffer that is needed for the 10 of w, and returns its error.
func outputBesideAPart(t *testing.T, r *rig, w engine.DataRef) error {
	t.Helper()
	on := func(backend string, k graph.Task) graph.Task {
		k.On.Only = []string{backend}
		return k
	}
	r.mustRun(r.submit(build(t, func(b *graph.Builder) {
		w := b.Data(graph.Data{Name: "w", Bytes: 10, Input: true})
		y := b.Data(graph.Data{Name: "y", Bytes: 60})
		b.Add(on("cpu", job("make", 1, writes(y))))
		// The first 10 bytes are kept to make w again.
		b.Add(on("cuda", job("derive", 1, graph.Use{Data: y, Bytes: 10, Access: graph.Read}, writes(w))))
		b.Add(on("cpu", job("rest", 1, graph.Use{Data: y, Offset: 10, Bytes: 50, Access: graph.Read})))
	}), bound(w)))
	equal(t, "bytes kept", r.e.Status(0).MemUsed, 60)
	err := r.finish(r.submit(build(t, func(b *graph.Builder) {
		b.Add(on("cuda", job("update", 1, updates(b.Data(graph.Data{Name: "x", Bytes: 50, Input: true, Output: true})))))
	}), engine.RunOptions{}))
	return err
}

// Data that was committed before it came home has two copies in host memory. The second is
// ended when its room is wanted.
func TestSecondCopiesGiveRoom(t *testing.T) {
	m := gpus(1, mb)
	m.HostBytes = 100
	r := newRig(t, m, engine.Options{})
	for _, name := range []string{"a", "b", "c"} {
		ref := r.e.NewData(name, 60, graph.Versioned)
		g := build(t, func(b *graph.Builder) {
			b.Add(job("update", 1, updates(b.Data(graph.Data{Name: name, Bytes: 60, Input: true}))))
		})
		r.mustRun(r.submit(g, engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: ref}}}))
		r.e.Fetch(ref)
		answers := len(r.fetched) + 1
		r.until("fetched", func() bool { return len(r.fetched) == answers })
		if r.fetchErr != nil {
			t.Fatalf("data %s: %v", name, r.fetchErr)
		}
	}
}
