//go:build invariants

package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// Twice as much of anything may take at most 2.5 times the visits: what an engine
// looks at one by one is counted, not timed.
func TestGrowth(t *testing.T) {
	for _, c := range []struct {
		name  string
		small int
		visit func(t *testing.T, n int) *engine.Engine
	}{
		{"queued runs cancelled", 500, cancelQueued},
		{"running runs cancelled", 200, cancelRunning},
		{"runs that take turns", 200, takeTurns},
		{"runs that wait for data each", 50, waitEach},
		{"data put, fetched and freed", 100, putMany},
		{"devices with a timeout", 30, timeoutEach},
		{"devices under a limit", 30, limitAll},
		{"devices opened that are to be probed", 100, probeEach},
		{"results made durable one by one", 100, vacateSlowly},
		{"slices in host memory", 200, func(t *testing.T, n int) *engine.Engine { return cutUp(t, n, true) }},
		{"slices on devices", 200, func(t *testing.T, n int) *engine.Engine { return cutUp(t, n, false) }},
		{"results that one task reads", 200, fanIn},
	} {
		t.Run(c.name, func(t *testing.T) {
			small, large := c.visit(t, c.small).Visits(), c.visit(t, 2*c.small).Visits()
			t.Logf("%d visits for %d, %d for %d", small, c.small, large, 2*c.small)
			if small == 0 || 2*large > 5*small {
				t.Errorf("%d visits for %d, %d for %d", small, c.small, large, 2*c.small)
			}
		})
	}
}

// instant drives an engine on devices that complete everything at once.
type instant struct {
	*engine.Engine
	now  time.Duration
	evs  []engine.Event
	acts []engine.Action
	done int
	held []engine.Event // completions kept back, in the order of issue
}

// alike is an engine for a number of equal devices, which compute in host memory or
// have their own.
func alike(devices int, host bool, o engine.Options) *instant {
	m := &machine.Machine{Name: "alike", HostBPS: 1e10}
	for i := range devices {
		d := machine.Device{Name: fmt.Sprintf("cpu:%d", i), Backend: "cpu", Kind: machine.CPU, HostMemory: true, Rates: machine.Rates{MemoryBPS: 1e12}}
		d.Rates.Ops[graph.FP32] = 1e12
		if !host {
			d.Name, d.Backend, d.Kind, d.HostMemory, d.MemBytes = fmt.Sprintf("cuda:%d", i), "cuda", machine.Discrete, false, 1<<33
			m.Links = append(m.Links, machine.Link{A: machine.Host, B: machine.DeviceID(i), BPS: 1e10})
		}
		m.Devices = append(m.Devices, d)
	}
	o.Machine, o.Cost = m, machine.NewRoofline(m)
	return &instant{Engine: engine.New(o)}
}

// step takes in what happened; with hold the completion of launches is kept back.
func (x *instant) step(hold bool) {
	x.now += time.Microsecond
	x.acts = x.Step(x.now, x.evs, x.acts[:0])
	x.evs = x.evs[:0]
	for i := range x.acts {
		switch a := &x.acts[i]; a.Kind {
		case engine.Launch, engine.Copy:
			ev := engine.Event{Kind: engine.OpDone, Op: a.Op, Start: x.now, End: x.now}
			if hold && a.Kind == engine.Launch {
				x.held = append(x.held, ev)
			} else {
				x.evs = append(x.evs, ev)
			}
		case engine.Done:
			if x.done++; a.Run == 0 {
				x.EndFetch(a.Ref)
			}
		}
	}
}

// settle steps until nothing is left to complete.
func (x *instant) settle() {
	for more := true; more; more = len(x.evs) > 0 {
		x.step(false)
	}
}

// trickle steps until nothing is left to complete, with one completion in each step.
func (x *instant) trickle() {
	for more := true; more; {
		rest := x.evs[min(1, len(x.evs)):]
		x.evs = x.evs[:min(1, len(x.evs))]
		rest = append([]engine.Event(nil), rest...)
		x.step(false)
		x.evs = append(rest, x.evs...)
		more = len(x.evs) > 0
	}
}

