package sim

import (
	"slices"
	"time"

	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// recoveryTime is the time that an attempt to bring a device back takes: the measured
// time of restarting a worker.
const recoveryTime = 400 * time.Millisecond

// Inject makes a fault happen now. Cancel is the loop's business, since only it
// knows the runs.
func (h *hardware) Inject(now time.Duration, f *Fault) {
	h.now = now
	d := &h.devices[max(f.Device, 0)]
	tell := func(e engine.Event) {
		e.Device = f.Device
		h.out = append(h.out, e)
	}
	switch f.Kind {
	case Lose:
		d.broken = true
		h.takeDown(f.Device, f.Keep)
		h.hear(f.Device)
		tell(engine.Event{Kind: engine.DeviceLost, Kept: f.Keep})
	case Back:
		d.broken = false
		h.bringUp(f.Device)
	case Slow:
		d.slow = f.Factor
		h.rerate(f.Device)
		if !f.Silent {
			tell(engine.Event{Kind: engine.Slowed, Factor: f.Factor})
		}
	case Shrink:
		// What is allocated stays: the engine has to make room before it may
		// allocate again.
		d.capacity = f.Bytes
		tell(engine.Event{Kind: engine.Capacity, Bytes: f.Bytes})
	case Break:
		h.breakLink(f.Device, f.Other)
	case Mend:
		if h.cost.Mend(f.Device, f.Other) {
			h.routes = nil
			for i := range h.devices {
				id := machine.DeviceID(i)
				if h.devices[i].cut && h.cost.Reaches(id, machine.Host) {
					h.devices[i].cut = false
					h.bringUp(id)
				}
			}
		}
	case FailNext:
		d.fates = append(d.fates, engine.Failed)
	case Refuse:
		d.fates = append(d.fates, engine.Refused)
	case Exhaust:
		d.fates = append(d.fates, engine.OutOfMemory)
	case FailCopy:
		d.failCopy++
	case FailTask:
		h.failTask[f.Task] += f.Times
	case Hang:
		h.hang(f.Device)
	case Sense:
		tell(engine.Event{Kind: engine.Telemetry, Sample: f.Sample.engine()})
	case Swap:
		tell(engine.Event{Kind: engine.HotSwap, Spare: f.Other})
	case Drain:
		tell(engine.Event{Kind: engine.Drain})
	case Undrain:
		tell(engine.Event{Kind: engine.Undrain})
	}
	h.settle()
}

// takeDown ends everything in flight on a device without a word, fails what
// waited for it or touched its memory, and forgets that memory unless kept.
func (h *hardware) takeDown(id machine.DeviceID, kept bool) {
	d := &h.devices[id]
	d.kept = kept && (!d.down || d.kept)
	d.down = true
	d.fates, d.failCopy, d.hangNext = nil, 0, 0
	for _, l := range d.lanes {
		ln := &h.lanes[l]
		if h.late != nil { // of what had ended, some may be heard of before the loss
			h.releaseLane(ln)
			ln.held = nil
		}
		h.abandon(l)
		for ln.done < ln.last {
			h.retire(ln.at(ln.done+1), true)
		}
	}
	h.copies(func(slot int32, o *op) {
		if o.from != id && o.device != id {
			return
		}
		if o.running {
			h.complete(slot, engine.Failed, ErrCut)
			return
		}
		if !d.kept && h.machine.MemoryOf(id) == id {
			o.doomed = true
			if h.check && !o.released {
				o.released = true
				h.use(o, -1)
			}
		}
	})
	if d.kept || h.machine.MemoryOf(id) != id {
		return
	}
	for i := range h.insts {
		if in := &h.insts[i]; in.status == live && in.device == id {
			in.status = lost
		}
	}
	d.used = 0
}

// copies calls do for every copy in flight.
func (h *hardware) copies(do func(slot int32, o *op)) {
	for i := range h.lanes {
		ln := &h.lanes[i]
		for s := ln.done + 1; s <= ln.last; s++ {
			slot := ln.at(s)
			if o := &h.ops[slot]; !o.launch {
				do(slot, o)
			}
		}
	}
}

// bringUp makes a device work again, if the script lets it.
func (h *hardware) bringUp(id machine.DeviceID) {
	d := &h.devices[id]
	if !d.down || d.broken || d.cut {
		return
	}
	d.down, d.hearing = false, false
	h.out = append(h.out, engine.Event{Kind: engine.DeviceBack, Device: id, Kept: d.kept})
}

// recover answers a request to bring a device back, after a while.
func (h *hardware) recover(a *engine.Action) {
	if !h.devices[a.Device].down {
		h.violation("recovery of %s, which works", h.name(a.Device))
		return
	}
	h.devices[a.Device].hearing = false
	h.timers = append(h.timers, timer{h.now + recoveryTime, a.Device})
}

// answer ends an attempt to bring a device back: one that was only dropped
// works again, one the script took away does not.
func (h *hardware) answer(id machine.DeviceID) {
	d := &h.devices[id]
	if !d.down {
		return // it came back meanwhile
	}
	if d.broken || d.cut {
		h.hear(id)
		h.out = append(h.out, engine.Event{Kind: engine.DeviceLost, Device: id, Kept: d.kept})
		return
	}
	h.bringUp(id)
}

// hang stops what runs on a device, or else what starts there next.
func (h *hardware) hang(id machine.DeviceID) {
	found := false
	h.launches(id, func(slot int32) {
		found = true
		h.ops[slot].flow.hung = true
		h.flows.rate(h, slot)
	})
	if !found {
		h.devices[id].hangNext++
	}
}

// rerate gives what runs on a device the speed it has now.
func (h *hardware) rerate(id machine.DeviceID) {
	h.launches(id, func(slot int32) { h.flows.rate(h, slot) })
}

// launches calls do for the flow of every launch running on a device.
func (h *hardware) launches(id machine.DeviceID, do func(slot int32)) {
	for _, l := range h.devices[id].lanes {
		ln := &h.lanes[l]
		if ln.done == ln.last {
			continue
		}
		slot := ln.at(ln.done + 1)
		o := &h.ops[slot]
		if !o.launch || !o.running {
			continue
		}
		if o.gang != nil {
			slot = o.gang.members[0]
		}
		do(slot)
	}
}

// breakLink fails the copies in flight on a link. A device that can no longer
// reach the host is lost: nothing could be brought to it or fetched from it.
func (h *hardware) breakLink(a, b machine.DeviceID) {
	var hit []int32
	h.copies(func(slot int32, o *op) {
		if o.running && slices.ContainsFunc(linksBetween(h.cost.Machine(), o.from, o.device), func(l *machine.Link) bool { return joins(l, a, b) }) {
			hit = append(hit, slot)
		}
	})
	if !h.cost.Break(a, b) {
		return
	}
	h.routes = nil
	for _, slot := range hit {
		h.complete(slot, engine.Failed, ErrCut)
	}
	for i := range h.devices {
		id := machine.DeviceID(i)
		if d := &h.devices[i]; !d.cut && h.machine.MemoryOf(id) == id && !h.cost.Reaches(id, machine.Host) {
			d.cut = true
			h.takeDown(id, false)
			h.hear(id)
			h.out = append(h.out, engine.Event{Kind: engine.DeviceLost, Device: id})
		}
	}
}

// route returns the resources a copy shares, remembering them until a link
// breaks or is mended.
func (h *hardware) route(from, to machine.DeviceID) []int32 {
	if len(h.machine.Resources) == 0 {
		return nil
	}
	key := [2]machine.DeviceID{from, to}
	uses, ok := h.routes[key]
	if !ok {
		for _, l := range linksBetween(h.cost.Machine(), from, to) {
			for _, r := range h.flows.named(l.Resources) {
				if !slices.Contains(uses, r) {
					uses = append(uses, r)
				}
			}
		}
		if h.routes == nil {
			h.routes = make(map[[2]machine.DeviceID][]int32)
		}
		h.routes[key] = uses
	}
	return uses
}
