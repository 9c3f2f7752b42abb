package engine

import (
	"fmt"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// Values on their way to host memory: outputs to their homes, and commits, which make a
// value an anchor.

// homeCopies counts copies in flight that touch the caller's memory of a run's data.
func (e *Engine) homeCopies(d dataID, n int) {
	if slot := e.mem.data.at[d].run; slot >= 0 {
		r := e.runs[slot]
		r.homeOps += n
		if n < 0 && r.quiet() && (r.state == runFailing || r.left == 0) {
			e.endLater(r)
		}
	}
}

// homeVacated notes that the slot of a piece in a home may be able to take its output.
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

// redeliver tries again to bring outputs home, and to commit values whose commit failed.
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

// commit starts a copy of v into host memory, unless there is one or it cannot be made.
func (e *Engine) commit(v valueID) {
	val := &e.mem.vals.at[v]
	if val.flags&(anchored|commits) != 0 || e.mem.elsewhereInHost(v, -1) || e.source(v, 0) < 0 || e.copyGivenUp(v) != nil {
		return // it is there or on its way, or it cannot be copied
	}
	d, p, bytes := val.data, val.piece, val.bytes
	e.mem.beginIssue()
	dst := e.mem.findVacant(d, 0, p, 1)
	if dst < 0 {
		if !e.mem.fits(0, bytes) {
			e.lacksHost(v) // until there is room, its recipe keeps it recoverable
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
	e.freeIfUnneeded(v)
}

// shortHaul is the predicted work on a device, in nanoseconds per lane, up to which the
// outputs of a task are copied home behind it. The round trip that this saves takes some
// tens of microseconds, which is a large part of 200 µs and a small part of a longer task.
const shortHaul = 200_000

// followHome issues the copies home of a task's outputs right behind its launch. To wait
// until its end is reported would cost a short task as much time again; a long one gains
// nothing, and its copies would hold up others on the lane.
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

// bringHome reports whether a value is in its home, and takes the next step towards that
// if not. The home may hold an older value that something lost would be recomputed from.
// If the older one is also elsewhere in host memory, the new value overwrites it. If not, the new
// value is committed outside the home first, and the old one is copied aside after that, so that
// neither ever has only an incomplete copy.
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
		// tried again when a caller asks again
	case old < 0 && e.mem.slots.at[hs].pins == 0:
		e.fill(home, val.piece, 1, func(pieceID) valueID { return v }, forHome)
		e.ops = e.ops[:0]
	case old < 0:
		// the operations that touch it will end
	case e.mem.vals.at[old].reads == 0 && e.mem.wholeInHost(old, hs):
		e.mem.unhold(hs) // comes before a commit of v elsewhere, which would take memory and one more copy
		return e.bringHome(v)
	case !val.has(anchored):
		e.commit(v)
	case e.mem.vals.at[old].reads > 0, e.mem.elsewhereInHost(old, hs):
		// its readers, or the copy of it, will end
	case e.copyGivenUp(old) != nil:
		e.homeFailed(v, e.copyGivenUp(old))
	case !e.mem.fits(0, val.bytes):
		e.lacksHost(v)
	default:
		e.copyAside(hs)
	}
	return false
}

// copyAside copies the value in a slot of a home to other host memory, and reports
// whether such a copy exists or is in flight: there may be no room, or copies of it were
// given up.
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
