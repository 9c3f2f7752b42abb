package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// RunOptions say how one graph is to be run.
type RunOptions struct {
	// Bind ties data of the graph to resident data; other input and output
	// data gets a Home action.
	Bind []Binding
	// Weight is the run's share of the devices relative to others (1).
	Weight float64
	// MaxInFlight limits the run's tasks in flight; 0 means no limit.
	MaxInFlight int
	// Timeout and Retries replace the engine's for this run when not 0; a negative
	// Timeout means that nothing bounds its tasks.
	Timeout time.Duration
	Retries int
	// Priority is added to the priority of every task.
	Priority int
}

// Report is the account of one run.
type Report struct {
	Run       RunID
	Tasks     int // tasks of the graph
	Executed  int // executions that succeeded, replays included
	Retries   int // executions that failed and were tried again
	Replays   int // tasks run again because their result was lost
	Moves     int // queued tasks moved between devices
	Copies    int
	CopyBytes int64
	Evictions int
	Commits   int
	// LongestReplay is the longest chain of tasks any loss made run again.
	LongestReplay int
	Submitted     time.Duration
	Started       time.Duration
	Ended         time.Duration
	Devices       []DeviceReport // by device
}

// DeviceReport is what one device did for a run.
type DeviceReport struct {
	Tasks     int
	Busy      time.Duration
	Predicted time.Duration // of the same tasks, when they were placed
}

// run is a submitted graph.
type run struct {
	id     RunID
	slot   runSlot
	g      *graph.Graph
	f      *graph.Flow
	o      RunOptions
	tbase  taskID    // first of its tasks
	vbase  valueID   // first of the values its tasks make
	dbase  dataID    // first of its own data
	init   []valueID // values it starts from
	dataOf []dataID  // graph data to engine data
	refs   []DataRef // resident data by graph data, -1; nil when nothing is bound

	left     int // tasks not done
	flight   int // tasks in flight
	homeOps  int // copies in flight that touch the caller's memory
	owed     int // outputs not delivered
	heldN    int // recipes held
	needed   int // its values needed after it ended
	vtime    int64
	ahead    *run    // of the same graph, begun before it and not ended
	behind   *run    // likewise, begun after it
	unweight float64 // 1/Weight
	priority int     // of every task, where all have the same
	errs     []error
	state    runState
	parked   fifo[taskID] // tasks that wait for it to have fewer in flight
	shapes   []shape
	costs    []time.Duration // by shape and device class
	keys     []int64         // of its tasks, where it has a plan
	reaping  bool
	vacating bool  // all is done, and the caller's memory is not free yet
	cramped  bool  // there was no room to keep what was there
	stopping bool  // what it has in flight is to be ended, at the end of the step
	purged   bool  // its tasks are out of every queue, as it is about to end
	timed    bool  // some of its tasks may have a timeout
	volatile bool  // some of its data is updated in place
	planned  bool  // the policy has a plan for it
	begun    bool  // it was admitted, so it has tasks and values
	after    int   // lines for resident data it is not first in, while it waits
	revived  bool  // it ended, and works again for a run that reads its results
	broke    error // what it fails of while revived
	report   Report
}

// shape is what tasks of one shape have in common, kept small and together
// because every task asks for it.
type shape struct {
	kernel      *graph.Kernel
	ops, bytes  float64
	workspace   int64
	gang        int
	constrained bool
	samples     int             // executions the cost model knows, on the device class it knows least
	epoch       uint64          // the epoch its costs are of
	ran         uint64          // bits of devices, by number modulo 64, whose process has run it
	costs       []time.Duration // by device class, negative where it cannot run
	charge      int64           // what a turn costs the run: its least cost by the run's weight
}

type runState uint8

const (
	runWaiting runState = iota
	runActive
	runFailing // waits for what is in flight
	runEnded   // reported; kept while its values can be needed
)

// residentData is data that outlives runs.
type residentData struct {
	live    bool
	closing bool
	name    string
	bytes   int64
	data    dataID    // engine data
	bounds  []int64   // pieces
	vals    []valueID // current value of each piece
	awaited int       // uses by runs that wait to start
	readers int       // active runs that read it
	writer  bool      // an active run writes it
	fetches int       // callers waiting for it in host memory
	asked   bool      // it is on the list of those to be served
	line    fifo[ticket]
}

