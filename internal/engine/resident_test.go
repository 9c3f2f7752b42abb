package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// over is a graph of one task over one piece of data that is bound.
func over(t *testing.T, name string, millis float64, use func(graph.DataID) graph.Use) *graph.Graph {
	return build(t, func(b *graph.Builder) {
		w := b.Data(graph.Data{Name: "w", Bytes: mb, Input: true})
		b.Add(job(name, millis, use(w)))
	})
}

// sliced is one task for each of n slices of bound data.
func sliced(t *testing.T, n int, access graph.Access) *graph.Graph {
	return build(t, func(b *graph.Builder) {
		w := b.Data(graph.Data{Name: "w", Bytes: mb, Input: true})
		for i := range n {
			size := int64(mb / n)
			b.Add(job(fmt.Sprint("slice ", i), 1, graph.Use{Data: w, Offset: int64(i) * size, Bytes: size, Access: access}))
		}
	})
}

func bound(ref engine.DataRef) engine.RunOptions {
	return engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: ref}}}
}

// Resident data stays on its device from run to run.
func TestResidentStays(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{})
	ref := r.e.NewData("w", mb, graph.Versioned)
	for i := range 3 {
		r.mustRun(r.submit(over(t, fmt.Sprint("read", i), 1, reads), bound(ref)))
	}
	equalLists(t, "copies", r.copyList(), []string{"resident 0 host>gpu:0"})
	r.mustRun(r.submit(over(t, "write", 1, updates), bound(ref)))
	r.mustRun(r.submit(over(t, "read", 1, reads), bound(ref)))
	// It is written into a fresh buffer: the run may have to go back to the old version.
	equalLists(t, "copies after it was written there", r.copyList(), []string{"resident 0 host>gpu:0", "resident 0 gpu:0>gpu:0"})
}

// Readers run together; a writer waits for those before it and is
// waited for by those after it, in the order of Submit.
func TestResidentWriters(t *testing.T) {
	r := newRig(t, cpus(4), engine.Options{})
	ref := r.e.NewData("w", mb, graph.Versioned)
	var ids []engine.RunID
	for _, name := range []string{"r0", "r1", "w0", "r2", "w1", "w2", "r3"} {
		use := reads
		if name[0] == 'w' {
			use = updates
		}
		ids = append(ids, r.submit(over(t, name, 2, use), bound(ref)))
	}
	r.step()
	equalLists(t, "at first", r.launched, []string{"r0@cpu:0", "r1@cpu:1"})
	r.finish(ids...)
	var order []string
	for _, l := range r.launched {
		order = append(order, l[:2])
	}
	equalLists(t, "order", order, []string{"r0", "r1", "w0", "r2", "w1", "w2", "r3"})
	// Only r0 and r1 ran together; a writer first copies what it updates.
	equal(t, "time", r.now, 6*2*ms+3*1*ms)
}

// A run that is cancelled while it waits, in the very step in which the run it waits
// for ends, holds up none behind it, whichever of the two ends first.
func TestResidentWaiterCancelled(t *testing.T) {
	for _, cancelFirst := range []bool{true, false} {
		r := newRig(t, cpus(1), engine.Options{})
		ref := r.e.NewData("w", mb, graph.Versioned)
		r.submit(over(t, "first", 2, writes), bound(ref))
		waits := r.submit(over(t, "waits", 1, writes), bound(ref))
		behind := r.submit(over(t, "behind", 1, writes), bound(ref))
		r.starts("first")
		o := r.ops[0]
		r.now = o.start + r.takes(o)
		cancel := engine.Event{Kind: engine.Cancel, Run: waits}
		if cancelFirst {
			r.events = append(r.events, cancel)
			r.end(o, engine.OK)
		} else {
			r.last[o.a.Op.Lane], r.ops = o.a.Op.Seq, nil
			r.step(engine.Event{Kind: engine.OpDone, Op: o.a.Op, Start: o.start, End: r.now}, cancel)
		}
		is(t, r.finish(waits), engine.ErrCancelled)
		r.mustRun(behind)
	}
}

