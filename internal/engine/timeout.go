package engine

import (
	"slices"
	"time"

	"github.com/weft-run/weft/machine"
)

// Timers: retries, rungs, hand-overs and timeouts that are due, and when the next one is.

// timers are the things that happen at a time.
type timers struct {
	// timed lists the devices with a timer, ascending. Invariant: those that are lost, broken
	// with a ladder that starts over, handing over, short of capacity, or to be probed.
	timed    []machine.DeviceID
	timedOps int         // operations in flight with a timeout; invariant: the sum of timed over lanes
	bounds   []laneBound // by lane, a time before which it is not overdue; a heap by time
}

// runTimers handles everything that is due: retries, rungs, the hand-over of an idle drained
// device, capacity to ask for again, and timeouts.
func (e *Engine) runTimers() {
	for len(e.delayed) > 0 && e.delayed[0].at <= e.now {
		tid := e.popDelayed()
		if t := &e.tasks.at[tid]; t.where == pausing {
			e.again(tid)
		}
	}
	e.due = append(e.due[:0], e.timed...) // a copy: the loop changes e.timed
	for _, dev := range e.due {
		e.visit(1)
		d := &e.devs[dev]
		if d.health.deadline > 0 && d.health.deadline <= e.now {
			switch d.state {
			case Lost:
				d.health.rung++
				e.climb(dev)
			case Broken:
				d.health.rung = 0
				e.setState(dev, Lost)
				e.climb(dev)
			}
		}
		if d.handsOver && d.flight == 0 {
			e.handOver(dev)
		}
		if d.shortfall.until > 0 && d.shortfall.until <= e.now {
			e.regrow(dev)
		}
		if d.health.probe.timed() {
			e.probeTimer(dev)
		}
	}
	e.timeouts()
	if e.gangWaits {
		e.gangWaits, e.offerAgain = false, true
	}
}

// deadline returns when the oldest operation of a lane has run too long; false if it has
// no timeout or cannot have started.
func (e *Engine) deadline(l Lane) (time.Duration, bool) {
	ln := &e.lanes[l]
	if ln.timed == 0 || ln.done == ln.issued {
		return 0, false
	}
	rec := ln.rec(ln.done + 1)
	if rec.timeout == 0 {
		return 0, false
	}
	if _, waits := e.behind(l); waits {
		return 0, false // it cannot have started
	}
	start := e.earliest(l)
	if g := e.gang(rec.task); g != nil {
		start = max(start, g.failedAt) // the failure ends the others, which takes time
		for _, op := range g.ops {
			if e.mem.pending(op.Lane, e.lanes[op.Lane].count(op.Seq)) {
				start = max(start, e.earliest(op.Lane))
			}
		}
	}
	if !rec.auto {
		return start + rec.timeout, true
	}
	limit := e.limit(rec.task, ln.info.Device)
	return max(start, e.devs[ln.info.Device].compiledAt) + limit, true
}

// earliest returns the earliest time at which the oldest operation of a lane, which waits
// for nothing, can have started by itself.
func (e *Engine) earliest(l Lane) time.Duration {
	ln := &e.lanes[l]
	rec := ln.rec(ln.done + 1)
	start := max(ln.head, rec.issued)
	for _, w := range rec.waits {
		start = max(start, e.lanes[w.Lane].last)
	}
	return start
}

// behind returns the lane that has to complete an operation before the oldest operation of
// lane l can start, if there is one: the lane that operation waits for or, because members of
// a gang start together, the lane that another member waits for.
func (e *Engine) behind(l Lane) (Lane, bool) {
	ln := &e.lanes[l]
	rec := ln.rec(ln.done + 1)
	if w, waits := e.awaits(rec); waits {
		return w, true
	}
	g := e.gang(rec.task)
	if g == nil {
		return 0, false
	}
	for _, op := range g.ops {
		o := &e.lanes[op.Lane]
		switch seq := o.count(op.Seq); {
		case seq > o.done+1:
			return op.Lane, true
		case seq == o.done+1:
			if w, waits := e.awaits(o.rec(seq)); waits {
				return w, true
			}
		}
	}
	return 0, false
}

// awaits returns the lane of an operation in flight that another waits for.
func (e *Engine) awaits(rec *opRec) (Lane, bool) {
	for _, w := range rec.waits {
		if e.mem.pending(w.Lane, e.lanes[w.Lane].count(w.Seq)) {
			return w.Lane, true
		}
	}
	return 0, false
}

// laneBound is a time before which a lane cannot be overdue. A lane is looked at when its
// bound has passed, so that a timeout costs nothing while tasks end in time.
type laneBound struct {
	at   time.Duration
	lane Lane
}

func (a laneBound) less(b laneBound) bool { return a.at < b.at || a.at == b.at && a.lane < b.lane }

// setTimeout bounds an operation that was just issued.
func (e *Engine) setTimeout(op Op, rec *opRec, timeout time.Duration) {
	rec.timeout = timeout
	e.timedOps++
	ln := &e.lanes[op.Lane]
	if ln.timed == 0 || timeout < ln.least {
		ln.least = timeout
	}
	if ln.timed++; op.Seq == uint32(ln.done+1) {
		e.watchLane(op.Lane)
	}
}

