package weft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/task"
	"github.com/weft-run/weft/trace"
)

// Report is the account of a run. Times are since the runtime was opened.
type Report = trace.Report

// Run runs a graph and waits for it. Cancelling ctx stops launching, waits for
// what is in flight, which Go kernels end early that ask [Call.Stopped], at most for
// Options.CancelWait, and returns an error that wraps both the context's cause and
// ErrCancelled; it wraps ErrHeld as well where a Go kernel does not return, and memory
// bound to the run must be left alone then. The report comes with most errors too; it
// is nil when nothing began or something did not end. For a graph that is run often, see
// Prepare.
//
// A Go kernel cannot wait for a run of its own runtime: with [Call.Context], or a context
// derived from it, the run is not begun and the error wraps [ErrDeadlock]. With another context
// this is not seen. The run begins then once the kernel has kept others waiting for 2 s, and
// never if it needs data or host memory that the kernel's run has.
//
// With the context of a task that is a Go function (package task) Run lets other tasks run while it
// waits, as [task.Block] says, and so does every call of this package that waits and takes a context.
func (r *Runtime) Run(ctx context.Context, g *graph.Graph, b ...Binding) (*Report, error) {
	p, err := r.resolve(g, b)
	if err != nil {
		return nil, err
	}
	return p.Run(ctx)
}

// Submit starts a graph and returns at once; what is wrong with the bindings ends
// the run at once, too. then, when not nil, is called exactly once, when the run
// has ended or could not begin. It has a goroutine of its own, which may use the
// runtime but not close it: Close waits for callbacks under way.
func (r *Runtime) Submit(g *graph.Graph, then func(*Report, error), b ...Binding) *Handle {
	p, err := r.resolve(g, b)
	if err != nil {
		return r.refused(then, err)
	}
	return p.Submit(then)
}

// Handle is a run in progress.
type Handle struct {
	r    *Runtime
	job  *exec.Job // nil for a run that could not begin
	done chan struct{}
	rep  *Report
	err  error
}

// Done returns a channel that is closed when the run has ended.
func (h *Handle) Done() <-chan struct{} {
	if h == nil {
		panic(fmt.Errorf("weft: Done: %w", errNoHandle))
	}
	return h.done
}

// Wait waits for the run's end. A task that is a Go function calls it by [task.Block], since Wait has
// no context that says which task waits.
func (h *Handle) Wait() (*Report, error) {
	if h == nil {
		return nil, errNoHandle
	}
	<-h.done
	return h.rep, h.err
}

// Cancel ends the run early; Wait still returns, once what is in flight has ended or
// Options.CancelWait is over.
func (h *Handle) Cancel() {
	if h != nil && h.job != nil {
		h.r.x.Cancel(h.job)
	}
}

// end ends the handle's run.
func (h *Handle) end(rep *Report, err error, then func(*Report, error)) {
	h.rep, h.err = rep, err
	close(h.done)
	if then != nil {
		h.r.calls.start(func() { then(rep, err) })
	}
}

// refused is the handle of a run that could not begin.
func (r *Runtime) refused(then func(*Report, error), err error) *Handle {
	h := &Handle{r: r, done: make(chan struct{})}
	if r == nil && then != nil { // which no Close waits for
		go then(nil, err)
		then = nil
	}
	h.end(nil, err, then)
	return h
}

// errNoGraph is the error for a graph that is nil.
var errNoGraph = fmt.Errorf("%w: the graph is nil", graph.ErrValue)

// Prepared is a graph that was checked and resolved once, to be run often with
// new bindings. It is safe for concurrent use.
type Prepared struct {
	r     *Runtime
	g     *graph.Graph
	ports []port
	slots []Binding // what Prepare bound, by port; no name where nothing
	at    []int32   // port by data; -1 for none
	index map[string]int
	o     RunOptions
	idle  chan *call // calls that have ended
	of    *checked   // the task it executes of a run that is checked, on memory of that run; nil for none
	// beside is the most host memory that an execution of one task takes, where results are checked.
	beside int64
}

