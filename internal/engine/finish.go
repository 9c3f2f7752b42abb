package engine

import (
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/trace"
)

// Completions: the end of an operation, of a task, and the values a task made and read.

// maxDepth is the greatest depth of a value. It keeps the count of a chain of volatile
// updates, which nothing commits, within an int16.
const maxDepth = 1<<15 - 2

// The executions the cost model learns from: of many short ones that are alike, a sample
// teaches as much as all.
const (
	// learnAll is the number of executions of a shape that are all learnt from: enough
	// for a mean.
	learnAll = 32
	// learnEvery is the distance between samples of the rest: at 1 in 127 the cost of
	// learning is negligible. It is a prime, so that samples do not fall into step with a
	// graph.
	learnEvery = 127
	// learnAlways is the duration above which every execution is learnt from: one that
	// long pays for the call to the cost model.
	learnAlways = 20 * time.Microsecond
)

// opDone takes in the completion of an operation.
func (e *Engine) opDone(ev *Event) {
	ln := &e.lanes[ev.Op.Lane]
	seq := ln.count(ev.Op.Seq)
	if seq <= ln.lost || seq <= ln.done {
		if len(e.detached) > 0 {
			e.endDetached(ev)
		}
		return // otherwise the device was dropped, and the operation has ended before
	}
	if seq != ln.done+1 {
		panic("engine: completions out of order")
	}
	e.finish(ev.Op, ev.Status, ev.Err, ev.Start, ev.End)
}

// finish ends the oldest operation of a lane.
func (e *Engine) finish(op Op, st Status, err error, start, end time.Duration) {
	ln := &e.lanes[op.Lane]
	rec := ln.rec(ln.done + 1)
	ln.done++
	e.flying--
	ln.head, ln.last = e.now, e.now
	if rec.timeout > 0 {
		ln.timed--
		e.timedOps--
	}
	if ln.timed > 0 && (ln.bound == 0 || ln.bound > e.now+ln.least) {
		e.watchLane(op.Lane)
	}
	if len(ln.watchers) > 0 {
		for _, l := range ln.watchers {
			e.watchLane(l)
		}
		ln.watchers = ln.watchers[:0]
	}
	if dev := ln.info.Device; dev >= 0 {
		e.revisit(dev)
	}
	if rec.task < 0 {
		if st == OK || st == DepFailed {
			err = nil
		} else {
			err = e.copyBroke(rec, st, err)
		}
		e.copyDone(op, rec, st == OK, err, start, end)
		return
	}
	e.launchDone(op, rec, st, err, start, end)
}

// launchDone takes in the end of a launch: counts of its device, its gang, then success
// or failure of its task.
func (e *Engine) launchDone(op Op, rec *opRec, st Status, err error, start, end time.Duration) {
	tid := rec.task
	t := &e.tasks.at[tid]
	r := e.runs[t.run]
	gt := graph.TaskID(tid - r.tbase)
	dev := e.lanes[op.Lane].info.Device
	d := &e.devs[dev]
	d.flight--
	d.backlog -= t.cost
	d.load -= t.cost
	if d.team > 0 {
		e.offTeam(op.Lane, tid, end-start)
	}
	if !d.loadChanged {
		d.loadChanged = true
		e.loadChanged = append(e.loadChanged, dev)
		e.dirty(dev)
	}
	e.situation.Devices[dev].Queued--
	ok := st == OK
	if st == Failed || st == Refused || st == Unfit {
		d.health.faulted = true
	}
	if len(rec.args) > 0 {
		e.unpinLaunch(rec, r.f, gt)
	}
	if st != DepFailed {
		if e.contention != nil {
			e.contention.Ran(dev, start, end, e.computing(dev))
		}
		if r.o.Probe { // it is no task of anybody
			d.stats.Active--
		} else {
			d.stats.Observe(end - start)
		}
	} else {
		if e.contention != nil {
			e.contention.Ran(dev, e.now, e.now, e.computing(dev))
		}
		d.stats.Active--
	}
	// A gang ends as a whole when its last member ends.
	g := e.gang(tid)
	if g != nil {
		if !ok {
			g.memberFailed(st, err, dev, end)
		}
		if !e.lastMember(g, op, tid, ok, start) {
			return
		}
		st, err, ok, start = g.status, g.err, g.status == OK, g.start
		delete(e.gangs, tid)
		if ok && g.lost && e.lostResult(r, gt) {
			st, ok, g.failed = DepFailed, false, dev
		}
		if !ok {
			op, dev = g.member(g.failed), g.failed
		}
	}
	if e.records || r.work.unit != nil {
		e.executed(op, rec, r, st, err, start, end)
	}
	if !ok {
		// In a first execution every copy of a result comes from it; in a replay, other
		// results may have copies that are complete.
		ops := []Op{op}
		if g != nil {
			ops = g.ops
		}
		e.voidOutputs(r, gt, ops, e.tasks.at[tid].flags&replayed == 0)
		e.unissue(tid, r, g)
		e.taskFailed(tid, r, gt, dev, st, err)
		return
	}
	e.succeeded(tid, r, gt, dev, start, end)
}

