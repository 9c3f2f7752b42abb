package engine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// Copies between memories: the choice of a source, copies through host memory, their end,
// and copies that fail.

// copyWhy is the purpose of a copy.
type copyWhy uint8

const (
	forTask    copyWhy = iota // an input of a task
	forCommit                 // make a value durable
	forHome                   // deliver an output
	forSpill                  // make room in a device's memory
	forSwap                   // hand a value to the device that replaces this one
	forAside                  // clear a home of a value kept for recovery only
	forStage                  // the first half of a copy through host memory
	forSqueeze                // give up the unused part of a buffer
)

// source returns the slot whose copy of v reaches a memory soonest, -1 if none can.
func (e *Engine) source(v valueID, space spaceID) slotID {
	best, bestCost := slotID(-1), time.Duration(-1)
	to := e.mem.spaces[space].dev
	val := &e.mem.vals.at[v]
	for s := val.slot; s >= 0; s = e.mem.slots.at[s].next {
		from := e.mem.insts[e.mem.slots.at[s].inst].space
		if e.mem.spaces[from].away {
			continue
		}
		cost := time.Duration(0)
		if from != space {
			est := e.cost.Copy(val.bytes, e.mem.spaces[from].dev, to)
			if est.Median < 0 {
				continue
			}
			cost = est.Median
		}
		if !e.mem.filled(s) {
			cost += cost/4 + 1 // prefer a complete copy
			if !e.computes(e.mem.slots.at[s].lane) {
				cost++ // then one that a task makes: a copy in flight ends after its source
			}
		}
		if best < 0 || cost < bestCost {
			best, bestCost = s, cost
		}
	}
	return best
}

// fill copies pieces [p0, p0+n) into instance dst from the copies of their values val(k).
// It claims and pins slots and appends the operations to e.ops.
func (e *Engine) fill(dst Inst, p0, n pieceID, val func(k pieceID) valueID, why copyWhy) {
	for k := pieceID(0); k < n; {
		v := val(k)
		ds := e.mem.insts[dst].at(p0 + k)
		if e.mem.slots.at[ds].val == v {
			if !e.mem.filled(ds) {
				e.ops = append(e.ops, Op{e.mem.slots.at[ds].lane, uint32(e.mem.slots.at[ds].seq)})
			}
			k++
			continue
		}
		s := e.source(v, e.mem.insts[dst].space)
		src := e.mem.slots.at[s].inst
		// One copy takes the following pieces too if they are adjacent in the same source.
		m := pieceID(1)
		for k+m < n && m < e.mem.insts[src].n {
			w := val(k + m)
			if e.mem.slots.at[ds+slotID(m)].val == w {
				break
			}
			ws := e.source(w, e.mem.insts[dst].space)
			if ws < 0 || ws != s+slotID(m) || e.mem.slots.at[ws].inst != src {
				break
			}
			m++
		}
		if e.staged(v, e.mem.insts[src].space, e.mem.insts[dst].space) {
			src, s = e.stage(src, p0+k, m, s)
		}
		e.copy(src, dst, p0+k, m, s, ds, why)
		k += m
	}
}

// staged reports whether a copy of v between two memories goes through host memory,
// because no link joins their devices or that path is faster.
func (e *Engine) staged(v valueID, from, to spaceID) bool {
	return from != 0 && to != 0 && from != to && e.cost.Copy(e.mem.vals.at[v].bytes, e.mem.spaces[from].dev, e.mem.spaces[to].dev).Via
}

// stage copies m pieces from slots s… into host memory and returns their place there.
// They stay, so that a value copied this way is anchored as well.
func (e *Engine) stage(src Inst, p, m pieceID, s slotID) (inst Inst, first slotID) {
	d := e.mem.insts[src].data
	var bytes int64
	for k := range slotID(m) {
		bytes += e.mem.vals.at[e.mem.slots.at[s+k].val].bytes
	}
	inst = e.mem.findVacant(d, 0, p, m)
	if inst < 0 {
		inst = e.mem.alloc(d, 0, p, m, e.pieceLo(d, p), bytes)
	}
	first = e.mem.insts[inst].at(p)
	e.copy(src, inst, p, m, s, first, forStage)
	return inst, first
}

