package engine

import (
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// Making room in a memory: eviction of copies that exist elsewhere, spilling to host
// memory, and squeezing buffers that are partly unused.

// reclaim reports whether a memory has room for bytes, and makes room if not: first by
// ending copies that exist elsewhere, then by spilling values to host memory, which takes
// effect later. Instances reserved for the present issue stay.
func (e *Engine) reclaim(space spaceID, bytes int64) bool {
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

// evict ends an instance whose values have complete copies elsewhere.
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

// endDoubles ends instances in host memory whose values have complete copies there in
// others, as data has that was committed before it came home. Nothing may be in flight or
// detached: plain launches in host memory pin nothing.
func (e *Engine) endDoubles() {
	if e.mem.spaces[hostSpace].cap == 0 {
		return
	}
	for i := range Inst(len(e.mem.insts)) {
		if e.mem.insts[i].space == hostSpace && e.mem.evictable(i) && e.mem.doubled(i) {
			e.evict(i)
		}
	}
}

// vacateForHomes starts to copy resident data out of host memory that counts into the caller's memory,
// where that is free: endDoubles then ends the former.
func (e *Engine) vacateForHomes() {
	if e.mem.spaces[hostSpace].cap == 0 {
		return
	}
	for i := range e.resident {
		e.visit(1)
		res := &e.resident[i]
		if !res.live || res.writer || e.mem.data.at[res.data].home < 0 {
			continue
		}
		home := e.mem.data.at[res.data].home
		for _, v := range res.vals {
			hs := e.mem.insts[home].at(e.mem.vals.at[v].piece)
			if slot := &e.mem.slots.at[hs]; slot.val < 0 && slot.pins == 0 && e.mem.wholeInHost(v, hs) && e.copyGivenUp(v) == nil {
				e.bringHome(v)
			}
		}
	}
}

// spill copies the values that only this instance has to host memory, if a link leads
// there and it has room. It copies from this instance even if another device that is
// nearer is recomputing the value: the waiting task waits for operations that touch this
// memory.
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
		if e.cost.Copy(val.bytes, sp.dev, machine.Host).Median < 0 {
			return
		}
		dst := e.mem.findVacant(val.data, hostSpace, val.piece, 1)
		if dst < 0 {
			if !e.mem.fits(hostSpace, val.bytes) {
				return
			}
			dst = e.mem.alloc(val.data, hostSpace, val.piece, 1, e.pieceLo(val.data, val.piece), val.bytes)
		}
		val.on(commitBegun)
		e.copy(i, dst, val.piece, 1, s, e.mem.insts[dst].at(val.piece), forSpill)
		e.ops = e.ops[:0]
	}
}

// squeeze starts to move the values of a wasteful buffer into buffers of their own in the
// same memory, after which it is freed, if there is such a buffer and room for the copies.
func (e *Engine) squeeze(space spaceID) {
	if e.mem.spaces[space].away || e.squeezes > maxCopyFailures {
		return
	}
	for i := range Inst(len(e.mem.insts)) {
		in := &e.mem.insts[i]
		if in.space != space || !e.mem.wasteful(i) {
			continue
		}
		var bytes int64
		for s := in.slot; s < in.end(); s++ {
			if v := e.mem.slots.at[s].val; v >= 0 {
				bytes += e.mem.vals.at[v].bytes
			}
		}
		if bytes == 0 || bytes >= in.bytes || !e.mem.fits(space, bytes) {
			continue
		}
		for k := range in.n {
			s := e.mem.insts[i].slot + slotID(k)
			v := e.mem.slots.at[s].val
			if v < 0 {
				continue
			}
			val := &e.mem.vals.at[v]
			dst := e.mem.alloc(val.data, space, val.piece, 1, e.pieceLo(val.data, val.piece), val.bytes)
			e.copy(i, dst, val.piece, 1, s, e.mem.insts[dst].slot, forSqueeze)
			e.ops = e.ops[:0]
		}
		return
	}
}

// squeezed takes in the end of a squeeze copy and ends the slots it was made from.
func (e *Engine) squeezed(src Inst, p0, n pieceID, ok bool) {
	if !ok {
		e.squeezes++ // squeeze stops after maxCopyFailures
		return
	}
	e.squeezes = 0
	in := &e.mem.insts[src]
	for s := in.at(p0); n > 0; n-- {
		e.mem.unhold(s)
		s++
	}
	e.mem.freeIfIdle(src)
}