// recordExec records the execution of a task in the trace.
func (e *Engine) recordExec(op Op, rec *opRec, r *run, t *task, ok bool, start, end time.Duration) {
	info, gt := &e.lanes[op.Lane].info, graph.TaskID(rec.task-r.tbase)
	e.tr.Record(trace.Event{
		Kind: trace.Exec, Failed: !ok, Lane: uint8(info.Index), Width: uint8(e.width(rec.task)), Device: info.Device, From: info.Device,
		Run: int32(r.id), Task: gt, Ready: time.Duration(t.readyAt), Issued: rec.issued,
		Start: start, End: end, InputsAt: min(e.inputsAt(rec, r, gt), start), Predicted: time.Duration(t.cost),
	})
}

// inputsAt returns when the last input of a task was ready.
func (e *Engine) inputsAt(rec *opRec, r *run, gt graph.TaskID) time.Duration {
	at := int64(rec.inputs)
	for _, p := range r.f.Preds(gt) {
		if pt := &e.tasks.at[r.task(graph.TaskID(p))]; pt.where == done {
			at = max(at, pt.eft)
		}
	}
	return time.Duration(at)
}

// unpinLaunch undoes the pins of a launch, which frees its workspace.
func (e *Engine) unpinLaunch(rec *opRec, f *graph.Flow, gt graph.TaskID) {
	a, uses := 0, f.TaskUses(gt)
	for k := range uses {
		u := &uses[k]
		if u.Rank != rec.rank {
			continue
		}
		p0, n := pieces(u)
		e.mem.unpin(rec.args[a], p0, n, 0)
		a++
	}
	if a < len(rec.args) {
		e.mem.unpin(rec.args[a], 0, 0, 0)
	}
}

// succeeded records a task that ended well: it counts the task, learns from its duration
// and hands over its values.
func (e *Engine) succeeded(tid taskID, r *run, gt graph.TaskID, dev machine.DeviceID, start, end time.Duration) {
	took := end - start
	t := &e.tasks.at[tid]
	t.move(done)
	if t.flags&(inputFailed|tried|isWide) != 0 {
		e.reportWide(tid, r, dev, took)
		t.flags &^= inputFailed | tried
		delete(e.taskCopies, tid)
		delete(e.attempts, tid)
	}
	expected := t.eft - t.readyAt
	t.eft = int64(end)
	r.left--
	r.report.Executed++
	dr := &r.report.Devices[dev]
	dr.Tasks++
	dr.Busy += took
	dr.Predicted += time.Duration(t.cost)
	d := &e.devs[dev]
	if !r.o.Probe {
		d.health.failures, d.lastOK = 0, e.now
	}
	if d.energy != nil {
		dr.EnergyJ += d.energy.between(start, end) / float64(e.together(d))
	}
	row := &r.f.Rows[gt]
	sh := &r.shapes[row.Shape]
	if e.isolated && sh.ran&ranBit(dev) == 0 && e.devs[dev].process.Own {
		e.compiledOn(dev, r.g.Task(gt), sh)
	}
	if e.learn != nil && t.flags&isDetached == 0 {
		e.learnable++
		if sh.samples < learnAll || (took > learnAlways || e.learnable%learnEvery == 0) && (t.flags&isWide == 0 || e.hadTeam(t.lane, start)) {
			sh.samples++
			e.learn.Observe(r.g.Task(gt), dev, e.contention.Alone(dev, start, end))
		}
	}
	if e.observer != nil && t.flags&isDetached == 0 {
		e.observer.Observe(sched.Outcome{
			Kernel: sh.kernel, Ops: sh.ops, Bytes: sh.bytes, Device: dev,
			Predicted: time.Duration(t.cost), Took: took, Turnaround: e.now - time.Duration(t.readyAt),
			Expected: time.Duration(expected),
		})
	}
	if row.Plain && e.hostOnly {
		e.settlePlain(r, r.f.Plain[row.Use:r.f.Rows[gt+1].Use])
	} else {
		e.settleUses(r, gt, took)
		e.endRecipe(tid)
	}
	e.landed(r)
	if r.left == 0 && r.owed == 0 || r.state == runFailing {
		e.endLater(r)
	}
}

// settleUses takes in the values a task made and ends its reads.
func (e *Engine) settleUses(r *run, gt graph.TaskID, took time.Duration) {
	f, uses := r.f, r.f.TaskUses(gt)
	// depth and replay are the length of the chain that would recompute its results.
	var depth int16
	var replay int64
	if !e.hostOnly {
		e.eachRead(r, gt, func(v valueID) {
			if val := &e.mem.vals.at[v]; val.flags&(anchored|commits) == 0 {
				depth = max(depth, val.depth)
				replay = max(replay, val.replay)
			}
		})
	}
	for k := range uses {
		u := &uses[k]
		for q := u.W; q >= 0 && q < u.W+u.P1-u.P0; q++ {
			e.produced(r.val(f.WriteVals[q]), min(depth, maxDepth)+1, replay+int64(took))
		}
	}
	for k := range uses {
		for _, gv := range f.Reads(&uses[k]) {
			v := r.val(gv)
			e.mem.vals.at[v].reads--
			e.wasRead(v)
		}
	}
}

