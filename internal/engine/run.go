package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// Runs: their records, submission, and the start of a run, which makes its tasks, data
// and values.

// RunOptions say how one graph is to be run.
type RunOptions struct {
	// Bind ties data of the graph to resident data; other input and output
	// data gets a Home action.
	Bind []Binding
	// Weight is the run's share of the devices relative to others (1).
	Weight float64
	// Concurrent limits the run's tasks in flight; 0 means no limit.
	Concurrent int
	// Timeout and Retries replace the engine's for this run when not 0; a negative
	// Timeout means that nothing bounds its tasks.
	Timeout time.Duration
	Retries int
	// Compare has what its tasks only read compared; see Options.Compare.
	Compare bool
	// Priority is added to the priority of every task.
	Priority int
	// Rather, when not empty, lists the devices the run was cut for, ascending. A task goes
	// to another one only if none of these can take it at present.
	Rather []machine.DeviceID
	// Probe says that it is a probe, of the one device that its tasks may run on: it runs there
	// also while that is suspect, it fails at once instead of being tried again, and neither
	// counts nor notices tell of it.
	Probe bool
	// Beside is added to the bound of the host memory that the run may take, in bytes: what runs
	// take of which it waits for the end.
	Beside int64
	// Of, when not 0, is a run of which a task, OfTask, waits for this one on a patient device.
	Of     RunID
	OfTask graph.TaskID
}

// What a run came to, in the words of package trace.
type (
	Report       = trace.Report
	DeviceReport = trace.DeviceReport
	TaskError    = trace.TaskError
	RunError     = trace.RunError
	Quarantine   = trace.Quarantine
	Attempt      = trace.Attempt
	Condition    = trace.Health
)

// runTable holds the runs.
type runTable struct {
	runs     []*run // by slot; nil where free
	freeRuns []runSlot
	spare    []*run                // retired records, kept for their slices
	byID     map[RunID]runSlot     // runs that have not ended
	latest   map[*graph.Graph]*run // by graph, the run that began last and has not ended
	nextRun  RunID
	toAdmit  []ticket  // runs for admit to look at, a heap by number
	recuts   []ticket  // runs that wait for resident data to be cut anew
	ending   []runSlot // runs for endRuns to look at: those with toEnd set
	failed   []runSlot // runs that failed in this step with tasks in flight: for stop
	ended    bool      // a run ended, or resident data was closed, in this round of Step
	vnow     int64     // fair-queueing time reached, in nanoseconds of service
	weights  float64   // the sum of weights over active runs
	share    float64   // the share of a run of weight 1: 1/weights
}

// run is a submitted graph. Invariant: a run without tasks left or outputs owed, or one
// that failed, is ended as soon as it is quiet, unless it is vacating with copies in
// flight.
type run struct {
	id     RunID
	slot   runSlot
	g      *graph.Graph
	f      *graph.Flow
	o      RunOptions
	tbase  taskID    // its first task; the others follow
	vbase  valueID   // the first value its tasks make; the others follow
	dbase  dataID    // its first data handle; the others follow
	init   []valueID // values it starts from, by the graph's number
	dataOf []dataID  // by graph data, the engine's
	refs   []DataRef // by graph data, the resident data bound to it or -1; nil if none is

	left    int // invariant: its tasks that are not done
	flight  int // invariant: its tasks that are issued
	homeOps int // invariant: copies in flight and parts in use of dropped devices that touch its homes
	owed    int // invariant: its outputs that are not delivered
	recipes int // invariant: its tasks whose recipes are kept
	// needed is the number of uses of its values from outside it: by resident data and by
	// kept recipes of other runs. Invariant: an ended run with neither recipes nor needed
	// is retired.
	needed    int
	vtime     int64   // fair-queueing time its next task starts at, in nanoseconds
	ahead     *run    // the run of the same graph that began before it and has not ended
	behind    *run    // likewise, the one that began after it
	invWeight float64 // 1/Weight
	priority  int     // of every task, unless the graph gives them different ones
	errs      []error
	state     runState
	// parked holds tasks that wait for fewer in flight. Invariant: then a task of the run
	// is in flight or on its way to be issued.
	parked     fifo[taskID]
	shapes     []shape
	costs      []time.Duration // by shape and device class
	widths     []uint8         // likewise, if some device is a team
	keys       []int64         // by task, if the policy gave turns
	toEnd      bool            // it is on runTable.ending
	vacating   bool            // all tasks are done, and a replay would read the caller's memory
	committing []valueID       // results that are committed before it ends; those at its end may be already
	letGo      error           // why vacate let values go that a replay would read; nil if it did not
	stopping   bool            // its launches in flight are to be stopped at the end of the step
	stopped    bool            // that was done
	purged     bool            // its tasks are off every list, because it is about to end
	timeout    time.Duration   // of tasks that name none: negative for none, 0 for the device's own
	volatile   bool            // some of its data is updated in place
	secret     bool            // some of its data is secret
	compare    bool            // see Options.Compare
	planned    bool            // the policy has a plan for it
	begun      bool            // it was admitted, so that it has tasks and values
	hostNeed   int64           // bytes of host memory that it may hold at a time, or holds while it is kept; 0 where that has no limit
	lined      bool            // it has been in line for room in host memory
	after      int             // while it waits: invariant: lines for resident data it is not first in
	revived    bool            // it ended, and computes again for a run that reads its results
	reviveErr  error           // why it failed while revived
	report     Report
	work       tally
}

