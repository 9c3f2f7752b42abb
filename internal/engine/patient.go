package engine

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

// waitingLaunches returns the number of launches in flight on patient devices. They do not count
// for Options.MaxInFlight, since those they wait for do.
func (e *Engine) waitingLaunches() int {
	n := 0
	for i := range e.detached {
		if e.devs[e.lanes[e.detached[i].op.Lane].info.Device].patient {
			n++
		}
	}
	return n
}