// Submit hands a graph to the engine. It takes effect at the next Step.
func (e *Engine) Submit(now time.Duration, g *graph.Graph, o RunOptions) RunID {
	e.retryCopies()
	if o.Weight <= 0 {
		o.Weight = 1
	}
	var r *run
	if n := len(e.spare); n > 0 {
		r = e.spare[n-1]
		e.spare = e.spare[:n-1]
		*r = run{init: r.init[:0], dataOf: r.dataOf[:0], costs: r.costs[:0], keys: r.keys[:0], shapes: r.shapes[:0], parked: fifo[taskID]{buf: r.parked.buf[:0]}}
	} else {
		r = new(run)
	}
	e.nextRun++
	r.id, r.g, r.f, r.o = e.nextRun, g, g.Flow(), o
	r.unweight = 1 / o.Weight
	r.report = Report{Run: r.id, Tasks: g.NumTasks(), Submitted: now, Devices: make([]DeviceReport, len(e.devs))}
	if n := len(e.freeRuns); n > 0 {
		r.slot = e.freeRuns[n-1]
		e.freeRuns = e.freeRuns[:n-1]
		e.runs[r.slot] = r
	} else {
		r.slot = runSlot(len(e.runs))
		e.runs = append(e.runs, r)
	}
	e.byID[r.id] = r.slot
	if len(o.Bind) > 0 {
		r.refs = make([]DataRef, g.NumData())
		for i := range r.refs {
			r.refs[i] = -1
		}
		for _, b := range o.Bind {
			r.refs[b.Data] = b.Ref
		}
	}
	e.join(r)
	e.asked = true
	return r.id
}

// NewData adds resident data whose first value is in the caller's memory: the
// next Step emits its Home.
func (e *Engine) NewData(name string, bytes int64, kind graph.Durability) DataRef {
	var ref DataRef
	if n := len(e.freeRes); n > 0 {
		ref = e.freeRes[n-1]
		e.freeRes = e.freeRes[:n-1]
	} else {
		ref = DataRef(len(e.resident))
		e.resident = append(e.resident, residentData{})
	}
	d := e.mem.data.alloc(1)
	e.mem.openData(d, kind, false, -1-runSlot(ref), 1)
	v := e.mem.newValue(-1, d, 0, bytes)
	e.mem.vals.at[v].on(madeOnDevice) // its home comes with the next step
	e.mem.vals.at[v].on(isCurrent)
	e.asked = true
	e.resident[ref] = residentData{live: true, name: name, bytes: bytes, data: d, bounds: []int64{0, bytes}, vals: []valueID{v}}
	e.ask(ref)
	return ref
}

// FreeData ends resident data once no run uses it.
func (e *Engine) FreeData(ref DataRef) {
	e.retryCopies()
	e.resident[ref].closing = true
	e.ask(ref)
	e.asked = true
}

// EndFetch ends the reading of a home a Fetch was answered for.
func (e *Engine) EndFetch(ref DataRef) {
	e.resident[ref].readers--
	e.released(ref)
	e.asked = true
}

// Fetch asks for the current value of resident data in its home; the answer is
// a Done action with Run 0 and Ref set, one for each Fetch. Without an Err it is
// there, and runs that write the data wait for EndFetch.
func (e *Engine) Fetch(ref DataRef) {
	e.retryCopies()
	e.resident[ref].fetches++
	e.ask(ref)
	e.asked = true
}

// writes reports whether the run makes new values of a graph's data.
func (r *run) writes(d graph.DataID) bool {
	for p := r.f.PieceOff[d]; p < r.f.PieceOff[d+1]; p++ {
		if r.f.Last[p] >= r.f.NumInitial {
			return true
		}
	}
	return false
}

func (r *run) samePieces(d int, res *residentData) bool {
	p := r.f.Pieces[r.f.PieceOff[d]:r.f.PieceOff[d+1]]
	if len(p) != len(res.bounds)-1 {
		return false
	}
	for i := range p {
		if p[i].Hi != res.bounds[i+1] {
			return false
		}
	}
	return true
}

