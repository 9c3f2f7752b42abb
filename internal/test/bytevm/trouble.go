package bytevm

import (
	"slices"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// takeDown ends all a device was given without a word. What runs in host memory
// under a call that cannot be ended goes on writing there when the engine gave the
// device up (dropped), until the device is quiet.
func (x *executor) takeDown(id machine.DeviceID, kept, dropped bool) {
	d := &x.devices[id]
	d.down, d.kept = true, kept
	for l := range x.lanes {
		ln := &x.lanes[l]
		if ln.info.Device != id {
			continue
		}
		queue := ln.queue
		ln.queue = nil
		for _, o := range queue {
			if dropped && o.started && o.act.Kind == engine.Launch && x.memory(id) == machine.Host {
				d.zombies = append(d.zombies, o)
				x.sum.Zombie++
			} else {
				for _, b := range o.bufs {
					b.users--
				}
			}
			x.vanish(ln, o)
		}
		x.abandon(engine.Lane(l))
	}
	if x.memory(id) != id {
		return
	}
	for _, b := range x.buffers {
		if b != nil && b.at == id && !kept {
			paint(b.mem, patternTorn)
		}
	}
	for _, o := range x.copiesOf(id) {
		if !kept || x.r.IntN(2) == 0 {
			x.doom(o)
		}
	}
}

// copiesOf lists the copies in flight from or to the memory of a device.
func (x *executor) copiesOf(id machine.DeviceID) (out []*operation) {
	for l := range x.lanes {
		for _, o := range x.lanes[l].queue {
			if o.act.Kind == engine.Copy && (o.bufs[0].at == id || o.bufs[1].at == id) {
				out = append(out, o)
			}
		}
	}
	return out
}

// doom has a copy fail one of whose memories is gone.
func (x *executor) doom(o *operation) {
	if o.started && o.status == engine.OK {
		o.status, o.err = engine.Failed, errCut
		x.cuts++
	}
	o.doomed = true
}

// lose takes a device away and tells the engine a little later.
func (x *executor) lose(id machine.DeviceID, kept bool) {
	if x.devices[id].down {
		return
	}
	x.sum.Losses++
	x.takeDown(id, kept, false)
	x.after(time.Duration(x.r.IntN(2)*x.r.IntN(500_000)), func() {
		if x.devices[id].told {
			return // the engine dropped it before it heard
		}
		// Of what had ended before some may have been heard of, in order.
		for l := range x.lanes {
			if x.lanes[l].info.Device == id {
				x.news = append(x.news, x.report(l, x.r.IntN(len(x.lanes[l].reports)+1))...)
			}
		}
		x.news = append(x.news, engine.Event{Kind: engine.DeviceLost, Device: id, Kept: kept})
		x.lossTold(id)
	})
}

// lossTold takes in that the engine counts all it gave a device as over.
func (x *executor) lossTold(id machine.DeviceID) {
	x.devices[id].told = true
	for l := range x.lanes {
		ln := &x.lanes[l]
		if ln.info.Device != id {
			continue
		}
		for i, o := range append(ln.reports, ln.gone...) {
			at := o.attempt
			if at == nil {
				continue
			}
			if i == 0 { // it may have run
				at.job.losses[at.task]++
			}
			if o.hangs && !at.faulted {
				at.faulted = true
				at.job.faults[at.task]++
			}
			x.heard(at)
		}
		ln.reports, ln.gone = nil, nil
	}
}

// drop does what the engine asks for when it gives a device up.
func (x *executor) drop(id machine.DeviceID) {
	x.sum.Drops++
	d := &x.devices[id]
	if !d.down {
		x.takeDown(id, false, true)
	}
	d.kept = false
	x.lossTold(id)
	d.known = true
	x.after(time.Duration(x.r.IntN(3_000_000)), func() {
		x.quiet(id)
		x.news = append(x.news, engine.Event{Kind: engine.DeviceQuiet, Device: id})
	})
}

// quiet lets calls that went on after their device was dropped end: each writes
// once more where it was to write.
func (x *executor) quiet(id machine.DeviceID) {
	d := &x.devices[id]
	for _, o := range d.zombies {
		for i, g := range o.act.Args {
			if x.buffers[g.Inst] != o.bufs[i] {
				x.bad("%s, whose device was dropped, still runs and instance %d is gone", o.describe(), g.Inst)
			}
			o.bufs[i].users--
		}
		for i, b := range x.args(o) {
			if i >= len(o.writes) || o.writes[i] != nil {
				paint(b, patternZombie)
			}
		}
	}
	d.zombies = nil
}

// recover answers a request to bring a device back: it is back after a while, the
// attempt fails, or nothing is heard of it. A device nothing bad happens to is back.
func (x *executor) recover(id machine.DeviceID) {
	if !x.devices[id].down {
		x.bad("device %d is to be brought back and works", id)
	}
	x.devices[id].known = true
	kept := x.r.IntN(2) == 0
	wait := time.Duration(x.r.IntN(5_000_000))
	switch n := x.r.IntN(8); {
	case n >= 3 || x.devices[id].safe:
		x.after(wait, func() { x.back(id, kept) })
	case n >= 1:
		x.after(wait, func() {
			x.news = append(x.news, engine.Event{Kind: engine.RecoverFailed, Device: id})
		})
	}
}

func (x *executor) back(id machine.DeviceID, kept bool) {
	d := &x.devices[id]
	if !d.down || !d.told {
		return
	}
	x.quiet(id)
	kept = kept && d.kept
	if !kept {
		for _, b := range x.buffers {
			if b != nil && b.at == id {
				paint(b.mem, patternTorn)
			}
		}
		for _, o := range x.copiesOf(id) {
			x.doom(o)
		}
	}
	d.down, d.told, d.known, d.kept = false, false, false, false
	x.news = append(x.news, engine.Event{Kind: engine.DeviceBack, Device: id, Kept: kept})
}

// drawScript decides what happens when, besides what operations meet.
func (x *executor) drawScript() {
	const span = 15_000_000 // nanoseconds, about as long as the runs take
	at := func() time.Duration { return time.Duration(x.r.IntN(span)) }
	anyone := func() machine.DeviceID { return machine.DeviceID(x.r.IntN(len(x.devices))) }
	if x.traits.has(Losses) {
		for range 1 + x.r.IntN(8) {
			if d := anyone(); !x.devices[d].safe {
				kept := x.r.IntN(3) == 0
				x.after(at(), func() { x.lose(d, kept) })
			}
		}
	}
	if x.traits.has(Condition) {
		for range 1 + x.r.IntN(6) {
			x.drawCondition(anyone(), at(), at())
		}
	}
	for k := range x.devices {
		if x.devices[k].spare {
			d, spare := anyone(), machine.DeviceID(k)
			if x.devices[d].safe || x.devices[d].spare {
				continue
			}
			x.after(at(), func() {
				x.sum.Swaps++
				x.news = append(x.news, engine.Event{Kind: engine.HotSwap, Device: d, Spare: spare})
			})
		}
	}
	if x.traits.has(Cancels) {
		for _, j := range x.all {
			if x.r.IntN(2) == 0 {
				j.cancels = true
				x.after(j.submit+time.Duration(1+x.r.IntN(8_000_000)), func() {
					x.news = append(x.news, engine.Event{Kind: engine.Cancel, Run: j.id})
					if x.traits.has(Processes) && x.r.IntN(2) == 0 {
						x.after(time.Duration(x.r.IntN(2_000_000)), func() {
							x.news = append(x.news, engine.Event{Kind: engine.GiveUp, Run: j.id})
						})
					}
				})
			}
		}
	}
	for _, d := range x.residents {
		for range x.r.IntN(3) {
			x.after(at(), func() { x.fetch(d) })
		}
	}
}

// drawCondition has a device's condition change at one time and perhaps go back to
// what it was later.
func (x *executor) drawCondition(id machine.DeviceID, at, later time.Duration) {
	tell := func(at time.Duration, e engine.Event) {
		e.Device = id
		x.after(at, func() {
			if e.Kind == engine.Capacity {
				x.devices[id].capacity = e.Bytes
			}
			x.news = append(x.news, e)
		})
	}
	cool := engine.Sample{Util: 0.1, MemUsed: 0.1, TempC: 30, PowerW: -1, MemErrors: -1, Faults: -1}
	safe := x.devices[id].safe
	switch x.r.IntN(5) {
	case 0:
		tell(at, engine.Event{Kind: engine.Slowed, Factor: 1 + 5*x.r.Float64()})
	case 1:
		if size := x.machine.Devices[id].MemBytes; size > 0 {
			tell(at, engine.Event{Kind: engine.Capacity, Bytes: max(x.need(), size/2)})
			tell(at+later, engine.Event{Kind: engine.Capacity, Bytes: size})
		}
	case 2:
		if !safe {
			tell(at, engine.Event{Kind: engine.Drain})
			tell(at+later, engine.Event{Kind: engine.Undrain})
		}
	case 3:
		hot := engine.Sample{Util: x.r.Float64(), MemUsed: x.r.Float64(), TempC: 90, PowerW: -1, MemErrors: -1, Faults: -1}
		for k := range 4 {
			tell(at+time.Duration(k)*100_000, engine.Event{Kind: engine.Telemetry, Sample: &hot})
		}
		tell(at+500_000+later, engine.Event{Kind: engine.Telemetry, Sample: &cool})
	case 4:
		if !safe {
			dead := cool
			dead.Unresponsive = true
			tell(at, engine.Event{Kind: engine.Telemetry, Sample: &dead})
		}
	}
}

// detach has a launch in host memory leave its lane where it keeps other runs waiting, and
// has not ended meanwhile. Whatever was given to the lane after it never begins.
func (x *executor) detach(id machine.DeviceID) {
	o, upto, blocks := x.engine.Blocks(x.now, id)
	if !blocks || x.devices[id].down {
		return
	}
	ln := &x.lanes[o.Op.Lane]
	if len(ln.queue) == 0 || ln.queue[0].act.Op != o.Op || !ln.queue[0].started {
		return
	}
	if upto != ln.issued {
		x.bad("operations up to %d are to be given up on lane %d, which was given %d", upto, o.Op.Lane, ln.issued)
	}
	if !x.board.TakeOver(driver.Lane(o.Op.Lane), o.Op.Seq, upto) {
		x.bad("operation %v runs, and its lane cannot be taken over", o.Op)
	}
	x.sum.Detached++
	x.detached = append(x.detached, ln.queue[0])
	for i, q := range ln.queue {
		ln.failed[q.act.Op.Seq] = true
		if i == 0 {
			continue
		}
		for _, b := range q.bufs {
			b.users--
		}
		x.leaveGang(q)
		x.heard(q.attempt)
	}
	ln.queue, ln.done = nil, upto
	x.news = slices.Insert(x.news, 0, engine.Event{Kind: engine.Detached, Op: o.Op}) // Blocks knows nothing of the others
}

// endDetached ends detached launches whose time has come.
func (x *executor) endDetached() {
	x.detached = slices.DeleteFunc(x.detached, func(o *operation) bool {
		switch {
		case o.stopped:
			o.status, o.err = engine.DepFailed, nil
		case o.end > x.now:
			return false
		}
		if o.status == engine.OK {
			x.finishLaunch(o)
		}
		for _, b := range o.bufs {
			b.users--
		}
		x.news = append(x.news, x.outcome(o))
		return true
	})
}