// A run that is cancelled while another keeps it from its data says which data that is.
func TestResidentWaiterSaysWhatFor(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{})
	ref := r.e.NewData("weights", mb, graph.Versioned)
	r.submit(over(t, "first", 2, writes), bound(ref))
	waits := r.submit(over(t, "waits", 1, writes), bound(ref))
	behind := r.submit(over(t, "behind", 1, reads), bound(ref))
	r.starts("first")
	for _, id := range []engine.RunID{waits, behind} {
		r.step(engine.Event{Kind: engine.Cancel, Run: id})
		err := r.finish(id)
		is(t, err, engine.ErrCancelled)
		if !strings.Contains(err.Error(), `while it waited for data "weights", which is in use`) {
			t.Errorf("got %v", err)
		}
	}
}

// Of several data it names one that is in use, not the first it has.
func TestResidentWaiterNamesWhatIsInUse(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{})
	free, used := r.e.NewData("free", mb, graph.Versioned), r.e.NewData("used", mb, graph.Versioned)
	r.submit(over(t, "first", 2, writes), bound(used))
	both := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: mb, Input: true})
		y := b.Data(graph.Data{Name: "y", Bytes: mb, Input: true})
		b.Add(job("both", 1, writes(x), writes(y)))
	})
	bind := engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: free}, {Data: 1, Ref: used}}}
	waits, behind := r.submit(both, bind), r.submit(over(t, "behind", 1, reads), bound(used))
	r.starts("first")
	for _, id := range []engine.RunID{behind, waits} {
		r.step(engine.Event{Kind: engine.Cancel, Run: id})
		if err := r.finish(id); !strings.Contains(err.Error(), `waited for data "used"`) {
			t.Errorf("got %v", err)
		}
	}
}

// Runs over other data are not held up.
func TestResidentOnlyBlocksItsUsers(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{})
	ref, other := r.e.NewData("w", mb, graph.Versioned), r.e.NewData("v", mb, graph.Versioned)
	r.submit(over(t, "w0", 5, updates), bound(ref))
	r.submit(over(t, "w1", 5, updates), bound(ref))
	r.submit(over(t, "v0", 5, updates), bound(other))
	r.step()
	equalLists(t, "launches", r.launched, []string{"w0@cpu:0", "v0@cpu:1"})
}

// A run that fails leaves resident data as it was: the next run reads the
// buffer that was current before.
func TestFailedRunChangesNothing(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{})
	ref := r.e.NewData("w", mb, graph.Versioned)
	r.mustRun(r.submit(over(t, "good", 1, updates), bound(ref)))
	readFrom := func(name string) engine.Inst {
		inst := engine.NoInst
		id := r.submit(over(t, name, 1, reads), bound(ref))
		r.until("the end", func() bool {
			for _, o := range r.ops {
				if o.a.Kind == engine.Launch {
					inst = o.a.Args[0].Inst
				}
			}
			_, ok := r.ended[id]
			return ok
		})
		return inst
	}
	before := readFrom("before")
	r.fail["second"] = 100
	g := build(t, func(b *graph.Builder) {
		w := b.Data(graph.Data{Name: "w", Bytes: mb, Input: true})
		b.Add(job("first", 1, updates(w)))
		b.Add(job("second", 1, updates(w)))
	})
	is(t, r.finish(r.submit(g, bound(ref))), errBoom)
	equal(t, "buffer read after the failure", readFrom("after"), before)
	r.mustRun(r.submit(over(t, "good again", 1, updates), bound(ref)))
	if readFrom("changed") == before {
		t.Error("a run that succeeded changed nothing")
	}
}

// Runs may cut resident data differently.
func TestResidentIsCutAnew(t *testing.T) {
	r := newRig(t, gpus(2, 10*mb), engine.Options{})
	ref := r.e.NewData("w", mb, graph.Versioned)
	for _, n := range []int{1, 4, 2, 4, 1} {
		r.mustRun(r.submit(sliced(t, n, graph.ReadWrite), bound(ref)))
		r.mustRun(r.submit(sliced(t, n, graph.Read), bound(ref)))
	}
	r.e.Fetch(ref)
	r.until("fetched", func() bool { return len(r.fetched) == 1 })
}