// watchLane has a lane looked at in time whose oldest operation can have begun at the
// earliest now.
func (e *Engine) watchLane(l Lane) {
	ln := &e.lanes[l]
	if ln.timed == 0 || ln.done == ln.issued {
		return
	}
	if t := ln.rec(ln.done + 1).timeout; t > 0 {
		e.lookAt(l, e.now+t)
	}
}

// watchLater has a lane whose oldest operation cannot have started looked at again when
// the lane it waits for completes an operation.
func (e *Engine) watchLater(l Lane) {
	if w, waits := e.behind(l); waits {
		e.lanes[w].watchers = append(e.lanes[w].watchers, l)
	}
}

// lookAt has a lane looked at by a time.
func (e *Engine) lookAt(l Lane, at time.Duration) {
	ln := &e.lanes[l]
	if ln.bound > 0 && ln.bound <= at {
		return
	}
	ln.bound = at
	h := append(e.bounds, laneBound{at, l})
	for i := len(h) - 1; i > 0 && h[i].less(h[(i-1)/2]); i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
	e.bounds = h
}

// popBound takes the earliest bound off the heap.
func (e *Engine) popBound() {
	h, n := e.bounds, len(e.bounds)-1
	h[0] = h[n]
	h = h[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c+1 < n && h[c+1].less(h[c]) {
			c++
		}
		if c >= n || !h[c].less(h[i]) {
			break
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
	e.bounds = h
}

// timeouts gives up on devices whose oldest task has run too long.
func (e *Engine) timeouts() {
	for len(e.bounds) > 0 && e.bounds[0].at <= e.now {
		e.visit(1)
		b := e.bounds[0]
		e.popBound()
		ln := &e.lanes[b.lane]
		if ln.bound == b.at {
			ln.bound = 0
		}
		dev := ln.info.Device
		if ln.timed == 0 || !e.working(&e.devs[dev]) {
			continue
		}
		at, begun := e.deadline(b.lane)
		switch {
		case !begun:
			e.watchLater(b.lane)
		case at > e.now:
			e.lookAt(b.lane, at)
		default:
			e.timedOut(dev, b.lane)
		}
	}
}

// timedOut gives up on a device whose task ran too long: a kernel that hangs cannot be
// ended, only left behind. The task is the cause: the ladder begins at its first rung,
// and no other task there is implicated.
func (e *Engine) timedOut(dev machine.DeviceID, l Lane) {
	ln := &e.lanes[l]
	rec := ln.rec(ln.done + 1)
	r, gt := e.taskOf(rec.task)
	err := e.overdue(rec, dev)
	tid := rec.task
	g := e.gang(tid)
	over := g != nil && g.withdrawn // several members that hang count as one failure
	e.abandonDevice(dev, err)
	if r.state != runActive || over {
		return
	}
	// The loss put the task back without counting a failure; a timeout counts as one.
	t := &e.tasks.at[tid]
	e.attempted(tid, dev, err, false)
	if !e.mayRetry(t, r, gt) {
		e.fail(r, e.taskErr(r, gt, dev, err))
		return
	}
	t.avoid = dev
	r.report.Retries++
}

// NextWake returns when Step must be called next even without events; false for never.
func (e *Engine) NextWake() (time.Duration, bool) {
	at, ok := time.Duration(0), false
	sooner := func(t time.Duration) {
		if !ok || t < at {
			at, ok = t, true
		}
	}
	if e.asked {
		sooner(e.now)
	}
	if len(e.delayed) > 0 {
		sooner(e.delayed[0].at)
	}
	for _, dev := range e.timed {
		e.visit(1)
		if d := &e.devs[dev]; (d.state == Lost || d.state == Broken) && d.health.deadline > 0 {
			sooner(d.health.deadline)
		}
		if d := &e.devs[dev]; d.shortfall.until > 0 {
			sooner(d.shortfall.until)
		}
		if p := &e.devs[dev].health.probe; p.next > 0 {
			sooner(p.next)
		} else if p.late > 0 {
			sooner(p.late)
		}
	}
	if e.timedOps > 0 && len(e.bounds) > 0 {
		sooner(e.bounds[0].at)
	}
	return max(at, e.now), ok
}

// timed reports whether runTimers has to look at the device.
func (d *device) timed() bool {
	return d.health.probe.timed() || d.state == Lost || d.state == Broken && d.health.deadline > 0 || d.handsOver || d.shortfall.until > 0
}

// retime puts a device that has a timer now on the list of those, and takes off one that has
// none any more. The list is in order, so that what falls due together is done in one.
func (e *Engine) retime(dev machine.DeviceID) {
	e.visit(1)
	k, listed := slices.BinarySearch(e.timed, dev)
	switch timed := e.devs[dev].timed(); {
	case timed && !listed:
		e.timed = slices.Insert(e.timed, k, dev)
	case !timed && listed:
		e.timed = slices.Delete(e.timed, k, k+1)
	}
}
