package engine_test

import (
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

const mb = 1_000_000 // bytes a link of a rig moves in 1 ms

// inputs adds n inputs a, b, … of 1 MB each.
func inputs(b *graph.Builder, n int) []graph.DataID {
	var out []graph.DataID
	for i := range n {
		out = append(out, b.Data(graph.Data{Name: string(rune('a' + i)), Bytes: mb, Input: true}))
	}
	return out
}

func (r *rig) copyList() []string {
	var out []string
	for _, c := range r.copies {
		out = append(out, c.String())
	}
	return out
}

// The input of the next task is copied in while the first runs.
func TestPrefetch(t *testing.T) {
	r := newRig(t, gpus(1, 100*mb), engine.Options{})
	g := build(t, func(b *graph.Builder) {
		in := inputs(b, 3)
		for i, d := range in {
			b.Add(job(fmt.Sprint("t", i), 5, reads(d)))
		}
	})
	id := r.submit(g, engine.RunOptions{})
	r.starts("t0")
	if !slices.Contains(r.copyList(), "b host>gpu:0") {
		t.Errorf("while the first task runs only %v were issued", r.copyList())
	}
	r.mustRun(id)
	equal(t, "time", r.now, 1*ms+3*5*ms) // only the first copy is waited for
}

// The output of a short task is sent home with it, not when it is known to have
// ended; that of a long one would hold up others. A task that fails takes its
// output's copy with it, and both are made anew.
func TestOutputFollowsShortTask(t *testing.T) {
	for _, c := range []struct {
		millis float64
		fails  bool
		at     []string // copies issued while the task runs
	}{{0.1, false, []string{"out gpu:0>host"}}, {0.1, true, []string{"out gpu:0>host"}}, {5, false, nil}, {5, true, nil}} {
		r := newRig(t, gpus(1, 100*mb), engine.Options{})
		g := build(t, func(b *graph.Builder) {
			b.Add(job("t", c.millis, writes(b.Data(graph.Data{Name: "out", Bytes: mb, Output: true}))))
		})
		if c.fails {
			r.fail["t"] = 1
		}
		id := r.submit(g, engine.RunOptions{})
		r.starts("t")
		equalLists(t, "copies while it runs", r.copyList(), c.at)
		rep := r.mustRun(id)
		equal(t, "copies that arrived", rep.Copies, 1)
		equal(t, "executions", rep.Executed, 1)
	}
}

// A value that is on the device already is not copied again, nor is one that is
// on its way there.
func TestCopiesOnce(t *testing.T) {
	r := newRig(t, gpus(1, 100*mb), engine.Options{})
	g := build(t, func(b *graph.Builder) {
		in := inputs(b, 1)
		for i := range 5 {
			b.Add(job(fmt.Sprint("t", i), 1, reads(in[0])))
		}
	})
	rep := r.mustRun(r.submit(g, engine.RunOptions{}))
	equalLists(t, "copies", r.copyList(), []string{"a host>gpu:0"})
	equal(t, "copies reported", rep.Copies, 1)
	equal(t, "bytes reported", rep.CopyBytes, mb)
}

// In a full memory the least recently used value makes room, without a copy
// when the host has it, and comes back when it is used again.
func TestEvictionIsLeastRecentlyUsed(t *testing.T) {
	r := newRig(t, gpus(1, 3*mb), engine.Options{Depth: 1})
	g := build(t, func(b *graph.Builder) {
		in := inputs(b, 4)
		a, bb, c, d := in[0], in[1], in[2], in[3]
		prev := graph.NoTask
		for i, use := range []graph.DataID{a, bb, c, a, d, bb, c, a, d} {
			k := job(fmt.Sprint("t", i), 5, reads(use))
			if prev >= 0 {
				k.After = []graph.TaskID{prev}
			}
			prev = b.Add(k)
		}
	})
	rep := r.mustRun(r.submit(g, engine.RunOptions{}))
	// When d comes, b is the one not used for longest; then for b it is c, and
	// for c it is a; when a comes b has been used for the last time.
	equalLists(t, "copies", r.copyList(), []string{
		"a host>gpu:0", "b host>gpu:0", "c host>gpu:0", "d host>gpu:0",
		"b host>gpu:0", "c host>gpu:0", "a host>gpu:0",
	})
	equal(t, "evictions", rep.Evictions, 3)
}

// A value that is nowhere else is moved to host memory first and reloaded when
// it is read, not computed again.
func TestSpillAndReload(t *testing.T) {
	r := newRig(t, gpus(1, 2*mb), engine.Options{Depth: 1})
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: mb})
		y := b.Data(graph.Data{Name: "y", Bytes: mb})
		z := b.Data(graph.Data{Name: "z", Bytes: mb, Output: true})
		b.Add(job("x", 1, writes(x)))
		b.Add(job("y", 1, writes(y)))
		u := b.Add(job("use y", 1, reads(y), writes(z)))
		k := job("use x", 1, reads(x), updates(z))
		k.After = []graph.TaskID{u}
		b.Add(k)
	})
	rep := r.mustRun(r.submit(g, engine.RunOptions{}))
	copies := r.copyList()
	out, in := slices.Index(copies, "x gpu:0>host"), slices.Index(copies, "x host>gpu:0")
	if out < 0 || in < out {
		t.Errorf("x was not spilled and reloaded: %v", copies)
	}
	equal(t, "replays", rep.Replays, 0)
	equal(t, "executed", rep.Executed, 4)
}