// Resident data is not cut anew while a run or a caller reads it.
func TestReadDataIsNotCutAnew(t *testing.T) {
	for name, m := range map[string]*machine.Machine{"in host memory": cpus(2), "on a device": gpus(2, 10*mb)} {
		r := newRig(t, m, engine.Options{})
		ref := r.e.NewData("w", mb, graph.Versioned)
		r.mustRun(r.submit(sliced(t, 2, graph.Read), bound(ref)))
		r.hang["slice 0"] = true
		first := r.submit(sliced(t, 2, graph.Read), bound(ref))
		r.starts("slice 0")
		launched := r.count("slice 1")
		other := r.submit(sliced(t, 4, graph.Read), bound(ref))
		for range 20 {
			r.advance()
		}
		equal(t, name+": launches of the run that cuts it otherwise", r.count("slice 3"), 0)
		equal(t, name+": launches of the other slice", r.count("slice 1"), launched)
		delete(r.hang, "slice 0")
		r.mustRun(first)
		r.mustRun(other)
	}
}

// Nor while a copy out of its home is in flight, for a run that has ended meanwhile.
func TestCopiedDataIsNotCutAnew(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{})
	ref := r.e.NewData("w", mb, graph.Versioned)
	r.hold = func(o *op) bool { return o.what == "resident 0 host>gpu:0" }
	r.failCopy = func(c copied) bool { return c.data == "a" }
	first := r.submit(build(t, func(b *graph.Builder) {
		w := b.Data(graph.Data{Name: "w", Bytes: mb, Input: true})
		b.Add(job("both", 1, reads(b.Data(graph.Data{Name: "a", Bytes: mb, Input: true})), reads(w)))
	}), engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: ref}}})
	r.until("copies", func() bool { return len(r.copies) == 2 })
	r.step(engine.Event{Kind: engine.Cancel, Run: first})
	is(t, r.finish(first), engine.ErrCancelled) // its launch does not wait for the second copy
	equalLists(t, "what is in flight", r.inFlight(), []string{"resident 0 host>gpu:0"})
	other := r.submit(sliced(t, 4, graph.Read), bound(ref))
	for range 20 {
		r.advance()
	}
	equal(t, "launches of the run that cuts it otherwise", r.count("slice 0"), 0)
	r.hold = nil
	r.mustRun(other)
}

// Resident data is not cut anew while an older version of it is kept, in the pieces it is
// in, to compute something else again: that is made durable first.
func TestOlderVersionIsNotCutAnew(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{})
	w, v := r.e.NewData("w", mb, graph.Versioned), r.e.NewData("v", mb, graph.Versioned)
	derive := build(t, func(b *graph.Builder) {
		w := b.Data(graph.Data{Name: "w", Bytes: mb, Input: true})
		v := b.Data(graph.Data{Name: "v", Bytes: mb, Input: true})
		for i := range int64(4) {
			part := func(d graph.DataID, a graph.Access) graph.Use {
				return graph.Use{Data: d, Offset: i * mb / 4, Bytes: mb / 4, Access: a}
			}
			b.Add(job("derive", 1, part(w, graph.Read), part(v, graph.Write)))
		}
	})
	r.mustRun(r.submit(derive, engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: w}, {Data: 1, Ref: v}}}))
	r.mustRun(r.submit(sliced(t, 4, graph.ReadWrite), bound(w)))
	r.mustRun(r.submit(over(t, "whole", 1, reads), bound(w)))
	r.lose(0, false)
	r.back(0, false)
	r.mustRun(r.submit(sliced(t, 4, graph.Read), bound(v)))
	equal(t, "launches of what was made from the older version", r.count("derive"), 4)
}

// Resident data is cut anew though other data was lost that would be computed again from it, and that
// nothing asks for: it is computed first.
func TestDataIsCutAnewBesideALostOne(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{})
	w, v := r.e.NewData("w", mb, graph.Versioned), r.e.NewData("v", mb, graph.Versioned)
	derive := build(t, func(b *graph.Builder) {
		w := b.Data(graph.Data{Name: "w", Bytes: mb, Input: true})
		b.Add(job("derive", 1, reads(w), writes(b.Data(graph.Data{Name: "v", Bytes: mb, Input: true}))))
	})
	r.mustRun(r.submit(derive, engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: w}, {Data: 1, Ref: v}}}))
	r.lose(0, false)
	r.back(0, false)
	r.mustRun(r.submit(sliced(t, 4, graph.Read), bound(w)))
	equal(t, "launches of what was made from it", r.count("derive"), 2)
}

