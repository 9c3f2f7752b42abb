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

// ranOn returns the device on which a task ran last.
func (r *rig) ranOn(task string) machine.DeviceID {
	r.t.Helper()
	for i := len(r.ran) - 1; i >= 0; i-- {
		if dev, ok := strings.CutPrefix(r.ran[i], task+"@"); ok {
			for d := range r.m.Devices {
				if r.m.Devices[d].Name == dev {
					return machine.DeviceID(d)
				}
			}
		}
	}
	r.t.Fatalf("%s never ran: %v", task, r.ran)
	return -1
}

// patient retries once and takes no device for broken.
func patient() engine.Options {
	return engine.Options{Retries: 1, Health: engine.HealthRules{MaxFailures: 1000}}
}

// stages is a graph of two tasks that make resident v (data 1) from w (data 0).
func stages(t *testing.T) *graph.Graph {
	return build(t, func(b *graph.Builder) {
		w := b.Data(graph.Data{Name: "w", Bytes: mb, Input: true})
		v := b.Data(graph.Data{Name: "v", Bytes: mb, Input: true})
		a := b.Data(graph.Data{Name: "a", Bytes: mb})
		b.Add(job("first", 1, reads(w), writes(a)))
		b.Add(job("second", 1, reads(a), writes(v)))
	})
}

// An ended run that works again and fails takes only those along that wait for
// what it was to make.
func TestRevivedRunFailsItsReadersOnly(t *testing.T) {
	r := newRig(t, gpus(2, 10*mb), patient())
	w, v := r.e.NewData("w", mb, graph.Versioned), r.e.NewData("v", mb, graph.Versioned)
	r.mustRun(r.submit(derive(t), engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: w}, {Data: 1, Ref: v}}}))
	bystander := r.submit(chain(t, 100, 10, graph.Versioned), engine.RunOptions{})
	sharer := r.submit(over(t, "reads w", 100, reads), bound(w))
	r.step()
	r.fail["derive"] = 1000
	r.lose(r.ranOn("derive"), false)
	reader := r.submit(over(t, "reads v", 1, reads), bound(v))
	is(t, r.finish(reader), errBoom)
	r.mustRun(bystander)
	r.mustRun(sharer)
}

// Runs that wait for a revived run through another that is revived too fail with
// it, and so do callers who fetch what it would have led to.
func TestRevivedRunsFailAlongTheChain(t *testing.T) {
	r := newRig(t, gpus(2, 10*mb), patient())
	a, b, c := r.e.NewData("a", mb, graph.Versioned), r.e.NewData("b", mb, graph.Versioned), r.e.NewData("c", mb, graph.Versioned)
	step := func(name string) *graph.Graph {
		return build(t, func(g *graph.Builder) {
			x := g.Data(graph.Data{Name: "x", Bytes: mb, Input: true})
			y := g.Data(graph.Data{Name: "y", Bytes: mb, Input: true})
			j := job(name, 1, reads(x), writes(y))
			j.On.Only = []string{"gpu:0"}
			g.Add(j)
		})
	}
	r.mustRun(r.submit(step("a to b"), engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: a}, {Data: 1, Ref: b}}}))
	r.mustRun(r.submit(step("b to c"), engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: b}, {Data: 1, Ref: c}}}))
	r.fail["a to b"] = 1000
	r.lose(0, false)
	r.back(0, false)
	reader := r.submit(over(t, "reads c", 1, reads), bound(c))
	is(t, r.finish(reader), errBoom)
	r.e.Fetch(c)
	r.until("an answer", func() bool { return len(r.fetched) == 1 })
	is(t, r.fetchErr, errBoom)
	// Data that is cut anew is brought home first: a run that waits for that fails too.
	cut := r.submit(sliced(t, 4, graph.Read), bound(c))
	is(t, r.finish(cut), errBoom)

	delete(r.fail, "a to b")
	r.mustRun(r.submit(over(t, "reads c at last", 1, reads), bound(c)))
}

// A run that could not be revived once is revived for a run that asks later.
func TestRevivedTwice(t *testing.T) {
	for broken := range 3 { // how often in a row it cannot be made
		r := newRig(t, gpus(2, 10*mb), patient())
		w, v := r.e.NewData("w", mb, graph.Versioned), r.e.NewData("v", mb, graph.Versioned)
		r.mustRun(r.submit(stages(t), engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: w}, {Data: 1, Ref: v}}}))
		r.fail["first"] = 2 * broken // with one retry each
		r.lose(r.ranOn("second"), false)
		for i := range broken {
			is(t, r.finish(r.submit(over(t, fmt.Sprint("reader", i), 1, reads), bound(v))), errBoom)
		}
		r.mustRun(r.submit(over(t, "reader", 1, reads), bound(v)))
		equal(t, "executions of the first stage", r.count("first"), 1+2*broken+1)
	}
}

