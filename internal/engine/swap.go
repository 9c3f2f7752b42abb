package engine

import (
	"errors"
	"fmt"

	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// Draining, spares and hot swap: a device stops taking work, another takes its place, and
// values that only its memory has are copied over.

// Why an event that asks for a change of a device is refused or called off.
var (
	ErrLastDevice = errors.New("it is the last device that takes work; swap it with a spare, or undrain another first")
	errLetIn      = errors.New("called off: the device was let in again")
	errAway       = errors.New("its memory is kept and cannot be read at present; it is handed over when the device is back")
	errNoLadder   = errors.New("recovery is off (fault_tolerance)")
	errNever      = errors.New("it cannot be brought back: no rung of the ladder is for it")
	errUncleared  = errors.New("it was drained before its probes had cleared it; undrain it to have it probed again")
	errNoLink     = errors.New("no link leads away from its memory")
)

// answer tells who asked for an event how it ended.
func (ev *Event) answer(err error) {
	if ev.Answer != nil {
		ev.Answer(err)
	}
}

// answerAll tells callers that wait, and forgets them.
func answerAll(list *[]func(error), err error) {
	for _, answer := range *list {
		answer(err)
	}
	*list = nil
}

// drainAsked takes a device out of service because a caller asked for it.
func (e *Engine) drainAsked(ev *Event) {
	d := &e.devs[ev.Device]
	if ev.Err != nil {
		d.lastErr = ev.Err
		e.tellRule(ev.Device, "is to be drained: "+ev.Err.Error())
	}
	if d.state == Healthy || d.state == Suspect {
		if ev.Err != nil && !d.health.unproven { // it is missed as one that is lost
			e.callSpare(ev.Device)
		}
		if !e.others(ev.Device) {
			ev.answer(ErrLastDevice)
			return
		}
	}
	d.accused = ev.Err
	e.takeOut(ev, machine.Host)
}

// takeOut drains a device, which then stays out of service, and has it hand its values over
// to another device or to host memory.
func (e *Engine) takeOut(ev *Event, to machine.DeviceID) {
	dev := ev.Device
	d := &e.devs[dev]
	d.role = Draining
	switch d.state {
	case Lost, Broken: // it has no work; what its memory kept is copied away once it is back
		if e.mem.spaces[d.space].away {
			ev.answer(fmt.Errorf("%w: %w", d.cause, errAway))
		} else {
			ev.answer(nil)
			e.tellDrained(dev, nil)
		}
		return
	case Spare:
		e.setState(dev, Draining)
	default:
		e.drain(dev)
		e.unparkFrom(dev)
	}
	e.retryCopies()
	d.handsOver, d.swapTo = true, to
	if ev.Answer != nil {
		d.leavers = append(d.leavers, ev.Answer)
	}
	e.retime(dev)
}

// unparkFrom has the tasks that are parked on a device placed anew.
func (e *Engine) unparkFrom(dev machine.DeviceID) {
	for _, r := range e.runs {
		if r == nil {
			continue
		}
		for n := r.parked.len(); n > 0; n-- {
			tid := r.parked.pop()
			switch t := &e.tasks.at[tid]; {
			case t.where != parked:
			case t.dev != dev:
				r.parked.push(tid)
			case t.unissued == 0:
				e.replace(tid)
			default:
				e.unplace(tid, waiting) // a predecessor failed after it was parked
			}
		}
	}
}

// undrainAsked puts a drained device or a spare into service.
func (e *Engine) undrainAsked(ev *Event) {
	e.letIn(ev.Device)
	ev.answer(nil)
}

// letIn puts a device into service: at once, or when it is back.
func (e *Engine) letIn(dev machine.DeviceID) {
	d := &e.devs[dev]
	d.role, d.accused = Healthy, nil
	switch d.state {
	case Spare:
		e.engage(dev)
	case Draining:
		if d.health.strained > 0 {
			e.ruled(dev, false)
		}
		d.health.strained, d.health.drained = 0, false // it is judged anew
		e.reslow(dev)
		e.undrain(dev)
	}
}

// reviveAsked starts the ladder of a broken device because a caller asked for it. Who asks for a
// suspect device is answered when its probes have cleared it, it is drained, or the ladder has given up.
func (e *Engine) reviveAsked(ev *Event) {
	d := &e.devs[ev.Device]
	switch {
	case d.state == Suspect:
	case d.state != Lost && d.state != Broken:
		ev.answer(nil)
		return
	case e.o.NoFaultTolerance:
		ev.answer(fmt.Errorf("%w: %w", errNoLadder, d.cause))
		return
	case d.health.never:
		ev.answer(fmt.Errorf("%w: %w", errNever, d.cause))
		return
	}
	if ev.Answer != nil {
		d.wakers = append(d.wakers, ev.Answer)
	}
	if d.state == Broken {
		d.health.rung = 0
		e.setState(ev.Device, Lost)
		e.climb(ev.Device)
	}
}

// stopHandOver ends the hand-over of a device's values, for which callers get the error.
func (e *Engine) stopHandOver(dev machine.DeviceID, err error) {
	d := &e.devs[dev]
	d.handsOver, d.swapTo = false, machine.Host
	e.retime(dev)
	answerAll(&d.leavers, err)
}

// drain stops new work on a device; tasks in flight finish.
func (e *Engine) drain(dev machine.DeviceID) {
	d := &e.devs[dev]
	if d.state != Healthy && d.state != Suspect {
		return
	}
	d.health.unproven = false
	why := errUncleared // callers wait here only for a suspect device
	if d.accused != nil {
		why = fmt.Errorf("%w: %w", why, d.accused)
	}
	answerAll(&d.wakers, why)
	e.setState(dev, Draining)
	e.situation.Devices[dev].Accepts = false
	e.dirty(dev)
	e.tr.Record(trace.Event{Kind: trace.Drain, Device: dev, Task: -1, Start: e.now, End: e.now})
	e.requeueAll(dev)
}

// undrain lets work in again and ends a hot swap under way. A device that was suspect before
// is that again.
func (e *Engine) undrain(dev machine.DeviceID) {
	d := &e.devs[dev]
	if d.state != Draining {
		return
	}
	e.stopHandOver(dev, errLetIn)
	if d.health.probe.suspected {
		e.setState(dev, Suspect)
		e.probeAgain(dev)
		return
	}
	e.setState(dev, Healthy)
	e.probeAgain(dev)
	vd := &e.situation.Devices[dev]
	vd.Accepts, vd.FreeAt = true, max(vd.FreeAt, e.now)
	e.dirty(dev)
	e.reoffer()
}

// callSpare puts a spare in the place of a device that is lost or drained for an error, one of the same class if there is one.
func (e *Engine) callSpare(dev machine.DeviceID) {
	for i := range e.devs {
		if e.devs[i].state == Spare && e.situation.Devices[i].Class == e.situation.Devices[dev].Class {
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
	e.devs[spare].role = Healthy
	e.setState(spare, Healthy)
	e.probeAgain(spare)
	vd := &e.situation.Devices[spare]
	vd.Accepts, vd.FreeAt = true, e.now
	e.dirty(spare)
	e.reoffer()
	e.tr.Record(trace.Event{Kind: trace.Back, Device: spare, Task: -1, Start: e.now, End: e.now})
}

// hotSwap replaces a device without stopping: new work goes to the spare at once, the
// device finishes its tasks, then its values are copied over.
func (e *Engine) hotSwap(ev *Event) {
	to := &e.devs[ev.Spare]
	switch {
	case to.state == Lost || to.state == Broken:
		ev.answer(fmt.Errorf("%s cannot take its place: %w", e.m.Devices[ev.Spare].Name, to.cause))
		return
	case to.state == Suspect:
		ev.answer(fmt.Errorf("%s cannot take its place: %w", e.m.Devices[ev.Spare].Name, errSuspect))
		return
	case to.health.probe.suspected:
		ev.answer(fmt.Errorf("%s cannot take its place: %w", e.m.Devices[ev.Spare].Name, errUncleared))
		return
	}
	e.letIn(ev.Spare)
	e.takeOut(ev, ev.Spare)
}

// handOver copies the values that only a drained device has to its successor, or to host
// memory if there is none that takes work.
func (e *Engine) handOver(dev machine.DeviceID) {
	d := &e.devs[dev]
	to := hostSpace
	if d.swapTo != machine.Host && e.devs[d.swapTo].state == Healthy {
		to = e.devs[d.swapTo].space
	}
	left := e.countDetached(dev)
	var stays error
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
		moves, err := e.handInst(i, to)
		if moves {
			left++
		}
		if err != nil {
			stays = err
		}
	}
	if left > 0 {
		return
	}
	if stays != nil {
		stays = fmt.Errorf("some of its data could not be moved and is only there: %w", stays)
	}
	e.stopHandOver(dev, stays)
	e.tellDrained(dev, stays)
}

// handInst starts to copy the values that only an instance has. It reports whether any copy
// is in flight or waits for room, and why a value cannot be copied.
func (e *Engine) handInst(i Inst, to spaceID) (moves bool, stays error) {
	for k := range e.mem.insts[i].n {
		s := e.mem.insts[i].slot + slotID(k)
		v := e.mem.slots.at[s].val
		if v < 0 || e.mem.elsewhere(v, s) {
			continue
		}
		if err := e.copyGivenUp(v); err != nil {
			stays = err
			continue
		}
		if e.mem.copied(v) {
			moves = true
			continue
		}
		from, bytes, p := e.mem.insts[i].space, e.mem.vals.at[v].bytes, e.mem.insts[i].p0+k
		e.mem.beginIssue()
		dst := to
		if e.source(v, dst) < 0 || !e.reclaim(dst, bytes) || e.staged(v, from, dst) && !e.mem.fits(0, bytes) {
			dst = 0
		}
		if e.source(v, dst) < 0 {
			stays = errNoLink
			continue
		}
		moves = true
		if dst == 0 && !e.mem.fits(0, bytes) {
			return true, stays // operations in flight may make room; until then the device stays drained
		}
		n := e.mem.alloc(e.mem.insts[i].data, dst, p, 1, e.pieceLo(e.mem.insts[i].data, p), bytes)
		e.fill(n, p, 1, func(pieceID) valueID { return v }, forSwap)
		e.ops = e.ops[:0]
	}
	return moves, stays
}
