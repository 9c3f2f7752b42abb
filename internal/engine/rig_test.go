package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

const ms = time.Millisecond

// errBoom is what operations fail with that a rig was told to fail.
var errBoom = errors.New("boom")

// rig is the smallest loop around an engine: operations take as long as the
// cost model says, start when their lane and what they wait for let them, and
// fail or never end where a test says so.
type rig struct {
	t    *testing.T
	m    *machine.Machine
	cost machine.Cost
	e    *engine.Engine
	now  time.Duration

	// What a test wants to happen to tasks, by name.
	hang map[string]bool
	held *op            // an operation that does not end before it is told to
	hold func(*op) bool // likewise all of them for which it is true
	mute bool           // a device that is dropped does not become quiet by itself
	fail map[string]int // how many times
	// outcome, when set, says how a launch ends that nothing else lets fail.
	outcome func(task, dev string) engine.Status
	// failCopy, when set, says whether a copy fails.
	failCopy func(c copied) bool
	// onLaunch, when set, is told of every launch at the end of its step.
	onLaunch func(*op)
	// answer, when set, is what a Recover action leads to.
	answer func(dev machine.DeviceID, rung engine.Rung) (engine.Event, bool)
	// probe says what is wrong with the answer of a probe that ended; nil for nothing ever.
	probe func(dev machine.DeviceID) error

	probes    map[engine.RunID]machine.DeviceID // under way
	ops       []*op                             // in flight
	afterDrop []*op                             // on dropped devices that are not quiet
	failed    map[engine.Op]bool
	last      map[engine.Lane]uint32 // completed or given up
	events    []engine.Event         // for the next step
	insts     map[engine.Inst]string // which data they hold, once known
	host      map[engine.Inst]int64  // bytes allocated in host memory
	size      map[engine.Inst]int64  // bytes of every buffer
	names     map[engine.RunID]*graph.Graph

	// What happened, in order.
	launched []string // "task@device"
	ran      []string // the same, once successful
	copies   []copied
	rungs    []string // "device rung"
	drops    []string
	stops    []string // launches whose result is not needed
	acts     []string // every action, for comparing two rigs
	ended    map[engine.RunID]engine.Action
	fetched  []engine.DataRef
	fetchErr error // of the last of them
	peak     int   // launches in flight at once
}

type op struct {
	a       engine.Action
	what    string
	start   time.Duration
	started bool
}

// copied is a copy that was issued.
type copied struct {
	data     string
	from, to string
	at       time.Duration
}

func (c copied) String() string { return fmt.Sprintf("%s %s>%s", c.data, c.from, c.to) }

func newRig(t *testing.T, m *machine.Machine, o engine.Options) *rig {
	t.Helper()
	o.Machine = m
	if o.Cost == nil {
		o.Cost = machine.NewRoofline(m)
	}
	return &rig{
		t: t, m: m, cost: o.Cost, e: engine.New(o),
		hang: make(map[string]bool), fail: make(map[string]int),
		failed: make(map[engine.Op]bool), last: make(map[engine.Lane]uint32),
		insts: map[engine.Inst]string{}, host: map[engine.Inst]int64{}, size: map[engine.Inst]int64{}, names: map[engine.RunID]*graph.Graph{},
		ended: map[engine.RunID]engine.Action{}, probes: map[engine.RunID]machine.DeviceID{},
	}
}

// gpus is a machine of n equal GPUs gpu:0 … with memory of their own, each with
// a link of 1 GB/s to the host. A task of 1e6 operations takes 1 ms.
func gpus(n int, memBytes int64) *machine.Machine {
	m := &machine.Machine{Name: "gpus", HostBPS: 1e9}
	for i := range n {
		d := machine.Device{Name: fmt.Sprintf("gpu:%d", i), Kind: machine.Discrete, Backend: "cuda", MemBytes: memBytes}
		d.Rates.Ops[graph.FP32] = 1e9
		m.Devices = append(m.Devices, d)
		m.Links = append(m.Links, machine.Link{A: machine.DeviceID(i), B: machine.Host, BPS: 1e9})
	}
	return m
}

// cpus is a machine of n devices cpu:0 … in host memory, as fast as gpus.
func cpus(n int) *machine.Machine {
	m := &machine.Machine{Name: "cpus", HostBPS: 1e9}
	for i := range n {
		d := machine.Device{Name: fmt.Sprintf("cpu:%d", i), Kind: machine.CPU, Backend: "cpu", HostMemory: true}
		d.Rates.Ops[graph.FP32] = 1e9
		m.Devices = append(m.Devices, d)
	}
	return m
}

var anywhere = &graph.Kernel{Name: "k", Impls: []graph.Impl{{Dialect: graph.Abstract}}}

