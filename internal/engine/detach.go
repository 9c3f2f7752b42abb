package engine

import (
	"math"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Detaching. A Go kernel that does not return cannot be ended and keeps its device. If it
// keeps other runs waiting, the loop lets the device go on without it: the launch leaves
// its lane and is detached. Its task stays in flight with everything it uses, its
// successors wait to be issued, and the launches behind it on the lane are placed again.

const (
	// defaultDetachAfter is the time that a launch in host memory may keep its device from other
	// runs. 2 s is above the duration of tasks that are cut well, and short enough that
	// the other runs do not seem to hang.
	defaultDetachAfter = 2 * time.Second
	// fewDetached is the number of detached launches of a device up to which the time is the
	// same: each has goroutines of its own for all cores of the device. With more of them it grows
	// in proportion, so that kernels which compute for long do not pile up, and kernels which
	// wait for each other end all the same.
	fewDetached = 8
)

// detachedOp is a detached launch.
type detachedOp struct {
	op  Op
	rec opRec
}

// Blocks returns a launch that a device in host memory has been running for
// Options.DetachAfter or longer (see fewDetached) while tasks of other runs wait for the device,
// and the last operation its lane was given; false if there is none.
func (e *Engine) Blocks(now time.Duration, dev machine.DeviceID) (o Running, upto uint32, ok bool) {
	d := &e.devs[dev]
	if d.space != hostSpace || d.process.Own || !e.working(d) || e.o.DetachAfter < 0 {
		return o, 0, false
	}
	after, n := max(e.o.DetachAfter/fewDetached, 1), time.Duration(max(e.countDetached(dev), fewDetached))
	if after > math.MaxInt64/n { // longer than any launch
		return o, 0, false
	}
	after *= n
	for l := d.lanes[0]; l < d.lanes[1]; l++ {
		if o, ok = e.running(l); ok && now-o.Since >= after && e.blocks(d, l) {
			return o, uint32(e.lanes[l].issued), true
		}
	}
	return o, 0, false
}

// blocks reports whether the launch that a lane runs may be detached and keeps tasks of
// other runs from the lane or its device.
func (e *Engine) blocks(d *device, l Lane) bool {
	ln := &e.lanes[l]
	tid := ln.rec(ln.done + 1).task
	if e.gang(tid) != nil || ln.rec(ln.done+1).timeout > 0 { // a timeout ends it, with the device
		return false
	}
	mine := e.tasks.at[tid].run
	others := false
	d.queue.each(func(t taskID) { others = others || e.tasks.at[t].run != mine })
	for seq := ln.done + 2; seq <= ln.issued && !others; seq++ {
		others = e.tasks.at[ln.rec(seq).task].run != mine
	}
	return others
}

// countDetached returns the number of a device's detached launches.
func (e *Engine) countDetached(dev machine.DeviceID) int {
	n := 0
	for i := range e.detached {
		if e.lanes[e.detached[i].op.Lane].info.Device == dev {
			n++
		}
	}
	return n
}

// detach takes in that the oldest launch of a lane is detached. Operations given to the
// lane after it have not begun and never will.
func (e *Engine) detach(op Op) {
	ln := &e.lanes[op.Lane]
	if ln.count(op.Seq) != ln.done+1 || ln.done == ln.issued {
		panic("engine: a detached operation is not the oldest of its lane")
	}
	rec := ln.rec(ln.done + 1)
	s := detachedOp{op, *rec}
	s.rec.args, s.rec.waits = slices.Clone(rec.args), nil
	e.tasks.at[rec.task].flags |= isDetached
	e.detached = append(e.detached, s)
	ln.lost = ln.issued
	ln.done++
	ln.head, ln.last = e.now, e.now
	e.flying--
	e.addLoad(&s, -1)
	e.withdrawn(rec.task, e.runs[e.tasks.at[rec.task].run])
	for ln.done < ln.issued {
		e.finish(Op{op.Lane, uint32(ln.done + 1)}, DepFailed, nil, e.now, e.now)
	}
	e.revisit(ln.info.Device)
}

// addLoad adds a launch n times to the load and the flight of its device; -1 takes it
// out. It is taken out when it is detached, so that the device takes other tasks and no run
// waits for memory the launch may never free; and put back just before it ends.
func (e *Engine) addLoad(s *detachedOp, n int64) {
	dev := e.lanes[s.op.Lane].info.Device
	d, cost := &e.devs[dev], e.tasks.at[s.rec.task].cost
	d.flight += int(n)
	d.backlog += n * cost
	d.load += n * cost
	if d.team > 0 {
		d.load += n * e.onTeam(s.op.Lane, s.rec.task, n)
	}
	e.situation.Devices[dev].Queued += int32(n)
	e.dirty(dev)
}

// endDetached ends a launch if it is detached.
func (e *Engine) endDetached(ev *Event) {
	i := slices.IndexFunc(e.detached, func(s detachedOp) bool { return s.op == ev.Op })
	if i < 0 {
		return
	}
	s := e.detached[i]
	e.detached = slices.Delete(e.detached, i, i+1)
	e.addLoad(&s, 1)
	r, gt := e.taskOf(s.rec.task)
	succs := r.f.Succs(gt)
	for _, p := range succs {
		e.tasks.at[r.task(graph.TaskID(p))].unissued--
	}
	e.launchDone(s.op, &s.rec, ev.Status, ev.Err, ev.Start, ev.End)
	e.tasks.at[s.rec.task].flags &^= isDetached
	if ev.Status == OK {
		for _, p := range succs {
			if t := &e.tasks.at[r.task(graph.TaskID(p))]; t.unissued == 0 && t.where == waiting {
				e.makeReady(r.task(graph.TaskID(p)))
			}
		}
	}
	e.offerAgain = e.offerAgain || len(e.leftOuts) > 0
	e.revisit(e.lanes[s.op.Lane].info.Device)
}

// madeDetached reports whether a detached launch is making a value. Its lane is past the
// launch, so that no operation can wait for it. Tasks of other runs that read the value are
// left out until the launch ends. Tasks of the same run are its successors, which are not
// issued before then.
func (e *Engine) madeDetached(v valueID) bool {
	p := e.producer(v)
	return p >= 0 && e.tasks.at[p].flags&isDetached != 0
}

// eachDetached visits the detached launches of a run.
func (e *Engine) eachDetached(slot runSlot, fn func(op Op, dev machine.DeviceID, gt graph.TaskID)) {
	for i := range e.detached {
		s := &e.detached[i]
		if t := &e.tasks.at[s.rec.task]; t.run == slot {
			fn(s.op, e.lanes[s.op.Lane].info.Device, graph.TaskID(s.rec.task-e.runs[slot].tbase))
		}
	}
}
