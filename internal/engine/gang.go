package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Gangs: one task over several devices, issued to all of them or none.

// gang is a task in flight on several devices.
type gang struct {
	ops    []Op               // by rank, the launch of each member
	devs   []machine.DeviceID // by rank
	left   int                // members that have not ended
	status Status             // OK, or how the member failed that was the first to
	err    error
	failed machine.DeviceID // the device of that member, unless status is OK
	end    time.Duration    // when it failed, by its device
	start  time.Duration    // when the last member began
	// withdrawn says that a member failed, failedAt when: successors wait for another
	// attempt.
	withdrawn bool
	failedAt  time.Duration
	// lost says that a memory was lost that held, or was to hold, a result of a member.
	lost bool
}

// memberFailed takes in that a member did not end well. What counts is the first failure
// by the time it happened, in whatever order they are heard of: others often fail because
// of it. The loss of a device is one; having waited for a failed operation is not.
func (g *gang) memberFailed(st Status, err error, dev machine.DeviceID, end time.Duration) {
	own := func(st Status, err error) bool { return st != DepFailed || err != nil }
	was, is := own(g.status, g.err), own(st, err)
	if g.status == OK || is && !was || is == was && end < g.end {
		g.status, g.err, g.failed, g.end = st, err, dev, end
	}
}

// lastMember takes in the end of a member of a gang, and reports whether it was the last.
func (e *Engine) lastMember(g *gang, op Op, tid taskID, ok bool, start time.Duration) bool {
	if g.left == len(g.ops) || start > g.start {
		g.start = start
	}
	g.left--
	if g.left > 0 && !ok { // its part of the results is not made
		r, gt := e.taskOf(tid)
		e.voidOutputs(r, gt, []Op{op}, false)
		if !g.withdrawn {
			g.withdrawn, g.failedAt = true, e.now
			e.withdrawn(tid, r)
		}
	}
	return g.left == 0
}

// member returns the launch of a gang on a device.
func (g *gang) member(dev machine.DeviceID) Op { return g.ops[slices.Index(g.devs, dev)] }

// gang returns the gang that a task is in flight as, nil for an ordinary task.
func (e *Engine) gang(tid taskID) *gang {
	if len(e.gangs) == 0 {
		return nil
	}
	return e.gangs[tid]
}

// placeGang issues a gang on the devices that are free soonest, all or none. A gang
// ignores the lanes' credits: because all its launches are issued at once and lanes keep
// order, two gangs cannot wait for each other.
func (e *Engine) placeGang(tid taskID, r *run, gt graph.TaskID) {
	switch {
	case r.full():
		e.park(tid, r)
		return
	case e.full():
		e.tasks.at[tid].move(gangLined)
		e.gangLine.push(tid)
		return
	}
	size, costs := r.g.Task(gt).Gang, e.shape(r, gt).costs
	devs, possible, err := e.gangDevices(r, gt)
	if possible < size {
		if err == ErrNoDevice {
			err = e.noDevice(r.g.Task(gt))
		}
		e.fail(r, e.taskErr(r, gt, -1, err))
		return
	}
	if len(devs) < size {
		e.leaveOut(tid)
		return
	}
	slices.SortStableFunc(devs, func(a, b machine.DeviceID) int {
		return int(min(max(e.situation.Devices[a].FreeAt-e.situation.Devices[b].FreeAt, -1), 1))
	})
	devs = devs[:size]
	slices.Sort(devs)
	var cost time.Duration
	e.mem.beginIssue()
	e.buffers = e.buffers[:0]
	taken := make(map[spaceID]int64)
	for rank, dev := range devs {
		vd := &e.situation.Devices[dev]
		cost = max(cost, time.Duration(float64(costs[vd.Class])*vd.Slow))
		space := e.devs[dev].space
		v, need := e.prepare(tid, r, gt, dev, int16(rank), room{taken[space], taken[0]})
		if v == noMemory {
			e.leaveOut(tid)
			e.gangWaits = true
		}
		if v != issuedOK {
			return
		}
		taken[space] += need.here
		taken[0] += need.host
	}
	plans := slices.Clone(e.buffers)
	e.tasks.at[tid].cost = int64(cost)
	g := &gang{devs: devs, left: len(devs)}
	at := e.now
	n := len(r.f.TaskUses(gt))
	for rank, dev := range devs {
		l := e.devs[dev].lanes[0]
		op := e.launch(tid, r, gt, dev, l, int16(rank), plans[rank*n:rank*n+n])
		g.ops = append(g.ops, op)
		e.tasks.at[tid].lane, e.tasks.at[tid].seq = l, op.Seq
		vd := &e.situation.Devices[dev]
		takes := vd.Takes(1, cost) // a member counts as one lane, however many it uses
		vd.FreeAt = max(vd.FreeAt, e.now) + takes
		vd.Queued++
		e.situation.Delay(dev, takes)
		e.devs[dev].load += int64(cost)
		at = max(at, vd.FreeAt, e.now+cost)
		if e.devs[dev].team > 0 { // the next task there may follow it on its lane
			e.revisit(dev)
		}
		e.dirty(dev)
	}
	e.tasks.at[tid].eft = int64(at)
	e.gangs[tid] = g
	e.markIssued(tid, r, devs[len(devs)-1])
}

// gangDevices returns the devices that a member of a gang can run on now with all inputs
// in reach, the number of devices that may become possible, and why there are no more.
func (e *Engine) gangDevices(r *run, gt graph.TaskID) (devs []machine.DeviceID, possible int, why error) {
	task, costs := r.g.Task(gt), e.shape(r, gt).costs
	why = ErrNoDevice
	for d := range e.devs {
		vd := &e.situation.Devices[d]
		switch {
		case costs[vd.Class] < 0 || !e.allowed(task, machine.DeviceID(d)):
		case e.devs[d].state == Broken:
			if e.devs[d].cause != nil {
				why = fmt.Errorf("%w: %w", why, e.devs[d].cause)
			}
		case !e.hostOnly && !e.reaches(r, gt, e.devs[d].space):
			why = fmt.Errorf("%w: no link leads from where its data is", ErrNoDevice)
		default:
			possible++
			if vd.Accepts {
				devs = append(devs, machine.DeviceID(d))
			}
		}
	}
	return devs, possible, why
}

// waitGang adds the members of a gang in flight to the operations a launch waits for.
// Members that have ended are left out, because the loop's board may have forgotten how
// they ended.
func (e *Engine) waitGang(g *gang) {
	for _, op := range g.ops {
		if e.mem.pending(op.Lane, e.lanes[op.Lane].count(op.Seq)) {
			e.waits = append(e.waits, op)
		}
	}
}

// nextGang readies the next gang that waits for fewer tasks in flight.
func (e *Engine) nextGang() {
	if e.gangLine.len() > 0 && !e.full() {
		tid := e.gangLine.pop()
		e.tasks.at[tid].move(ready)
		e.ready.push(tid)
	}
}

// lostResult reports whether a needed result of a gang has no copy. It is asked after the
// device of a member that had ended was lost before the others ended; without a loss, a
// task behind the gang may be updating the result in place.
func (e *Engine) lostResult(r *run, gt graph.TaskID) bool {
	uses := r.f.TaskUses(gt)
	for k := range uses {
		for _, gv := range r.f.Writes(&uses[k]) {
			val := &e.mem.vals.at[r.val(gv)]
			if val.slot < 0 && (val.reads > 0 || val.has(current) || val.owed()) {
				return true
			}
		}
	}
	return false
}
