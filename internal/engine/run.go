package engine

import (
	"cmp"
	"slices"
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

// What a run came to, in the words of package trace.
type (
	Report       = trace.Report
	DeviceReport = trace.DeviceReport
	TaskError    = trace.TaskError
	RunError     = trace.RunError
	Quarantine   = trace.Quarantine
	Loss         = trace.Loss
)

// runTable are the runs.
type runTable struct {
	runs     []*run // by slot; nil where free
	freeRuns []runSlot
	spare    []*run                // retired runs, kept for their slices
	byID     map[RunID]runSlot     // runs that have not ended
	latest   map[*graph.Graph]*run // of each graph, the run that began last and has not ended
	nextRun  RunID
	toAdmit  []ticket  // runs that may be able to start, a heap by number
	recuts   []ticket  // runs that wait for resident data to be cut anew
	ending   []runSlot // runs to end at the end of the step: those with toEnd set
	failed   []runSlot // runs that failed in this step while something of them ran
	ended    bool      // a run ended in this step
	vnow     int64     // virtual service time reached (fair queueing)
	weights  float64   // sum over active runs
	share    float64   // of a run of weight 1: 1/weights
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

	left       int // tasks not done
	flight     int // tasks in flight
	homeOps    int // copies in flight that touch the caller's memory
	owed       int // outputs not delivered
	recipes    int // recipes held
	needed     int // its values needed after it ended
	vtime      int64
	ahead      *run    // of the same graph, begun before it and not ended
	behind     *run    // likewise, begun after it
	invWeight  float64 // 1/Weight
	priority   int     // of every task, where all have the same
	errs       []error
	state      runState
	parked     fifo[taskID] // tasks that wait for it to have fewer in flight
	shapes     []shape
	costs      []time.Duration // by shape and device class
	keys       []int64         // of its tasks, where it has a plan
	toEnd      bool
	vacating   bool          // all is done, and the caller's memory is not free yet
	committing []valueID     // results that are made durable before it ends, some of them already
	lackedRoom bool          // there was no room to keep what was there
	stopping   bool          // what it has in flight is to be ended, at the end of the step
	stopped    bool          // that was done
	purged     bool          // its tasks are out of every queue, as it is about to end
	timeout    time.Duration // of tasks that name none: negative for none, 0 for what their device has
	volatile   bool          // some of its data is updated in place
	planned    bool          // the policy has a plan for it
	begun      bool          // it was admitted, so it has tasks and values
	after      int           // lines for resident data it is not first in, while it waits
	revived    bool          // it ended, and works again for a run that reads its results
	reviveErr  error         // what it fails of while revived
	report     Report
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
	ran         uint64          // devices, by ranBit, whose process has run it
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
	r.invWeight = 1 / o.Weight
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
	r.timeout = cmp.Or(r.o.Timeout, e.o.TaskTimeout)
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
		e.freeIfUnneeded(r.init[i])
	}
}

// val maps a value of the graph to the engine's.
func (r *run) val(v int32) valueID {
	if v < r.f.NumInitial {
		return r.init[v]
	}
	return r.vbase + valueID(v-r.f.NumInitial)
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
