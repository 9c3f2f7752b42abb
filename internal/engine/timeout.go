package engine

import (
	"time"

	"github.com/weft-run/weft/machine"
)

// timers are what is due at a time.
type timers struct {
	timed    []machine.DeviceID // whose ladder, hand-over or memory has a timer
	timedOps int                // operations in flight with a timeout
	bounds   []bound            // before when no lane is overdue, a heap by time
}

// runTimers does what is due: retries, timeouts, rungs, and state that moves to a
// spare once its device is idle.
func (e *Engine) runTimers() {
	for len(e.delayed) > 0 && e.delayed[0].at <= e.now {
		tid := e.popDelayed()
		if t := &e.tasks.at[tid]; t.where == pausing {
			e.again(tid)
		}
	}
	e.due = append(e.due[:0], e.timed...) // which may change
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
		if d.swapTo >= 0 && d.flight == 0 {
			e.handOver(dev)
		}
		if d.shortfall.until > 0 && d.shortfall.until <= e.now {
			e.regrow(dev)
		}
	}
	e.timeouts()
	if e.gangWaits {
		e.gangWaits, e.offerAgain = false, true
	}
}

// deadline returns when the oldest operation of a lane has run too long.
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
		start = max(start, g.failedAt) // it is to end for that
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

// earliest returns when the oldest operation of a lane, which waits for nothing any more,
// may have started by itself.
func (e *Engine) earliest(l Lane) time.Duration {
	ln := &e.lanes[l]
	rec := ln.rec(ln.done + 1)
	start := max(ln.head, rec.issued)
	for _, w := range rec.waits {
		start = max(start, e.lanes[w.Lane].last)
	}
	return start
}

// behind returns a lane that has to get on before the oldest operation of a lane can
// start, if there is one: that of an operation it waits for, or, as members of a gang
// start together, one that keeps another member waiting.
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

// bound is a time before which a lane cannot be overdue. Lanes are looked at when
// that has come, so that a timeout costs nothing while tasks end in time.
type bound struct {
	at   time.Duration
	lane Lane
}

func (a bound) less(b bound) bool { return a.at < b.at || a.at == b.at && a.lane < b.lane }

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

// watchLane sees to it that a lane whose oldest operation may have begun now, and not
// before, is looked at in time.
func (e *Engine) watchLane(l Lane) {
	ln := &e.lanes[l]
	if ln.timed == 0 || ln.done == ln.issued {
		return
	}
	if t := ln.rec(ln.done + 1).timeout; t > 0 {
		e.lookAt(l, e.now+t)
	}
}

// watchLater has a lane whose oldest operation cannot have started looked at again
// after the lane it is behind has got on.
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
	h := append(e.bounds, bound{at, l})
	for i := len(h) - 1; i > 0 && h[i].less(h[(i-1)/2]); i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
	e.bounds = h
}

// popBound takes the earliest bound.
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

// timedOut gives up on a device whose task ran too long: a hung kernel cannot
// be taken back, only left behind. The task is the cause: the ladder begins at its
// first rung, and nothing else that ran there is suspected.
func (e *Engine) timedOut(dev machine.DeviceID, l Lane) {
	ln := &e.lanes[l]
	rec := ln.rec(ln.done + 1)
	r, gt := e.taskOf(rec.task)
	err := e.overdue(rec, dev)
	tid := rec.task
	g := e.gang(tid)
	over := g != nil && g.withdrawn // one failure of a gang, however many members hang
	e.abandonDevice(dev, err)
	if r.state != runActive || over {
		return
	}
	// Losing the device put the task back without blaming it; this is its fault.
	t := &e.tasks.at[tid]
	if !e.mayRetry(t, r, gt) {
		e.fail(r, e.taskErr(r, gt, dev, err))
		return
	}
	t.avoid = dev
	r.report.Retries++
}

// NextWake returns when Step must be called next even if nothing happens.
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
	}
	if e.timedOps > 0 && len(e.bounds) > 0 {
		sooner(e.bounds[0].at)
	}
	return max(at, e.now), ok
}

// listTimed notes which devices need looking at by timers.
func (e *Engine) listTimed() {
	e.timed = e.timed[:0]
	for i := range e.devs {
		if e.devs[i].state == Lost || e.devs[i].state == Broken && e.devs[i].health.deadline > 0 || e.devs[i].swapTo >= 0 || e.devs[i].shortfall.until > 0 {
			e.timed = append(e.timed, machine.DeviceID(i))
		}
	}
}