// RunOptions say how the runs of a prepared graph share the devices with others. What no field
// of [Prepared.With] said has the default named.
type RunOptions struct {
	// Priority is added to that of every task of the graph (0). A step is a head start of
	// 100 ms of service on runs with less, and no privilege: nothing starves.
	Priority int
	// Weight is the part of the devices a run gets relative to others at the same time (1).
	Weight float64
	// Concurrent is the largest number of its tasks that are given to devices and not
	// ended; 0 means no limit.
	Concurrent int
	// Timeout bounds each execution of a task that names none, as Options.TaskTimeout, which
	// it replaces; -1 means no bound.
	Timeout time.Duration
	// Retries is the number of times that a task may fail before its run does, in place of Options.Retries;
	// -1 means not at all. Above 0 it also has what Go kernels only read compared, so that they are tried
	// again too (see Options.Retries).
	Retries int
}

// check returns what is wrong with the options.
func (o *RunOptions) check() error {
	const most = 1_000_000 // a head start of more than a day
	switch {
	case o.Priority < -most || o.Priority > most:
		return fmt.Errorf("priority %d; use -%d to %d", o.Priority, most, most)
	case !(o.Weight >= 0) || o.Weight > most || o.Weight > 0 && o.Weight < 1.0/most:
		return fmt.Errorf("weight %v; use a number from 1e-6 to 1e6, or 0 for 1", o.Weight)
	case o.Concurrent < 0:
		return fmt.Errorf("concurrent %d; use 1 or more, or 0 for no limit", o.Concurrent)
	case o.Timeout < -1:
		return fmt.Errorf("timeout %v; use a time, or -1 for no bound", o.Timeout)
	case o.Retries < -1:
		return fmt.Errorf("retries %d; use 0 or more, or -1 for none", o.Retries)
	}
	return nil
}

// With returns the prepared graph with options for its runs, in addition to those that it has:
// a field that is not zero replaces what an earlier With said, and one that is zero leaves it.
// The prepared graph it is called on stays as it is.
func (p *Prepared) With(o RunOptions) (*Prepared, error) {
	if p == nil {
		return nil, errNoPrepared
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("%w: run: %w", ErrOptions, err)
	}
	out := *p
	out.o, out.idle = RunOptions{
		Priority: cmp.Or(o.Priority, p.o.Priority), Weight: cmp.Or(o.Weight, p.o.Weight), Concurrent: cmp.Or(o.Concurrent, p.o.Concurrent),
		Timeout: cmp.Or(o.Timeout, p.o.Timeout), Retries: cmp.Or(o.Retries, p.o.Retries),
	}, make(chan *call, maxIdle)
	return &out, nil
}

// port is data of a graph that the outside is bound to.
type port struct {
	name  string
	data  graph.DataID
	bytes int64
	inner bool // neither input nor output
	// output says that runs write the memory bound to it; that of other ports is read.
	output bool
	// written says that runs give it a new value, which resident data bound to it has after.
	written bool
}

// fewPorts is the number of ports up to which a linear search is faster than an index.
const fewPorts = 8

// maxIdle is the number of calls that a Prepared keeps for reuse. More rarely run at the
// same time.
const maxIdle = 16

// Prepare makes a graph ready to be run often. It checks that devices take the code
// its kernels are in and that Options.Funcs has their Go functions, and what its inputs
// and outputs are. Bindings given here hold for every run that does not
// bind the same data anew. Short tasks that can only run one after
// another become one task of several steps (see graph.Fuse), which costs less and
// which CUDA replays as a graph; Prepared.Graph tells what came of it.
func (r *Runtime) Prepare(g *graph.Graph, b ...Binding) (*Prepared, error) {
	if r == nil {
		return nil, fmt.Errorf("prepare: %w", errNoRuntime)
	}
	if g == nil {
		return nil, fmt.Errorf("prepare: %w", errNoGraph)
	}
	for _, k := range g.Kernels() {
		if err := r.unable(k); err != nil {
			return nil, fmt.Errorf("prepare: %w: %w", ErrNoDevice, err)
		}
	}
	p, err := r.resolve(r.fuse(g), b)
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	p.idle = make(chan *call, maxIdle)
	return p, nil
}