// job is a task of a number of milliseconds.
func job(name string, millis float64, uses ...graph.Use) graph.Task {
	return graph.Task{Name: name, Steps: []graph.Step{{Kernel: anywhere}}, Uses: uses, Work: graph.Work{Ops: millis * 1e6}}
}

func reads(d graph.DataID) graph.Use   { return graph.Use{Data: d, Access: graph.Read} }
func writes(d graph.DataID) graph.Use  { return graph.Use{Data: d, Access: graph.Write} }
func updates(d graph.DataID) graph.Use { return graph.Use{Data: d, Access: graph.ReadWrite} }

func build(t *testing.T, fn func(b *graph.Builder)) *graph.Graph {
	t.Helper()
	var b graph.Builder
	fn(&b)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// chain is n tasks c0 … of a number of milliseconds, each updating data x,
// which is 1000 bytes of input and output.
func chain(t *testing.T, n int, millis float64, kind graph.Durability) *graph.Graph {
	return build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 1000, Input: true, Output: true, Durability: kind})
		for i := range n {
			b.Add(job(fmt.Sprintf("c%d", i), millis, updates(x)))
		}
	})
}

// independent is n tasks t0 … of a number of milliseconds that share nothing, each
// writing data of 8 bytes that no task reads.
func independent(t *testing.T, n int, millis float64) *graph.Graph {
	return build(t, func(b *graph.Builder) {
		for i := range n {
			d := b.Data(graph.Data{Name: fmt.Sprintf("d%d", i), Bytes: 8})
			b.Add(job(fmt.Sprintf("t%d", i), millis, writes(d)))
		}
	})
}

func (r *rig) submit(g *graph.Graph, o engine.RunOptions) engine.RunID {
	id := r.e.Submit(r.now, g, o)
	r.names[id] = g
	return id
}

// step tells the engine what happened and takes in what it wants done.
func (r *rig) step(evs ...engine.Event) {
	r.t.Helper()
	evs = append(r.events, evs...)
	r.events = nil
	for _, a := range r.e.Step(r.now, evs, nil) {
		a.Waits, a.Args = slices.Clone(a.Waits), slices.Clone(a.Args)
		r.take(a)
	}
	flight := 0
	for _, o := range r.ops {
		if o.a.Kind == engine.Launch {
			flight++
		}
	}
	r.peak = max(r.peak, flight)
	for _, o := range r.ops {
		if waits, broken := r.waits(o); !o.started && !waits && !broken {
			o.start, o.started = r.now, true
		}
	}
}

// waits reports whether an operation has to wait for others, and whether one
// that it waits for has failed.
func (r *rig) waits(o *op) (waits, broken bool) {
	waits = o.a.Op.Seq != r.last[o.a.Op.Lane]+1
	for _, w := range o.a.Waits {
		waits = waits || w.Seq > r.last[w.Lane]
		broken = broken || r.failed[w]
	}
	return waits, broken
}