// A value makes room from where it is in the way, at once, though it is being
// computed again on a device nearer to the host: one that never ends here.
func TestSpillFromWhereRoomIsNeeded(t *testing.T) {
	m := gpus(2, 2*mb)
	m.Links[1].BPS *= 4
	r := newRig(t, m, engine.Options{})
	r.step(engine.Event{Kind: engine.Drain, Device: 1})
	r.submit(build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: mb})
		b.Add(job("x", 1, writes(x)))
		use := job("use x", 1, reads(x))
		use.On.Only = []string{"gpu:1"}
		b.Add(use)
	}), engine.RunOptions{})
	r.until("x made", func() bool { return len(r.ran) == 1 })
	r.lose(0, true)
	r.hang["x"] = true
	r.step(engine.Event{Kind: engine.Undrain, Device: 1})
	r.starts("x")
	r.back(0, true)
	big := job("big", 1)
	big.Workspace = 2*mb - 8
	big.On.Only = []string{"gpu:0"}
	r.mustRun(r.submit(single(t, big), engine.RunOptions{}))
	equalLists(t, "launches", r.launched, []string{"x@gpu:0", "x@gpu:1", "use x@gpu:1", "big@gpu:0"})
	equalLists(t, "copies", r.copyList(), []string{"x gpu:0>host"})
}

// besideKept makes x of 1 MB and runs a task with a workspace before x is read.
func besideKept(t *testing.T, workspace int64) *graph.Graph {
	return build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: mb})
		big := job("big", 10)
		big.Workspace = workspace
		big.After = []graph.TaskID{b.Add(job("x", 1, writes(x)))}
		use := job("use x", 1, reads(x))
		use.After = []graph.TaskID{b.Add(big)}
		b.Add(use)
	})
}

// What would have to make room but has no way to the host stays, and the task that
// does not fit beside it ends its run.
func TestSpillWithoutALink(t *testing.T) {
	m := gpus(1, 2*mb)
	m.Links = nil
	r := newRig(t, m, engine.Options{})
	is(t, r.finish(r.submit(besideKept(t, mb+mb/2), engine.RunOptions{})), engine.ErrOutOfMemory)
}

// A memory that is away can be said to have shrunk: nothing is copied out of it.
func TestAwayMemoryShrinks(t *testing.T) {
	r := newRig(t, gpus(1, 2*mb), engine.Options{})
	id := r.submit(besideKept(t, mb/2), engine.RunOptions{})
	r.starts("big")
	r.lose(0, true)
	r.step(engine.Event{Kind: engine.Capacity, Device: 0, Bytes: mb / 2})
	equalLists(t, "copies", r.copyList(), nil)
	r.step(engine.Event{Kind: engine.Capacity, Device: 0, Bytes: 2 * mb})
	r.back(0, true)
	r.mustRun(id)
}