// copy issues one copy of m pieces from slots s… to slots ds….
func (e *Engine) copy(src, dst Inst, p, m pieceID, s, ds slotID, why copyWhy) {
	from, to := e.mem.insts[src].space, e.mem.insts[dst].space
	l := Lane(0)
	switch {
	case to != 0 && from != 0 && e.sends(e.mem.spaces[from].dev, e.mem.spaces[to].dev):
		l = e.devs[e.mem.spaces[from].dev].out
	case to != 0:
		l = e.devs[e.mem.spaces[to].dev].in
	case from != 0:
		l = e.devs[e.mem.spaces[from].dev].out
	}
	op, rec := e.push(l)
	rec.why, rec.src, rec.dst, rec.p0, rec.p1 = why, src, dst, p, p+m
	w := len(e.waits)
	var bytes int64
	for k := range slotID(m) {
		v := e.mem.slots.at[s+k].val
		bytes += e.mem.vals.at[v].bytes
		if sl := &e.mem.slots.at[s+k]; e.mem.pending(sl.lane, sl.seq) {
			e.waits = append(e.waits, Op{sl.lane, uint32(sl.seq)})
		}
		if e.mem.slots.at[ds+k].val >= 0 {
			panic("engine: copy into a slot that holds a value")
		}
		e.mem.hold(ds+k, v, l, e.lanes[l].issued)
	}
	rec.bytes = bytes
	if e.copyFor >= 0 {
		r, gt := e.taskOf(e.copyFor)
		rec.forRun, rec.forTask, rec.forIssue = int32(r.id), gt, e.copySerial
	}
	e.mem.pin(src, p, m, 1)
	e.mem.pin(dst, p, m, 1)
	if l != 0 {
		e.devs[e.lanes[l].info.Device].flight++
	}
	e.ops = append(e.ops, op)
	a := e.out.emit(Copy)
	a.Op, a.Device, a.From = op, e.mem.spaces[to].dev, e.mem.spaces[from].dev
	a.Src, a.Dst, a.Bytes = Inst(src), Inst(dst), bytes
	a.Secret = e.mem.insts[src].secret
	a.SrcOff, a.DstOff = e.offset(src, p), e.offset(dst, p)
	a.Waits = e.waits[w:len(e.waits):len(e.waits)]
}

// sends reports whether the source of a copy between two devices makes it, on its lane
// for copies out, and not the destination. Over a network it does, so that copies from
// afar do not hold up copies from nearby.
func (e *Engine) sends(from, to machine.DeviceID) bool {
	return e.far[[2]machine.DeviceID{from, to}] && e.working(&e.devs[from])
}

// offset returns the byte at which a piece starts within an instance.
func (e *Engine) offset(i Inst, p pieceID) int64 {
	in := &e.mem.insts[i]
	if p == in.p0 {
		return 0
	}
	return e.pieceLo(in.data, p) - in.lo
}

// pieceLo returns the byte at which a piece starts within its data.
func (e *Engine) pieceLo(d dataID, p pieceID) int64 {
	if r := e.mem.data.at[d].run; r >= 0 {
		f := e.runs[r].f
		return f.Pieces[f.PieceOff[d-e.runs[r].dbase]+int32(p)].Lo
	}
	return e.resident[-1-e.mem.data.at[d].run].bounds[p]
}