func (r *rig) take(a engine.Action) {
	shown := a
	shown.Graph, shown.Report, shown.Err = nil, nil, nil
	r.acts = append(r.acts, fmt.Sprintf("%v %+v %v", r.now, shown, a.Err))
	switch dev := r.m.DeviceName(a.Device); a.Kind {
	case engine.Home:
		r.size[a.Inst] = a.Bytes
		if a.Run != 0 {
			r.insts[a.Inst] = r.names[a.Run].Data(a.Data).Name
		} else {
			r.insts[a.Inst] = fmt.Sprintf("resident %d", a.Ref)
		}
	case engine.Alloc:
		r.size[a.Inst] = a.Bytes
		if r.m.MemoryOf(a.Device) == machine.Host {
			r.host[a.Inst] = a.Bytes
			r.withinHost()
		}
	case engine.Free:
		delete(r.host, a.Inst)
		for _, o := range slices.Concat(r.ops, r.afterDrop) {
			if o.a.Kind == engine.Copy && (o.a.Src == a.Inst || o.a.Dst == a.Inst) ||
				slices.ContainsFunc(o.a.Args, func(g engine.Arg) bool { return g.Inst == a.Inst }) {
				r.t.Errorf("at %v: instance %d is freed while %s uses it", r.now, a.Inst, o.what)
			}
		}
		delete(r.insts, a.Inst)
	case engine.Copy:
		name := r.insts[a.Src]
		r.insts[a.Dst] = name
		c := copied{name, r.m.DeviceName(a.From), dev, r.now}
		r.copies = append(r.copies, c)
		r.within(a.Src, a.SrcOff, a.Bytes, c.String())
		r.within(a.Dst, a.DstOff, a.Bytes, c.String())
		r.ops = append(r.ops, &op{a: a, what: c.String()})
	case engine.Launch:
		name := a.Graph.TaskName(a.Task)
		for k, u := range a.Graph.Task(a.Task).Uses {
			if a.Graph.Task(a.Task).Gang <= 1 {
				if r.insts[a.Args[k].Inst] == "" {
					r.insts[a.Args[k].Inst] = a.Graph.Data(u.Data).Name
				}
			}
		}
		for _, g := range a.Args {
			r.within(g.Inst, g.Offset, g.Bytes, name)
		}
		r.launched = append(r.launched, name+"@"+dev)
		r.ops = append(r.ops, &op{a: a, what: name + "@" + dev})
		if r.onLaunch != nil {
			r.onLaunch(r.ops[len(r.ops)-1])
		}
	case engine.Drop:
		r.drops = append(r.drops, dev)
		before := r.ops
		r.ops = slices.Clone(r.ops)
		r.giveUp(a.Device)
		if !r.mute {
			r.events = append(r.events, engine.Event{Kind: engine.DeviceQuiet, Device: a.Device})
			return
		}
		for _, o := range before {
			if o.started && !slices.Contains(r.ops, o) {
				r.afterDrop = append(r.afterDrop, o)
			}
		}
	case engine.Stop:
		for _, o := range r.ops {
			if o.a.Op == a.Op {
				r.stops = append(r.stops, o.what)
			}
		}
	case engine.Recover:
		r.rungs = append(r.rungs, dev+" "+a.Rung.String())
		if r.answer != nil {
			if ev, ok := r.answer(a.Device, a.Rung); ok {
				r.events = append(r.events, ev)
			}
		}
	case engine.Probe:
		r.startProbe(a.Device)
	case engine.Done:
		if dev, ok := r.probes[a.Run]; ok {
			delete(r.probes, a.Run)
			if a.Err == nil && r.probe != nil {
				a.Err = r.probe(dev)
			}
			r.events = append(r.events, engine.Event{Kind: engine.Probed, Device: dev, Err: a.Err})
			return
		}
		if a.Run == 0 {
			r.fetched, r.fetchErr = append(r.fetched, a.Ref), a.Err
			if a.Err == nil {
				r.e.EndFetch(a.Ref)
			}
			return
		}
		if _, twice := r.ended[a.Run]; twice {
			r.t.Errorf("run %d ended twice", a.Run)
		}
		r.ended[a.Run] = a
	}
}

// startProbe submits the run that probes a device.
func (r *rig) startProbe(dev machine.DeviceID) {
	g := build(r.t, func(b *graph.Builder) {
		question := b.Data(graph.Data{Name: "question", Bytes: 8, Input: true})
		t := job("probe", 0.1, reads(question), writes(b.Data(graph.Data{Name: "answer", Bytes: 8, Output: true})))
		t.On.Only = []string{r.m.Devices[dev].Name}
		b.Add(t)
	})
	r.probes[r.submit(g, engine.RunOptions{Probe: true, Retries: -1})] = dev
}

// within checks that what an operation touches of a buffer lies in it.
func (r *rig) within(i engine.Inst, lo, bytes int64, what string) {
	if lo < 0 || lo+bytes > r.size[i] {
		r.t.Errorf("at %v: %s touches bytes %d to %d of instance %d, which has %d", r.now, what, lo, lo+bytes, i, r.size[i])
	}
}

// withinHost checks that no more of host memory is allocated than there is.
func (r *rig) withinHost() {
	used := int64(0)
	for _, n := range r.host {
		used += n
	}
	if limit := r.m.HostBytes; limit > 0 && used > limit {
		r.t.Errorf("at %v: %d bytes of host memory are allocated, of %d", r.now, used, limit)
	}
}

// giveUp forgets the operations in flight on a device's lanes.
func (r *rig) giveUp(dev machine.DeviceID) {
	lanes := r.e.Lanes()
	r.ops = slices.DeleteFunc(r.ops, func(o *op) bool {
		if lanes[o.a.Op.Lane].Device != dev {
			return false
		}
		r.failed[o.a.Op] = true
		r.last[o.a.Op.Lane] = max(r.last[o.a.Op.Lane], o.a.Op.Seq)
		return true
	})
}

// lose takes a device away; kept says its memory survives.
func (r *rig) lose(dev machine.DeviceID, kept bool) {
	r.giveUp(dev)
	r.step(engine.Event{Kind: engine.DeviceLost, Device: dev, Kept: kept})
}

func (r *rig) back(dev machine.DeviceID, kept bool) {
	r.step(engine.Event{Kind: engine.DeviceBack, Device: dev, Kept: kept})
}

func (r *rig) sample(dev machine.DeviceID, s engine.Sample) {
	r.step(engine.Event{Kind: engine.Telemetry, Device: dev, Sample: &s})
}

