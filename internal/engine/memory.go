package engine

import (
	"fmt"
	"maps"
	"math/bits"
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

// makeHome introduces the caller's memory behind a data handle. It is not counted
// as used: the limit is on what the engine allocates.
func (e *Engine) makeHome(d dataID, pieces pieceID, bytes int64, a Action) {
	i := e.newInst(d, 0, 0, pieces, 0, bytes)
	e.insts[i].home, e.insts[i].lent = true, true
	e.spaces[0].used -= bytes
	e.data.at[d].home = i
	a.Kind, a.Device, a.Inst, a.Bytes = Home, machine.Host, Inst(i), bytes
	*e.emit(Home) = a
}

// newInst makes the record of an instance; the caller emits its action.
func (e *Engine) newInst(d dataID, space spaceID, p0, n pieceID, lo, bytes int64) Inst {
	var i Inst
	if k := len(e.freeI); k > 0 {
		i = e.freeI[k-1]
		e.freeI = e.freeI[:k-1]
	} else {
		i = Inst(len(e.insts))
		e.insts = append(e.insts, inst{})
	}
	s := e.slots.alloc(int(n))
	for k := range slotID(n) {
		e.slots.at[s+k] = slot{val: -1, next: -1, inst: i}
	}
	e.insts[i] = inst{data: d, space: space, p0: p0, n: n, slot: s, next: -1, older: -1, newer: -1, lo: lo, bytes: bytes}
	if d >= 0 {
		head := e.list(&e.insts[i])
		e.insts[i].next, *head = *head, i
	}
	e.spaces[space].used += bytes
	if space != 0 {
		e.view.Devices[space-1].FreeBytes -= bytes
		e.lruAdd(i)
	}
	return i
}

// alloc makes an instance in a device's memory (or the host's).
func (e *Engine) alloc(d dataID, space spaceID, p0, n pieceID, lo, bytes int64) Inst {
	if n == 1 && space == 0 {
		if i := e.idle.take(e.insts, bytes); i >= 0 {
			in := &e.insts[i]
			in.data, in.p0, in.lo = d, p0, lo
			head := e.list(in)
			in.next, *head = *head, i
			e.spaces[0].used += bytes
			return i
		}
	}
	i := e.newInst(d, space, p0, n, lo, bytes)
	a := e.emit(Alloc)
	a.Device, a.Inst, a.Bytes = e.spaces[space].dev, Inst(i), bytes
	return i
}

// fits reports whether a memory has room for so many bytes more as it is,
// freeing idle buffers for it.
func (e *Engine) fits(space spaceID, bytes int64) bool {
	sp := &e.spaces[space]
	if sp.cap == 0 {
		return true
	}
	if space == 0 && e.idle.bytes > 0 && sp.used+e.idle.bytes+bytes > sp.cap {
		e.freeIdle()
	}
	return sp.used+bytes <= sp.cap
}

// idle holds buffers of one piece in host memory that ended and were not freed:
// what comes next is mostly of the same size. They do not count as used.
type idle struct {
	insts [8][]Inst // by size, mixed
	bytes int64
}

// maxIdle is how many bytes of buffers are kept, and maxIdleEach how many of
// them for one size.
const (
	maxIdle     = 64 << 20
	maxIdleEach = 1024
)

func idleClass(bytes int64) int { return bits.Len64(uint64(bytes)) % 8 }

// take returns an idle buffer of exactly a size, or -1.
func (x *idle) take(insts []inst, bytes int64) Inst {
	list := &x.insts[idleClass(bytes)]
	k := len(*list) - 1
	if k < 0 {
		return -1
	}
	i := (*list)[k]
	if insts[i].bytes != bytes {
		return -1
	}
	*list = (*list)[:k]
	x.bytes -= bytes
	return i
}

// put keeps a buffer, if there is room for it.
func (x *idle) put(i Inst, bytes int64) bool {
	list := &x.insts[idleClass(bytes)]
	if len(*list) >= maxIdleEach || x.bytes+bytes > maxIdle {
		return false
	}
	*list = append(*list, i)
	x.bytes += bytes
	return true
}

// freeIdle ends every idle buffer.
func (e *Engine) freeIdle() {
	for c := range e.idle.insts {
		for _, i := range e.idle.insts[c] {
			e.discard(i)
		}
		e.idle.insts[c] = e.idle.insts[c][:0]
	}
	e.idle.bytes = 0
}

// freeInst ends an instance that nothing holds or touches.
func (e *Engine) freeInst(i Inst) {
	in := &e.insts[i]
	e.unlist(i)
	if !in.lent {
		sp := &e.spaces[in.space]
		sp.used -= in.bytes
		if sp.used < 0 {
			panic("engine: more memory freed than allocated")
		}
	}
	in.data = -2
	if in.space != 0 || in.n != 1 || in.lent || !e.idle.put(i, in.bytes) {
		if in.space != 0 {
			e.view.Devices[in.space-1].FreeBytes += in.bytes
			e.lruRemove(i)
		}
		e.discard(i)
	}
	if e.shortN > 0 {
		e.wake(in.space)
	}
}

// unlist takes an instance off the list of its data, so that nothing finds it there.
func (e *Engine) unlist(i Inst) {
	in := &e.insts[i]
	if in.data < 0 {
		return
	}
	p := e.list(in)
	for *p != i {
		e.visit(1)
		p = &e.insts[*p].next
	}
	*p = in.next
	in.data, in.next = -1, -1
}

// discard gives an instance's buffer and record back.
func (e *Engine) discard(i Inst) {
	in := &e.insts[i]
	e.slots.release(in.slot, int(in.n))
	a := e.emit(Free)
	a.Device, a.Inst = e.spaces[in.space].dev, Inst(i)
	e.freeI = append(e.freeI, i)
}

func (e *Engine) freeIfIdle(i Inst) {
	if in := &e.insts[i]; in.held == 0 && in.pins == 0 && !in.home && !in.late && in.data != -2 {
		e.freeInst(i)
	}
}

// grave is an instance to be freed once every operation that was in flight when
// it was given up has ended.
type grave struct {
	inst  Inst
	until []uint64 // by lane
}

// freeLater frees an instance whose content was never made. Operations that
// would have read it, in host memory without a pin, may still be in flight.
func (e *Engine) freeLater(i Inst) {
	in := &e.insts[i]
	if in.space != 0 {
		e.freeIfIdle(i)
		return
	}
	if in.held > 0 || in.home || in.data == -2 {
		return
	}
	at := len(e.graves)
	if in.late { // it was used again meanwhile: those who read it then count too
		at = slices.IndexFunc(e.graves, func(g grave) bool { return g.inst == i })
	} else {
		e.graves = append(e.graves, grave{inst: i, until: make([]uint64, len(e.lanes))})
	}
	in.late = true
	for l := range e.lanes {
		e.graves[at].until[l] = e.lanes[l].issued
	}
}

// bury frees what no operation can refer to any more.
func (e *Engine) bury() {
	kept := e.graves[:0]
	for _, g := range e.graves {
		over := true
		for l := range e.lanes {
			over = over && e.lanes[l].done >= g.until[l]
		}
		if !over {
			kept = append(kept, g)
			continue
		}
		e.insts[g.inst].late = false
		e.freeIfIdle(g.inst)
	}
	e.graves = kept
}

// closeData ends a data handle: its instances go as soon as nothing touches them.
func (e *Engine) closeData(d dataID) {
	e.eachInst(d, func(i Inst) {
		in := &e.insts[i]
		for s := in.slot; s < in.end(); s++ {
			e.unhold(s)
		}
		in.home = false
		in.data, in.next = -1, -1
		e.freeIfIdle(i)
	})
	e.endLists(d)
}

// hold claims a slot for a value that operation (l, seq) fills; (0, 0) means it
// is there already.
func (e *Engine) hold(s slotID, v valueID, l Lane, seq uint64) {
	sl := &e.slots.at[s]
	sl.val, sl.lane, sl.seq = v, l, seq
	sl.next = e.vals.at[v].slot
	e.vals.at[v].slot = s
	e.insts[sl.inst].held++
}

// unhold gives a slot's claim up.
func (e *Engine) unhold(s slotID) {
	sl := &e.slots.at[s]
	if sl.val < 0 {
		return
	}
	p := &e.vals.at[sl.val].slot
	for *p != s {
		p = &e.slots.at[*p].next
	}
	*p = sl.next
	sl.val, sl.next = -1, -1
	in := &e.insts[sl.inst]
	in.held--
	if in.home && in.data >= 0 {
		e.homeFree(in, in.piece(s))
	}
	if e.shortN > 0 {
		e.wake(in.space)
	}
}

// filled reports whether the operation that fills a slot is complete.
func (e *Engine) filled(s slotID) bool { return !e.pending(e.slots.at[s].lane, e.slots.at[s].seq) }

func (e *Engine) pin(i Inst, p0, n pieceID, copying int32) {
	in := &e.insts[i]
	in.pins++
	e.spaces[in.space].pins++
	for s := in.at(p0); n > 0; n-- {
		e.slots.at[s].pins++
		e.slots.at[s].copying += copying
		s++
	}
	if in.home && in.data >= 0 {
		if r := e.data.at[in.data].run; r >= 0 && copying > 0 {
			e.runs[r].homeOps++
		}
	}
}

func (e *Engine) unpin(i Inst, p0, n pieceID, copying int32) {
	in := &e.insts[i]
	in.pins--
	e.spaces[in.space].pins--
	for s := in.at(p0); n > 0; n-- {
		e.slots.at[s].pins--
		e.slots.at[s].copying -= copying
		if in.home && in.data >= 0 && e.slots.at[s].pins == 0 {
			e.homeFree(in, in.piece(s))
		}
		s++
	}
	if in.home && in.data >= 0 && copying > 0 {
		if rs := e.data.at[in.data].run; rs >= 0 {
			r := e.runs[rs]
			r.homeOps--
			if r.quiet() && (r.state == runFailing || r.left == 0) {
				e.markDead(r)
			}
		}
	}
	if in.pins == 0 {
		e.freeIfIdle(i)
		if e.shortN > 0 {
			e.wake(in.space)
		}
	}
}

// homeFree notes that a piece of a home may be able to take its output now.
func (e *Engine) homeFree(in *inst, p pieceID) {
	d := &e.data.at[in.data]
	if d.fixed || d.run < 0 {
		return
	}
	r := e.runs[d.run]
	if r == nil || r.state != runActive {
		return
	}
	gd := graph.DataID(in.data - r.dbase)
	if last := r.f.Last[r.f.PieceOff[gd]+int32(p)]; last >= r.f.NumInitial {
		if v := r.val(last); e.vals.at[v].flags&(wanted|produced|delivered) == wanted|produced {
			e.redo = append(e.redo, v)
		}
	}
}

// redeliver tries again to bring outputs home, and to commit what failed to be.
func (e *Engine) redeliver() {
	for len(e.redo) > 0 {
		v := e.redo[len(e.redo)-1]
		e.redo = e.redo[:len(e.redo)-1]
		val := &e.vals.at[v]
		switch {
		case val.flags&produced == 0:
		case val.flags&(wanted|delivered) != wanted:
			if val.needed() {
				e.commit(v)
			}
		case e.runs[val.run].state == runActive:
			e.deliver(v)
		}
	}
}

// covers reports whether an instance has room for pieces [p0, p0+n) of its data.
func (in *inst) covers(space spaceID, p0, n pieceID) bool {
	return in.space == space && in.p0 <= p0 && p0+n <= in.p0+in.n
}

// vacant reports whether every piece of the range could be overwritten now.
func (e *Engine) vacant(i Inst, p0, n pieceID) bool {
	in := &e.insts[i]
	if in.home && e.data.at[in.data].fixed {
		return false
	}
	for s := in.at(p0); n > 0; n-- {
		if sl := &e.slots.at[s]; sl.val >= 0 || sl.pins > 0 {
			return false
		}
		s++
	}
	return true
}

// findVacant returns an instance of d in space with those pieces vacant, or -1.
// Vacant pieces are only ever found in homes and in instances that still hold
// other pieces: an instance with nothing in it is freed.
func (e *Engine) findVacant(d dataID, space spaceID, p0, n pieceID) Inst {
	for c := e.covering(d, p0, n); c.inst >= 0; e.nextCover(&c) {
		i := c.inst
		if e.insts[i].covers(space, p0, n) && e.insts[i].keep != e.serial && e.vacant(i, p0, n) {
			return i
		}
	}
	return -1
}

// needed reports whether a value can still be asked for.
func (val *value) needed() bool {
	return val.reads > 0 || val.deps > 0 || val.flags&(wanted|current) != 0
}

// maybeDrop gives up copies of a value that nothing needs any more: all of them
// when nothing can ask for it, those outside host memory when it is only kept
// so that something lost could be computed again, or was delivered.
func (e *Engine) maybeDrop(v valueID) {
	val := &e.vals.at[v]
	switch {
	case val.reads > 0 || val.flags&current != 0 || val.flags&(wanted|delivered) == wanted:
		// in use
	case val.needed():
		e.dropCopies(v, true)
	default:
		e.dropCopies(v, false)
		val.flags &^= commits // nothing waits for that copy, and a replay may need another
		if len(e.copyFails) > 0 {
			delete(e.copyFails, v)
		}
		e.uncount(v)
		if val.run < 0 { // put by the caller: it belongs to no run's block
			e.vals.release(v, 1)
		}
	}
}

// dropQuick gives up the commonest kind of value: an intermediate result in host
// memory, alone in its buffer, with nothing else asking for it. It returns false,
// having done nothing, for any other.
func (e *Engine) dropQuick(val *value) bool {
	s := val.slot
	if val.flags != produced|anchored || val.deps > 0 || val.run < 0 || s < 0 {
		return false
	}
	sl := &e.slots.at[s]
	in := &e.insts[sl.inst]
	if sl.next >= 0 || in.n != 1 || in.pins > 0 || in.home || in.space != 0 {
		return false
	}
	val.slot, sl.val = -1, -1
	in.held = 0
	e.freeInst(sl.inst)
	return true
}

// dropCopies frees copies; with keepHost those in host memory stay.
func (e *Engine) dropCopies(v valueID, keepHost bool) {
	for s := e.vals.at[v].slot; s >= 0; {
		next := e.slots.at[s].next
		i := e.slots.at[s].inst
		switch in := &e.insts[i]; {
		case !keepHost || in.space != 0:
			e.unhold(s)
			e.freeIfIdle(i)
		case in.home:
			e.homeFree(in, in.piece(s)) // what it keeps can be moved aside now
		}
		s = next
	}
}

// anchor notes that a complete copy of v is in host memory: nothing has to be
// kept any more to compute it again.
func (e *Engine) anchor(v valueID) {
	val := &e.vals.at[v]
	val.flags = val.flags&^commits | anchored
	val.depth, val.replay = 0, 0
	e.vacated(v)
	e.uncount(v)
	e.maybeDrop(v)
}

// count notes that v exists only on devices, so its recipe must be kept.
func (e *Engine) count(v valueID) {
	val := &e.vals.at[v]
	if val.flags&counted != 0 {
		return
	}
	val.flags |= counted
	p := e.producer(v)
	e.tasks.at[p].liveOuts++
	if e.tasks.at[p].flags&held == 0 {
		e.tasks.at[p].flags |= held
		r, gt := e.taskOf(p)
		r.heldN++
		e.eachRead(r, gt, func(in valueID) {
			e.vals.at[in].deps++
			if owner := e.vals.at[in].run; owner >= 0 && owner != r.slot {
				e.runs[owner].needed++
			}
		})
	}
}

// uncount undoes count, and lets go of the recipe with its last result.
func (e *Engine) uncount(v valueID) {
	val := &e.vals.at[v]
	if val.flags&counted == 0 {
		return
	}
	val.flags &^= counted
	p := e.producer(v)
	e.tasks.at[p].liveOuts--
	if e.tasks.at[p].liveOuts > 0 {
		return
	}
	e.tasks.at[p].flags &^= held
	r, gt := e.taskOf(p)
	r.heldN--
	e.eachRead(r, gt, func(in valueID) {
		owner := e.vals.at[in].run
		e.vals.at[in].deps--
		e.maybeDrop(in)
		if owner >= 0 && owner != r.slot {
			e.release(e.runs[owner])
		}
	})
	if r.state == runEnded && r.heldN == 0 && r.needed == 0 {
		e.markDead(r)
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

// have reports whether some copy of v can be read now, or once what is in
// flight is done.
func (e *Engine) have(v valueID) bool {
	for s := e.vals.at[v].slot; s >= 0; s = e.slots.at[s].next {
		if !e.spaces[e.insts[e.slots.at[s].inst].space].away {
			return true
		}
	}
	return false
}

// source picks the copy of v that reaches a memory soonest.
func (e *Engine) source(v valueID, space spaceID) slotID {
	best, bestCost := slotID(-1), time.Duration(-1)
	to := e.spaces[space].dev
	val := &e.vals.at[v]
	for s := val.slot; s >= 0; s = e.slots.at[s].next {
		from := e.insts[e.slots.at[s].inst].space
		if e.spaces[from].away {
			continue
		}
		cost := time.Duration(0)
		if from != space {
			est := e.cost.Copy(val.bytes, e.spaces[from].dev, to)
			if est.Median < 0 {
				continue
			}
			cost = est.Median
		}
		if !e.filled(s) {
			cost += cost/4 + 1 // rather one that is there
			if !e.computes(e.slots.at[s].lane) {
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
		ds := e.insts[dst].at(p0 + k)
		if e.slots.at[ds].val == v {
			if !e.filled(ds) {
				e.ops = append(e.ops, Op{e.slots.at[ds].lane, uint32(e.slots.at[ds].seq)})
			}
			k++
			continue
		}
		s := e.source(v, e.insts[dst].space)
		src := e.slots.at[s].inst
		// Take along the pieces that follow when they come from the same place.
		m := pieceID(1)
		for k+m < n && m < e.insts[src].n {
			w := val(k + m)
			if e.slots.at[ds+slotID(m)].val == w {
				break
			}
			ws := e.source(w, e.insts[dst].space)
			if ws < 0 || ws != s+slotID(m) || e.slots.at[ws].inst != src {
				break
			}
			m++
		}
		if e.staged(v, e.insts[src].space, e.insts[dst].space) {
			src, s = e.stage(src, p0+k, m, s)
		}
		e.copy(src, dst, p0+k, m, s, ds, why)
		k += m
	}
}

// staged reports whether a copy of v between two memories goes through the
// host's, because no link joins their devices or that is the faster way.
func (e *Engine) staged(v valueID, from, to spaceID) bool {
	return from != 0 && to != 0 && from != to && e.cost.Copy(e.vals.at[v].bytes, e.spaces[from].dev, e.spaces[to].dev).Via
}

// stage copies m pieces from slots s… into host memory and returns where they
// will be. They stay there, so what was copied this way is durable as well.
func (e *Engine) stage(src Inst, p, m pieceID, s slotID) (inst Inst, first slotID) {
	d := e.insts[src].data
	var bytes int64
	for k := range slotID(m) {
		bytes += e.vals.at[e.slots.at[s+k].val].bytes
	}
	inst = e.findVacant(d, 0, p, m)
	if inst < 0 {
		inst = e.alloc(d, 0, p, m, e.pieceLo(d, p), bytes)
	}
	first = e.insts[inst].at(p)
	e.copy(src, inst, p, m, s, first, forStage)
	return inst, first
}

// copy issues one copy of m pieces from slots s… to slots ds….
func (e *Engine) copy(src, dst Inst, p, m pieceID, s, ds slotID, why copyWhy) {
	from, to := e.insts[src].space, e.insts[dst].space
	l := Lane(0)
	switch {
	case to != 0 && from != 0 && e.sends(e.spaces[from].dev, e.spaces[to].dev):
		l = e.devs[e.spaces[from].dev].out
	case to != 0:
		l = e.devs[e.spaces[to].dev].in
	case from != 0:
		l = e.devs[e.spaces[from].dev].out
	}
	op, rec := e.push(l)
	rec.why, rec.src, rec.dst, rec.p0, rec.p1 = why, src, dst, p, p+m
	w := len(e.waits)
	var bytes int64
	for k := range slotID(m) {
		v := e.slots.at[s+k].val
		bytes += e.vals.at[v].bytes
		if sl := &e.slots.at[s+k]; e.pending(sl.lane, sl.seq) {
			e.waits = append(e.waits, Op{sl.lane, uint32(sl.seq)})
		}
		if e.slots.at[ds+k].val >= 0 {
			panic("engine: copy into a slot that holds a value")
		}
		e.hold(ds+k, v, l, e.lanes[l].issued)
	}
	rec.bytes = bytes
	if e.copyFor >= 0 {
		r, gt := e.taskOf(e.copyFor)
		rec.forRun, rec.forTask, rec.forIssue = int32(r.id), gt, e.copySerial
	}
	e.pin(src, p, m, 1)
	e.pin(dst, p, m, 1)
	if l != 0 {
		e.devs[e.lanes[l].info.Device].flight++
	}
	e.ops = append(e.ops, op)
	a := e.emit(Copy)
	a.Op, a.Device, a.From = op, e.spaces[to].dev, e.spaces[from].dev
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
	in := &e.insts[i]
	if p == in.p0 {
		return 0
	}
	return e.pieceLo(in.data, p) - in.lo
}

// pieceLo returns where a piece starts within its data.
func (e *Engine) pieceLo(d dataID, p pieceID) int64 {
	if r := e.data.at[d].run; r >= 0 {
		f := e.runs[r].f
		return f.Pieces[f.PieceOff[d-e.runs[r].dbase]+int32(p)].Lo
	}
	return e.resident[-1-e.data.at[d].run].bounds[p]
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
	from, to := e.insts[src].space, e.insts[dst].space
	if op.Lane != 0 {
		e.devs[e.lanes[op.Lane].info.Device].flight--
	}
	if e.tr != nil {
		e.tr.Record(trace.Event{
			Kind: trace.Copy, Failed: !ok, Lane: uint8(e.lanes[op.Lane].info.Kind), Device: e.spaces[to].dev, From: e.spaces[from].dev,
			Run: rec.forRun, Task: rec.forTask, Ready: rec.issued, Issued: rec.issued, Start: start, End: end,
			InputsAt: min(max(e.madeAt(e.insts[dst].at(p0)), rec.issued), start), Bytes: rec.bytes,
		})
		if s, live := e.byID[RunID(rec.forRun)]; live && rec.forTask >= 0 {
			if t := &e.tasks.at[e.runs[s].task(rec.forTask)]; t.state == issued && e.pending(t.lane, e.lanes[t.lane].count(t.seq)) {
				l := e.lanes[t.lane].rec(e.lanes[t.lane].count(t.seq))
				l.inputs = max(l.inputs, end)
			}
		}
	}
	if ok && e.learn != nil && end-start > learnAlways && e.copiesAlone(op.Lane) {
		e.learn.ObserveCopy(rec.bytes, e.spaces[from].dev, e.spaces[to].dev, end-start)
	}
	seq := e.lanes[op.Lane].count(op.Seq)
	// What the copy filled, before unpinning can free the instance.
	first := e.insts[dst].at(p0)
	var vals [8]valueID
	got := vals[:0]
	for s := first; s < first+slotID(n); s++ {
		sl := &e.slots.at[s]
		if sl.val < 0 || sl.lane != op.Lane || sl.seq != seq {
			continue
		}
		got = append(got, sl.val)
		if !ok {
			e.unhold(s)
		}
	}
	for _, v := range got {
		if r := e.vals.at[v].run; r >= 0 && ok {
			e.runs[r].report.Copies++
			e.runs[r].report.CopyBytes += e.vals.at[v].bytes
		}
	}
	if rec.why == forSqueeze {
		e.squeezed(src, p0, n, ok)
	}
	e.unpin(src, p0, n, 1)
	e.unpin(dst, p0, n, 1)
	for _, v := range got {
		if !ok {
			if rec.forTask >= 0 {
				err = nil // counted by its task
			}
			e.copyFailed(v, rec.why, err)
			continue
		}
		if len(e.copyFails) > 0 {
			delete(e.copyFails, v)
		}
		if e.shortN > 0 {
			e.wakeHolders(v)
		}
		if to == 0 {
			e.anchor(v)
		}
		if home := e.data.at[e.vals.at[v].data].home; to == 0 && home >= 0 {
			e.homeFree(&e.insts[home], e.vals.at[v].piece)
		}
		if e.vals.at[v].flags&(wanted|delivered) == wanted {
			e.deliver(v)
		}
	}
}

// madeAt returns when the value in a slot was produced, 0 if it always was there.
func (e *Engine) madeAt(s slotID) time.Duration {
	if v := e.slots.at[s].val; v >= 0 {
		if p := e.producer(v); p >= 0 && e.tasks.at[p].state == done {
			return time.Duration(e.tasks.at[p].eft)
		}
	}
	return 0
}

// copyFailed deals with a copy that did not arrive. Tasks behind it come back
// by themselves; commits and deliveries have nobody behind them and are made again,
// but not for ever. err is nil unless the copy failed by itself.
func (e *Engine) copyFailed(v valueID, why copyWhy, err error) {
	val := &e.vals.at[v]
	val.flags &^= commits
	e.vacated(v)
	if err != nil {
		c := e.copyFails[v]
		e.copyFails[v] = cut{err: err, times: c.times + 1}
		if c.times == maxCuts {
			e.keptAway(v, err)
			return
		}
	}
	if why == forCommit || val.flags&(wanted|delivered|produced) == wanted|produced {
		e.redo = append(e.redo, v) // not at once: its device may be going down
	}
}

// keptAway takes in that a value cannot be brought home: a run that owes it fails,
// and so does whoever waits for it to be there. It can be used where it is.
func (e *Engine) keptAway(v valueID, err error) {
	err = fmt.Errorf("copying %s home: %w", e.describe(v), err)
	if e.vals.at[v].flags&(wanted|delivered) == wanted {
		r, gt := e.taskOf(e.producer(v))
		e.fail(r, e.taskErr(r, gt, -1, err))
	}
	gone := func(x valueID) bool { return x == v }
	for _, r := range e.runs {
		if r != nil && r.state == runWaiting && e.cutsAnew(r, gone) {
			e.fail(r, err)
		}
	}
	e.refuseFetches(gone, err)
}

// tired returns what copies of a value failed of so often that no more are made until
// somebody asks anew; nil mostly.
func (e *Engine) tired(v valueID) error {
	if len(e.copyFails) == 0 {
		return nil
	}
	if c := e.copyFails[v]; c.times > maxCuts {
		return c.err
	}
	return nil
}

// hope has copies tried again that were given up on, since somebody asks for something.
func (e *Engine) hope() {
	if len(e.copyFails) > 0 {
		maps.DeleteFunc(e.copyFails, func(_ valueID, c cut) bool { return c.times > maxCuts })
	}
}

// fullOf says why a memory has no room: copies out of it may have failed too often.
func (e *Engine) fullOf(space spaceID) error {
	for _, v := range slices.Sorted(maps.Keys(e.copyFails)) {
		err := e.tired(v)
		for s := e.vals.at[v].slot; s >= 0 && err != nil; s = e.slots.at[s].next {
			if e.insts[e.slots.at[s].inst].space == space {
				return fmt.Errorf("%w: copying %s out of it: %w", ErrOutOfMemory, e.describe(v), err)
			}
		}
	}
	return ErrOutOfMemory
}

// commit starts a copy of v into host memory.
func (e *Engine) commit(v valueID) {
	val := &e.vals.at[v]
	if val.flags&(anchored|commits) != 0 || e.elsewhereInHost(v, -1) || e.source(v, 0) < 0 || e.tired(v) != nil {
		return // it is there, or on its way, or cannot be brought
	}
	d, p, bytes := val.data, val.piece, val.bytes
	e.serial++
	dst := e.findVacant(d, 0, p, 1)
	if dst < 0 {
		if !e.fits(0, bytes) {
			e.lacksHost(v) // until then lineage makes it safe
			return
		}
		dst = e.alloc(d, 0, p, 1, e.pieceLo(d, p), bytes)
	}
	e.vals.at[v].flags |= commits
	if r := val.run; r >= 0 {
		e.runs[r].report.Commits++
	}
	e.tr.Record(trace.Event{Kind: trace.Commit, Device: machine.Host, Task: -1, Start: e.now, End: e.now, Bytes: bytes})
	e.fill(dst, p, 1, func(pieceID) valueID { return v }, forCommit)
	e.ops = e.ops[:0]
}

// deliver brings an output of a run to its home.
func (e *Engine) deliver(v valueID) {
	if !e.hostOnly && e.have(v) && e.source(v, 0) < 0 {
		r, gt := e.taskOf(e.producer(v))
		e.fail(r, e.taskErr(r, gt, -1, fmt.Errorf("%w: no link leads from where its result is to host memory", ErrNoDevice)))
		return
	}
	if !e.bringHome(v) {
		return
	}
	val := &e.vals.at[v]
	val.flags |= delivered
	r := e.runs[val.run]
	r.owed--
	if r.owed == 0 && r.left == 0 {
		e.markDead(r)
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
			val := &e.vals.at[v]
			if val.flags&(wanted|delivered) != wanted {
				continue
			}
			home := e.data.at[val.data].home
			if hs := &e.slots.at[e.insts[home].at(val.piece)]; hs.val < 0 && hs.pins == 0 && e.source(v, 0) >= 0 {
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
	val := &e.vals.at[v]
	home := e.data.at[val.data].home
	hs := e.insts[home].at(val.piece)
	old := e.slots.at[hs].val
	switch {
	case old == v:
		return e.filled(hs)
	case !e.have(v):
		e.recoverValue(v)
	case e.tired(v) != nil:
		// whoever asks anew has it tried again
	case old < 0 && e.slots.at[hs].pins == 0:
		e.fill(home, val.piece, 1, func(pieceID) valueID { return v }, forHome)
		e.ops = e.ops[:0]
	case old < 0:
		// whoever touches it will be done
	case val.flags&anchored == 0:
		e.commit(v)
	case e.vals.at[old].reads > 0:
		// its readers will be done
	case e.elsewhereInHost(old, hs):
		if e.beside(old, hs) {
			e.unhold(hs)
			return e.bringHome(v)
		}
	case e.tired(old) != nil:
		e.keptAway(v, e.tired(old))
	case !e.fits(0, val.bytes):
		e.lacksHost(v)
	default:
		e.copyAside(hs)
	}
	return false
}

// copyAside has what is in a place of a home copied into host memory beside it, and
// reports whether that is on its way: there may be no room, or copies of it fail.
func (e *Engine) copyAside(hs slotID) bool {
	v := e.slots.at[hs].val
	val := &e.vals.at[v]
	if e.elsewhereInHost(v, hs) {
		return true
	}
	if e.tired(v) != nil || !e.fits(0, val.bytes) {
		return false
	}
	d, p, bytes := val.data, val.piece, val.bytes
	dst := e.alloc(d, 0, p, 1, e.pieceLo(d, p), bytes)
	e.fill(dst, p, 1, func(pieceID) valueID { return v }, forAside)
	e.ops = e.ops[:0]
	return true
}

// elsewhereInHost reports whether v has, or is about to have, a copy in host
// memory other than slot s; beside whether that copy is complete.
func (e *Engine) elsewhereInHost(v valueID, s slotID) bool {
	for o := e.vals.at[v].slot; o >= 0; o = e.slots.at[o].next {
		if o != s && e.insts[e.slots.at[o].inst].space == 0 {
			return true
		}
	}
	return false
}

func (e *Engine) beside(v valueID, s slotID) bool {
	for o := e.vals.at[v].slot; o >= 0; o = e.slots.at[o].next {
		if o != s && e.insts[e.slots.at[o].inst].space == 0 && e.filled(o) {
			return true
		}
	}
	return false
}

// room makes space for bytes in a memory, first by giving up copies that exist
// elsewhere, then by moving values to host memory, which takes effect later.
// Instances marked with the current serial stay.
func (e *Engine) room(space spaceID, bytes int64) bool {
	sp := &e.spaces[space]
	if e.fits(space, bytes) {
		return true
	}
	if space == 0 {
		return false
	}
	for i := sp.oldest; i >= 0 && sp.used+bytes > sp.cap; {
		next := e.insts[i].newer
		if e.evictable(i) && e.clean(i) {
			e.evict(i)
		}
		i = next
	}
	if sp.used+bytes <= sp.cap {
		return true
	}
	short := sp.used + bytes - sp.cap
	for i := sp.oldest; i >= 0 && short > 0; i = e.insts[i].newer {
		if e.evictable(i) {
			e.spill(i)
			short -= e.insts[i].bytes
		}
	}
	return false
}

func (e *Engine) evictable(i Inst) bool {
	in := &e.insts[i]
	return in.pins == 0 && !in.home && in.keep != e.serial && in.data >= 0
}

// clean reports whether every value in an instance has a complete copy elsewhere.
func (e *Engine) clean(i Inst) bool {
	in := &e.insts[i]
	for s := in.slot; s < in.end(); s++ {
		if v := e.slots.at[s].val; v >= 0 && !e.elsewhere(v, s) {
			return false
		}
	}
	return true
}

// elsewhere reports whether v has a complete copy in another slot than s.
func (e *Engine) elsewhere(v valueID, s slotID) bool {
	for o := e.vals.at[v].slot; o >= 0; o = e.slots.at[o].next {
		if o != s && e.filled(o) && !e.spaces[e.insts[e.slots.at[o].inst].space].away {
			return true
		}
	}
	return false
}

func (e *Engine) evict(i Inst) {
	in := &e.insts[i]
	e.tr.Record(trace.Event{Kind: trace.Evict, Device: e.spaces[in.space].dev, Task: -1, Start: e.now, End: e.now, Bytes: in.bytes})
	for s := in.slot; s < in.end(); s++ {
		if v := e.slots.at[s].val; v >= 0 {
			if r := e.vals.at[v].run; r >= 0 {
				e.runs[r].report.Evictions++
			}
			e.unhold(s)
		}
	}
	e.freeIfIdle(i)
}

// spill copies what only this instance holds to host memory, if there is a way. It
// copies from here, even where a value is also being computed again on another device
// that is nearer: what waits for the room waits for operations that touch this memory.
func (e *Engine) spill(i Inst) {
	sp := &e.spaces[e.insts[i].space]
	if sp.away {
		return
	}
	for s := e.insts[i].slot; s < e.insts[i].end(); s++ {
		v := e.slots.at[s].val
		if v < 0 || e.elsewhere(v, s) || e.vals.at[v].flags&commits != 0 || e.tired(v) != nil {
			continue
		}
		val := &e.vals.at[v]
		if e.cost.Copy(val.bytes, sp.dev, machine.Host).Median < 0 || !e.fits(0, val.bytes) {
			return
		}
		val.flags |= commits
		dst := e.alloc(val.data, 0, val.piece, 1, e.pieceLo(val.data, val.piece), val.bytes)
		e.copy(i, dst, val.piece, 1, s, e.insts[dst].slot, forSpill)
		e.ops = e.ops[:0]
	}
}

// The instances of a limited memory in order of use.

func (e *Engine) lruAdd(i Inst) {
	in := &e.insts[i]
	sp := &e.spaces[in.space]
	in.older, in.newer = sp.newest, -1
	if sp.newest >= 0 {
		e.insts[sp.newest].newer = i
	} else {
		sp.oldest = i
	}
	sp.newest = i
}

func (e *Engine) lruRemove(i Inst) {
	in := &e.insts[i]
	sp := &e.spaces[in.space]
	if in.older >= 0 {
		e.insts[in.older].newer = in.newer
	} else {
		sp.oldest = in.newer
	}
	if in.newer >= 0 {
		e.insts[in.newer].older = in.older
	} else {
		sp.newest = in.older
	}
}

func (e *Engine) touch(i Inst) {
	if sp := e.insts[i].space; sp != 0 && e.spaces[sp].newest != i {
		e.lruRemove(i)
		e.lruAdd(i)
	}
}