// want fails the test unless done runs have ended.
func (x *instant) want(t *testing.T, done int) {
	t.Helper()
	if x.done != done {
		t.Fatalf("%d runs ended, want %d", x.done, done)
	}
}

// built ends a graph.
func built(t *testing.T, b *graph.Builder) *graph.Graph {
	t.Helper()
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// lone is a graph of one task.
func lone(t *testing.T, uses func(b *graph.Builder) []graph.Use) *graph.Graph {
	var b graph.Builder
	task := graph.Task{Steps: []graph.Step{{Kernel: abstract}}, Work: graph.Work{Ops: 1e9}}
	if uses != nil {
		task.Uses = uses(&b)
	}
	b.Add(task)
	return built(t, &b)
}

func cancelQueued(t *testing.T, n int) *engine.Engine {
	x := alike(2, true, engine.Options{})
	cancelAll(t, x, n)
	return x.Engine
}

func cancelRunning(t *testing.T, n int) *engine.Engine {
	x := alike(n, true, engine.Options{})
	cancelAll(t, x, n)
	return x.Engine
}

// cancelAll cancels n runs while nothing completes, and then lets them.
func cancelAll(t *testing.T, x *instant, n int) {
	g := lone(t, nil)
	for range n {
		x.evs = append(x.evs, engine.Event{Kind: engine.Cancel, Run: x.Submit(x.now, g, engine.RunOptions{})})
	}
	cancels := x.evs
	x.evs = nil
	x.step(true)
	x.evs = cancels
	x.step(true)
	x.evs = x.held
	x.settle()
	x.want(t, n)
}

// takeTurns has n runs update the same resident data.
func takeTurns(t *testing.T, n int) *engine.Engine {
	x := alike(2, true, engine.Options{})
	ref := x.NewData("x", 64, graph.Versioned)
	g := updated(t)
	for range n {
		x.Submit(x.now, g, engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: ref}}})
	}
	x.settle()
	x.want(t, n)
	return x.Engine
}

func updated(t *testing.T) *graph.Graph {
	return lone(t, func(b *graph.Builder) []graph.Use {
		return []graph.Use{{Data: b.Data(graph.Data{Bytes: 64, Input: true}), Access: graph.ReadWrite}}
	})
}

// waitEach has a run and one that waits for it, and somebody who wants to read, for
// each of n handles; the first runs end one by one.
func waitEach(t *testing.T, n int) *engine.Engine {
	x := alike(n, true, engine.Options{})
	g := updated(t)
	for range n {
		ref := x.NewData("x", 64, graph.Versioned)
		for range 2 {
			x.Submit(x.now, g, engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: ref}}})
		}
	}
	x.step(true)
	for ref := range n {
		x.Fetch(engine.DataRef(ref))
	}
	for i := 0; i < len(x.held); i++ {
		x.evs = append(x.evs, x.held[i])
		for len(x.evs) > 0 {
			x.step(true)
		}
	}
	x.want(t, 3*n)
	return x.Engine
}

// putMany makes n handles resident, reads and frees them, one by one.
func putMany(t *testing.T, n int) *engine.Engine {
	x := alike(2, true, engine.Options{})
	var refs []engine.DataRef
	for range n {
		refs = append(refs, x.NewData("x", 64, graph.Versioned))
		x.settle()
	}
	for _, ref := range refs {
		x.Fetch(ref)
		x.settle()
	}
	x.want(t, n)
	for _, ref := range refs {
		x.FreeData(ref)
		x.settle()
	}
	return x.Engine
}

// timeoutEach runs tasks with a timeout on n devices, ten on each, of which one
// completes in a step.
func timeoutEach(t *testing.T, n int) *engine.Engine {
	x := alike(n, true, engine.Options{TaskTimeout: time.Hour})
	tenEach(t, x, n)
	return x.Engine
}

