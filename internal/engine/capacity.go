package engine

import (
	"time"

	"github.com/weft-run/weft/machine"
)

// How much of a device's memory may be used: what the loop says, or less for a while
// after the device could not provide that much. Then it is asked for as much as
// before: another program may have had the memory meanwhile.

const (
	// firstPause is how long a device is asked for less after an allocation failed:
	// long beside the allocation, short beside what a task waits for elsewhere. It
	// doubles with each further failure up to lastPause, at which trying costs a task
	// in a minute at most.
	firstPause = 100 * time.Millisecond
	lastPause  = time.Minute
)

// shortfall is what a device could not provide.
type shortfall struct {
	told  int64         // its capacity as said by the loop; 0 for no limit
	until time.Duration // when to ask for that again, 0 when nothing is lacking
	pause time.Duration // how long it was asked for less the last time
	asked time.Duration // when it was last asked again
}

// setCapacity takes in how much of a device's memory may be used; 0 means no limit.
func (e *Engine) setCapacity(dev machine.DeviceID, bytes int64) {
	d := &e.devs[dev]
	if d.space == 0 {
		return
	}
	d.shortfall = shortfall{told: bytes}
	e.listTimed()
	e.resize(dev, bytes)
}

// resize changes how much of a device's memory is used.
func (e *Engine) resize(dev machine.DeviceID, bytes int64) {
	d, vd := &e.devs[dev], &e.view.Devices[dev]
	if vd.CapBytes = bytes; bytes == 0 {
		vd.CapBytes = NoLimit
	}
	e.mem.resize(d.space, bytes)
	e.dirty(dev)
	e.mem.beginIssue()
	e.reclaim(d.space, 0)
	// Tasks queued there may not fit any more, and others may fit now.
	e.requeueAll(dev)
	e.roomIn(d.space)
	e.offerAgain = true
}

// shrink takes in that a device has less memory than it said: it could not
// provide bytes of what is in use. After a pause it is asked again.
func (e *Engine) shrink(dev machine.DeviceID, bytes int64) {
	d := &e.devs[dev]
	sp := &e.mem.spaces[d.space]
	left := max(sp.used-bytes, 1)
	if d.space == 0 || sp.cap > 0 && left >= sp.cap {
		return
	}
	l := &d.shortfall
	if l.until == 0 { // not one of several that failed together
		if l.pause = min(2*l.pause, lastPause); l.pause == 0 || e.now-l.asked > l.pause {
			l.pause = firstPause
		}
	}
	l.until = e.now + l.pause
	e.listTimed()
	e.resize(dev, left)
}

// regrow asks a device for as much memory again as it was said to have.
func (e *Engine) regrow(dev machine.DeviceID) {
	l := &e.devs[dev].shortfall
	l.until, l.asked = 0, e.now
	e.listTimed()
	e.resize(dev, l.told)
}

// mayHold reports whether a device has, or had and will be asked for again, memory for
// so many bytes.
func (e *Engine) mayHold(dev machine.DeviceID, bytes int64) bool {
	l := &e.devs[dev].shortfall
	return bytes <= e.view.Devices[dev].CapBytes || l.until > 0 && (l.told == 0 || bytes <= l.told)
}
