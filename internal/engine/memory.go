package engine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// Where values are. A value has copies; a copy sits in a slot of an instance;
// an instance is a buffer in a memory. A slot is claimed for a value when the
// operation that will fill it is issued, so that readers can be issued behind
// it; it is filled once that operation is complete.

// copyWhy says what a copy is for, and so what its end means.
type copyWhy uint8

const (
	forTask    copyWhy = iota
	forCommit          // make a value durable
	forHome            // deliver an output
	forSpill           // make room
	forSwap            // hand state to a spare
	forAside           // clear a home of a value kept for recovery only
	forStage           // the first half of a copy through host memory
	forSqueeze         // give up the unused parts of a buffer
)

// homeCopies counts copies in flight that touch the caller's memory behind a run's data.
func (e *Engine) homeCopies(d dataID, n int) {
	if slot := e.mem.data.at[d].run; slot >= 0 {
		r := e.runs[slot]
		r.homeOps += n
		if n < 0 && r.quiet() && (r.state == runFailing || r.left == 0) {
			e.endLater(r)
		}
	}
}

// homeVacated notes that a place in a home may be able to take its output.
func (e *Engine) homeVacated(d dataID, p pieceID) {
	dt := &e.mem.data.at[d]
	if dt.fixed || dt.run < 0 {
		return
	}
	r := e.runs[dt.run]
	if r == nil || r.state != runActive {
		return
	}
	gd := graph.DataID(d - r.dbase)
	if last := r.f.Last[r.f.PieceOff[gd]+int32(p)]; last >= r.f.NumInitial {
		if v := r.val(last); e.mem.vals.at[v].owed() && e.mem.vals.at[v].has(produced) {
			e.homeward = append(e.homeward, v)
		}
	}
}

// redeliver tries again to bring outputs home, and to commit what failed to be.
func (e *Engine) redeliver() {
	for len(e.homeward) > 0 {
		v := e.homeward[len(e.homeward)-1]
		e.homeward = e.homeward[:len(e.homeward)-1]
		val := &e.mem.vals.at[v]
		switch {
		case !val.has(produced):
		case !val.owed():
			if val.needed() {
				e.commit(v)
			}
		case e.runs[val.run].state == runActive:
			e.deliver(v)
		}
	}
}

// maybeDrop gives up copies of a value that nothing needs any more: all of them
// when nothing can ask for it, those outside host memory when it is only kept
// so that something lost could be computed again, or was delivered.
func (e *Engine) maybeDrop(v valueID) {
	val := &e.mem.vals.at[v]
	switch {
	case val.reads > 0 || val.has(current) || val.owed():
		// in use
	case val.needed():
		e.mem.dropCopies(v, true)
	default:
		e.mem.dropCopies(v, false)
		val.on(commitEnded) // nothing waits for that copy, and a replay may need another
		if len(e.valueCopies) > 0 {
			delete(e.valueCopies, v)
		}
		e.uncount(v)
		if val.run < 0 { // put by the caller: it belongs to no run's block
			e.mem.endValue(v)
		}
	}
}

// anchor notes that a complete copy of v is in host memory: nothing has to be
// kept any more to compute it again.
func (e *Engine) anchor(v valueID) {
	val := &e.mem.vals.at[v]
	val.on(reachedHost)
	val.depth, val.replay = 0, 0
	e.vacated(v)
	e.uncount(v)
	e.maybeDrop(v)
}

// count notes that v exists only on devices, so its recipe must be kept.
func (e *Engine) count(v valueID) {
	val := &e.mem.vals.at[v]
	if val.has(counted) {
		return
	}
	val.on(recipeKept)
	p := e.producer(v)
	e.tasks.at[p].liveOuts++
	if e.tasks.at[p].flags&held == 0 {
		e.tasks.at[p].flags |= held
		r, gt := e.taskOf(p)
		r.heldN++
		e.eachRead(r, gt, func(in valueID) {
			e.mem.vals.at[in].deps++
			if owner := e.mem.vals.at[in].run; owner >= 0 && owner != r.slot {
				e.runs[owner].needed++
			}
		})
	}
}

