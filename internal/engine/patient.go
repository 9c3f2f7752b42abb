package engine

import "slices"

// Patient devices. A task on such a device waits for other runs, which need the devices
// that its successors would be issued to: a successor in flight behind it would hold a lane
// that those runs need, and none of them would go on. Its launch is therefore detached as soon
// as it is issued. Successors are issued when it has ended, and its lane takes others.

// patientLaunches is the number of launches for each lane of a patient device that are issued
// at a time: one that runs and one that is ready to. Each holds host memory for its results.
const patientLaunches = 2

// patientLane returns the lane of a patient device that the next launch goes to, and whether
// the device takes another one.
func (e *Engine) patientLane(d *device) (Lane, bool) {
	best := d.lanes[0]
	for l := d.lanes[0]; l < d.lanes[1]; l++ { // in turns
		if e.lanes[l].issued < e.lanes[best].issued {
			best = l
		}
	}
	return best, e.countDetached(e.lanes[best].info.Device) < patientLaunches*int(d.lanes[1]-d.lanes[0])
}

// patientWorks reports whether a launch on a patient device is at work without the engine: no
// run that it waits for is placed. It will end, or go on by another run, and what it uses is
// freed in the end. Launches run one after another on each lane, so that only the first of a
// lane is at work.
func (e *Engine) patientWorks() bool {
	for i := range e.detached {
		s := &e.detached[i]
		behind := slices.ContainsFunc(e.detached[:i], func(o detachedOp) bool { return o.op.Lane == s.op.Lane })
		if !behind && e.devs[e.lanes[s.op.Lane].info.Device].patient && !e.waitsForRun(s.rec.task) {
			return true
		}
	}
	return false
}

// waitsForRun reports whether a task waits for a run that has not ended, and of which no task
// is left out. Who submitted that looks after one that is.
func (e *Engine) waitsForRun(tid taskID) bool {
	of, gt := e.taskOf(tid)
	for _, r := range e.runs {
		if r != nil && r.state != runEnded && r.o.Of == of.id && r.o.OfTask == gt {
			return !slices.ContainsFunc(e.leftOuts, func(t taskID) bool { return e.tasks.at[t].run == r.slot })
		}
	}
	return false
}

// waitingLaunches returns the number of launches in flight on patient devices. They do not count
// for Options.Concurrent, since those they wait for do.
func (e *Engine) waitingLaunches() int {
	n := 0
	for i := range e.detached {
		if e.devs[e.lanes[e.detached[i].op.Lane].info.Device].patient {
			n++
		}
	}
	return n
}
