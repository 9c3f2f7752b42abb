package engine

import (
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// flights are the operations in flight.
type flights struct {
	lanes    []lane
	flying   int                          // operations on all lanes: the sum of issued - done
	inFlight int                          // tasks that are issued
	detached []detachedOp                 // launches that have left their lanes; flying does not count them
	far      map[[2]machine.DeviceID]bool // which devices a network joins
	// copyFor is the task that copies are being made for, -1, and copySerial the
	// serial of the issue they are made for.
	copyFor    taskID
	copySerial uint32
	squeezes   int    // copies within a memory that failed in a row
	learnable  uint32 // executions the cost model could have learnt from
}

// lane is an in-order queue of operations in flight.
type lane struct {
	info     LaneInfo
	issued   uint64 // counted without end; numbers of operations are the lower half
	done     uint64
	lost     uint64 // operations up to here were given up on
	ring     []opRec
	head     time.Duration // when its oldest operation became the oldest
	last     time.Duration // when it last completed one
	timed    int           // operations in flight that have a timeout
	least    time.Duration // the shortest timeout of an operation since there was none in flight that has one
	watchers []Lane        // whose oldest operations have timeouts and cannot start before this one gets on
	bound    time.Duration // its earliest entry among the engine's bounds, 0 for none
}

func (l *lane) rec(seq uint64) *opRec { return &l.ring[seq&uint64(len(l.ring)-1)] }

// count returns what issued was at an operation in flight, or not long ago: numbers
// wrap, and one is taken for the nearest to what is done.
func (l *lane) count(seq uint32) uint64 {
	return l.done + uint64(int64(int32(seq-uint32(l.done))))
}

// opRec is an operation in flight.
type opRec struct {
	task   taskID // -1 for a copy
	rank   int16
	why    copyWhy
	quick  bool // a launch whose args are slots, pinned one by one
	auto   bool // its timeout is the least it can be: see limit
	src    Inst
	dst    Inst
	p0, p1 pieceID // pieces copied
	issued time.Duration
	// of a launch, when the last copy made for it arrived, if traced
	inputs time.Duration
	// the task a copy is made for, if any
	forRun   int32
	forTask  graph.TaskID
	forIssue uint32 // serial of its issue
	timeout  time.Duration
	bytes    int64
	args     []Inst   // instances of a launch, in use order; workspace last
	slots    []slotID // of a quick launch, the slots it pins
	waits    []Op     // of a launch on a device with memory of its own, or with a timeout
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

// Issued returns how many operations a lane has been given.
func (e *Engine) Issued(l Lane) uint32 { return uint32(e.lanes[l].issued) }

// Ended returns the number of the last operation of a lane the engine has heard the
// end of: nothing it issues later waits for those up to there.
func (e *Engine) Ended(l Lane) uint32 { return uint32(e.lanes[l].done) }

// Running is a launch a device has begun and not ended.
type Running struct {
	Op    Op
	Graph *graph.Graph
	Task  graph.TaskID
	Since time.Duration // it has not begun before
}

// Oldest returns what a device has been running for longest; false if it runs
// nothing. Copies a launch waits for are not counted as part of it.
func (e *Engine) Oldest(dev machine.DeviceID) (o Running, ok bool) {
	d := &e.devs[dev]
	for l := d.lanes[0]; l < d.lanes[1]; l++ {
		ln := &e.lanes[l]
		if ln.done == ln.issued {
			continue
		}
		rec := ln.rec(ln.done + 1)
		if rec.task < 0 {
			continue
		}
		r, gt := e.taskOf(rec.task)
		since, begun := max(ln.head, rec.issued), true
		for _, p := range r.f.Preds(gt) {
			t := &e.tasks.at[r.task(graph.TaskID(p))]
			begun = begun && t.where == done
			since = max(since, time.Duration(t.eft))
		}
		if begun && (!ok || since < o.Since) {
			o, ok = Running{Op{l, uint32(ln.done + 1)}, r.g, gt, since}, true
		}
	}
	return o, ok
}

// push gives a lane its next operation and returns its record.
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
	r.task, r.rank, r.quick, r.issued, r.timeout = -1, 0, false, e.now, 0
	r.forRun, r.forTask, r.inputs = 0, graph.NoTask, 0
	r.args, r.slots, r.waits = r.args[:0], r.slots[:0], r.waits[:0]
	return Op{l, uint32(ln.issued)}, r
}

// computes reports whether a lane carries launches. Where all devices use host
// memory, lane 0 is the only one that copies.
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

// copiesAlone reports whether no other lane copies: a copy that shares its way with
// others says little about what it takes by itself.
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
