package engine

import (
	"fmt"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Issuing gives a task to a device: memory for what it makes, copies of what it
// reads, then the launch with everything it has to wait for. It happens all at
// once or not at all, so a task that waits for memory holds none.

type verdict uint8

const (
	issuedOK verdict = iota
	setAside         // it waits for something else now and is off the queue
	noMemory         // keep it at the head of the queue until memory frees up
)

// issueAll issues from the queues of devices that changed, as far as credits
// and memory go; one that has nothing left may take a task from another.
func (e *Engine) issueAll() {
	for n := 0; n < len(e.revisits) || e.limited.len() > 0 && e.resume(); n++ {
		dev := e.revisits[n]
		d := &e.devs[dev]
		d.revisit = false
		if d.blocked || !e.working(d) {
			continue
		}
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

// resume has the device looked at that has waited longest for fewer tasks to be in
// flight, once they are, and reports whether there is one.
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

// working reports whether a device takes operations at all.
func (e *Engine) working(d *device) bool { return d.state == Healthy || d.state == Draining }

// credit returns a lane that may take another task.
func (e *Engine) credit(d *device) (Lane, bool) {
	best, least := Lane(-1), uint64(1<<31)
	for l := d.lanes[0]; l < d.lanes[1]; l++ {
		if n := e.lanes[l].issued - e.lanes[l].done; n < least {
			best, least = l, n
		}
	}
	backlog := d.perLane(d.backlog)
	switch {
	case least == 0, int(least) < e.o.Depth && backlog < int64(e.o.Ahead):
		return best, true
	case d.space == 0 && backlog >= longHaul && (len(e.devs) > 1 || len(e.byID) > 1):
		return 0, false
	}
	return best, least == 1
}

// longHaul is from how long a task in flight on a device that uses host memory is
// alone there: nothing is copied meanwhile for the next one, which can still go to
// another device if this one turns out to be slow, and of another run end at once
// when that is cancelled. To hear of the one and give the other takes some tens of
// microseconds.
const longHaul = int64(2 * time.Millisecond)

// perLane divides predicted work among a device's lanes.
func (d *device) perLane(ns int64) int64 {
	if n := int64(d.lanes[1] - d.lanes[0]); n > 1 {
		return ns / n
	}
	return ns
}

// tryIssue issues a placed task on a lane of its device.
func (e *Engine) tryIssue(tid taskID, dev machine.DeviceID, l Lane) verdict {
	r, gt := e.taskOf(tid)
	if r.state != runActive {
		e.unplace(tid, waiting)
		return setAside
	}
	if e.tasks.at[tid].unissued > 0 { // a predecessor failed meanwhile
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
	if d := &e.devs[dev]; d.space != 0 && r.owed > 0 && d.perLane(d.backlog) <= shortHaul {
		e.followHome(r, gt)
	}
	return issuedOK
}

// maxTried is how many tasks of a queue are tried when the first has no room and nothing
// in flight will make any in its device's memory: enough to pass a few large ones, few
// enough to cost less than the launch that is gained.
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

// goElsewhere has a task placed anew, one of whose values is beyond reach from its
// device: where all it reads is within reach, once there is such a device.
func (e *Engine) goElsewhere(tid taskID, r *run, gt graph.TaskID, dev machine.DeviceID) {
	task, costs := r.g.Task(gt), e.shape(r, gt).costs
	ever := false
	for d := range e.devs {
		vd := &e.view.Devices[d]
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

// reaches reports whether a way leads to a memory from all a task reads that is
// anywhere.
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