// start makes a run's tasks and values and readies those that wait for nothing.
func (e *Engine) start(r *run) {
	f, n := r.f, r.g.NumTasks()
	r.state, r.left, r.begun = runActive, n, true
	r.report.Started = e.now
	r.vtime = e.vnow
	e.follow(r)
	e.weigh(r.o.Weight)
	e.tr.Record(trace.Event{Kind: trace.RunBegin, Device: machine.Host, Run: int32(r.id), Task: -1, Start: e.now, End: e.now})
	e.startData(r)
	e.startValues(r)
	if n > 0 {
		r.priority = r.g.Task(0).Priority + r.o.Priority
	}
	r.timed = f.Timed || r.o.Timeout > 0 || e.o.TaskTimeout > 0 || e.o.TaskTimeout == 0 && e.isolated
	classes := int(e.view.Classes)
	r.costs = slices.Grow(r.costs[:0], len(f.ShapeTask)*classes)[:len(f.ShapeTask)*classes]
	for i, gt := range f.ShapeTask {
		t := r.g.Task(gt)
		r.shapes = append(r.shapes, shape{
			costs:  r.costs[i*classes : (i+1)*classes],
			kernel: t.Steps[0].Kernel, ops: t.Work.Ops, bytes: t.Work.Bytes, workspace: t.Workspace, gang: t.Gang,
			constrained: t.On.Hint != "" || len(t.On.Only) > 0,
		})
	}
	e.plan(r)
	r.tbase = e.tasks.alloc(n)
	ts := e.tasks.at[r.tbase : int(r.tbase)+n]
	for i := range ts {
		t := &ts[i]
		*t = task{}
		t.run, t.unissued, t.dev, t.avoid = r.slot, f.Rows[i+1].Pred-f.Rows[i].Pred, -1, -1
		if t.unissued == 0 {
			e.makeReady(r.task(graph.TaskID(i)))
		}
	}
	e.want(r)
	if r.left == 0 {
		e.endLater(r)
	}
}

// weigh adds to the weights of active runs.
func (e *Engine) weigh(w float64) {
	e.weights += w
	e.share = 0
	if e.weights > 1e-9 {
		e.share = 1 / e.weights
	}
}

func (e *Engine) startData(r *run) {
	n := r.g.NumData()
	r.dbase = e.mem.data.alloc(n)
	r.dataOf = slices.Grow(r.dataOf[:0], n)[:n]
	for d := range n {
		gd := r.g.Data(graph.DataID(d))
		if r.refs != nil && r.refs[d] >= 0 {
			res := &e.resident[r.refs[d]]
			r.dataOf[d] = res.data
			r.volatile = r.volatile || e.mem.data.at[res.data].kind == graph.Volatile
			if r.writes(graph.DataID(d)) {
				res.writer = true
			} else {
				res.readers++
			}
			continue
		}
		id := r.dbase + dataID(d)
		r.dataOf[d] = id
		n := pieceID(r.f.PieceOff[d+1] - r.f.PieceOff[d])
		e.mem.openData(id, gd.Durability, !gd.Output, r.slot, n)
		r.volatile = r.volatile || gd.Durability == graph.Volatile
		if gd.Input || gd.Output {
			e.mem.makeHome(id, n, gd.Bytes, Action{Run: r.id, Data: graph.DataID(d)})
		}
	}
}

func (e *Engine) startValues(r *run) {
	f := r.f
	ni := int(f.NumInitial)
	made := len(f.Values) - ni
	r.vbase = e.mem.vals.alloc(made)
	r.init = slices.Grow(r.init[:0], ni)[:ni]
	for i := range ni {
		p := f.Values[i].Piece
		d := f.Pieces[p].Data
		local := pieceID(p - f.PieceOff[d])
		if r.refs != nil && r.refs[d] >= 0 {
			v := e.resident[r.refs[d]].vals[local]
			r.init[i] = v
			e.mem.vals.at[v].reads += f.Values[i].Readers
			continue
		}
		v := e.mem.newValue(r.slot, r.dataOf[d], local, f.Pieces[p].Hi-f.Pieces[p].Lo)
		r.init[i] = v
		val := &e.mem.vals.at[v]
		val.on(madeInHost)
		val.reads = f.Values[i].Readers
		home := &e.mem.insts[e.mem.data.at[r.dataOf[d]].home]
		e.mem.hold(home.at(local), v, 0, 0)
	}
	for i := range made {
		fv := &f.Values[ni+i]
		pc := &f.Pieces[fv.Piece]
		e.mem.openValue(r.vbase+valueID(i), r.slot, r.dataOf[pc.Data], pieceID(fv.Piece-f.PieceOff[pc.Data]), pc.Hi-pc.Lo, fv.Readers)
	}
	// Inputs nobody reads and nobody wants back are dead at once, and so are
	// handled where reads end.
	for i := range ni {
		e.maybeDrop(r.init[i])
	}
}

