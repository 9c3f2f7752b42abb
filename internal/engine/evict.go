package engine

import (
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// room makes space for bytes in a memory, first by giving up copies that exist
// elsewhere, then by moving values to host memory, which takes effect later.
// Instances marked with the current serial stay.
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

// squeeze starts to move what a wasteful buffer holds into buffers of its own in the
// same memory, after which it is freed. It returns whether there was such a buffer
// that leaves room for the copies.
func (e *Engine) squeeze(space spaceID) bool {
	if e.mem.spaces[space].away || e.squeezes > maxCopyFailures {
		return false
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
		return true
	}
	return false
}

// squeezed gives up the slots a copy was made from to make room.
func (e *Engine) squeezed(src Inst, p0, n pieceID, ok bool) {
	if !ok {
		e.squeezes++ // not for ever
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