// uncount undoes count, and lets go of the recipe with its last result.
func (e *Engine) uncount(v valueID) {
	val := &e.mem.vals.at[v]
	if !val.has(counted) {
		return
	}
	val.on(recipeFreed)
	p := e.producer(v)
	e.tasks.at[p].liveOuts--
	if e.tasks.at[p].liveOuts > 0 {
		return
	}
	e.tasks.at[p].flags &^= held
	r, gt := e.taskOf(p)
	r.heldN--
	e.eachRead(r, gt, func(in valueID) {
		owner := e.mem.vals.at[in].run
		e.mem.vals.at[in].deps--
		e.maybeDrop(in)
		if owner >= 0 && owner != r.slot {
			e.release(e.runs[owner])
		}
	})
	if r.state == runEnded && r.heldN == 0 && r.needed == 0 {
		e.endLater(r)
	}
}

func (e *Engine) eachRead(r *run, gt graph.TaskID, fn func(v valueID)) {
	uses := r.f.TaskUses(gt)
	for k := range uses {
		for _, gv := range r.f.Reads(&uses[k]) {
			fn(r.val(gv))
		}
	}
}

// source picks the copy of v that reaches a memory soonest.
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
			cost += cost/4 + 1 // rather one that is there
			if !e.computes(e.mem.slots.at[s].lane) {
				cost++ // or is made there: a copy comes after what it copies
			}
		}
		if best < 0 || cost < bestCost {
			best, bestCost = s, cost
		}
	}
	return best
}

// fill copies pieces [p0, p0+n) of d into instance dst from wherever their
// values val(k) are. Claims and pins are made; the operations are appended to e.ops for
// whoever has to wait.
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
		// Take along the pieces that follow when they come from the same place.
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

// staged reports whether a copy of v between two memories goes through the
// host's, because no link joins their devices or that is the faster way.
func (e *Engine) staged(v valueID, from, to spaceID) bool {
	return from != 0 && to != 0 && from != to && e.cost.Copy(e.mem.vals.at[v].bytes, e.mem.spaces[from].dev, e.mem.spaces[to].dev).Via
}

// stage copies m pieces from slots s… into host memory and returns where they
// will be. They stay there, so what was copied this way is durable as well.
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
	a.SrcOff, a.DstOff = e.offset(src, p), e.offset(dst, p)
	a.Waits = e.waits[w:len(e.waits):len(e.waits)]
}

// sends reports whether a copy between two devices is for its source to make, on
// the lane for copies out, and not for its destination: over a network, so that
// what comes from far does not hold up what comes from near.
func (e *Engine) sends(from, to machine.DeviceID) bool {
	return e.far[[2]machine.DeviceID{from, to}] && e.working(&e.devs[from])
}

// offset returns where a piece starts within an instance.
func (e *Engine) offset(i Inst, p pieceID) int64 {
	in := &e.mem.insts[i]
	if p == in.p0 {
		return 0
	}
	return e.pieceLo(in.data, p) - in.lo
}