// unable says why no device can run a kernel, nil if one can. Which Go functions there are
// is known where the program brings no drivers of its own.
func (r *Runtime) unable(k *graph.Kernel) error {
	if why := r.machine.Unable(k); why != "" {
		return errors.New(why)
	}
	if r.registered == nil {
		return nil
	}
	missing := ""
	rest := graph.Kernel{Name: k.Name}
	for _, impl := range k.Impls {
		if impl.Dialect == graph.Go && impl.Entry != "" && r.registered[impl.Entry] == nil && cpu.Probes()[impl.Entry] == nil {
			missing = cmp.Or(missing, impl.Entry)
			continue
		}
		rest.Impls = append(rest.Impls, impl)
	}
	if missing == "" || r.machine.Unable(&rest) == "" {
		return nil
	}
	if near, ok := text.Nearest(missing, slices.Collect(maps.Keys(r.o.Funcs))); ok {
		return fmt.Errorf("kernel %q: %w: %q; did you mean %q?", k.Name, ErrNoFunc, missing, near)
	}
	if len(r.o.Funcs) == 0 {
		return fmt.Errorf("kernel %q: %w: %q; Options.Funcs brings them, and it is empty", k.Name, ErrNoFunc, missing)
	}
	return fmt.Errorf("kernel %q: %w: %q", k.Name, ErrNoFunc, missing)
}

// Graph returns the graph as it is run. The tasks that errors, reports, traces and
// explanations of its runs name are those of this graph.
func (p *Prepared) Graph() *graph.Graph {
	if p == nil {
		panic(fmt.Errorf("weft: Graph: %w", errNoPrepared))
	}
	return p.g
}

// resolve finds a graph's ports and puts bindings to them.
func (r *Runtime) resolve(g *graph.Graph, bs []Binding) (*Prepared, error) {
	if r == nil {
		return nil, errNoRuntime
	}
	if g == nil {
		return nil, errNoGraph
	}
	p := &Prepared{r: r, g: g, at: make([]int32, g.NumData())}
	for i := range p.at {
		p.at[i] = -1
		if d := g.Data(graph.DataID(i)); d.Input || d.Output {
			p.addPort(graph.DataID(i), false)
		}
	}
	// Resident data may also stand for what is neither input nor output.
	for _, b := range bs {
		if d, ok := g.Lookup(b.Name); ok && p.at[d] < 0 {
			if b.res == nil {
				return nil, fmt.Errorf("%w: data %q is neither input nor output", ErrBinding, b.Name)
			}
			p.addPort(d, true)
		}
	}
	if len(p.ports) > fewPorts {
		p.index = make(map[string]int, len(p.ports))
		for i := range p.ports {
			p.index[p.ports[i].name] = i
		}
	}
	if err := r.possible(p); err != nil {
		return nil, err
	}
	if r.verify != nil {
		p.beside = p.executionBytes()
	}
	p.slots = make([]Binding, len(p.ports))
	return p, p.fill(p.slots, bs)
}

