package engine

import (
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Preparing a launch: the checks of its inputs and versions, the choice of a buffer for
// each use, and room for the buffers that are new. It changes no record that a failure to
// issue would have to undo.

// useBuffer is the buffer that issuing gives to one use.
type useBuffer struct {
	inst  Inst // an existing instance, -1 for a new one
	there bool // inst holds all that the use reads
	bytes int64
	space spaceID
}

// room is a number of bytes in a device's memory and in host memory.
type room struct{ here, host int64 }

// prepare checks the inputs of one rank of a task, appends the buffers it chooses for
// them to e.buffers, and makes room for these on top of taken, the room already in use.
// It returns the room needed; inputs that are staged through host memory need room there.
func (e *Engine) prepare(tid taskID, r *run, gt graph.TaskID, dev machine.DeviceID, rank int16, taken room) (issueOutcome, room) {
	staging, ok := e.checkInputs(tid, r, gt, dev, rank)
	if !ok || e.tooManyVersions(tid, r, gt) {
		return setAside, room{}
	}
	base, space := len(e.buffers), e.devs[dev].space
	need := room{here: e.chooseBuffers(r, gt, rank, space, false), host: staging}
	if e.makeRoom(space, need, taken) {
		return issuedOK, need
	}
	if e.effort < compact || e.flying > 0 {
		return noMemory, room{}
	}
	if space != hostSpace { // nothing is evicted from host memory, so smaller buffers gain nothing
		for _, p := range e.buffers[base:] {
			if p.inst >= 0 {
				e.mem.unreserve(p.inst)
			}
		}
		e.buffers = e.buffers[:base]
		need.here = e.chooseBuffers(r, gt, rank, space, true)
		if e.makeRoom(space, need, taken) {
			return issuedOK, need
		}
	}
	short, bytes := space, taken.here+need.here
	if need.host > 0 && !e.mem.fits(hostSpace, taken.host+need.host) {
		short, bytes = hostSpace, taken.host+need.host
	}
	if e.flying == 0 {
		e.squeeze(short) // then its copies are in flight
	}
	if !e.lastResort() || e.devs[dev].patient && e.countDetached(dev) > 0 { // which end if what they wait for fails
		return noMemory, room{}
	}
	e.effort = usual
	e.fail(r, e.taskErr(r, gt, dev, e.outOfMemory(short, bytes)))
	e.unplace(tid, waiting)
	return setAside, room{}
}

// checkInputs reports whether every input of a task has a copy that, for this rank, can
// be brought to its device, and the bytes of those that are staged through host memory.
// If not, the task goes elsewhere, or waits while missing values are recomputed.
func (e *Engine) checkInputs(tid taskID, r *run, gt graph.TaskID, dev machine.DeviceID, rank int16) (staging int64, ok bool) {
	uses, space := r.f.TaskUses(gt), e.devs[dev].space
	missing := false
	for k := range uses {
		u := &uses[k]
		staged := int64(0)
		for _, gv := range r.f.Reads(u) {
			v := r.val(gv)
			if e.mem.vals.at[v].slot < 0 || e.mem.away > 0 && !e.mem.have(v) {
				missing = true
				e.recoverValue(v)
			} else if len(e.detached) > 0 && e.madeDetached(v) {
				e.leaveOut(tid)
				return 0, false
			} else if !e.hostOnly && u.Rank == rank {
				s := e.source(v, space)
				if s < 0 {
					e.goElsewhere(tid, r, gt, dev)
					return 0, false
				}
				if e.staged(v, e.mem.insts[e.mem.slots.at[s].inst].space, space) {
					staged += e.mem.vals.at[v].bytes
				}
			}
			if r.state != runActive {
				return 0, false
			}
		}
		if p0, n := pieces(u); staged > 0 && e.mem.findVacant(r.dataOf[u.Data], hostSpace, p0, n) < 0 {
			staging += staged
		}
	}
	switch {
	case !missing:
		return staging, true
	case e.tasks.at[tid].unissued > 0:
		e.unplace(tid, waiting)
	default: // another run recomputes the value, or a device may bring it back
		e.leaveOut(tid)
	}
	return 0, false
}

// tooManyVersions reports whether a task has to wait before it makes another version of a
// piece, and puts it behind readers if so. There are at most two versions: the one before
// last must have been made and read. A task that replays does not wait, because a reader
// of that version may need what the task recomputes.
func (e *Engine) tooManyVersions(tid taskID, r *run, gt graph.TaskID) bool {
	if e.tasks.at[tid].flags&replayed != 0 {
		return false
	}
	f, uses := r.f, r.f.TaskUses(gt)
	for k := range uses {
		for _, gv := range f.Writes(&uses[k]) {
			prev := f.Values[gv].Prev
			if prev < 0 || f.Values[prev].Prev < 0 || e.mem.data.at[r.dataOf[uses[k].Data]].kind == graph.Volatile {
				continue
			}
			before := r.val(f.Values[prev].Prev)
			if val := &e.mem.vals.at[before]; val.reads > 0 || !val.has(produced) {
				e.behindReaders[before] = append(e.behindReaders[before], tid)
				e.unplace(tid, behindReaders)
				return true
			}
		}
	}
	return false
}

// chooseBuffers chooses the buffers of one rank of a task and returns the bytes of those
// that are new. With exact it uses no buffer larger than the use, so that all others can
// be given up: the task then has room wherever the sum of its uses has.
func (e *Engine) chooseBuffers(r *run, gt graph.TaskID, rank int16, space spaceID, exact bool) int64 {
	need := r.shapes[r.f.Rows[gt].Shape].workspace
	uses := r.f.TaskUses(gt)
	for k := range uses {
		u := &uses[k]
		if u.Rank != rank {
			e.buffers = append(e.buffers, useBuffer{inst: -1})
			continue
		}
		p := e.chooseBuffer(r, u, space, exact)
		if p.inst >= 0 {
			e.mem.reserve(p.inst)
		} else {
			need += p.bytes
		}
		e.buffers = append(e.buffers, p)
	}
	return need
}

// makeRoom reports whether a task has the room it needs on top of taken, and starts to
// make room if not.
func (e *Engine) makeRoom(space spaceID, need, taken room) bool {
	return (need.here == 0 || e.reclaim(space, taken.here+need.here)) && (need.host == 0 || e.mem.fits(0, taken.host+need.host))
}

// chooseBuffer decides which buffer a use gets.
func (e *Engine) chooseBuffer(r *run, u *graph.FlowUse, space spaceID, exact bool) useBuffer {
	f := r.f
	d := r.dataOf[u.Data]
	p0, n := pieces(u)
	bytes := f.UseBytes(u)
	if u.R >= 0 {
		// Look for an instance in this memory that holds all it reads, or has slots free
		// for it.
		reads := f.Reads(u)
		fillable := Inst(-1)
		for c := e.mem.covering(d, p0, n); c.inst >= 0; e.mem.nextCover(&c) {
			i := c.inst
			in := &e.mem.insts[i]
			if !in.covers(space, p0, n) || exact && in.n > n {
				continue
			}
			has, can, sole := true, true, true
			for k := range n {
				s := in.at(p0 + k)
				sl := &e.mem.slots.at[s]
				v := r.val(reads[k])
				if sl.val == v {
					if u.W >= 0 && (sl.copying > 0 || in.home && e.mem.data.at[d].fixed || !e.mayOverwrite(v, s, d)) {
						sole = false
					}
					continue
				}
				has = false
				if sl.val >= 0 || sl.pins > 0 {
					can = false
				}
			}
			if has && (u.W < 0 || sole) {
				return useBuffer{inst: i, there: true, bytes: bytes, space: space}
			}
			if u.W < 0 && can && fillable < 0 && !(in.home && e.mem.data.at[d].fixed) {
				fillable = i
			}
		}
		if u.W < 0 {
			return useBuffer{inst: fillable, bytes: bytes, space: space}
		}
	}
	if exact {
		return useBuffer{inst: -1, bytes: bytes, space: space}
	}
	return useBuffer{inst: e.mem.findVacant(d, space, p0, n), bytes: bytes, space: space}
}

// mayOverwrite reports whether a value may be updated in place without breaking the
// promise of its durability. Volatile data promises nothing, but other data may have to
// be recomputed from its only copy in host memory. Versioned data must have another copy
// in host memory to go back to, and no other reader.
func (e *Engine) mayOverwrite(v valueID, s slotID, d dataID) bool {
	val := &e.mem.vals.at[v]
	if e.mem.data.at[d].kind == graph.Volatile {
		if !e.hostOnly && val.flags&anchored != 0 && (val.deps > 0 || val.reads > 1) && !e.mem.wholeInHost(v, s) {
			return false
		}
		return val.flags&current == 0 || val.reads <= 1
	}
	return val.reads == 1 && val.flags&current == 0 && e.mem.slots.at[s].pins == 0 && e.mem.wholeInHost(v, s)
}