// pieceLo returns where a piece starts within its data.
func (e *Engine) pieceLo(d dataID, p pieceID) int64 {
	if r := e.mem.data.at[d].run; r >= 0 {
		f := e.runs[r].f
		return f.Pieces[f.PieceOff[d-e.runs[r].dbase]+int32(p)].Lo
	}
	return e.resident[-1-e.mem.data.at[d].run].bounds[p]
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

// copyDone ends a copy.
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
	// What the copy filled, before unpinning can free the instance.
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
		}
	}
	if rec.why == forSqueeze {
		e.squeezed(src, p0, n, ok)
	}
	e.mem.unpin(src, p0, n, 1)
	e.mem.unpin(dst, p0, n, 1)
	for _, v := range got {
		if !ok {
			if rec.forTask >= 0 {
				err = nil // counted by its task
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

// madeAt returns when the value in a slot was produced, 0 if it always was there.
func (e *Engine) madeAt(s slotID) time.Duration {
	if v := e.mem.slots.at[s].val; v >= 0 {
		if p := e.producer(v); p >= 0 && e.tasks.at[p].where == done {
			return time.Duration(e.tasks.at[p].eft)
		}
	}
	return 0
}

// copyFailed deals with a copy that did not arrive. Tasks behind it come back
// by themselves; commits and deliveries have nobody behind them and are made again,
// but not for ever. err is nil unless the copy failed by itself.
func (e *Engine) copyFailed(v valueID, why copyWhy, err error) {
	val := &e.mem.vals.at[v]
	val.on(commitEnded)
	e.vacated(v)
	if err != nil {
		c := e.valueCopies[v]
		e.valueCopies[v] = copyFailure{err: err, times: c.times + 1}
		if c.times == maxCopyFailures {
			e.keptAway(v, err)
			return
		}
	}
	if why == forCommit || val.owed() && val.has(produced) {
		e.homeward = append(e.homeward, v) // not at once: its device may be going down
	}
}

// keptAway takes in that a value cannot be brought home: a run that owes it fails,
// and so does whoever waits for it to be there. It can be used where it is.
func (e *Engine) keptAway(v valueID, err error) {
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

// copyGivenUp returns what copies of a value failed of so often that no more are made until
// somebody asks anew; nil mostly.
func (e *Engine) copyGivenUp(v valueID) error {
	if len(e.valueCopies) == 0 {
		return nil
	}
	if c := e.valueCopies[v]; c.times > maxCopyFailures {
		return c.err
	}
	return nil
}

// hope has copies tried again that were given up on, since somebody asks for something.
func (e *Engine) retryCopies() {
	if len(e.valueCopies) > 0 {
		maps.DeleteFunc(e.valueCopies, func(_ valueID, c copyFailure) bool { return c.times > maxCopyFailures })
	}
}

// fullOf says why a memory has no room: copies out of it may have failed too often.
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

// commit starts a copy of v into host memory.
func (e *Engine) commit(v valueID) {
	val := &e.mem.vals.at[v]
	if val.flags&(anchored|commits) != 0 || e.mem.elsewhereInHost(v, -1) || e.source(v, 0) < 0 || e.copyGivenUp(v) != nil {
		return // it is there, or on its way, or cannot be brought
	}
	d, p, bytes := val.data, val.piece, val.bytes
	e.mem.beginIssue()
	dst := e.mem.findVacant(d, 0, p, 1)
	if dst < 0 {
		if !e.mem.fits(0, bytes) {
			e.lacksHost(v) // until then lineage makes it safe
			return
		}
		dst = e.mem.alloc(d, 0, p, 1, e.pieceLo(d, p), bytes)
	}
	e.mem.vals.at[v].on(commitBegun)
	if r := val.run; r >= 0 {
		e.runs[r].report.Commits++
	}
	e.tr.Record(trace.Event{Kind: trace.Commit, Device: machine.Host, Task: -1, Start: e.now, End: e.now, Bytes: bytes})
	e.fill(dst, p, 1, func(pieceID) valueID { return v }, forCommit)
	e.ops = e.ops[:0]
}

// deliver brings an output of a run to its home.
func (e *Engine) deliver(v valueID) {
	if !e.hostOnly && e.mem.have(v) && e.source(v, 0) < 0 {
		r, gt := e.taskOf(e.producer(v))
		e.fail(r, e.taskErr(r, gt, -1, fmt.Errorf("%w: no link leads from where its result is to host memory", ErrNoDevice)))
		return
	}
	if !e.bringHome(v) {
		return
	}
	val := &e.mem.vals.at[v]
	val.on(cameHome)
	r := e.runs[val.run]
	r.owed--
	if r.owed == 0 && r.left == 0 {
		e.endLater(r)
	}
	e.maybeDrop(v)
}

// shortHaul is up to which nanoseconds of predicted work on a device the outputs of
// a task are sent after it.
const shortHaul = 200_000

// followHome has the outputs of a task that was just issued copied home behind it:
// to wait until it is known to have ended costs a short task as much time again.
// One that takes long gains nothing, and would hold up other copies.
func (e *Engine) followHome(r *run, gt graph.TaskID) {
	uses := r.f.TaskUses(gt)
	for k := range uses {
		for _, gv := range r.f.Writes(&uses[k]) {
			v := r.val(gv)
			val := &e.mem.vals.at[v]
			if !val.owed() {
				continue
			}
			home := e.mem.data.at[val.data].home
			if hs := &e.mem.slots.at[e.mem.insts[home].at(val.piece)]; hs.val < 0 && hs.pins == 0 && e.source(v, 0) >= 0 {
				e.fill(home, val.piece, 1, func(pieceID) valueID { return v }, forHome)
				e.ops = e.ops[:0]
			}
		}
	}
}

// bringHome reports whether a value is in its home, and takes the next step
// towards that when it is not. The home may hold an older value that something
// lost would be computed from: first the new value is made safe beside it, then
// the old one is moved out of the way, so at no moment is either only half there.
func (e *Engine) bringHome(v valueID) bool {
	val := &e.mem.vals.at[v]
	home := e.mem.data.at[val.data].home
	hs := e.mem.insts[home].at(val.piece)
	old := e.mem.slots.at[hs].val
	switch {
	case old == v:
		return e.mem.filled(hs)
	case !e.mem.have(v):
		e.recoverValue(v)
	case e.copyGivenUp(v) != nil:
		// whoever asks anew has it tried again
	case old < 0 && e.mem.slots.at[hs].pins == 0:
		e.fill(home, val.piece, 1, func(pieceID) valueID { return v }, forHome)
		e.ops = e.ops[:0]
	case old < 0:
		// whoever touches it will be done
	case !val.has(anchored):
		e.commit(v)
	case e.mem.vals.at[old].reads > 0:
		// its readers will be done
	case e.mem.elsewhereInHost(old, hs):
		if e.mem.wholeInHost(old, hs) {
			e.mem.unhold(hs)
			return e.bringHome(v)
		}
	case e.copyGivenUp(old) != nil:
		e.keptAway(v, e.copyGivenUp(old))
	case !e.mem.fits(0, val.bytes):
		e.lacksHost(v)
	default:
		e.copyAside(hs)
	}
	return false
}

// copyAside has what is in a place of a home copied into host memory beside it, and
// reports whether that is on its way: there may be no room, or copies of it fail.
func (e *Engine) copyAside(hs slotID) bool {
	v := e.mem.slots.at[hs].val
	val := &e.mem.vals.at[v]
	if e.mem.elsewhereInHost(v, hs) {
		return true
	}
	if e.copyGivenUp(v) != nil || !e.mem.fits(0, val.bytes) {
		return false
	}
	d, p, bytes := val.data, val.piece, val.bytes
	dst := e.mem.alloc(d, 0, p, 1, e.pieceLo(d, p), bytes)
	e.fill(dst, p, 1, func(pieceID) valueID { return v }, forAside)
	e.ops = e.ops[:0]
	return true
}

// room makes space for bytes in a memory, first by giving up copies that exist
// elsewhere, then by moving values to host memory, which takes effect later.
// Instances marked with the current serial stay.
func (e *Engine) room(space spaceID, bytes int64) bool {
	sp := &e.mem.spaces[space]
	if e.mem.fits(space, bytes) {
		return true
	}
	if space == 0 {
		return false
	}
	for i := sp.oldest; i >= 0 && sp.used+bytes > sp.cap; {
		next := e.mem.insts[i].newer
		if e.mem.evictable(i) && e.mem.clean(i) {
			e.evict(i)
		}
		i = next
	}
	if sp.used+bytes <= sp.cap {
		return true
	}
	short := sp.used + bytes - sp.cap
	for i := sp.oldest; i >= 0 && short > 0; i = e.mem.insts[i].newer {
		if e.mem.evictable(i) {
			e.spill(i)
			short -= e.mem.insts[i].bytes
		}
	}
	return false
}

func (e *Engine) evict(i Inst) {
	in := &e.mem.insts[i]
	e.tr.Record(trace.Event{Kind: trace.Evict, Device: e.mem.spaces[in.space].dev, Task: -1, Start: e.now, End: e.now, Bytes: in.bytes})
	for s := in.slot; s < in.end(); s++ {
		if v := e.mem.slots.at[s].val; v >= 0 {
			if r := e.mem.vals.at[v].run; r >= 0 {
				e.runs[r].report.Evictions++
			}
			e.mem.unhold(s)
		}
	}
	e.mem.freeIfIdle(i)
}

// spill copies what only this instance holds to host memory, if there is a way. It
// copies from here, even where a value is also being computed again on another device
// that is nearer: what waits for the room waits for operations that touch this memory.
func (e *Engine) spill(i Inst) {
	sp := &e.mem.spaces[e.mem.insts[i].space]
	if sp.away {
		return
	}
	for s := e.mem.insts[i].slot; s < e.mem.insts[i].end(); s++ {
		v := e.mem.slots.at[s].val
		if v < 0 || e.mem.elsewhere(v, s) || e.mem.vals.at[v].has(commits) || e.copyGivenUp(v) != nil {
			continue
		}
		val := &e.mem.vals.at[v]
		if e.cost.Copy(val.bytes, sp.dev, machine.Host).Median < 0 || !e.mem.fits(0, val.bytes) {
			return
		}
		val.on(commitBegun)
		dst := e.mem.alloc(val.data, 0, val.piece, 1, e.pieceLo(val.data, val.piece), val.bytes)
		e.copy(i, dst, val.piece, 1, s, e.mem.insts[dst].slot, forSpill)
		e.ops = e.ops[:0]
	}
}