// possible returns ErrOutOfMemory if one allocation of a task, a piece of data or its workspace, exceeds physical
// memory and all devices share that: the Go runtime would otherwise abort the process. Memory that the program
// bound exists already and does not count.
func (r *Runtime) possible(p *Prepared) error {
	most := r.most
	tooLarge := func(id graph.DataID, bytes int64) bool { return p.at[id] < 0 && bytes > most }
	if most == 0 || slices.ContainsFunc(r.machine.Devices, func(d machine.Device) bool { return !d.HostMemory }) {
		return nil
	}
	large := false // hardly ever: tasks need not be looked at
	for i := range p.at {
		large = large || tooLarge(graph.DataID(i), p.g.Data(graph.DataID(i)).Bytes)
	}
	for _, id := range p.g.Flow().ShapeTask { // tasks of a shape have the same workspace
		if t := p.g.Task(id); t.Workspace > most {
			return fmt.Errorf("task %q needs a workspace of %s and there are %s: %w", p.g.TaskName(id),
				text.FormatSize(t.Workspace), text.FormatSize(most), ErrOutOfMemory)
		}
	}
	for i := 0; large && i < p.g.NumTasks(); i++ {
		for _, u := range p.g.Task(graph.TaskID(i)).Uses {
			d := p.g.Data(u.Data)
			if n := cmp.Or(u.Bytes, d.Bytes-u.Offset); tooLarge(u.Data, n) {
				return fmt.Errorf("task %q needs %s of data %q and there are %s: %w", p.g.TaskName(graph.TaskID(i)),
					text.FormatSize(n), d.Name, text.FormatSize(most), ErrOutOfMemory)
			}
		}
	}
	return nil
}

func (p *Prepared) addPort(id graph.DataID, inner bool) {
	d, f := p.g.Data(id), p.g.Flow()
	p.at[id] = int32(len(p.ports))
	written := slices.ContainsFunc(f.Last[f.PieceOff[id]:f.PieceOff[id+1]], func(last int32) bool { return last >= f.NumInitial })
	p.ports = append(p.ports, port{name: d.Name, data: id, bytes: d.Bytes, inner: inner, output: d.Output, written: written})
}

// find returns the port of a name, -1 for none.
func (p *Prepared) find(name string) int {
	if p.index != nil {
		if i, ok := p.index[name]; ok {
			return i
		}
		return -1
	}
	for i := range p.ports {
		if p.ports[i].name == name {
			return i
		}
	}
	return -1
}

// fill puts bindings into the slots of their ports and checks them.
func (p *Prepared) fill(slots []Binding, bs []Binding) error {
	var bound map[int]bool // ports
	if len(bs) > fewPorts {
		bound = make(map[int]bool, len(bs))
	}
	for k := range bs {
		b := &bs[k]
		i := p.find(b.Name)
		if i < 0 {
			return fmt.Errorf("%w: the graph has no input or output %q", ErrBinding, b.Name)
		}
		if bound[i] || bound == nil && slices.ContainsFunc(bs[:k], func(o Binding) bool { return o.Name == b.Name }) {
			return fmt.Errorf("%w: data %q is bound twice", ErrBinding, b.Name)
		}
		if bound != nil {
			bound[i] = true
		}
		pt := &p.ports[i]
		n := int64(len(b.mem))
		if b.res != nil {
			n = b.res.bytes
			if b.res.r != p.r {
				return fmt.Errorf("%w: data %q: %q belongs to another runtime", ErrBinding, b.Name, b.res.name)
			}
			if p.g.Data(pt.data).Secret {
				b.res.secret.Store(true)
			}
		} else if b.err != nil {
			return fmt.Errorf("%w: data %q: %w", ErrBinding, b.Name, b.err)
		} else if pt.inner {
			return fmt.Errorf("%w: data %q is neither input nor output", ErrBinding, b.Name)
		}
		if n != pt.bytes {
			return fmt.Errorf("%w: data %q has %s and is bound to %d", ErrBinding, b.Name, text.Count(pt.bytes, "byte"), n)
		}
		slots[i] = *b
	}
	return nil
}

// call is one run of a prepared graph. It holds all that a run needs, so that
// one that has ended makes the next one cheap.
type call struct {
	p      *Prepared
	job    exec.Job
	slots  []Binding // by port
	claims []claim   // by port; of no call unless the run is in progress
	checks *checks   // nil if nothing of the run is checked
	end    chan exec.End
}

