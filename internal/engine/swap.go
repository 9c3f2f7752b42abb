package engine

import (
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// Draining, spares and hot swap: a device stops taking work, another takes its place, and
// values that only its memory has are copied over.

// drain stops new work on a device; tasks in flight finish.
func (e *Engine) drain(dev machine.DeviceID) {
	d := &e.devs[dev]
	if d.state != Healthy {
		return
	}
	e.setState(dev, Draining)
	e.view.Devices[dev].Accepts = false
	e.dirty(dev)
	e.tr.Record(trace.Event{Kind: trace.Drain, Device: dev, Task: -1, Start: e.now, End: e.now})
	e.requeueAll(dev)
}

// undrain lets work in again and ends a hot swap under way.
func (e *Engine) undrain(dev machine.DeviceID) {
	d := &e.devs[dev]
	if d.state != Draining {
		return
	}
	e.setState(dev, Healthy)
	d.swapTo = -1
	e.listTimed()
	vd := &e.view.Devices[dev]
	vd.Accepts, vd.FreeAt = true, max(vd.FreeAt, e.now)
	e.dirty(dev)
	e.reoffer()
}

// callSpare puts a spare in a lost device's place, one of the same class if there is one.
func (e *Engine) callSpare(dev machine.DeviceID) {
	for i := range e.devs {
		if e.devs[i].state == Spare && e.view.Devices[i].Class == e.view.Devices[dev].Class {
			e.engage(machine.DeviceID(i))
			return
		}
	}
	for i := range e.devs {
		if e.devs[i].state == Spare {
			e.engage(machine.DeviceID(i))
			return
		}
	}
}

// engage lets a spare take work.
func (e *Engine) engage(spare machine.DeviceID) {
	e.setState(spare, Healthy)
	vd := &e.view.Devices[spare]
	vd.Accepts, vd.FreeAt = true, e.now
	e.dirty(spare)
	e.reoffer()
	e.tr.Record(trace.Event{Kind: trace.Back, Device: spare, Task: -1, Start: e.now, End: e.now})
}

// hotSwap replaces a device without stopping: new work goes to the spare at once, the
// device finishes its tasks, then its values are copied over.
func (e *Engine) hotSwap(dev, spare machine.DeviceID) {
	if e.devs[spare].state == Spare {
		e.engage(spare)
	}
	if e.devs[dev].state == Healthy {
		e.drain(dev)
	}
	if e.devs[dev].state == Draining {
		e.devs[dev].swapTo = spare
		e.listTimed()
	}
}

// handOver copies the values that only a drained device has to its successor, or to host
// memory if that does not work.
func (e *Engine) handOver(dev machine.DeviceID) {
	d := &e.devs[dev]
	to := e.devs[d.swapTo].space
	if !e.working(&e.devs[d.swapTo]) {
		to = 0
	}
	left := 0
	for i := Inst(0); int(i) < len(e.mem.insts); i++ {
		in := &e.mem.insts[i]
		if in.space != d.space || d.space == 0 || in.data < 0 || in.home {
			continue
		}
		if in.pins > 0 {
			left++
			continue
		}
		if e.mem.clean(i) {
			e.evict(i)
			continue
		}
		if e.handInst(i, to) {
			left++
		}
	}
	if left == 0 {
		d.swapTo = -1
		e.listTimed()
	}
}

// handInst starts to copy the values that only an instance has, and reports whether any
// copy is in flight or waits for room.
func (e *Engine) handInst(i Inst, to spaceID) bool {
	any := false
	for k := range e.mem.insts[i].n {
		s := e.mem.insts[i].slot + slotID(k)
		v := e.mem.slots.at[s].val
		if v < 0 || e.mem.elsewhere(v, s) || e.copyGivenUp(v) != nil {
			continue
		}
		if e.mem.copied(v) {
			any = true
			continue
		}
		from, bytes, p := e.mem.insts[i].space, e.mem.vals.at[v].bytes, e.mem.insts[i].p0+k
		e.mem.beginIssue()
		dst := to
		if e.source(v, dst) < 0 || !e.reclaim(dst, bytes) || e.staged(v, from, dst) && !e.mem.fits(0, bytes) {
			dst = 0
		}
		if e.source(v, dst) < 0 {
			continue // no link leads away
		}
		any = true
		if dst == 0 && !e.mem.fits(0, bytes) {
			return true // operations in flight may make room; until then the device stays drained
		}
		n := e.mem.alloc(e.mem.insts[i].data, dst, p, 1, e.pieceLo(e.mem.insts[i].data, p), bytes)
		e.fill(n, p, 1, func(pieceID) valueID { return v }, forSwap)
		e.ops = e.ops[:0]
	}
	return any
}