// Who begins to wait for a revived run while that fails has it made again.
func TestReaderDuringFailureOfARevivedRun(t *testing.T) {
	r := newRig(t, gpus(3, 10*mb), patient())
	u, v := r.e.NewData("u", mb, graph.Versioned), r.e.NewData("v", mb, graph.Versioned)
	two := build(t, func(b *graph.Builder) {
		u := b.Data(graph.Data{Name: "u", Bytes: mb, Input: true})
		v := b.Data(graph.Data{Name: "v", Bytes: mb, Input: true})
		for i, d := range []graph.DataID{u, v} {
			j := job([]string{"to u", "to v"}[i], []float64{1, 50}[i], writes(d))
			j.On.Only = []string{"gpu:0"}
			b.Add(j)
		}
	})
	r.mustRun(r.submit(two, engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: u}, {Data: 1, Ref: v}}}))
	r.fail["to u"] = 2
	r.lose(0, false)
	r.back(0, false)
	long := r.submit(over(t, "reads v", 1, reads), bound(v))
	r.starts("to v")
	first := r.submit(over(t, "reads u", 1, reads), bound(u))
	// "to v" is in flight while its run fails for "to u".
	is(t, r.finish(first), errBoom)
	second := r.submit(over(t, "reads u again", 1, reads), bound(u))
	r.mustRun(second)
	if err := r.finish(long); err != nil && !strings.Contains(err.Error(), errBoom.Error()) {
		t.Errorf("the reader of what was in flight: %v", err)
	}
}

// A run that is cancelled when what it made last is lost leaves nothing behind.
func TestCancelledAfterALossIsForgotten(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{})
	w := r.e.NewData("w", mb, graph.Versioned)
	g := build(t, func(b *graph.Builder) {
		w := b.Data(graph.Data{Name: "w", Bytes: mb, Input: true})
		x := b.Data(graph.Data{Name: "x", Bytes: mb, Input: true})
		b.Add(job("write", 1, reads(x), updates(w)))
		j := job("long", 100, reads(x))
		b.Add(j)
	})
	id := r.submit(g, bound(w))
	r.starts("long")
	r.lose(0, false)
	r.step(engine.Event{Kind: engine.Cancel, Run: id})
	is(t, r.finish(id), engine.ErrCancelled)
	r.back(0, false)
	for r.advance() {
	}
	equal(t, "buffers of the cancelled run", slices.Contains(r.instNames(), "x"), false)
	r.mustRun(r.submit(over(t, "reads w", 1, reads), bound(w)))
}

// What a run was given is the caller's again once it has ended. If what it left on a
// device is lost, that is computed from copies, or was made durable where it is smaller.
func TestRevivedRunLeavesTheCallersMemoryAlone(t *testing.T) {
	for _, c := range []struct {
		given, made int64
		copied      string // before the run ends
		not         string // what is not copied besides
		left        []string
	}{{1000, mb, "y host>host", "w gpu:0>host", []string{"y"}}, {mb, 1000, "w gpu:0>host", "y host>host", nil}} {
		r := newRig(t, gpus(1, 10*mb), engine.Options{})
		w := r.e.NewData("w", c.made, graph.Versioned)
		g := build(t, func(b *graph.Builder) {
			w := b.Data(graph.Data{Name: "w", Bytes: c.made, Input: true})
			x := b.Data(graph.Data{Name: "x", Bytes: c.given, Input: true})
			y := b.Data(graph.Data{Name: "y", Bytes: c.given, Output: true})
			b.Add(job("put out", 1, reads(x), writes(y)))
			b.Add(job("write", 1, reads(y), writes(w)))
		})
		r.mustRun(r.submit(g, bound(w)))
		if !slices.ContainsFunc(r.copies, func(x copied) bool { return x.String() == c.copied }) {
			t.Errorf("no copy %s among %v", c.copied, r.copies)
		}
		if slices.Contains(r.copyList(), c.not) {
			t.Errorf("a copy %s besides: %v", c.not, r.copies)
		}
		left := r.instNames()
		left = slices.DeleteFunc(left, func(n string) bool { return n != "x" && n != "y" })
		equalLists(t, "buffers of its own data", left, c.left)
		r.lose(0, false)
		r.back(0, false)
		r.mustRun(r.submit(build(t, func(b *graph.Builder) {
			b.Add(job("reads w", 1, reads(b.Data(graph.Data{Name: "w", Bytes: c.made, Input: true}))))
		}), bound(w)))
	}
}

// A run that has ended is not asked to make volatile data again of which it keeps no
// recipe: what it would read is gone. Whoever spoils such data is told so.
func TestSpoiledVolatileDataIsLost(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{})
	w := r.e.NewData("w", mb, graph.Volatile)
	for i := range 3 {
		r.mustRun(r.submit(over(t, fmt.Sprint("before", i), 1, updates), bound(w)))
	}
	r.fail["spoil"] = 1
	is(t, r.finish(r.submit(over(t, "spoil", 1, updates), bound(w))), engine.ErrDataLost)
	for i := range 3 {
		equal(t, "executions before it", r.count(fmt.Sprint("before", i)), 1)
	}
	r.mustRun(r.submit(over(t, "write anew", 1, writes), bound(w)))
	r.mustRun(r.submit(over(t, "after", 1, updates), bound(w)))
}

