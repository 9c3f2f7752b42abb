package engine

import (
	"errors"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// Devices: the engine's record of each, its state, and dropping one with calls in flight.

// devices are the records of devices, and which of them this step has to look at.
type devices struct {
	devs        []device
	situation   sched.Situation        // the snapshot policies decide on
	batch       int                    // tasks the policy is asked about in one call
	revisits    []machine.DeviceID     // devices for issueAll to look at: those with revisit set
	loadChanged []machine.DeviceID     // devices whose load changed since FreeAt was computed
	limited     fifo[machine.DeviceID] // devices that wait for fewer tasks in flight, longest first
	contention  *machine.Contention    // which devices computed at the same time; nil if none share anything
	balance     balanceState
}

// device is the engine's own record of a device; policies see situation.Devices. Invariants:
// Accepts is set there exactly if state is Healthy; a device that is not healthy has no
// task queued, but for a probe if it is suspect; its Queued is the tasks queued and parked there and in flight on its
// lanes.
type device struct {
	space   spaceID       // hostSpace if it uses host memory
	lanes   [2]Lane       // compute lanes [first, end)
	team    int           // number of compute lanes that work together (machine.Device.TeamSize), 0 for none
	recent  Lane          // the compute lane that was given a launch last
	visited time.Duration // when issueAll last looked at it
	in, out Lane          // lanes for copies into and out of its memory
	// queue holds the tasks placed here. Invariant, at the end of a step: empty unless no
	// lane has credit, the device is blocked, or as many tasks are in flight as may be.
	queue queue
	state DeviceState
	// blocked says that its next task waits for memory. Invariant: an operation in flight,
	// a pausing task or a timer will let it continue, and waits covers its own memory and,
	// if that has a limit, host memory.
	blocked   bool
	waits     waitsOn // the wait lists it is on
	shortfall shortfall
	stats     machine.Stats
	backlog   int64 // predicted nanoseconds of tasks in flight; invariant: the sum of their cost
	// load is the predicted lane-nanoseconds of tasks in flight, queued and parked here;
	// invariant: the sum of their cost, times the lanes they take.
	load     int64
	wideBusy time.Duration // lane-time of finished tasks beyond that in stats
	health   deviceHealth
	// role is the state it is meant to have and comes back to after a loss: Healthy, Spare,
	// or Draining if a caller asked for that.
	role DeviceState
	// handsOver says that values only its memory has are copied away once it is idle: to
	// swapTo, or to host memory if that is machine.Host. Invariant: only while it is draining.
	handsOver bool
	swapTo    machine.DeviceID
	leavers   []func(error) // callers that wait for it to be drained
	wakers    []func(error) // callers that wait for it to be back
	flight    int           // operations on its lanes; invariant: 0 unless it is healthy, draining or suspect
	revisit   bool          // it is on revisits
	limited   bool          // it is on limited
	dirty     bool          // it is on situation.Dirty: its state changed since the policy saw it
	inUse     []usedPart    // parts of instances that calls of a dropped device may still use
	cause     error         // why it was lost last
	doubt     error         // why it was suspect last; nil for a device that came back
	accused   error         // the error it is drained for; nil for none
	// loadChanged says that it is on devices.loadChanged.
	loadChanged bool
	losses      int           // times it was lost
	util        float64       // utilisation last sampled, 0 to 1, the engine's own work included
	sampled     *Condition    // its condition as last sampled; never changed, since reports share it
	failed      int64         // executions of tasks that failed
	lastOK      time.Duration // when a task last ended well; 0 for never
	lastErr     error         // why a task last failed, or the device was lost or is drained
	energy      *energy       // nil unless its power was ever sampled

	patient    bool // its tasks wait for other runs
	process    Process
	least      time.Duration   // the shortest automatic timeout of a launch there, 0 if there is none
	sharers    int             // launches that may run at a time on the resources it computes with
	compiled   map[string]bool // names of kernels that have run in its present process
	ran        *graph.Kernel   // one of them, to find it without the map
	compiledAt time.Duration   // when a kernel last ran there for the first time
}

// DeviceState is the engine's judgement of a device.
type DeviceState uint8

const (
	Healthy  DeviceState = iota // takes work
	Draining                    // finishes what it has and takes nothing new
	Lost                        // gone; the ladder tries to bring it back
	Broken                      // the ladder gave up
	Spare                       // takes no work until it replaces another device
	Suspect                     // runs what it has, and nothing new but probes until these are good
)

var stateNames = [...]string{"healthy", "draining", "lost", "broken", "spare", "suspect"}

func (s DeviceState) String() string { return stateNames[s] }

// StateChange is a change of a device's state.
type StateChange struct {
	Device   machine.DeviceID
	From, To DeviceState
	Cause    error // of a device that is lost, broken or suspect, or drained for an error
}

// setState changes a device's state and reports it to Options.Changed.
func (e *Engine) setState(dev machine.DeviceID, to DeviceState) {
	d := &e.devs[dev]
	from := d.state
	d.state = to
	if e.o.Changed == nil && e.watch == nil || from == to {
		return
	}
	c := StateChange{Device: dev, From: from, To: to}
	switch to {
	case Lost, Broken:
		c.Cause = d.cause
	case Suspect:
		c.Cause = d.doubt
	case Draining:
		c.Cause = d.accused
	}
	if e.o.Changed != nil {
		e.o.Changed(c)
	}
	if e.watch != nil {
		e.send(&Notice{Kind: DeviceChanged, Device: dev, Task: graph.NoTask, Change: c, Err: c.Cause}, nil)
	}
}

// DeviceStatus is the engine's knowledge of a device.
type DeviceStatus struct {
	State DeviceState
	// Drained says of a draining device that it holds no work, and no value that is
	// nowhere else unless that could not be copied away.
	Drained bool
	Stats   machine.Stats
	// Busy is the time spent in finished tasks, as if the device ran one after another on
	// all its lanes, and Taken the part of its lanes that tasks in flight take now.
	Busy   time.Duration
	Taken  float64
	Queued int // tasks placed and not finished
	// Util is the utilisation last sampled, Others the part of it that is not
	// the engine's own work.
	Util     float64
	Others   float64
	Slow     float64       // how many times slower than its model it is taken to be
	Losses   int           // times it was lost
	MemUsed  int64         // bytes of its memory in use
	MemBytes int64         // capacity in bytes, NoLimit for none
	Sampled  *Condition    // as last sampled, not to be changed; nil if it never was
	Failed   int64         // executions of tasks that failed
	Failures int           // those in a row, up to now
	LastOK   time.Duration // when a task last ended well; 0 for never
	LastErr  error         // why a task last failed or the device was lost
	Silent   bool          // it is lost or broken because it did not respond
}

// NoLimit is the capacity of a memory that has no limit.
const NoLimit = 1 << 62

// Status returns the state of a device.
func (e *Engine) Status(dev machine.DeviceID) DeviceStatus {
	d, vd := &e.devs[dev], &e.situation.Devices[dev]
	st := DeviceStatus{
		State: d.state, Drained: d.state == Draining && d.role == Draining && !d.handsOver, Stats: d.stats, Queued: int(vd.Queued), Util: d.util, Others: vd.Util, Slow: vd.Slow, Losses: d.losses,
		MemUsed: e.mem.spaces[d.space].used, MemBytes: vd.CapBytes,
		Sampled: d.sampled, Failed: d.failed, Failures: d.health.failures, LastOK: d.lastOK, LastErr: d.lastErr,
		Silent: (d.state == Lost || d.state == Broken) && errors.Is(d.cause, errUnresponsive),
	}
	st.Stats.Load = vd.Load
	st.Busy, st.Taken = (d.stats.Total+d.wideBusy)/time.Duration(d.lanes[1]-d.lanes[0]), 1
	if d.team > 0 {
		st.Taken = e.taken(d)
	}
	return st
}

// usedPart is a part of an instance that a call in flight on a dropped device uses.
type usedPart struct {
	inst  Inst
	p0, n pieceID
}

// keepInUse pins the host memory that operations in flight on a dropped device use. A
// call that hangs may write to it at any time, so until the device is quiet nothing else
// may use it and a run whose memory it is may not end. For a device in a process of its
// own these are copies, until the process is gone.
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
		return // launches use its own memory alone, which is lost with it
	}
	for l := d.lanes[0]; l < d.lanes[1]; l++ {
		ln := &e.lanes[l]
		for seq := ln.done + 1; seq != ln.issued+1; seq++ {
			rec := ln.rec(seq)
			r, gt := e.taskOf(rec.task)
			a := 0
			for _, u := range r.f.TaskUses(gt) {
				switch {
				case u.Rank != rec.rank:
				case len(rec.args) == 0:
					// It pins nothing, so the record does not say which copy it was given.
					// All copies in host memory are still there: a value with readers loses
					// none.
					for s := e.mem.vals.at[r.val(u.V)].slot; s >= 0; s = e.mem.slots.at[s].next {
						if in := &e.mem.insts[e.mem.slots.at[s].inst]; in.space == 0 {
							keep(e.mem.slots.at[s].inst, in.piece(s), 1)
						}
					}
				default:
					p0, n := pieces(&u)
					keep(rec.args[a], p0, n)
					a++
				}
			}
			if a < len(rec.args) { // the workspace
				keep(rec.args[a], 0, 0)
			}
		}
	}
}