// Fetch brings the current value home and says so; once it is there it costs
// nothing to ask again.
func TestFetch(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{})
	ref := r.e.NewData("w", mb, graph.Versioned)
	r.step()
	r.e.Fetch(ref)
	r.step()
	equal(t, "answers for data that is at home", len(r.fetched), 1)
	id := r.submit(over(t, "write", 5, updates), bound(ref))
	r.step()
	r.e.Fetch(ref)
	r.step()
	equal(t, "answers while it is written", len(r.fetched), 1)
	r.mustRun(id)
	r.until("fetched", func() bool { return len(r.fetched) == 2 })
	if !slices.ContainsFunc(r.copies, func(c copied) bool { return c.from == "gpu:0" && c.to == "host" }) {
		t.Errorf("it was not copied home: %v", r.copies)
	}
	copies := len(r.copies)
	r.e.Fetch(ref)
	r.e.Fetch(ref)
	r.step()
	equal(t, "answers", len(r.fetched), 4)
	equal(t, "copies for asking again", len(r.copies), copies)
}

// A value that comes home takes the place of the last one where that is in other host memory too, and else
// goes there first: host memory never has more than one copy beside the home.
func TestFetchAgain(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{})
	ref := r.e.NewData("w", mb, graph.Versioned)
	var home []int
	for i := range 6 {
		r.mustRun(r.submit(over(t, "write", 5, updates), bound(ref)))
		before := len(r.copies)
		r.e.Fetch(ref)
		r.until("fetched", func() bool { return len(r.fetched) == i+1 })
		n := 0
		for _, c := range r.copies[before:] {
			if c.to == "host" {
				n++
			}
		}
		home = append(home, n)
	}
	if want := []int{2, 1, 2, 1, 2, 1}; !slices.Equal(home, want) {
		t.Errorf("%v copies in host memory, want %v", home, want)
	}
}

// FreeData waits for the runs that use the data, then frees every buffer.
func TestFreeData(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{})
	ref := r.e.NewData("w", mb, graph.Versioned)
	id := r.submit(over(t, "read", 5, reads), bound(ref))
	r.starts("read")
	r.e.FreeData(ref)
	r.step()
	equal(t, "buffers while it is read", len(r.insts), 2)
	r.mustRun(id)
	r.step()
	equal(t, "buffers afterwards", len(r.insts), 0)
	again := r.e.NewData("new", mb, graph.Versioned)
	r.mustRun(r.submit(over(t, "read", 1, reads), bound(again)))
}

// Resident data that was only on a lost device is computed again by the run
// that made it, although that run ended long ago.
func TestResidentSurvivesLoss(t *testing.T) {
	r := newRig(t, gpus(2, 10*mb), engine.Options{})
	ref := r.e.NewData("w", mb, graph.Versioned)
	for i := range 3 {
		r.mustRun(r.submit(over(t, fmt.Sprint("write", i), 1, updates), bound(ref)))
	}
	r.lose(0, false)
	r.mustRun(r.submit(over(t, "read", 1, reads), bound(ref)))
	equalLists(t, "executions", r.ran, []string{
		"write0@gpu:0", "write1@gpu:0", "write2@gpu:0",
		"write0@gpu:1", "write1@gpu:1", "write2@gpu:1", "read@gpu:1",
	})
	equal(t, "runs reported", len(r.ended), 4)
	if !slices.Contains(r.copyList(), "resident 0 host>gpu:1") {
		t.Errorf("the replay did not start from the host's copy: %v", r.copyList())
	}
}

// Resident data that only a broken device could recompute is lost: runs and fetches that
// ask for it get an error and do not wait.
func TestLostForGood(t *testing.T) {
	r := newRig(t, gpus(2, 10*mb), engine.Options{})
	r.answer = func(dev machine.DeviceID, _ engine.Rung) (engine.Event, bool) {
		return engine.Event{Kind: engine.RecoverFailed, Device: dev}, true
	}
	ref := r.e.NewData("w", mb, graph.Versioned)
	g := build(t, func(b *graph.Builder) {
		w := b.Data(graph.Data{Name: "w", Bytes: mb, Input: true})
		k := job("write", 1, updates(w))
		k.On.Only = []string{"gpu:1"}
		b.Add(k)
	})
	r.mustRun(r.submit(g, bound(ref)))
	r.lose(1, false)
	r.step()
	r.e.Fetch(ref)
	r.until("an answer", func() bool { return len(r.fetched) == 1 })
	if r.fetchErr == nil {
		t.Error("the data was fetched, and cannot have been")
	}
	if err := r.finish(r.submit(over(t, "read", 1, reads), bound(ref))); err == nil {
		t.Error("a run read what is lost")
	}
}