// probeEach opens an engine of n devices that are probed at an interval.
func probeEach(_ *testing.T, n int) *engine.Engine {
	return alike(n, true, engine.Options{Health: engine.HealthRules{Probe: true, ProbeEvery: time.Hour}}).Engine
}

// limitAll does so where only some devices may have a task.
func limitAll(t *testing.T, n int) *engine.Engine {
	x := alike(n, true, engine.Options{Concurrent: 4})
	tenEach(t, x, n)
	return x.Engine
}

func tenEach(t *testing.T, x *instant, n int) {
	var b graph.Builder
	for range 10 * n {
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: abstract}}, Work: graph.Work{Ops: 1e9}})
	}
	x.Submit(x.now, built(t, &b), engine.RunOptions{})
	x.step(true)
	for i := 0; i < len(x.held); i++ {
		x.evs = append(x.evs, x.held[i])
		x.step(true)
		x.NextWake()
	}
	x.want(t, 1)
}

// cutUp has n tasks write a slice each of one handle, then read that with their
// neighbours' ends, then one read it whole.
func cutUp(t *testing.T, n int, host bool) *engine.Engine {
	var b graph.Builder
	whole := int64(n) * 16
	d := b.Data(graph.Data{Bytes: whole})
	add := func(lo, hi int64, a graph.Access) {
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: abstract}}, Uses: []graph.Use{{Data: d, Offset: lo, Bytes: hi - lo, Access: a}}, Work: graph.Work{Ops: 1e6}})
	}
	for i := range int64(n) {
		add(i*16, i*16+16, graph.Write)
	}
	for i := range int64(n) {
		add(max(i*16-4, 0), min(i*16+20, whole), graph.Read)
	}
	add(0, whole, graph.Read)
	x := alike(4, host, engine.Options{})
	x.Submit(x.now, built(t, &b), engine.RunOptions{})
	x.settle()
	x.want(t, 1)
	return x.Engine
}

// fanIn has n tasks write data of their own, and one read them all.
func fanIn(t *testing.T, n int) *engine.Engine {
	var b graph.Builder
	var all []graph.Use
	for range n {
		d := b.Data(graph.Data{Bytes: 64})
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: abstract}}, Uses: []graph.Use{{Data: d, Access: graph.Write}}, Work: graph.Work{Ops: 1e6}})
		all = append(all, graph.Use{Data: d, Access: graph.Read})
	}
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: abstract}}, Uses: all, Work: graph.Work{Ops: 1e6}})
	x := alike(4, false, engine.Options{})
	x.Submit(x.now, built(t, &b), engine.RunOptions{})
	x.settle()
	x.want(t, 1)
	return x.Engine
}

// vacateSlowly has a run compute n slices of resident data from n inputs of its own, which
// are larger: the slices are made durable before the run ends.
func vacateSlowly(t *testing.T, n int) *engine.Engine {
	x := alike(1, false, engine.Options{})
	ref := x.NewData("w", int64(n)*8, graph.Versioned)
	var b graph.Builder
	w := b.Data(graph.Data{Name: "w", Bytes: int64(n) * 8, Input: true})
	for i := range n {
		in := b.Data(graph.Data{Name: fmt.Sprint("in ", i), Bytes: 64, Input: true})
		b.Add(graph.Task{
			Steps: []graph.Step{{Kernel: abstract}}, Work: graph.Work{Ops: 1e9},
			Uses: []graph.Use{{Data: in}, {Data: w, Offset: int64(i) * 8, Bytes: 8, Access: graph.Write}},
		})
	}
	x.Submit(x.now, built(t, &b), engine.RunOptions{Bind: []engine.Binding{{Data: w, Ref: ref}}})
	x.trickle()
	x.want(t, 1)
	return x.Engine
}