// advance goes to the next completion, or to when
// the engine wants to be woken, whichever is sooner. It returns false when
// nothing is left that would happen.
func (r *rig) advance() bool {
	r.t.Helper()
	if len(r.events) > 0 {
		r.step()
		return true
	}
	at, next := time.Duration(-1), (*op)(nil)
	status := engine.OK
	for _, o := range r.ops {
		if _, broken := r.waits(o); broken && o.a.Op.Seq == r.last[o.a.Op.Lane]+1 {
			next, at, status = o, r.now, engine.DepFailed
			break
		}
		if !o.started {
			continue
		}
		end := o.start + r.takes(o)
		if !r.hung(o) && (at < 0 || end < at) {
			at, next, status = end, o, engine.OK
		}
	}
	if wake, ok := r.e.NextWake(); ok && (next == nil || wake < at) {
		r.now = wake
		r.step()
		return true
	}
	if next == nil {
		return false
	}
	r.now = max(r.now, at)
	r.end(next, status)
	return true
}

func (r *rig) hung(o *op) bool {
	return o == r.held || r.hold != nil && r.hold(o) || o.a.Kind == engine.Launch && r.hang[o.a.Graph.TaskName(o.a.Task)]
}

func (r *rig) takes(o *op) time.Duration {
	if o.a.Kind == engine.Launch {
		return r.cost.Task(o.a.Graph.Task(o.a.Task), o.a.Device).Median
	}
	return r.cost.Copy(o.a.Bytes, o.a.From, o.a.Device).Median
}

// end completes an operation, as a failure when the test wants one.
func (r *rig) end(o *op, st engine.Status) {
	r.t.Helper()
	var err error
	if st == engine.OK && o.a.Kind == engine.Launch {
		if name := o.a.Graph.TaskName(o.a.Task); r.fail[name] > 0 {
			r.fail[name]--
			st, err = engine.Failed, errBoom
		} else if r.outcome != nil {
			if st = r.outcome(name, r.m.DeviceName(o.a.Device)); st != engine.OK {
				err = errBoom
			}
		}
		if st == engine.OK {
			r.ran = append(r.ran, o.what)
		}
	}
	if st == engine.OK && o.a.Kind == engine.Copy && r.failCopy != nil &&
		r.failCopy(copied{r.insts[o.a.Src], r.m.DeviceName(o.a.From), r.m.DeviceName(o.a.Device), r.now}) {
		st, err = engine.Failed, errBoom
	}
	if st != engine.OK {
		r.failed[o.a.Op] = true
	}
	r.last[o.a.Op.Lane] = o.a.Op.Seq
	r.ops = slices.DeleteFunc(r.ops, func(p *op) bool { return p == o })
	start := o.start
	if !o.started {
		start = r.now
	}
	r.step(engine.Event{Kind: engine.OpDone, Op: o.a.Op, Status: st, Err: err, Start: start, End: r.now})
}

// until goes on until a condition holds.
func (r *rig) until(what string, cond func() bool) {
	r.t.Helper()
	r.step()
	for n := 0; !cond(); n++ {
		if n > 100_000 || !r.advance() {
			r.t.Fatalf("at %v: never %s; ran %v, in flight %v, ended %v", r.now, what, r.ran, r.inFlight(), r.ended)
		}
	}
}

// finish goes on until runs have ended and returns the error of the first.
func (r *rig) finish(ids ...engine.RunID) error {
	r.t.Helper()
	for _, id := range ids {
		r.until(fmt.Sprintf("the end of run %d", id), func() bool { _, ok := r.ended[id]; return ok })
	}
	return r.ended[ids[0]].Err
}

// starts goes on until a task runs.
func (r *rig) starts(task string) {
	r.t.Helper()
	r.until(task+" running", func() bool {
		return slices.ContainsFunc(r.ops, func(o *op) bool {
			return o.a.Kind == engine.Launch && o.started && strings.HasPrefix(o.what, task+"@")
		})
	})
}

// inFlight lists operations in flight.
func (r *rig) inFlight() []string {
	var out []string
	for _, o := range r.ops {
		out = append(out, o.what)
	}
	return out
}

// launchedOn returns how many launches went to a device.
func (r *rig) launchedOn(dev string) int {
	n := 0
	for _, l := range r.launched {
		if strings.HasSuffix(l, "@"+dev) {
			n++
		}
	}
	return n
}

// count returns how often a task was launched.
func (r *rig) count(task string) int {
	n := 0
	for _, l := range r.launched {
		if strings.HasPrefix(l, task+"@") {
			n++
		}
	}
	return n
}

func (r *rig) mustRun(id engine.RunID) *engine.Report {
	r.t.Helper()
	if err := r.finish(id); err != nil {
		r.t.Fatalf("run %d: %v", id, err)
	}
	return r.ended[id].Report
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func equalLists(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v is not %q", err, want)
	}
}