// Two tasks that fit one at a time run one at a time; one that fits never fails.
func TestMemoryIsWaitedFor(t *testing.T) {
	r := newRig(t, gpus(1, 2*mb), engine.Options{})
	g := build(t, func(b *graph.Builder) {
		for i := range 6 {
			k := job(fmt.Sprint("t", i), 1, writes(b.Data(graph.Data{Name: fmt.Sprint("d", i), Bytes: mb / 2})))
			k.Workspace = mb
			b.Add(k)
		}
	})
	r.mustRun(r.submit(g, engine.RunOptions{}))
	equal(t, "in flight at once", r.peak, 1)

	for _, fits := range []bool{true, false} {
		r := newRig(t, gpus(1, 2*mb), engine.Options{})
		k := job("big", 1)
		k.Workspace = 2*mb - 8
		if !fits {
			k.Workspace++
		}
		err := r.finish(r.submit(single(t, k), engine.RunOptions{}))
		if fits && err != nil {
			t.Errorf("a task that just fits: %v", err)
		} else if !fits {
			is(t, err, engine.ErrOutOfMemory)
		}
	}
}

// A device that reports less memory than thought makes the task go elsewhere.
func TestShrunkMemory(t *testing.T) {
	r := newRig(t, gpus(2, 10*mb), engine.Options{})
	r.step(engine.Event{Kind: engine.Capacity, Device: 0, Bytes: mb})
	k := job("big", 1)
	k.Workspace = 5 * mb
	r.mustRun(r.submit(single(t, k), engine.RunOptions{}))
	equalLists(t, "launches", r.launched, []string{"big@gpu:1"})
}

// An output is brought to its home, and only then is the run over.
func TestDelivery(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{})
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: mb, Output: true})
		b.Add(job("make", 2, writes(x)))
	})
	id := r.submit(g, engine.RunOptions{})
	r.mustRun(id)
	equalLists(t, "copies", r.copyList(), []string{"x gpu:0>host"})
	equal(t, "ended", r.ended[id].Report.Ended, 3*ms)
}

// A copy that fails is made again; the task behind it uses up no retry.
func TestFailedCopy(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{Retries: 1})
	failures := 3
	r.failCopy = func(c copied) bool {
		failures--
		return failures >= 0
	}
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: mb, Input: true, Output: true})
		b.Add(job("update", 1, updates(x)))
	})
	rep := r.mustRun(r.submit(g, engine.RunOptions{}))
	equal(t, "retries", rep.Retries, 0)
	equal(t, "executed", rep.Executed, 1)
}

// Versioned data is updated in place where host memory has the version before as well and
// no other task reads it.
func TestVersionedInPlace(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{})
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: mb, Input: true, Output: true})
		b.Add(job("look", 1, reads(x)))
		b.Add(job("update", 1, updates(x)))
	})
	r.mustRun(r.submit(g, engine.RunOptions{Concurrent: 1}))
	equal(t, "copies within the device", slices.Contains(r.copyList(), "x gpu:0>gpu:0"), false)

	r = newRig(t, gpus(1, 10*mb), engine.Options{})
	r.mustRun(r.submit(g, engine.RunOptions{})) // the update is issued while the other reads
	equal(t, "copies within the device beside a reader", slices.Contains(r.copyList(), "x gpu:0>gpu:0"), true)
}

// Copies that never succeed end the run, and the error says so.
func TestCopiesFailForEver(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{})
	r.failCopy = func(copied) bool { return true }
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: mb, Input: true, Output: true})
		b.Add(job("update", 1, updates(x)))
	})
	err := r.finish(r.submit(g, engine.RunOptions{}))
	if err == nil || !strings.Contains(err.Error(), "copying what it reads") {
		t.Errorf("the run ended with %v", err)
	}
}

// Copies from a device that fail because it was lost are no fault of theirs, however often
// that happens.
func TestCopiesFromALostDevice(t *testing.T) {
	m := gpus(2, 10*mb)
	m.Links = append(m.Links, machine.Link{A: 0, B: 1, BPS: 1e9})
	r := newRig(t, m, engine.Options{Health: engine.HealthRules{Trust: 1}})
	id := r.submit(build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: mb})
		first, second := job("make", 1, writes(x)), job("use", 1, reads(x))
		first.On.Only, second.On.Only = []string{"gpu:0"}, []string{"gpu:1"}
		b.Add(first)
		b.Add(second)
	}), engine.RunOptions{})
	for range 20 {
		var copying *op
		r.until("a copy", func() bool {
			for _, o := range r.ops {
				if o.a.Kind == engine.Copy && o.started && o.a.From == 0 && o.a.Device == 1 {
					copying = o
				}
			}
			return copying != nil
		})
		r.now += ms / 2
		r.lose(0, false)
		r.end(copying, engine.Failed)
		r.back(0, false)
	}
	r.mustRun(id)
	equal(t, "launches of what makes it", r.count("make"), 21)
}