// copyDone takes in the end of a copy. err is nil unless the copy failed by itself.
func (e *Engine) copyDone(op Op, rec *opRec, ok bool, err error, start, end time.Duration) {
	src, dst, p0, n := rec.src, rec.dst, rec.p0, rec.p1-rec.p0
	from, to := e.mem.insts[src].space, e.mem.insts[dst].space
	if op.Lane != 0 {
		e.devs[e.lanes[op.Lane].info.Device].flight--
	}
	if e.tr != nil {
		e.tr.Record(trace.Event{
			Kind: trace.Copy, Failed: !ok, Lane: uint8(e.lanes[op.Lane].info.Kind), Device: e.mem.spaces[to].dev, From: e.mem.spaces[from].dev,
			Run: rec.forRun, Task: rec.forTask, Ready: rec.issued, Issued: rec.issued, Start: start, End: end,
			InputsAt: min(max(e.madeAt(e.mem.insts[dst].at(p0)), rec.issued), start), Bytes: rec.bytes,
		})
		if s, live := e.byID[RunID(rec.forRun)]; live && rec.forTask >= 0 {
			if t := &e.tasks.at[e.runs[s].task(rec.forTask)]; t.where == issued && e.mem.pending(t.lane, e.lanes[t.lane].count(t.seq)) {
				l := e.lanes[t.lane].rec(e.lanes[t.lane].count(t.seq))
				l.inputs = max(l.inputs, end)
			}
		}
	}
	if ok && e.learn != nil && end-start > learnAlways && e.copiesAlone(op.Lane) {
		e.learn.ObserveCopy(rec.bytes, e.mem.spaces[from].dev, e.mem.spaces[to].dev, end-start)
	}
	seq := e.lanes[op.Lane].count(op.Seq)
	// Note the values it copied before unpinning can free the instance.
	first := e.mem.insts[dst].at(p0)
	var vals [8]valueID
	got := vals[:0]
	for s := first; s < first+slotID(n); s++ {
		sl := &e.mem.slots.at[s]
		if sl.val < 0 || sl.lane != op.Lane || sl.seq != seq {
			continue
		}
		got = append(got, sl.val)
		if !ok {
			e.mem.unhold(s)
		}
	}
	for _, v := range got {
		if r := e.mem.vals.at[v].run; r >= 0 && ok {
			e.runs[r].report.Copies++
			e.runs[r].report.CopyBytes += e.mem.vals.at[v].bytes
			e.runs[r].report.CopyTime += (end - start) / time.Duration(len(got))
		}
	}
	if rec.why == forSqueeze {
		e.squeezed(src, p0, n, ok)
	}
	if !ok {
		e.mem.deferFree(dst) // plain launches that wait for the copy refer to it and pin nothing
	}
	e.mem.unpin(src, p0, n, 1)
	e.mem.unpin(dst, p0, n, 1)
	for _, v := range got {
		if !ok {
			if rec.forTask >= 0 {
				err = nil // copyBroke has counted it for the task
			}
			e.copyFailed(v, rec.why, err)
			continue
		}
		if len(e.valueCopies) > 0 {
			delete(e.valueCopies, v)
		}
		if e.mem.waiters > 0 {
			e.wakeHolders(v)
		}
		if to == 0 {
			e.anchor(v)
		}
		if d := e.mem.vals.at[v].data; to == 0 && e.mem.data.at[d].home >= 0 {
			e.homeVacated(d, e.mem.vals.at[v].piece)
		}
		if e.mem.vals.at[v].owed() {
			e.deliver(v)
		}
	}
}

// madeAt returns when the value in a slot was produced, 0 if it was given.
func (e *Engine) madeAt(s slotID) time.Duration {
	if v := e.mem.slots.at[s].val; v >= 0 {
		if p := e.producer(v); p >= 0 && e.tasks.at[p].where == done {
			return time.Duration(e.tasks.at[p].eft)
		}
	}
	return 0
}

// copyFailed takes in a copy that did not arrive. A task behind it fails with DepFailed
// and is issued again; commits and deliveries have no task behind them and are tried
// again, up to maxCopyFailures times. err is nil unless the copy failed by itself.
func (e *Engine) copyFailed(v valueID, why copyWhy, err error) {
	val := &e.mem.vals.at[v]
	val.on(commitEnded)
	e.recheckVacating(v)
	if err != nil {
		c := e.valueCopies[v]
		e.valueCopies[v] = copyFailure{err: err, times: c.times + 1}
		if c.times == maxCopyFailures {
			e.homeFailed(v, err)
			return
		}
	}
	if why == forCommit || val.owed() && val.has(produced) {
		e.homeward = append(e.homeward, v) // later in the step: its device may be about to be lost
	}
}