// val maps a value of the graph to the engine's.
func (r *run) val(v int32) valueID {
	if v < r.f.NumInitial {
		return r.init[v]
	}
	return r.vbase + valueID(v-r.f.NumInitial)
}

// producer returns the task that makes v, -1 when v was there from the start.
func (e *Engine) producer(v valueID) taskID {
	val := &e.mem.vals.at[v]
	if val.run < 0 {
		return -1
	}
	r := e.runs[val.run]
	i := v - r.vbase
	if i < 0 || int(i) >= len(r.f.Values)-int(r.f.NumInitial) {
		return -1
	}
	return r.task(r.f.Values[int32(i)+r.f.NumInitial].Producer)
}

// want notes which values are needed beyond their readers: outputs are delivered,
// resident data keeps its last. A value nobody changed is where it was already.
func (e *Engine) want(r *run) {
	f := r.f
	for d, ref := range r.refs {
		for p := f.PieceOff[d]; ref >= 0 && p < f.PieceOff[d+1]; p++ {
			if gv := f.Last[p]; gv >= f.NumInitial {
				e.mem.vals.at[r.val(gv)].on(isCurrent)
			}
		}
	}
	for _, p := range f.Finals {
		if r.refs == nil || r.refs[f.Pieces[p].Data] < 0 {
			e.mem.vals.at[r.val(f.Last[p])].on(isOutput)
			r.owed++
		}
	}
}

// fail ends a run early: what is in flight completes, nothing else starts.
func (e *Engine) fail(r *run, err error) {
	if r.state == runEnded {
		return
	}
	if len(r.errs) < 8 && !r.revived {
		r.errs = append(r.errs, err)
	}
	was := r.state
	r.state = runFailing
	switch {
	case was == runFailing:
		return
	case r.revived:
		r.broke = err
	case r.flight > 0 && r.refs == nil:
		// What it does to resident data may be in place: no task leaves that half done.
		r.stopping = true
		e.failed = append(e.failed, r.slot)
	}
	if r.quiet() {
		e.endLater(r)
	}
}

// stop has launches in flight ended that belong to runs which have failed since it
// was called last. Members of a gang run on: others may wait for what they send.
func (e *Engine) stop() {
	for l := range e.lanes {
		ln := &e.lanes[l]
		if !e.computes(Lane(l)) {
			continue
		}
		for seq := max(ln.done, ln.lost) + 1; seq <= ln.issued; seq++ {
			e.visit(1)
			rec := ln.rec(seq)
			if rec.task < 0 || e.gang(rec.task) != nil || !e.runs[e.tasks.at[rec.task].run].stopping {
				continue
			}
			a := e.out.emit(Stop)
			a.Op, a.Device = Op{Lane(l), uint32(seq)}, ln.info.Device
		}
	}
	for _, s := range e.failed {
		if r := e.runs[s]; r != nil {
			if r.stopping {
				e.eachDetached(s, func(op Op, dev machine.DeviceID, _ graph.TaskID) {
					a := e.out.emit(Stop)
					a.Op, a.Device = op, dev
				})
			}
			r.stopping = false
		}
	}
	e.failed = e.failed[:0]
}

// quiet reports whether nothing in flight belongs to the run or touches the
// caller's memory.
func (r *run) quiet() bool { return r.flight == 0 && r.homeOps == 0 }

// endLater queues a run for its end at the end of the step.
func (e *Engine) endLater(r *run) {
	if !r.reaping {
		r.reaping = true
		e.ending = append(e.ending, r.slot)
	}
}

// reap ends runs that are finished.
func (e *Engine) endRuns() {
	for len(e.ending) > 0 {
		s := e.ending[len(e.ending)-1]
		e.ending = e.ending[:len(e.ending)-1]
		r := e.runs[s]
		if r == nil {
			continue
		}
		r.reaping = false
		switch {
		case r.state == runEnded:
			e.retire(r)
		case r.revived && r.quiet() && (r.left == 0 || r.state == runFailing):
			e.endRevival(r)
		case r.state == runFailing && r.quiet():
			e.end(r)
		case r.state == runActive && r.left == 0 && r.owed == 0 && r.quiet() && e.vacate(r):
			e.end(r)
		}
	}
}