// newCall returns a call with bindings, the prepared ones and these.
func (p *Prepared) newCall(bs []Binding) (*call, error) {
	var c *call
	select {
	case c = <-p.idle:
	default:
		c = &call{p: p, slots: make([]Binding, len(p.ports)), claims: make([]claim, len(p.ports)), end: make(chan exec.End, 1)}
		c.job.Memory, c.job.Check = c.memory, c.begin
		c.job.Options = engine.RunOptions{Priority: p.o.Priority, Weight: p.o.Weight, Concurrent: p.o.Concurrent, Timeout: p.o.Timeout, Retries: p.o.Retries}
		c.job.Free = func() { p.r.claims.release(c) }
		c.job.Done = func(rep *engine.Report, err error) {
			p.r.tell(c.end, rep, c.ended(rep, err))
		}
	}
	c.job.Graph, c.checks = p.g, nil
	copy(c.slots, p.slots)
	if err := p.fill(c.slots, bs); err != nil {
		return nil, err
	}
	o := &c.job.Options
	o.Bind = o.Bind[:0]
	for i := range c.slots {
		switch s := &c.slots[i]; {
		case s.res != nil:
			o.Bind = append(o.Bind, engine.Binding{Data: p.ports[i].data, Ref: s.res.ref})
		case s.Name == "" && !p.ports[i].inner:
			return nil, fmt.Errorf("%w: nothing is bound to data %q", ErrBinding, p.ports[i].name)
		}
	}
	if p.of != nil {
		c.job.For, o.OfTask, o.Compare = p.of.of.job, p.of.id, true
		return c, nil
	}
	o.Beside = 0
	if c.job.Graph, c.checks = p.r.verify.begin(p.g, p.o); c.checks != nil {
		c.checks.job = &c.job
		o.Beside = p.beside
	}
	return c, nil
}

// executionBytes is the most host memory that an execution of one task takes, beside the memory of
// its results: for what it updates once more, since its input is kept until it has ended.
func (p *Prepared) executionBytes() (most int64) {
	if p.r.o.HostBytes == 0 {
		return 0
	}
	for i := range p.g.NumTasks() {
		t := p.g.Task(graph.TaskID(i))
		n := t.Workspace
		for _, u := range t.Uses {
			if u.Access.Writes() {
				n += u.Bytes
			}
			if u.Access == graph.ReadWrite {
				n += u.Bytes
			}
		}
		most = max(most, n)
	}
	return most
}

// begin errs when data of the call was released or would be written twice, or its memory
// is in use. The executor asks on its loop, where data is also given up: what passes stays
// until the run has ended.
func (c *call) begin() error {
	for i := range c.slots {
		if s := &c.slots[i]; s.res != nil {
			if s.res.check() != nil {
				return fmt.Errorf("%w: data %q: %q was released", ErrBinding, s.Name, s.res.name)
			}
			s.res.writer, s.res.port = -1, -1
		}
	}
	for i := range c.slots {
		res := c.slots[i].res
		if res == nil {
			continue
		}
		if first := res.port; first >= 0 {
			if err := c.p.sameCut(int(first), i, res); err != nil {
				return err
			}
		}
		res.port = int32(i)
		if !c.p.ports[i].written {
			continue
		}
		if res.writer >= 0 {
			return fmt.Errorf("%w: %q is bound to data %q and to data %q, and the graph writes both", ErrBinding, res.name, c.p.ports[res.writer].name, c.p.ports[i].name)
		}
		res.writer = int32(i)
	}
	if c.p.of != nil {
		return nil
	}
	return c.p.r.claims.claim(c)
}

// sameCut errs if the graph cuts the data of two ports, to which the same resident data is bound, in other
// pieces. The values of resident data are those of its pieces.
func (p *Prepared) sameCut(i, j int, res *resident) error {
	f := p.g.Flow()
	pieces := func(d graph.DataID) []graph.Piece { return f.Pieces[f.PieceOff[d]:f.PieceOff[d+1]] }
	a, b := pieces(p.ports[i].data), pieces(p.ports[j].data)
	if slices.EqualFunc(a, b, func(a, b graph.Piece) bool { return a.Hi == b.Hi }) {
		return nil
	}
	return fmt.Errorf("%w: %q is bound to data %q and to data %q, which the graph cuts differently, in %d and %d pieces: have tasks use both in the same slices, or bind two and swap them from run to run",
		ErrBinding, res.name, p.ports[i].name, p.ports[j].name, len(a), len(b))
}

