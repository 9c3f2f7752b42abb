package engine

import (
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// devices are the devices, and what is to be done about them in this step.
type devices struct {
	devs        []device
	view        sched.View
	batch       int                    // tasks the policy is asked about in one call
	revisits    []machine.DeviceID     // whose queue, credits or memory changed: those with revisit set
	loadChanged []machine.DeviceID     // whose load changed and whose FreeAt did not yet
	limited     fifo[machine.DeviceID] // that wait for fewer tasks to be in flight, longest first
	contention  *machine.Contention    // which devices computed at the same time; nil where none share anything
	balance     balanceState
}

// device is the engine's own view of a device; what policies see is in view.Devices.
type device struct {
	space       spaceID
	lanes       [2]Lane // compute lanes [first, end)
	in, out     Lane
	queue       queue
	state       DeviceState
	blocked     bool // the head of its queue waits for memory
	waits       waitsOn
	shortfall   shortfall
	stats       machine.Stats
	backlog     int64 // predicted time of tasks in flight
	load        int64 // and of those queued as well
	health      deviceHealth
	swapTo      machine.DeviceID // -1, or where its state moves once idle
	flight      int              // operations in flight that use its lanes
	revisit     bool             // on the list of devices to look at
	limited     bool             // and on that of devices that wait for fewer tasks to be in flight
	dirty       bool             // and on that of the policy
	inUse       []usedPart       // what calls it was dropped with may still use
	cause       error            // why it was lost last
	loadChanged bool             // its load changed and its FreeAt did not yet
	losses      int              // how often it was lost
	util        float64          // as last sampled, its own work included

	process    Process
	least      time.Duration   // the shortest automatic timeout of a launch, 0 where there are none
	sharers    int             // launches that may run at a time on what it computes with
	compiled   map[string]bool // kernels, by name, that have run in its process since that began
	ran        *graph.Kernel   // one of them
	compiledAt time.Duration   // when the last of them did for the first time
}

// DeviceState is what the engine thinks of a device.
type DeviceState uint8

const (
	Healthy  DeviceState = iota
	Draining             // finishes what it has, takes nothing new
	Lost                 // gone; the ladder tries to bring it back
	Broken               // the ladder gave up
	Spare                // waits to take another's place
)

var stateNames = [...]string{"healthy", "draining", "lost", "broken", "spare"}

func (s DeviceState) String() string { return stateNames[s] }

// StateChange is a change of what the engine thinks of a device.
type StateChange struct {
	Device   machine.DeviceID
	From, To DeviceState
	Cause    error // of a device that is lost or broken
}

// setState changes a device's state and tells of it.
func (e *Engine) setState(dev machine.DeviceID, to DeviceState) {
	d := &e.devs[dev]
	from := d.state
	d.state = to
	if e.o.Changed == nil || from == to {
		return
	}
	c := StateChange{Device: dev, From: from, To: to}
	if to == Lost || to == Broken {
		c.Cause = d.cause
	}
	e.o.Changed(c)
}

// DeviceStatus is what the engine knows of a device.
type DeviceStatus struct {
	State  DeviceState
	Stats  machine.Stats
	Queued int // tasks placed and not finished
	// Util is the utilisation last sampled, Others the part of it that is not
	// the engine's own work.
	Util     float64
	Others   float64
	Slow     float64
	Losses   int // how often it was lost
	MemUsed  int64
	MemBytes int64
}

// NoLimit is the capacity of a memory that has no limit.
const NoLimit = 1 << 62

// Status returns the state of a device.
func (e *Engine) Status(dev machine.DeviceID) DeviceStatus {
	d, vd := &e.devs[dev], &e.view.Devices[dev]
	st := DeviceStatus{
		State: d.state, Stats: d.stats, Queued: int(vd.Queued), Util: d.util, Others: vd.Util, Slow: vd.Slow, Losses: d.losses,
		MemUsed: e.mem.spaces[d.space].used, MemBytes: vd.CapBytes,
	}
	st.Stats.Load = vd.Load
	return st
}

// usedPart is part of an instance that a call under way on a dropped device uses.
type usedPart struct {
	inst  Inst
	p0, n pieceID
}

// keepInUse keeps what the operations in flight on a device use in host memory: a
// call that hangs may write to it whenever it likes, so that nobody else may
// have it, and no run whose memory it is may end, before the device is quiet. Of a
// device in a process of its own these are copies, until the process is gone.
func (e *Engine) keepInUse(dev machine.DeviceID) {
	d := &e.devs[dev]
	keep := func(i Inst, p0, n pieceID) {
		e.mem.pin(i, p0, n, 1)
		d.inUse = append(d.inUse, usedPart{i, p0, n})
	}
	if d.process.Own {
		for _, l := range []Lane{d.in, d.out} {
			ln := &e.lanes[l]
			for seq := ln.done + 1; seq <= ln.issued; seq++ {
				rec := ln.rec(seq)
				for _, i := range []Inst{rec.src, rec.dst} {
					if rec.task < 0 && e.mem.insts[i].space == 0 {
						keep(i, rec.p0, rec.p1-rec.p0)
					}
				}
			}
		}
	}
	if d.space != 0 {
		return // its memory goes with it
	}
	for l := d.lanes[0]; l < d.lanes[1]; l++ {
		ln := &e.lanes[l]
		for seq := ln.done + 1; seq != ln.issued+1; seq++ {
			rec := ln.rec(seq)
			r, gt := e.taskOf(rec.task)
			a := 0
			for _, u := range r.f.TaskUses(gt) {
				switch {
				case rec.quick:
					// It has no note of which copy it was given. All in host memory are
					// there still: a value that is to be read loses none.
					for s := e.mem.vals.at[r.val(u.V)].slot; s >= 0; s = e.mem.slots.at[s].next {
						if in := &e.mem.insts[e.mem.slots.at[s].inst]; in.space == 0 {
							keep(e.mem.slots.at[s].inst, in.piece(s), 1)
						}
					}
				case u.Rank == rec.rank:
					p0, n := pieces(&u)
					keep(rec.args[a], p0, n)
					a++
				}
			}
			if !rec.quick && a < len(rec.args) { // the workspace
				keep(rec.args[a], 0, 0)
			}
		}
	}
}

// quieted lets go of what keepInUse kept.
func (e *Engine) quieted(dev machine.DeviceID) {
	d := &e.devs[dev]
	inUse := d.inUse
	d.inUse = nil
	for _, g := range inUse {
		e.mem.unpin(g.inst, g.p0, g.n, 1)
	}
}

// drop gives up on a device that hangs or keeps failing.
func (e *Engine) drop(dev machine.DeviceID, cause error) {
	e.out.emit(Drop).Device = dev
	e.keepInUse(dev)
	e.lose(dev, false, false, cause)
}

// abandonDevice gives up on a device for what it runs, which is no fault of its own.
// What its memory holds is kept where a process can be killed without it.
func (e *Engine) abandonDevice(dev machine.DeviceID, cause error) {
	d := &e.devs[dev]
	e.out.emit(Drop).Device = dev
	e.keepInUse(dev)
	d.health.rung = 0
	e.lose(dev, d.process.Keeps, true, cause)
}

// others reports whether another device still works.
func (e *Engine) others(dev machine.DeviceID) bool {
	for i := range e.devs {
		if machine.DeviceID(i) != dev && e.devs[i].state == Healthy {
			return true
		}
	}
	return false
}