// endRevival ends a run that worked again. If it failed, whoever it worked for cannot
// go on either: what was in flight has ended, so what is not there now was not made.
func (e *Engine) endRevival(r *run) {
	err := r.broke
	r.broke = nil
	if r.left > 0 {
		e.purge(r)
		e.abandon(r)
	}
	r.state, r.revived = runEnded, false
	if err != nil {
		e.failAskers(func(v valueID) bool { return e.mem.vals.at[v].run == r.slot && !e.mem.have(v) }, err)
	}
	// Who asked for what it had no part in making may ask again.
	e.offerAgain, e.ended = true, true
	e.retire(r)
}

// end reports a run and gives up what only it needed.
func (e *Engine) end(r *run) {
	err := r.err(e)
	r.report.Ended = e.now
	rep := r.report
	e.tr.Record(trace.Event{Kind: trace.RunEnd, Failed: err != nil, Device: machine.Host, Run: int32(r.id), Task: -1, Start: e.now, End: e.now})
	delete(e.byID, r.id)
	if !r.begun {
		e.leave(r)
	}
	if r.begun {
		e.unfollow(r)
		e.unplan(r)
		e.weigh(-r.o.Weight)
		if err != nil {
			e.purge(r)
		}
		e.endValues(r, err == nil)
	}
	if len(e.byID) == 0 {
		e.mem.freeIdle()
	}
	a := e.out.emit(Done)
	a.Run, a.Err, a.Report = r.id, err, &rep
	r.state = runEnded
	e.ended = true
	if r.begun && (r.needed > 0 || r.heldN > 0) {
		e.closeHomes(r)
	}
	e.retire(r)
}

// err says what went wrong and names every task that did not finish.
func (r *run) err(e *Engine) error {
	if len(r.errs) == 0 {
		return nil
	}
	var names []string
	for t := range r.g.NumTasks() {
		if !r.begun || e.tasks.at[r.task(graph.TaskID(t))].where != done {
			names = append(names, r.g.TaskName(graph.TaskID(t)))
		}
	}
	err := errors.Join(r.errs...)
	if len(r.errs) == 1 {
		err = r.errs[0]
	}
	return &RunError{Err: err, Names: names}
}

// RunError is how a run that failed ends.
type RunError struct {
	Err   error
	Names []string // of the tasks that did not finish, all of them
}

// Error names the cause, or causes, and the first few unfinished tasks in a line;
// Names has all.
func (r *RunError) Error() string {
	const show = 8
	cause := strings.ReplaceAll(r.Err.Error(), "\n", "; ") // where several were joined
	s := fmt.Sprintf("%s; %d tasks unfinished", cause, len(r.Names))
	if n := len(r.Names); n > show {
		return s + ": " + strings.Join(r.Names[:show], ", ") + ", …"
	} else if n > 0 {
		return s + ": " + strings.Join(r.Names, ", ")
	}
	return s
}

func (r *RunError) Unwrap() error { return r.Err }

// endValues settles resident data and gives up everything else. After a
// failure resident data keeps what it held before the run, so a run that fails
// changes nothing; volatile data, which was updated in place, holds its newest
// value instead.
func (e *Engine) endValues(r *run, ok bool) {
	f := r.f
	if r.refs != nil {
		for d, ref := range r.refs {
			if ref < 0 {
				continue
			}
			res := &e.resident[ref]
			wrote := r.writes(graph.DataID(d))
			if !wrote {
				res.readers--
				e.released(ref)
				continue
			}
			res.writer = false
			e.released(ref)
			for i := range res.vals {
				p := f.PieceOff[d] + int32(i)
				if last := f.Last[p]; !ok && last >= f.NumInitial {
					e.mem.vals.at[r.val(last)].on(wasReplaced)
				}
				next := e.newest(r, p, ok)
				if next < 0 || next == res.vals[i] {
					continue
				}
				old := res.vals[i]
				e.mem.vals.at[next].on(isCurrent)
				e.runs[e.mem.vals.at[next].run].needed++
				res.vals[i] = next
				e.unneed(old)
			}
		}
	}
	if r.left > 0 {
		e.abandon(r)
	}
	for _, p := range f.Finals {
		v := r.val(f.Last[p])
		e.mem.vals.at[v].on(outputSettled)
		e.maybeDrop(v)
	}
	if !ok { // what was made and not read is there still, or would be made again
		for _, gv := range f.Last {
			if gv >= f.NumInitial {
				e.maybeDrop(r.val(gv))
			}
		}
	}
	r.owed = 0
}

