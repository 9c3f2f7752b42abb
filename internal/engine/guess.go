package engine

import (
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Guesses: costs that rest on no measurement, in an engine whose cost model learns. Tasks
// with such a cost may take any time, so that few of them are bound to a lane before the
// first have ended: the others stay in queues, from which they can go to another device.
// Once the cost model knows better, the tasks still queued get their cost anew.

// guesses is the state of that.
type guesses struct {
	guessed    bool   // the cost of a task that is queued or in flight may be a guess
	guessEpoch uint64 // the epoch in which guesses were last looked at
	guessEnds  uint32 // flights.learnable at that time
	guessTasks int    // tasks that were queued at that time
}

const (
	// guessDepth is the greatest number of launches of a lane in flight with a guess as the
	// last: two on a device that copies for the second while the first runs. In host memory,
	// where there is no copy to overlap, it is one.
	guessDepth = 2
	// guessShare is the part of the tasks looked at that must have ended before all are
	// looked at again: one in 16, so that looking costs little for each that ends.
	guessShare = 16
)

// classBit stands for a device class in a set of them.
func classBit(class int32) uint64 { return 1 << (class % 64) }

// noteGuess notes whether the cost of a task that is placed on a device class is a guess.
func (e *Engine) noteGuess(t *task, sh *shape, class int32) {
	t.flags &^= isGuess
	if sh.guesses&classBit(class) != 0 {
		t.flags |= isGuess
		e.guessed = true
	}
}

// depth returns the greatest number of launches that a lane may have in flight with the
// next task of a device as the last; 0 if it must be the only one.
func (e *Engine) depth(d *device, tid taskID) int {
	switch {
	case e.tasks.at[tid].flags&isGuess == 0 || len(e.devs) == 1:
		return e.o.Depth
	case d.space == hostSpace:
		return 0
	}
	return guessDepth
}

// learnt returns how much longer than predicted a task takes whose cost was a guess and is
// one no longer, and whether it is such a task.
func (e *Engine) learnt(tid taskID, dev machine.DeviceID) (more int64, ok bool) {
	t := &e.tasks.at[tid]
	if t.flags&isGuess == 0 {
		return 0, false
	}
	r, gt := e.taskOf(tid)
	vd, sh := &e.view.Devices[dev], e.shape(r, gt)
	if sh.guesses&classBit(vd.Class) != 0 {
		e.guessed = true
		return 0, false
	}
	t.flags &^= isGuess
	return int64(float64(sh.costs[vd.Class])*vd.Slow) - t.cost, true
}

// learntAll gives tasks that are queued or in flight their cost anew if that was a guess and
// is one no longer. Devices look at their queues again, and idle ones for tasks to take from
// those that turn out to be busy for longer.
func (e *Engine) learntAll() {
	if e.guessEpoch == e.epoch || int(e.learnable-e.guessEnds)*guessShare < e.guessTasks {
		return
	}
	e.guessEpoch, e.guessEnds, e.guessTasks, e.guessed = e.epoch, e.learnable, e.queuedTasks, false
	changed := false
	for i := range e.devs {
		dev, d := machine.DeviceID(i), &e.devs[i]
		d.queue.each(func(tid taskID) {
			if more, ok := e.learnt(tid, dev); ok {
				t := &e.tasks.at[tid]
				t.cost += more
				t.eft = max(t.eft, int64(e.now)+t.cost)
				d.load += more * e.width(tid)
				changed = true
			}
		})
		for l := d.lanes[0]; l < d.lanes[1]; l++ {
			ln := &e.lanes[l]
			for s := ln.done + 1; s != ln.issued+1; s++ {
				if more, ok := e.learnt(ln.rec(s).task, dev); ok {
					e.recost(ln, ln.rec(s).task, more)
					changed = true
				}
			}
		}
	}
	if !changed {
		return
	}
	for i := range e.devs {
		e.takeLoad(machine.DeviceID(i), 0)
		e.revisit(machine.DeviceID(i))
	}
}

// isGuessed reports whether nothing was measured of a task that has kernels to run.
func (e *Engine) isGuessed(task *graph.Task, est *machine.Estimate) bool {
	return e.learn != nil && est.Samples == 0 && len(task.Steps) > 0
}
