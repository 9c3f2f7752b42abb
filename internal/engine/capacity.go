package engine

import (
	"time"

	"github.com/weft-run/weft/machine"
)

// The capacity of a device's memory: as set by the loop, or less for a while after the
// device could not provide that much. Then it is asked for the full capacity again,
// because another program may have released memory meanwhile.

const (
	// firstPause is the time for which less is asked of a device after an allocation
	// failed. 100 ms is long compared with an allocation and short compared with the delay
	// of a task that has to run elsewhere. It doubles with each further failure.
	firstPause = 100 * time.Millisecond
	// lastPause is the longest such pause: trying then costs at most one failed task a
	// minute.
	lastPause = time.Minute
)

// shortfall is the capacity that a device could not provide.
type shortfall struct {
	told  int64         // its capacity in bytes as set by the loop; 0 means no limit
	until time.Duration // when to ask for that again, 0 if nothing is lacking
	pause time.Duration // length of the last pause
	asked time.Duration // when it was last asked again
}

// setCapacity sets the capacity of a device's memory in bytes; 0 means no limit.
func (e *Engine) setCapacity(dev machine.DeviceID, bytes int64) {
	d := &e.devs[dev]
	if d.space == 0 {
		return
	}
	d.shortfall = shortfall{told: bytes}
	e.retime(dev)
	e.resize(dev, bytes)
}

// resize changes how much of a device's memory is used, evicts down to that and has its
// tasks placed anew.
func (e *Engine) resize(dev machine.DeviceID, bytes int64) {
	d, vd := &e.devs[dev], &e.situation.Devices[dev]
	if vd.CapBytes = bytes; bytes == 0 {
		vd.CapBytes = NoLimit
	}
	e.mem.resize(d.space, bytes)
	e.dirty(dev)
	e.mem.beginIssue()
	e.reclaim(d.space, 0)
	// Tasks queued there may not fit, and tasks that were left out may fit.
	e.requeueAll(dev)
	e.offerAgain = true
}

// shrink takes in that a device could not provide bytes of what counts as used. It is
// asked for less until a pause has passed.
func (e *Engine) shrink(dev machine.DeviceID, bytes int64) {
	d := &e.devs[dev]
	sp := &e.mem.spaces[d.space]
	left := max(sp.used-bytes, 1)
	if d.space == 0 || sp.cap > 0 && left >= sp.cap {
		return
	}
	l := &d.shortfall
	if l.until == 0 { // the first of several that failed together sets the pause
		if l.pause = min(2*l.pause, lastPause); l.pause == 0 || e.now-l.asked > l.pause {
			l.pause = firstPause
		}
	}
	l.until = e.now + l.pause
	e.retime(dev)
	e.resize(dev, left)
}

// regrow gives a device its full capacity again.
func (e *Engine) regrow(dev machine.DeviceID) {
	l := &e.devs[dev].shortfall
	l.until, l.asked = 0, e.now
	e.retime(dev)
	e.resize(dev, l.told)
}

// mayHold reports whether bytes fit into the capacity of a device, or into that which it
// gets back after a shortfall.
func (e *Engine) mayHold(dev machine.DeviceID, bytes int64) bool {
	l := &e.devs[dev].shortfall
	return bytes <= e.situation.Devices[dev].CapBytes || l.until > 0 && (l.told == 0 || bytes <= l.told)
}
