package engine

import (
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Lanes and the operations in flight on them, and the outbox that collects actions.

// flights are the operations in flight.
type flights struct {
	lanes    []lane
	flying   int          // operations on lanes; invariant: the sum of issued - done over lanes
	inFlight int          // tasks that are issued; invariant: the sum of flight over runs
	detached []detachedOp // launches that have left their lanes; flying does not count them
	// far says which pairs of devices (from, to) a network joins.
	far map[[2]machine.DeviceID]bool
	// copyFor is the task that copies are being made for, -1 for none, and copySerial the
	// serial of its issue.
	copyFor    taskID
	copySerial uint32
	squeezes   int    // squeeze copies that failed in a row
	learnable  uint32 // executions the cost model could have learnt from, counted
}

// lane is an in-order queue of operations in flight.
type lane struct {
	info LaneInfo
	// issued and done count the operations given to the lane and those that ended. Op.Seq
	// is the lower half of the count. Invariant: done <= issued.
	issued uint64
	done   uint64
	lost   uint64 // operations up to this count were given up; invariant: lost <= issued
	// backlog is, on a team, the predicted nanoseconds of its launches in flight; invariant:
	// the sum of their cost. wide is the number of those that take several lanes, and extra
	// the lane-nanoseconds they take beyond backlog.
	backlog int64
	wide    int
	extra   int64
	ring    []opRec       // records of operations done+1 to issued; its length is a power of two
	head    time.Duration // when its oldest operation became the oldest
	last    time.Duration // when it last completed an operation
	// timed is the number of its operations in flight with a timeout. Invariant: their
	// sum over lanes is timedOps.
	timed    int
	least    time.Duration // the shortest timeout among operations since timed was 0
	watchers []Lane        // lanes to look at when this one completes an operation (watchLater)
	bound    time.Duration // its earliest entry among timers.bounds, 0 for none
}

// rec returns the record of an operation in flight.
func (l *lane) rec(seq uint64) *opRec { return &l.ring[seq&uint64(len(l.ring)-1)] }

// count returns the full count for the number of an operation that is or recently was in
// flight: numbers wrap, and the result is the one nearest to done.
func (l *lane) count(seq uint32) uint64 {
	return l.done + uint64(int64(int32(seq-uint32(l.done))))
}

// opRec is an operation in flight: a copy or a launch.
type opRec struct {
	task   taskID // of a launch; -1 for a copy. Invariant: that task is issued
	rank   int16  // of a launch: which member of a gang
	why    copyWhy
	auto   bool          // its timeout is a lower bound; limit computes the real one
	src    Inst          // of a copy
	dst    Inst          // of a copy
	p0, p1 pieceID       // of a copy: pieces [p0, p1)
	issued time.Duration // when it was issued
	// inputs is the arrival of the last copy made for a launch, if there is a trace.
	inputs time.Duration
	// forRun, forTask and forIssue name the task that a copy is made for and the serial
	// of its issue; 0 and graph.NoTask if it is for none.
	forRun   int32
	forTask  graph.TaskID
	forIssue uint32
	timeout  time.Duration // of a launch, 0 for none
	bytes    int64         // of a copy
	// args are the instances a launch pins, in the order of its uses; the workspace last.
	// A plain launch in host memory pins none.
	args  []Inst
	waits []Op // of a launch on a device with its own memory or with a timeout
}

// Lanes describes the engine's lanes; index is the Lane.
func (e *Engine) Lanes() []LaneInfo { return LanesOf(e.m) }

// LanesOf describes the lanes an engine for a machine has: one for copies within
// host memory, then for each device its compute lanes, the one for copies in and
// the one for copies out.
func LanesOf(m *machine.Machine) []LaneInfo {
	out := []LaneInfo{{Device: machine.Host, Kind: CopyIn}}
	for i := range m.Devices {
		d := machine.DeviceID(i)
		for k := range max(m.Devices[i].Lanes, 1) {
			out = append(out, LaneInfo{Device: d, Kind: Compute, Index: k})
		}
		out = append(out, LaneInfo{Device: d, Kind: CopyIn}, LaneInfo{Device: d, Kind: CopyOut})
	}
	return out
}

// Issued returns the number of operations that a lane has been given.
func (e *Engine) Issued(l Lane) uint32 { return uint32(e.lanes[l].issued) }

// Ended returns the number up to which all operations of a lane have ended, and wait for
// nothing any more. No operation issued later waits for those. A launch on a patient device is
// detached before it has begun: until it ends it may still look at what it waits for.
func (e *Engine) Ended(l Lane) uint32 {
	ended := e.lanes[l].done
	for i := range e.detached {
		if op := e.detached[i].op; op.Lane == l && e.devs[e.lanes[l].info.Device].patient {
			ended = min(ended, e.lanes[l].count(op.Seq)-1)
		}
	}
	return uint32(ended)
}

// Running is a launch a device has begun and not ended.
type Running struct {
	Op    Op
	Graph *graph.Graph
	Task  graph.TaskID
	Since time.Duration // it began then or later

	Run       RunID
	Device    machine.DeviceID
	Predicted time.Duration
}

// Oldest returns the launch that a device has been running for longest; false if it runs
// none. Copies that a launch waits for are not counted as part of it.
func (e *Engine) Oldest(dev machine.DeviceID) (o Running, ok bool) {
	d := &e.devs[dev]
	for l := d.lanes[0]; l < d.lanes[1]; l++ {
		if run, runs := e.running(l); runs && (!ok || run.Since < o.Since) {
			o, ok = run, true
		}
	}
	return o, ok
}

// running returns the launch that a lane runs, false if it runs none.
func (e *Engine) running(l Lane) (o Running, ok bool) {
	ln := &e.lanes[l]
	if ln.done == ln.issued {
		return o, false
	}
	rec := ln.rec(ln.done + 1)
	if rec.task < 0 {
		return o, false
	}
	r, gt := e.taskOf(rec.task)
	since := max(ln.head, rec.issued)
	for _, p := range r.f.Preds(gt) {
		t := &e.tasks.at[r.task(graph.TaskID(p))]
		if t.where != done {
			return o, false
		}
		since = max(since, time.Duration(t.eft))
	}
	return Running{
		Op: Op{l, uint32(ln.done + 1)}, Graph: r.g, Task: gt, Since: since,
		Run: r.id, Device: ln.info.Device, Predicted: time.Duration(e.tasks.at[rec.task].cost),
	}, true
}

// push gives a lane its next operation and returns its record, which is valid until the
// next push to that lane.
func (e *Engine) push(l Lane) (Op, *opRec) {
	ln := &e.lanes[l]
	if int(ln.issued-ln.done) >= len(ln.ring) {
		bigger := make([]opRec, 2*len(ln.ring))
		for s := ln.done + 1; s != ln.issued+1; s++ {
			bigger[s&uint64(len(bigger)-1)] = *ln.rec(s)
		}
		ln.ring = bigger
	}
	if ln.issued == ln.done {
		ln.head = e.now
	}
	ln.issued++
	e.flying++
	r := ln.rec(ln.issued)
	r.task, r.rank, r.issued, r.timeout = -1, 0, e.now, 0
	r.forRun, r.forTask, r.inputs = 0, graph.NoTask, 0
	r.args, r.waits = r.args[:0], r.waits[:0]
	return Op{l, uint32(ln.issued)}, r
}

// computes reports whether a lane carries launches. If all devices use host memory, lane
// 0 is the only one that copies.
func (e *Engine) computes(l Lane) bool {
	return l != 0 && (e.hostOnly || e.lanes[l].info.Kind == Compute)
}

// outbox collects the actions of a step.
type outbox struct{ list []Action }

// emit adds an action for the caller to fill in.
func (o *outbox) emit(k ActionKind) *Action {
	n := len(o.list)
	if n == cap(o.list) {
		o.list = append(o.list, Action{})
	} else {
		o.list = o.list[:n+1]
		o.list[n] = Action{}
	}
	a := &o.list[n]
	a.Kind = k
	return a
}

// copiesAlone reports whether no other lane copies. The time of a copy that shares a link
// says little about its time alone.
func (e *Engine) copiesAlone(lane Lane) bool {
	for i := range e.lanes {
		if l := &e.lanes[i]; Lane(i) != lane && l.info.Kind != Compute && l.issued != l.done {
			return false
		}
	}
	return true
}

// computing reports whether a device has launches in flight.
func (e *Engine) computing(dev machine.DeviceID) bool {
	for l := e.devs[dev].lanes[0]; l < e.devs[dev].lanes[1]; l++ {
		if e.lanes[l].issued > e.lanes[l].done {
			return true
		}
	}
	return false
}