// Where what a run would be computed from again cannot be kept, the run ends all the same,
// and a loss says why: host memory had no room, or copies failed.
func TestLetGoOfWhatTheCallerGave(t *testing.T) {
	for _, c := range []struct {
		name  string
		made  bool // it is an output and not an input
		fails bool // copies in host memory fail; otherwise it has no room
		why   error
	}{
		{"an input without room", false, false, engine.ErrOutOfMemory},
		{"an output without room", true, false, engine.ErrOutOfMemory},
		{"an output that cannot be copied", true, true, errBoom},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := gpus(1, 10*mb)
			if !c.fails {
				m.HostBytes = 100
			}
			r := newRig(t, m, engine.Options{})
			r.failCopy = func(x copied) bool { return c.fails && x.from == x.to }
			w := r.e.NewData("w", mb, graph.Versioned)
			r.mustRun(r.submit(build(t, func(b *graph.Builder) {
				w := b.Data(graph.Data{Name: "w", Bytes: mb, Input: true})
				x := b.Data(graph.Data{Name: "x", Bytes: 1000, Input: !c.made, Output: c.made})
				if c.made {
					b.Add(job("make", 1, writes(x)))
				}
				b.Add(job("write", 1, reads(x), writes(w)))
			}), bound(w)))
			r.mustRun(r.submit(over(t, "reads w", 1, reads), bound(w)))
			r.lose(0, false)
			r.back(0, false)
			err := r.finish(r.submit(over(t, "reads what is lost", 1, reads), bound(w)))
			is(t, err, engine.ErrDataLost)
			is(t, err, c.why)
		})
	}
}

// Volatile data is not updated in place where other data, which may not be lost, would be
// computed again from what it holds.
func TestVolatileDataThatOthersDependOn(t *testing.T) {
	m := gpus(1, 10*mb)
	m.Devices = append(m.Devices, cpus(1).Devices...)
	r := newRig(t, m, engine.Options{})
	w := r.e.NewData("w", mb, graph.Versioned)
	g := build(t, func(b *graph.Builder) {
		w := b.Data(graph.Data{Name: "w", Bytes: mb, Input: true})
		x := b.Data(graph.Data{Name: "x", Bytes: 1000, Input: true, Output: true, Durability: graph.Volatile})
		derive, pause, update := job("derive", 5, reads(x), writes(w)), job("pause", 1), job("update", 1, updates(x))
		derive.On.Only, pause.On.Only, update.On.Only = []string{"gpu:0"}, []string{"cpu:0"}, []string{"cpu:0"}
		b.Add(derive)
		b.Add(pause)
		b.Add(update)
	})
	o := bound(w)
	o.Concurrent = 2 // the update is issued when nothing copies from x any more
	r.mustRun(r.submit(g, o))
	r.lose(0, false)
	r.back(0, false)
	r.mustRun(r.submit(over(t, "reads w", 1, reads), bound(w)))
	equal(t, "launches of derive", r.count("derive"), 2)
}

// instNames lists what the instances that exist hold, in order.
func (r *rig) instNames() []string {
	var out []string
	for _, n := range r.insts {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// A task that runs again reads values of other runs until it ends, even if its own result
// is not needed any more: the runs that made them are kept as long.
func TestReplayOutlivesItsPurpose(t *testing.T) {
	r := newRig(t, gpus(2, 10*mb), engine.Options{})
	w, v := r.e.NewData("w", mb, graph.Mirrored), r.e.NewData("v", mb, graph.Versioned)
	on := func(dev, name string, millis float64, use func(graph.DataID) graph.Use) *graph.Graph {
		return build(t, func(b *graph.Builder) {
			j := job(name, millis, use(b.Data(graph.Data{Name: "w", Bytes: mb, Input: true})))
			j.On.Only = []string{dev}
			b.Add(j)
		})
	}
	r.mustRun(r.submit(on("gpu:0", "make w", 1, writes), bound(w)))
	r.mustRun(r.submit(build(t, func(b *graph.Builder) {
		w := b.Data(graph.Data{Name: "w", Bytes: mb, Input: true})
		v := b.Data(graph.Data{Name: "v", Bytes: mb, Input: true})
		j := job("derive", 100, reads(w), writes(v))
		j.On.Only = []string{"gpu:0"}
		b.Add(j)
	}), engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: w}, {Data: 1, Ref: v}}}))
	r.mustRun(r.submit(on("gpu:1", "replace w", 1, writes), bound(w)))
	r.lose(0, false)
	r.back(0, false)
	r.e.Fetch(v)
	r.starts("derive")
	r.mustRun(r.submit(on("gpu:1", "replace v", 1, writes), bound(v)))
	equal(t, "derive is in flight", slices.Contains(r.inFlight(), "derive@gpu:0"), true)
	r.mustRun(r.submit(independent(t, 20, 1), engine.RunOptions{})) // takes records that are free
	r.until("the end of derive", func() bool { return len(r.inFlight()) == 0 })
	r.e.FreeData(w)
	r.e.FreeData(v)
	r.until("nothing left", func() bool { return r.e.Left() == "" })
}