// shape is the common part of tasks of one shape. It is small, because every task
// reads it.
type shape struct {
	kernel      *graph.Kernel
	ops, bytes  float64
	workspace   int64 // bytes
	gang        int   // members; 0 or 1 for an ordinary task
	constrained bool  // its tasks have a hint, or devices they are restricted to
	// samples is the number of executions the cost model knows, on the device class it
	// knows least.
	samples int
	epoch   uint64          // the epoch of the cost model that costs are of
	costID  uint64          // sched.Ready.CostID of costs
	ran     uint64          // devices, by ranBit, whose process has run it
	costs   []time.Duration // by device class, negative if it cannot run there
	// widths is, by device class, the number of lanes that a task takes; nil if no device is a team.
	widths []uint8
	// charge is the cost of a task to its run in fair queueing, in nanoseconds: its duration
	// on the fastest device divided by the run's weight.
	charge int64
}

// runState is the stage of a run.
type runState uint8

const (
	runWaiting runState = iota // for resident data
	runActive                  // its tasks run
	runFailing                 // it waits for its operations in flight
	runEnded                   // it was reported, and is kept while its values can be needed
)

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
		*r = run{init: r.init[:0], dataOf: r.dataOf[:0], costs: r.costs[:0], widths: r.widths[:0], keys: r.keys[:0], shapes: r.shapes[:0], parked: fifo[taskID]{buf: r.parked.buf[:0]}}
	} else {
		r = new(run)
	}
	e.nextRun++
	r.id, r.g, r.f, r.o = e.nextRun, g, g.Flow(), o
	r.invWeight, r.compare = 1/o.Weight, e.o.Compare || o.Compare || o.Retries > 0
	r.report = Report{Run: int64(r.id), Tasks: g.NumTasks(), Submitted: now, Devices: make([]DeviceReport, len(e.devs))}
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
	r.hostNeed = e.needRoom(r)
	e.join(r)
	e.asked = true
	return r.id
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

// updates reports whether the run writes resident data.
func (r *run) updates() bool {
	for d, ref := range r.refs {
		if ref >= 0 && r.writes(graph.DataID(d)) {
			return true
		}
	}
	return false
}

// samePieces reports whether resident data is cut as the run's graph cuts data d.
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

// traceRun records an event about a run, unless that is a probe.
func (e *Engine) traceRun(r *run, ev trace.Event) {
	if !r.o.Probe {
		e.tr.Record(ev)
	}
}

// start makes a run's tasks and values and readies the tasks without predecessors.
func (e *Engine) start(r *run) {
	f, n := r.f, r.g.NumTasks()
	r.state, r.left, r.begun = runActive, n, true
	r.report.Started = e.now
	r.vtime = e.vnow
	e.follow(r)
	e.weigh(r.o.Weight)
	e.traceRun(r, trace.Event{Kind: trace.RunBegin, Device: machine.Host, Run: int32(r.id), Task: -1, Start: e.now, End: e.now})
	e.startData(r)
	e.startValues(r)
	if n > 0 {
		r.priority = r.g.Task(0).Priority + r.o.Priority
	}
	r.timeout = cmp.Or(r.o.Timeout, e.o.TaskTimeout)
	classes := int(e.situation.Classes)
	r.costs = slices.Grow(r.costs[:0], len(f.ShapeTask)*classes)[:len(f.ShapeTask)*classes]
	clear(r.costs)
	for i, gt := range f.ShapeTask {
		t := r.g.Task(gt)
		r.shapes = append(r.shapes, shape{
			costs:  r.costs[i*classes : (i+1)*classes],
			kernel: t.Steps[0].Kernel, ops: t.Work.Ops, bytes: t.Work.Bytes, workspace: t.Workspace, gang: t.Gang,
			constrained: t.On.Hint != "" || len(t.On.Only) > 0,
		})
	}
	e.measure(r)
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
	e.tell(RunBegan, r, graph.NoTask, machine.Host, nil)
	if r.left == 0 {
		e.endLater(r)
	}
}

// weigh adds w to the sum of weights.
func (e *Engine) weigh(w float64) {
	e.weights += w
	e.share = 0
	if e.weights > 1e-9 {
		e.share = 1 / e.weights
	}
}

// startData makes the run's data handles, homes included, and counts its uses of resident
// data.
func (e *Engine) startData(r *run) {
	n := r.g.NumData()
	r.dbase = e.mem.allocData(n)
	r.dataOf = slices.Grow(r.dataOf[:0], n)[:n]
	for d := range n {
		gd := r.g.Data(graph.DataID(d))
		if r.refs != nil && r.refs[d] >= 0 {
			res := &e.resident[r.refs[d]]
			r.dataOf[d] = res.data
			if gd.Secret {
				e.mem.makeSecret(res.data)
			}
			r.secret = r.secret || e.mem.data.at[res.data].secret
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
		e.mem.openData(id, gd.Durability, !gd.Output, gd.Secret, r.slot)
		r.secret = r.secret || gd.Secret
		if n > fewPieces {
			e.mem.makeLists(id, n)
		}
		r.volatile = r.volatile || gd.Durability == graph.Volatile
		if gd.Input || gd.Output {
			e.mem.makeHome(id, n, gd.Bytes, Action{Run: r.id, Data: graph.DataID(d)})
		}
	}
}

// startValues makes the values a run starts from and those its tasks will make.
func (e *Engine) startValues(r *run) {
	f := r.f
	ni := int(f.NumInitial)
	made := len(f.Values) - ni
	r.vbase = e.mem.allocValues(made)
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
	// An input that no task reads and that is not an output is freed at once.
	for i := range ni {
		e.freeIfUnneeded(r.init[i])
	}
}

// val returns the engine's number of a value of the graph.
func (r *run) val(v int32) valueID {
	if v < r.f.NumInitial {
		return r.init[v]
	}
	return r.vbase + valueID(v-r.f.NumInitial)
}

// want marks the values that are needed beyond their readers: outputs are delivered, and
// resident data keeps its last value. A value that no task changed is in its home
// already.
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