// Where no link joins two devices, what one made reaches the other through host
// memory, in two copies.
func TestStaging(t *testing.T) {
	r := newRig(t, gpus(2, 10*mb), engine.Options{})
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: mb})
		first := job("first", 1, writes(x))
		first.On.Only = []string{"gpu:0"}
		second := job("second", 1, reads(x))
		second.On.Only = []string{"gpu:1"}
		b.Add(first)
		b.Add(second)
	})
	r.mustRun(r.submit(g, engine.RunOptions{}))
	equalLists(t, "copies", r.copyList(), []string{"x gpu:0>host", "x host>gpu:1"})
}

// Every buffer is freed, and none while something uses it, whatever happens.
func TestNothingLeaks(t *testing.T) {
	for lost := range 12 {
		r := newRig(t, gpus(2, 4*mb), engine.Options{Depth: 3})
		id := r.submit(build(t, func(b *graph.Builder) {
			in := inputs(b, 3)
			out := b.Data(graph.Data{Name: "out", Bytes: mb, Output: true})
			b.Add(job("first", 1, reads(in[0]), writes(out)))
			for i := range 4 {
				b.Add(job(fmt.Sprint("t", i), 1, reads(in[i%3]), updates(out)))
			}
		}), engine.RunOptions{})
		r.until("far enough", func() bool { return len(r.copies)+len(r.ran) >= lost || len(r.ended) > 0 })
		if lost%2 == 0 {
			r.lose(machine.DeviceID(lost/2%2), false)
		} else {
			r.step(engine.Event{Kind: engine.Cancel, Run: id})
		}
		r.finish(id)
		for range 50 {
			r.now += time.Second
			r.step()
			r.advance()
		}
		if len(r.insts) != 0 {
			t.Errorf("after %d operations: buffers left at the end: %v", lost, r.insts)
		}
	}
}

// What copies take is learned from those that had their way to themselves.
func TestCopiesAreLearned(t *testing.T) {
	m := gpus(1, 1<<30)
	slow := machine.NewHistory(machine.NewRoofline(m), m)
	r := newRig(t, m, engine.Options{Cost: slow})
	fast := *m
	fast.Links = []machine.Link{{A: 0, B: machine.Host, BPS: 2e9}}
	r.cost = machine.NewRoofline(&fast)
	const bytes = 10_000_000
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: bytes, Input: true})
		b.Add(job("a", 1, reads(x)))
	})
	before := slow.Copy(bytes, machine.Host, 0).Median
	for range 10 {
		r.mustRun(r.submit(g, engine.RunOptions{}))
	}
	after := slow.Copy(bytes, machine.Host, 0).Median
	equal(t, "predicted before", before, 10*ms)
	if after < 4*ms || after > 6*ms {
		t.Errorf("after ten copies of 5 ms one is predicted to take %v", after)
	}
}

// One copy takes pieces from one buffer alone, also where the next piece lies in another
// buffer whose records follow. The rig checks that copies stay within buffers.
func TestCopyEndsWithItsBuffer(t *testing.T) {
	part := func(d graph.DataID, piece, n int64, a graph.Access) graph.Use {
		return graph.Use{Data: d, Offset: piece * 10, Bytes: n * 10, Access: a}
	}
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		r := newRig(t, gpus(2, 10*mb), engine.Options{})
		r.mustRun(r.submit(build(t, func(b *graph.Builder) {
			const pieces = 12
			x := b.Data(graph.Data{Name: "x", Bytes: pieces * 10})
			on := func(dev string, k graph.Task) {
				k.On.Only = []string{dev}
				b.Add(k)
			}
			for p := int64(0); p < pieces; {
				n := min(1+rng.Int64N(4), pieces-p)
				on("gpu:0", job(fmt.Sprint("write ", p), 1, part(x, p, n, graph.Write)))
				p += n
			}
			for range 6 {
				p := rng.Int64N(pieces)
				on("gpu:1", job(fmt.Sprint("read ", p), 1, part(x, p, 1+rng.Int64N(pieces-p), graph.Read)))
			}
		}), engine.RunOptions{}))
	}
}
