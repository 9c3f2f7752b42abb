package engine

import (
	"fmt"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Issuing gives a task to a device: memory for its results, copies of its inputs, then
// the launch with every operation it waits for. It happens all at once or not at all, so
// that a task that waits for memory holds none. How many tasks are issued ahead is a
// matter of credits.

// issueOutcome is the outcome of an attempt to issue a task.
type issueOutcome uint8

const (
	issuedOK issueOutcome = iota
	setAside              // it waits for something else and is off the queue
	noMemory              // it stays at the head of the queue until there is room
)

// issueAll issues from the queues of devices that changed, as far as credits and memory
// go. A device that has nothing left may take a task from another.
func (e *Engine) issueAll() {
	for n := 0; n < len(e.revisits) || e.limited.len() > 0 && e.resume(); n++ {
		dev := e.revisits[n]
		d := &e.devs[dev]
		d.revisit = false
		if d.blocked || !e.working(d) {
			continue
		}
		d.visited = e.now
		for {
			none := d.queue.len() == 0
			if none && (e.steal == nil || e.queuedTasks == 0 || d.flight > 0) {
				break
			}
			if e.full() {
				if !none && !d.limited {
					d.limited = true
					e.limited.push(dev)
				}
				break
			}
			l, ok := e.credit(d)
			if !ok || none && !e.stealFor(dev) {
				break
			}
			if !none {
				e.inTurn(dev)
			}
			next := d.queue.pop()
			if e.tryIssue(next.task, dev, l) == noMemory && !e.issueBehind(next, dev, l) {
				e.block(dev)
				break
			}
		}
	}
	e.revisits = e.revisits[:0]
}

// resume has issueAll look at the device that has waited longest for fewer tasks in
// flight, once there are fewer, and reports whether there is one.
func (e *Engine) resume() bool {
	for e.limited.len() > 0 && !e.full() {
		e.visit(1)
		dev := e.limited.pop()
		e.devs[dev].limited = false
		if e.devs[dev].queue.len() > 0 && !e.devs[dev].revisit {
			e.revisit(dev)
			return true
		}
	}
	return false
}

// working reports whether a device takes operations: it is healthy, draining or suspect.
func (e *Engine) working(d *device) bool {
	return d.state == Healthy || d.state == Draining || d.state == Suspect
}

// credit returns a lane of a device that may take another task, and whether there is one.
func (e *Engine) credit(d *device) (Lane, bool) {
	if d.patient {
		return e.patientLane(d)
	}
	if d.team > 0 && d.queue.len() > 0 {
		return e.teamLane(d, d.queue.next().task)
	}
	best, least := Lane(-1), uint64(1<<31)
	for l := d.lanes[0]; l < d.lanes[1]; l++ {
		if n := e.lanes[l].issued - e.lanes[l].done; n < least {
			best, least = l, n
		}
	}
	return best, e.mayTake(d, least, d.perLane(d.backlog))
}

// mayTake reports whether a lane of a device may take another task, given how many are in
// flight there and the nanoseconds they are predicted to take.
func (e *Engine) mayTake(d *device, flight uint64, backlog int64) bool {
	switch {
	case flight == 0, int(flight) < e.o.Depth && backlog < int64(e.o.Ahead):
		return true
	case d.space == 0 && backlog >= longHaul && (len(e.devs) > 1 || len(e.byID) > 1 || d.team > 0):
		return false
	}
	return flight == 1
}

// longHaul is the predicted duration, in nanoseconds, above which a lane of a device that
// uses host memory gets no second task in advance. There is no copy to overlap, and a task
// that is not yet bound can still go to another device or lane or be cancelled at once. 2 ms is about 40
// times the cost of handing out the next task late (about 50 µs).
const longHaul = int64(2 * time.Millisecond)

// perLane divides predicted lane-nanoseconds of work among a device's compute lanes.
func (d *device) perLane(ns int64) int64 {
	if n := int64(d.lanes[1] - d.lanes[0]); n > 1 {
		return ns / n
	}
	return ns
}

// tryIssue issues a placed task on a lane of its device.
func (e *Engine) tryIssue(tid taskID, dev machine.DeviceID, l Lane) issueOutcome {
	r, gt := e.taskOf(tid)
	if r.state != runActive {
		e.unplace(tid, waiting)
		return setAside
	}
	if e.tasks.at[tid].unissued > 0 { // a predecessor failed after it was queued
		e.unplace(tid, waiting)
		e.unpark(r)
		return setAside
	}
	if r.full() {
		e.park(tid, r)
		return setAside
	}
	op, quick := e.launchQuick(tid, r, gt, dev, l)
	if !quick {
		e.mem.beginIssue()
		e.buffers = e.buffers[:0]
		if v, _ := e.prepare(tid, r, gt, dev, 0, room{}); v != issuedOK {
			e.unpark(r)
			return v
		}
		op = e.launch(tid, r, gt, dev, l, 0, e.buffers)
	}
	t := &e.tasks.at[tid]
	t.lane, t.seq = op.Lane, op.Seq
	e.markIssued(tid, r, dev)
	if e.devs[dev].patient {
		e.detach(op)
		return issuedOK
	}
	if d := &e.devs[dev]; d.space != 0 && r.owed > 0 && d.perLane(d.backlog) <= shortHaul {
		e.followHome(r, gt)
	}
	return issuedOK
}

// maxTried is the number of tasks of a queue that are tried when the first has no room
// and no operation in flight will make any in its device's memory: enough to pass a few
// large ones, few enough to cost less than the launch that is gained.
const maxTried = 8

// issueBehind issues a task of a device that comes behind the next one, for which there
// is no memory, and reports whether it could.
func (e *Engine) issueBehind(next keyed, dev machine.DeviceID, l Lane) bool {
	d := &e.devs[dev]
	found := false
	passed := append(e.passed[:0], next)
	for d.queue.len() > 0 && e.mem.spaces[d.space].pins == 0 && (len(passed) < maxTried || e.effort >= tryBehind && e.flying == 0) {
		k := d.queue.pop()
		if e.tryIssue(k.task, dev, l) != noMemory {
			found = true
			break
		}
		passed = append(passed, k)
	}
	for _, k := range passed {
		d.queue.unpop(k)
	}
	e.passed = passed[:0]
	return found
}

// goElsewhere has a task placed anew because no link leads from one of its inputs to its
// device. It goes to a device that all inputs can reach, or waits for one.
func (e *Engine) goElsewhere(tid taskID, r *run, gt graph.TaskID, dev machine.DeviceID) {
	task, costs := r.g.Task(gt), e.shape(r, gt).costs
	ever := false
	for d := range e.devs {
		vd := &e.situation.Devices[d]
		if costs[vd.Class] < 0 || e.devs[d].state == Broken || !e.allowed(task, machine.DeviceID(d)) || !e.reaches(r, gt, e.devs[d].space) {
			continue
		}
		if ever = true; vd.Accepts {
			e.tasks.at[tid].avoid = dev
			e.replace(tid)
			return
		}
	}
	if !ever {
		e.unplace(tid, waiting)
		e.fail(r, e.taskErr(r, gt, dev, fmt.Errorf("%w: no link leads from where its data is", ErrNoDevice)))
		return
	}
	e.leaveOut(tid)
}

// reaches reports whether every input of a task that has a copy can be copied to a
// memory.
func (e *Engine) reaches(r *run, gt graph.TaskID, space spaceID) bool {
	uses := r.f.TaskUses(gt)
	for k := range uses {
		for _, gv := range r.f.Reads(&uses[k]) {
			if v := r.val(gv); e.mem.have(v) && e.source(v, space) < 0 {
				return false
			}
		}
	}
	return true
}