// quieted unpins what keepInUse pinned.
func (e *Engine) quieted(dev machine.DeviceID) {
	d := &e.devs[dev]
	inUse := d.inUse
	d.inUse = nil
	for _, g := range inUse {
		e.mem.unpin(g.inst, g.p0, g.n, 1)
	}
}

// drop gives up on a device that hangs or keeps failing. The content of its memory is
// lost.
func (e *Engine) drop(dev machine.DeviceID, cause error) {
	e.out.emit(Drop).Device = dev
	e.keepInUse(dev)
	e.lose(dev, false, false, cause)
}

// abandonDevice gives up on a device because of a task it runs, which is not its fault:
// the ladder starts from the first rung, and its memory is kept if that outlives the
// process.
func (e *Engine) abandonDevice(dev machine.DeviceID, cause error) {
	d := &e.devs[dev]
	e.out.emit(Drop).Device = dev
	e.keepInUse(dev)
	d.health.rung = 0
	e.lose(dev, d.process.Keeps, true, cause)
}

// others reports whether another device that computes is healthy.
func (e *Engine) others(dev machine.DeviceID) bool {
	for i := range e.devs {
		if machine.DeviceID(i) != dev && e.devs[i].state == Healthy && !e.devs[i].patient {
			return true
		}
	}
	return false
}