// settlePlain does the same for a plain task where all devices use host memory, so that
// no recipe is kept for its results.
func (e *Engine) settlePlain(r *run, uses []graph.PlainUse) {
	initial, shift := r.f.NumInitial, r.shift()
	quick := len(e.leftOuts)+len(e.behindReaders) == 0
	vals := e.mem.vals.at // nothing here makes values
	for k := range uses {
		u := &uses[k]
		v := valueID(u.V) + shift
		if u.Data >= 0 {
			if val := &vals[v]; quick && val.reads > 0 && val.slot >= 0 {
				val.on(madeInHost)
			} else {
				e.produced(v, 0, 0)
			}
			continue
		}
		if u.V < initial {
			v = r.init[u.V]
		}
		val := &vals[v]
		if val.reads--; val.reads == 0 {
			e.wasRead(v)
		}
	}
}

// wasRead frees a value after a read of it ended, if nothing else needs it.
func (e *Engine) wasRead(v valueID) {
	val := &e.mem.vals.at[v]
	if val.reads > 0 {
		return
	}
	if !e.mem.freeQuick(val) {
		e.freeIfUnneeded(v)
	}
	if len(e.behindReaders) > 0 {
		e.wakeAwaiting(v)
	}
}

// landed takes a task out of flight, which may let another be issued.
func (e *Engine) landed(r *run) {
	r.flight--
	e.inFlight--
	if r.parked.len() > 0 {
		e.unpark(r)
	}
	if e.gangLine.len() > 0 {
		e.nextGang()
	}
}

// produced takes in one value a task made. depth and replay describe its recomputation.
func (e *Engine) produced(v valueID, depth int16, replay int64) {
	val := &e.mem.vals.at[v]
	val.on(madeGone)
	if len(e.leftOuts) > 0 {
		e.offerAgain = true // a task of another run may have been left out for want of it
	}
	if len(e.behindReaders) > 0 && val.reads == 0 {
		e.wakeAwaiting(v)
		val = &e.mem.vals.at[v]
	}
	if val.slot < 0 {
		// It was freed while it was recomputed, or its readers were reported before its
		// task, or it was updated in place already. Results of its readers may still have
		// to be recomputed from it.
		if (val.deps > 0 || val.reads > 0) && val.flags&anchored == 0 && !e.hostOnly {
			val.depth, val.replay = depth, replay
			e.keepRecipe(v)
		}
		return
	}
	if e.hostOnly || e.mem.wholeInHost(v, -1) {
		val.on(madeInHost)
		val.depth, val.replay = 0, 0
		e.freeRecipe(v) // kept if it was made on a device the time before
	} else {
		val.on(madeOnDevice)
		val.depth, val.replay = depth, replay
	}
	if !val.needed() {
		e.freeIfUnneeded(v)
		return
	}
	if val.flags&anchored == 0 {
		e.keepRecipe(v)
		val = &e.mem.vals.at[v]
		kind := e.mem.data.at[val.data].kind
		if kind == graph.Mirrored || kind == graph.Versioned && (int(depth) >= e.o.ReplayDepth || replay > int64(e.o.ReplayBound)) {
			e.commit(v)
		}
	}
	switch val := &e.mem.vals.at[v]; {
	case val.owed():
		e.deliver(v)
	case !e.hostOnly && val.flags&anchored != 0:
		// It was recomputed outside its home and need not be kept there for recovery: an
		// output may be waiting for that slot.
		if e.mem.data.at[val.data].home >= 0 {
			e.homeVacated(val.data, val.piece)
		}
	}
}

// voidOutputs ends the copies that failed operations were to make of a task's results;
// with all, every copy of them.
func (e *Engine) voidOutputs(r *run, gt graph.TaskID, ops []Op, all bool) {
	uses := r.f.TaskUses(gt)
	for k := range uses {
		for _, gv := range r.f.Writes(&uses[k]) {
			v := r.val(gv)
			for s := e.mem.vals.at[v].slot; s >= 0; {
				next := e.mem.slots.at[s].next
				sl := &e.mem.slots.at[s]
				if all || slices.ContainsFunc(ops, func(o Op) bool { return o.Lane == sl.lane && e.lanes[o.Lane].count(o.Seq) == sl.seq }) {
					i := sl.inst
					e.mem.loseCopy(s)
					e.mem.deferFree(i)
				}
				s = next
			}
		}
	}
}

// wakeAwaiting takes on the tasks that waited for a value to be made and read.
func (e *Engine) wakeAwaiting(v valueID) {
	ts, ok := e.behindReaders[v]
	if !ok {
		return
	}
	delete(e.behindReaders, v)
	for _, tid := range ts {
		if e.tasks.at[tid].where == behindReaders {
			e.again(tid)
		}
	}
}