// ended puts what was checked into the report, and counts the run for the resident data that it
// gave another value: none if it failed. It returns the error that the caller is told.
func (c *call) ended(rep *Report, err error) error {
	err = c.p.r.verify.end(c.checks, rep, err)
	for i := range c.slots {
		if res := c.slots[i].res; err == nil && res != nil && c.p.ports[i].written {
			res.writes.Add(1)
			res.by.Store(int64(rep.Run))
		}
	}
	return err
}

// tell says that a run has ended, after all that Options.Explain is told of it.
func (r *Runtime) tell(end chan<- exec.End, rep *engine.Report, err error) {
	if r.o.Explain == nil {
		end <- exec.End{Report: rep, Err: err}
		return
	}
	r.calls.inOrder(func() { end <- exec.End{Report: rep, Err: err} })
}

// memory is the caller's memory for data of the graph.
func (c *call) memory(d graph.DataID) []byte { return c.slots[c.p.at[d]].mem }

// recycle keeps a call that has ended for the next run.
func (p *Prepared) recycle(c *call) {
	clear(c.slots) // the memory is the caller's again
	select {
	case p.idle <- c:
	default:
	}
}

// Run runs the graph with new bindings and waits, as Runtime.Run does.
func (p *Prepared) Run(ctx context.Context, b ...Binding) (*Report, error) {
	need("Run", ctx, true)
	if p == nil {
		return nil, errNoPrepared
	}
	if err := p.r.inKernel(ctx); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", context.Cause(ctx), ErrCancelled)
	}
	c, err := p.newCall(b)
	if err != nil {
		return nil, err
	}
	told := func() {}
	if fn, ok := ctx.Value(progressKey{}).(func(Progress)); ok {
		told = p.r.follow(&c.job, fn)
	}
	p.r.x.Start(&c.job)
	var e exec.End
	var cancelled bool
	task.Block(ctx, func() {
		e, cancelled = p.r.x.Wait(ctx, &c.job, c.end)
		told()
	})
	if !cancelled {
		p.recycle(c)
	}
	return p.r.named(e.Report), e.Err
}

// inKernel errs if ctx is that of a Go kernel which the runtime runs.
func (r *Runtime) inKernel(ctx context.Context) error {
	if !r.x.Launched(ctx) {
		return nil
	}
	return fmt.Errorf("%w: a kernel would wait for the runtime that it is run by: add its tasks to the graph, run the second graph when the first has ended, or use another Runtime", ErrDeadlock)
}

// Submit starts the graph with new bindings and returns at once, as
// Runtime.Submit does.
func (p *Prepared) Submit(then func(*Report, error), b ...Binding) *Handle {
	if p == nil {
		return (*Runtime)(nil).refused(then, errNoPrepared)
	}
	c, err := p.newCall(b)
	if err != nil {
		return p.r.refused(then, err)
	}
	// The handle outlives the run, and may cancel it: this call is not reused.
	h := &Handle{r: p.r, job: &c.job, done: make(chan struct{})}
	c.job.Done = func(rep *engine.Report, err error) {
		err = c.ended(rep, err)
		if p.r.o.Explain == nil {
			h.end(p.r.named(rep), err, then)
			return
		}
		p.r.calls.inOrder(func() { h.end(p.r.named(rep), err, then) })
	}
	p.r.x.Start(&c.job)
	return h
}

// named adds to a report what it says about the machine.
func (r *Runtime) named(rep *Report) *Report {
	if rep != nil {
		rep.Names, rep.Lanes, rep.LeftOut = r.names, r.lanes, r.leftOut
	}
	return rep
}