// abandon gives up tasks that will not run, and with them what they would read.
func (e *Engine) abandon(r *run) {
	f := r.f
	for t := range r.g.NumTasks() {
		tid := r.task(graph.TaskID(t))
		tk := &e.tasks.at[tid]
		if tk.where == done {
			continue
		}
		e.unplace(tid, done)
		if r.revived {
			e.relinquish(r, graph.TaskID(t))
		}
		uses := f.TaskUses(graph.TaskID(t))
		for k := range uses {
			for _, gv := range f.Reads(&uses[k]) {
				v := r.val(gv)
				e.mem.vals.at[v].reads--
				e.maybeDrop(v)
			}
		}
	}
	r.left = 0
}

// relinquish leaves a task that was to run again as it was before that: done, and its
// values lost, so that they are made again for whoever asks next.
func (e *Engine) relinquish(r *run, gt graph.TaskID) {
	tid := r.task(gt)
	e.tasks.at[tid].flags &^= inputFailed
	delete(e.taskCopies, tid)
	for _, s := range r.f.Succs(gt) {
		e.tasks.at[r.task(graph.TaskID(s))].unissued--
	}
	uses := r.f.TaskUses(gt)
	for k := range uses {
		for _, gv := range r.f.Writes(&uses[k]) {
			e.mem.vals.at[r.val(gv)].on(madeGone)
		}
	}
}

// newest returns the value a resident piece holds after the run.
func (e *Engine) newest(r *run, p int32, ok bool) valueID {
	last := r.f.Last[p]
	if ok {
		return r.val(last)
	}
	if e.mem.data.at[r.dataOf[r.f.Pieces[p].Data]].kind != graph.Volatile {
		return -1
	}
	for v := last; v >= r.f.NumInitial; v = r.f.Values[v].Prev {
		if ev := r.val(v); e.mem.vals.at[ev].flags&produced != 0 && e.mem.vals.at[ev].slot >= 0 {
			return ev
		}
	}
	return -1
}

// unneed takes the current mark off a resident value.
func (e *Engine) unneed(v valueID) {
	val := &e.mem.vals.at[v]
	val.on(wasReplaced)
	if val.run >= 0 {
		e.release(e.runs[val.run])
	}
	e.maybeDrop(v)
}

// release counts down what keeps an ended run.
func (e *Engine) release(r *run) {
	r.needed--
	if r.state == runEnded && r.needed == 0 && r.heldN == 0 {
		e.endLater(r)
	}
}

// retire recycles a run nothing refers to any more.
func (e *Engine) retire(r *run) {
	if r.needed > 0 || r.heldN > 0 {
		return
	}
	e.runs[r.slot] = nil
	e.freeRuns = append(e.freeRuns, r.slot)
	if r.begun {
		for _, v := range r.init {
			if e.mem.vals.at[v].run == r.slot {
				e.mem.endValue(v)
			}
		}
		for d, id := range r.dataOf {
			if e.mem.data.at[id].insts >= 0 && (r.refs == nil || r.refs[d] < 0) {
				e.mem.closeData(id)
			}
		}
		mine := func(tid taskID) bool { return tid >= r.tbase && tid < r.tbase+taskID(r.g.NumTasks()) }
		maps.DeleteFunc(e.taskCopies, func(tid taskID, _ copyFailure) bool { return mine(tid) })
		maps.DeleteFunc(e.suspects, func(tid taskID, _ []Loss) bool { return mine(tid) })
		maps.DeleteFunc(e.valueCopies, func(v valueID, _ copyFailure) bool { return e.mem.vals.at[v].run == r.slot })
		n := len(r.f.Values) - int(r.f.NumInitial)
		e.mem.vals.release(r.vbase, n)
		e.tasks.release(r.tbase, r.g.NumTasks())
		e.mem.data.release(r.dbase, r.g.NumData())
	}
	r.g, r.f = nil, nil
	e.spare = append(e.spare, r)
}