// homeFailed takes in that a value cannot be brought home: a run that owes it fails, and
// so do runs and fetches that wait for it to be there. It can be used where it is.
func (e *Engine) homeFailed(v valueID, err error) {
	err = fmt.Errorf("copying %s home: %w", e.describe(v), err)
	if e.mem.vals.at[v].owed() {
		r, gt := e.taskOf(e.producer(v))
		e.fail(r, e.taskErr(r, gt, -1, err))
	}
	gone := func(x valueID) bool { return x == v }
	for _, r := range e.runs {
		if r != nil && r.state == runWaiting && e.recutsAny(r, gone) {
			e.fail(r, err)
		}
	}
	e.refuseFetches(gone, err)
}

// copyFailure counts the failures in a row of copies for a task or of a value.
type copyFailure struct {
	err   error
	times int
	issue uint32 // serial of the last issue whose copies failed
	open  bool   // the launch of that issue has not returned
}

// failedCopies takes in that the launch of a task returned with DepFailed. It returns the
// error of its copies if they failed too often in a row. If the launch returned for
// another reason than its copies, the count starts anew.
func (e *Engine) failedCopies(tid taskID) error {
	t := &e.tasks.at[tid]
	if t.flags&inputFailed == 0 {
		return nil
	}
	switch c := e.taskCopies[tid]; {
	case c.times > maxCopyFailures:
		return c.err
	case c.open:
		c.open = false
		e.taskCopies[tid] = c
	default:
		t.flags &^= inputFailed
		delete(e.taskCopies, tid)
	}
	return nil
}

// copyBroke takes in that a copy failed by itself. The launch behind it returns with
// DepFailed and is issued again at once, because the source may merely have gone, up to
// maxCopyFailures times. It returns the error, or nil if the failure does not count.
func (e *Engine) copyBroke(rec *opRec, st Status, err error) error {
	if err == nil {
		err = errNoReason
	}
	dst := &e.mem.insts[rec.dst]
	if st == OutOfMemory && dst.space != 0 {
		err = fmt.Errorf("%w: %w", ErrOutOfMemory, err)
		e.shrink(e.mem.spaces[dst.space].dev, dst.bytes)
	}
	if from := &e.mem.spaces[e.mem.insts[rec.src].space]; from.dev >= 0 && !e.working(&e.devs[from.dev]) {
		return nil // its source was lost
	}
	s, live := e.byID[RunID(rec.forRun)]
	if !live || rec.forTask < 0 {
		return err
	}
	tid := e.runs[s].task(rec.forTask)
	t, c := &e.tasks.at[tid], e.taskCopies[tid]
	if t.where == done {
		return err
	}
	// Failed copies of one issue count once, even if the launch behind them was reported
	// first.
	if t.flags&inputFailed == 0 || int32(rec.forIssue-c.issue) > 0 {
		c = copyFailure{err: err, times: c.times + 1, issue: rec.forIssue}
	}
	t.flags |= inputFailed
	c.open = true
	e.taskCopies[tid] = c
	return err
}

// copyGivenUp returns the error of copies of a value that failed so often that no more
// are made until a caller asks again; nil otherwise.
func (e *Engine) copyGivenUp(v valueID) error {
	if len(e.valueCopies) == 0 {
		return nil
	}
	if c := e.valueCopies[v]; c.times > maxCopyFailures {
		return c.err
	}
	return nil
}

// retryCopies lets copies that were given up be tried again, because a caller asks for
// something.
func (e *Engine) retryCopies() {
	if len(e.valueCopies) > 0 {
		maps.DeleteFunc(e.valueCopies, func(_ valueID, c copyFailure) bool { return c.times > maxCopyFailures })
	}
}

// fullOf returns why a memory has no room: copies out of it may have been given up.
func (e *Engine) fullOf(space spaceID) error {
	for _, v := range slices.Sorted(maps.Keys(e.valueCopies)) {
		err := e.copyGivenUp(v)
		for s := e.mem.vals.at[v].slot; s >= 0 && err != nil; s = e.mem.slots.at[s].next {
			if e.mem.insts[e.mem.slots.at[s].inst].space == space {
				return fmt.Errorf("%w: copying %s out of it: %w", ErrOutOfMemory, e.describe(v), err)
			}
		}
	}
	return ErrOutOfMemory
}