// serveResident does what was asked of resident data outside runs: introduce
// it, bring it home, end it.
func (e *Engine) serveResident(ref DataRef) {
	res := &e.resident[ref]
	if !res.live {
		return
	}
	if e.mem.data.at[res.data].home < 0 {
		e.mem.makeHome(res.data, pieceID(len(res.vals)), res.bytes, Action{Ref: ref})
		home := e.mem.insts[e.mem.data.at[res.data].home]
		for i, v := range res.vals {
			e.mem.vals.at[v].on(reachedHost)
			e.mem.hold(home.slot+slotID(i), v, 0, 0)
		}
	}
	if res.fetches > 0 && !res.writer {
		switch {
		case e.atHome(res):
			for ; res.fetches > 0; res.fetches-- {
				res.readers++
				e.out.emit(Done).Ref = ref
			}
		case e.refused > 0 && e.lastResort():
			e.effort = usual
			e.refuse(ref, fmt.Errorf("data %q: %w", res.name, e.outOfMemory(0, e.refused)))
		}
	}
	if res.closing && !res.writer && res.readers+res.awaited+res.fetches == 0 && !e.dependedOn(res) && e.mem.insts[e.mem.data.at[res.data].home].pins == 0 {
		for _, v := range res.vals {
			e.unneed(v)
		}
		e.mem.closeData(res.data)
		e.mem.data.release(res.data, 1)
		*res = residentData{}
		e.freeRes = append(e.freeRes, ref)
	}
}

// refuseFetches answers those who wait for resident data of which something cannot
// be had.
func (e *Engine) refuseFetches(gone func(v valueID) bool, err error) {
	for ref := range e.resident {
		res := &e.resident[ref]
		if res.fetches == 0 || !slices.ContainsFunc(res.vals, gone) {
			continue
		}
		e.refuse(DataRef(ref), err)
	}
}

// refuse answers those who wait for resident data with an error.
func (e *Engine) refuse(ref DataRef, err error) {
	for res := &e.resident[ref]; res.fetches > 0; res.fetches-- {
		a := e.out.emit(Done)
		a.Ref, a.Err = ref, err
	}
}

// atHome reports whether the current value of resident data is in its home,
// and starts to bring there what is not.
func (e *Engine) atHome(res *residentData) bool {
	all := true
	e.refused = 0
	for _, v := range res.vals {
		all = e.bringHome(v) && all
	}
	return all
}

// dependedOn reports whether something that exists only on a device would be
// computed from the data, and has that made durable.
func (e *Engine) dependedOn(res *residentData) bool {
	for _, v := range res.vals {
		if e.mem.vals.at[v].deps > 0 {
			e.commitResident()
			return true
		}
	}
	return false
}

// olderHeld reports whether a version of resident data besides the current one is
// kept, in the pieces the data is in now, to compute something from it again.
func (e *Engine) olderHeld(res *residentData) bool {
	held := false
	e.mem.eachInst(res.data, func(i Inst) {
		in := &e.mem.insts[i]
		for s := in.slot; s < in.end(); s++ {
			v := e.mem.slots.at[s].val
			held = held || v >= 0 && e.mem.vals.at[v].flags&current == 0
		}
	})
	return held
}

// commitResident starts to make all resident data durable, once in a step.
func (e *Engine) commitResident() {
	if e.committed == e.checks.steps+1 {
		return
	}
	e.committed = e.checks.steps + 1
	for i := range e.resident {
		e.visit(1)
		if e.resident[i].live {
			for _, v := range e.resident[i].vals {
				e.commit(v)
			}
		}
	}
}

// recut changes the pieces of resident data to those a graph uses. It is done
// from the home alone, so the data is brought there first; it returns whether
// that is so.
func (e *Engine) recut(r *run, d int, res *residentData) bool {
	if !e.atHome(res) || e.mem.insts[e.mem.data.at[res.data].home].pins > 0 {
		return false
	}
	if e.dependedOn(res) {
		return false
	}
	if e.olderHeld(res) {
		e.commitResident()
		return false
	}
	for _, v := range res.vals {
		e.unneed(v)
	}
	pieces := r.f.Pieces[r.f.PieceOff[d]:r.f.PieceOff[d+1]]
	n := pieceID(len(pieces))
	e.mem.recut(res.data, n)
	home := &e.mem.insts[e.mem.data.at[res.data].home]
	res.bounds, res.vals = append(res.bounds[:0], 0), res.vals[:0]
	for i := range n {
		v := e.mem.newValue(-1, res.data, i, pieces[i].Hi-pieces[i].Lo)
		e.mem.vals.at[v].on(madeInHost)
		e.mem.vals.at[v].on(isCurrent)
		e.mem.hold(home.at(i), v, 0, 0)
		res.bounds = append(res.bounds, pieces[i].Hi)
		res.vals = append(res.vals, v)
	}
	return true
}
