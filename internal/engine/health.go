package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/trace"
)

// DeviceState is what the engine thinks of a device.
type DeviceState uint8

const (
	Healthy  DeviceState = iota
	Draining             // finishes what it has, takes nothing new
	Lost                 // gone; the ladder tries to bring it back
	Broken               // the ladder gave up
	Spare                // waits to take another's place
)

var stateNames = [...]string{"healthy", "draining", "lost", "broken", "spare"}

func (s DeviceState) String() string { return stateNames[s] }

// Rung is a step of the recovery ladder, tried one after another while the
// device's work already runs elsewhere.
type Rung uint8

const (
	UseStandby Rung = iota // a warm worker takes over
	Restart                // start the worker again
	Reopen                 // open the device anew
	rungs      = iota
)

var rungNames = [...]string{"standby", "restart", "reopen"}

func (r Rung) String() string { return rungNames[r] }

// Health holds the thresholds of the health rules; zero fields take the
// defaults named.
type Health struct {
	MaxFailures int     // consecutive failures a device may have (3)
	MaxTempC    float64 // slowed, then drained, from here on (85)
	MaxMemUsed  float64 // likewise (0.95)
	MaxPowerW   float64 // likewise; 0 means no budget
	// RungTimeout is how long a rung may take before the next is tried (5 s),
	// Trust how long a device must stay up for the ladder to start over (5 s).
	RungTimeout time.Duration
	Trust       time.Duration
	// MaxLosses is how many devices may be lost while a task runs (3) before it is
	// held to be the cause and not tried again. The ladder has as many rungs, so that
	// a device is not given up for what one task does to it.
	MaxLosses int
	// Again is the pause after which the ladder of a broken device starts over,
	// doubled each time up to 64 times as long; 0 means never.
	Again time.Duration
}

func (h *Health) defaults() {
	if h.MaxFailures == 0 {
		h.MaxFailures = 3
	}
	if h.MaxTempC == 0 {
		h.MaxTempC = 85
	}
	if h.MaxMemUsed == 0 {
		h.MaxMemUsed = 0.95
	}
	if h.RungTimeout == 0 {
		h.RungTimeout = 5 * time.Second
	}
	if h.Trust == 0 {
		h.Trust = 5 * time.Second
	}
	if h.MaxLosses == 0 {
		h.MaxLosses = 3
	}
}

const (
	// A device over a threshold is slowed for drainAfter samples in a row and
	// drained at the next; it must be under by a margin to be let in again, so
	// that it does not swing around the threshold.
	drainAfter   = 2
	strainFactor = 2.0
	coolMarginC  = 5.0
	freeMargin   = 0.05
	loadAlpha    = 0.1 // moving average of utilisation
	// maxDoublings bounds the pause before the ladder starts over: ten seconds become
	// eleven minutes, at which a device that is gone costs next to nothing.
	maxDoublings = 6
)

// StateChange is a change of what the engine thinks of a device.
type StateChange struct {
	Device   machine.DeviceID
	From, To DeviceState
	Cause    error // of a device that is lost or broken
}

// setState changes a device's state and tells of it.
func (e *Engine) setState(dev machine.DeviceID, to DeviceState) {
	d := &e.devs[dev]
	from := d.state
	d.state = to
	if e.o.Changed == nil || from == to {
		return
	}
	c := StateChange{Device: dev, From: from, To: to}
	if to == Lost || to == Broken {
		c.Cause = d.cause
	}
	e.o.Changed(c)
}

type deviceHealth struct {
	failures int  // in a row
	faulted  bool // a launch failed there, and no loss was put down to it
	rung     Rung
	deadline time.Duration // of the rung being tried; of a broken device, when the ladder starts over, 0 for never
	breaks   int           // how often the ladder gave up since the device was last trusted
	never    bool          // it cannot be brought back
	upSince  time.Duration
	strained int // samples over a threshold in a row
	drained  bool
	errors   int64 // memory errors at the last sample, -1 unknown
	faults   int64 // of the device itself, at the last sample that told
	seen     bool
	factor   float64 // slowness reported by the loop, 0 means 1
}

type balanceState struct {
	last time.Duration
}

// timers does what is due: retries, timeouts, rungs, and state that moves to a
// spare once its device is idle.
func (e *Engine) timers() {
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

func (e *Engine) retries(r *run, gt graph.TaskID) int {
	if n := r.g.Task(gt).Retries; n != 0 {
		return n
	}
	if r.o.Retries != 0 {
		return r.o.Retries
	}
	return e.o.Retries
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

// climb tries the next rung of the ladder, or gives up.
func (e *Engine) climb(dev machine.DeviceID) {
	defer e.listTimed()
	d := &e.devs[dev]
	h := &d.health
	if h.rung >= rungs || h.never || e.o.NoRecovery {
		h.deadline = 0
		if e.o.Health.Again > 0 && !h.never && !e.o.NoRecovery {
			h.deadline = e.now + e.o.Health.Again<<min(h.breaks, maxDoublings)
			h.breaks++
		}
		e.setState(dev, Broken)
		e.offerAgain = true
		if e.mem.comeBack(d.space) {
			e.loseMemory(d.space)
		}
		e.tr.Record(trace.Event{Kind: trace.Fail, Device: dev, Task: -1, Start: e.now, End: e.now})
		return
	}
	h.deadline = e.now + e.o.Health.RungTimeout
	a := e.out.emit(Recover)
	a.Device, a.Rung = dev, h.rung
}

// back lets a device in again, with what its memory held if that was kept.
func (e *Engine) back(dev machine.DeviceID, kept bool) {
	d := &e.devs[dev]
	e.quieted(dev)
	if d.state != Lost && d.state != Broken {
		return
	}
	if e.mem.comeBack(d.space) && !kept {
		e.loseMemory(d.space)
	}
	h := &d.health
	h.rung++ // if it is lost again before it is trusted
	if d.state == Broken {
		h.rung = 0
	}
	h.upSince, h.deadline, h.failures, h.strained, h.drained = e.now, 0, 0, 0, false
	e.setState(dev, Healthy)
	d.blocked = false
	e.listTimed()
	vd := &e.view.Devices[dev]
	vd.Accepts, vd.FreeAt = true, e.now
	e.dirty(dev)
	e.reoffer()
	e.tr.Record(trace.Event{Kind: trace.Back, Device: dev, Task: -1, Start: e.now, End: e.now})
}

// drop gives up on a device that hangs or keeps failing.
func (e *Engine) drop(dev machine.DeviceID, cause error) {
	e.out.emit(Drop).Device = dev
	e.keepInUse(dev)
	e.lose(dev, false, false, cause)
}

// abandonDevice gives up on a device for what it runs, which is no fault of its own.
// What its memory holds is kept where a process can be killed without it.
func (e *Engine) abandonDevice(dev machine.DeviceID, cause error) {
	d := &e.devs[dev]
	e.out.emit(Drop).Device = dev
	e.keepInUse(dev)
	d.health.rung = 0
	e.lose(dev, d.process.Keeps, true, cause)
}

// usedPart is part of an instance that a call under way on a dropped device uses.
type usedPart struct {
	inst  Inst
	p0, n pieceID
}

// keepInUse keeps what the operations in flight on a device use in host memory: a
// call that hangs may write to it whenever it likes, so that nobody else may
// have it, and no run whose memory it is may end, before the device is quiet. Of a
// device in a process of its own these are copies, until the process is gone.
func (e *Engine) keepInUse(dev machine.DeviceID) {
	d := &e.devs[dev]
	keep := func(i Inst, p0, n pieceID) {
		e.mem.pin(i, p0, n, 1)
		d.inUse = append(d.inUse, usedPart{i, p0, n})
	}
	if d.process.Own {
		for _, l := range []Lane{d.in, d.out} {
			ln := &e.lanes[l]
			for seq := ln.done + 1; seq <= ln.issued; seq++ {
				rec := ln.rec(seq)
				for _, i := range []Inst{rec.src, rec.dst} {
					if rec.task < 0 && e.mem.insts[i].space == 0 {
						keep(i, rec.p0, rec.p1-rec.p0)
					}
				}
			}
		}
	}
	if d.space != 0 {
		return // its memory goes with it
	}
	for l := d.lanes[0]; l < d.lanes[1]; l++ {
		ln := &e.lanes[l]
		for seq := ln.done + 1; seq != ln.issued+1; seq++ {
			rec := ln.rec(seq)
			r, gt := e.taskOf(rec.task)
			a := 0
			for _, u := range r.f.TaskUses(gt) {
				switch {
				case rec.quick:
					// It has no note of which copy it was given. All in host memory are
					// there still: a value that is to be read loses none.
					for s := e.mem.vals.at[r.val(u.V)].slot; s >= 0; s = e.mem.slots.at[s].next {
						if in := &e.mem.insts[e.mem.slots.at[s].inst]; in.space == 0 {
							keep(e.mem.slots.at[s].inst, in.piece(s), 1)
						}
					}
				case u.Rank == rec.rank:
					p0, n := pieces(&u)
					keep(rec.args[a], p0, n)
					a++
				}
			}
			if !rec.quick && a < len(rec.args) { // the workspace
				keep(rec.args[a], 0, 0)
			}
		}
	}
}

// quieted lets go of what keepInUse kept.
func (e *Engine) quieted(dev machine.DeviceID) {
	d := &e.devs[dev]
	inUse := d.inUse
	d.inUse = nil
	for _, g := range inUse {
		e.mem.unpin(g.inst, g.p0, g.n, 1)
	}
}

// sick counts a failure against a device.
func (e *Engine) countFailure(dev machine.DeviceID) {
	d := &e.devs[dev]
	d.health.failures++
	if d.health.failures > e.o.Health.MaxFailures && e.working(d) && e.others(dev) {
		e.drop(dev, fmt.Errorf("%d failures in a row", d.health.failures))
	}
}

// others reports whether another device still works.
func (e *Engine) others(dev machine.DeviceID) bool {
	for i := range e.devs {
		if machine.DeviceID(i) != dev && e.devs[i].state == Healthy {
			return true
		}
	}
	return false
}

// telemetry takes a sample of a device's condition.
func (e *Engine) telemetry(dev machine.DeviceID, s *Sample) {
	d := &e.devs[dev]
	h := &d.health
	vd := &e.view.Devices[dev]
	if s.Util >= 0 {
		// What the engine itself has placed shows in queues, and what it
		// has finished says nothing about what is to come.
		d.util, vd.Util = s.Util, max(s.Util-s.Own, 0)
		vd.Load += loadAlpha * (s.Util - vd.Load)
	}
	if !e.working(d) {
		return
	}
	what := ""
	switch {
	case s.Unresponsive:
		what = "does not respond"
	case h.seen && s.MemErrors > h.errors:
		what = "uncorrectable memory errors"
	case s.Faults > h.faults:
		what = "its driver reports a fault of the device"
	}
	if s.Faults >= 0 { // a device that is open anew counts from 0
		h.faults = s.Faults
	}
	if what != "" {
		e.drop(dev, errors.New(what))
		return
	}
	if s.MemErrors >= 0 {
		h.errors, h.seen = s.MemErrors, true
	}
	o := &e.o.Health
	hot := s.TempC >= o.MaxTempC || s.MemUsed > o.MaxMemUsed || o.MaxPowerW > 0 && s.PowerW > o.MaxPowerW
	cool := s.TempC < o.MaxTempC-coolMarginC && s.MemUsed < o.MaxMemUsed-freeMargin && (o.MaxPowerW == 0 || s.PowerW < o.MaxPowerW*(1-freeMargin))
	switch {
	case hot:
		h.strained++
		if h.strained > drainAfter && !h.drained && e.others(dev) {
			h.drained = true
			e.drain(dev)
		}
	case cool && h.strained > 0:
		h.strained = 0
		if h.drained {
			h.drained = false
			e.undrain(dev)
		}
	}
	e.reslow(dev)
	e.rebalance()
}

// slowed takes the loop's word for how slow a device is.
func (e *Engine) slowed(dev machine.DeviceID, factor float64) {
	e.devs[dev].health.factor = factor
	e.tr.Record(trace.Event{Kind: trace.Slow, Device: dev, Task: -1, Start: e.now, End: e.now})
	e.reslow(dev)
}

// reslow computes how slow a device is to be taken for. What is in flight there
// is predicted anew, and what is queued is placed anew.
func (e *Engine) reslow(dev machine.DeviceID) {
	h := &e.devs[dev].health
	slow := max(h.factor, 1)
	if h.strained > 0 {
		slow *= strainFactor
	}
	vd := &e.view.Devices[dev]
	if vd.Slow == slow {
		return
	}
	d := &e.devs[dev]
	for l := d.lanes[0]; l < d.lanes[1]; l++ {
		ln := &e.lanes[l]
		for s := ln.done + 1; s != ln.issued+1; s++ {
			t := &e.tasks.at[ln.rec(s).task]
			more := int64(float64(t.cost)*slow/vd.Slow) - t.cost
			if e.gang(ln.rec(s).task) != nil {
				continue // as slow as its slowest member, wherever that is
			}
			t.cost += more
			t.eft += more
			d.load += more
			d.backlog += more
		}
	}
	vd.Slow = slow
	e.takeLoad(dev, 0)
	e.requeueAll(dev)
}

func (e *Engine) drain(dev machine.DeviceID) {
	d := &e.devs[dev]
	if d.state != Healthy {
		return
	}
	e.setState(dev, Draining)
	e.view.Devices[dev].Accepts = false
	e.dirty(dev)
	e.tr.Record(trace.Event{Kind: trace.Drain, Device: dev, Task: -1, Start: e.now, End: e.now})
	e.requeueAll(dev)
}

func (e *Engine) undrain(dev machine.DeviceID) {
	d := &e.devs[dev]
	if d.state != Draining {
		return
	}
	e.setState(dev, Healthy)
	d.swapTo = -1
	vd := &e.view.Devices[dev]
	vd.Accepts, vd.FreeAt = true, max(vd.FreeAt, e.now)
	e.dirty(dev)
	e.reoffer()
}

// callSpare puts a spare in a lost device's place.
func (e *Engine) callSpare(dev machine.DeviceID) {
	for i := range e.devs {
		if e.devs[i].state == Spare && e.view.Devices[i].Class == e.view.Devices[dev].Class {
			e.engage(machine.DeviceID(i))
			return
		}
	}
	for i := range e.devs {
		if e.devs[i].state == Spare {
			e.engage(machine.DeviceID(i))
			return
		}
	}
}

func (e *Engine) engage(spare machine.DeviceID) {
	e.setState(spare, Healthy)
	vd := &e.view.Devices[spare]
	vd.Accepts, vd.FreeAt = true, e.now
	e.dirty(spare)
	e.reoffer()
	e.tr.Record(trace.Event{Kind: trace.Back, Device: spare, Task: -1, Start: e.now, End: e.now})
}

// hotSwap replaces a device without stopping: new work goes to the spare at
// once, the device finishes what it runs, then its state moves over.
func (e *Engine) hotSwap(dev, spare machine.DeviceID) {
	if e.devs[spare].state == Spare {
		e.engage(spare)
	}
	if e.devs[dev].state == Healthy {
		e.drain(dev)
	}
	if e.devs[dev].state == Draining {
		e.devs[dev].swapTo = spare
		e.listTimed()
	}
}

// handOver copies what only a drained device holds to its successor.
func (e *Engine) handOver(dev machine.DeviceID) {
	d := &e.devs[dev]
	to := e.devs[d.swapTo].space
	if !e.working(&e.devs[d.swapTo]) {
		to = 0
	}
	left := 0
	for i := Inst(0); int(i) < len(e.mem.insts); i++ {
		in := &e.mem.insts[i]
		if in.space != d.space || d.space == 0 || in.data < 0 || in.home {
			continue
		}
		if in.pins > 0 {
			left++
			continue
		}
		if e.mem.clean(i) {
			e.evict(i)
			continue
		}
		if e.handInst(i, to) {
			left++
		}
	}
	if left == 0 {
		d.swapTo = -1
		e.listTimed()
	}
}

// handInst starts to copy what only an instance holds, and reports whether anything
// of that is on its way.
func (e *Engine) handInst(i Inst, to spaceID) bool {
	any := false
	for k := range e.mem.insts[i].n {
		s := e.mem.insts[i].slot + slotID(k)
		v := e.mem.slots.at[s].val
		if v < 0 || e.mem.elsewhere(v, s) || e.copyGivenUp(v) != nil {
			continue
		}
		if e.mem.copied(v) {
			any = true
			continue
		}
		from, bytes, p := e.mem.insts[i].space, e.mem.vals.at[v].bytes, e.mem.insts[i].p0+k
		e.mem.beginIssue()
		dst := to
		if e.source(v, dst) < 0 || !e.room(dst, bytes) || e.staged(v, from, dst) && !e.mem.fits(0, bytes) {
			dst = 0
		}
		if e.source(v, dst) < 0 {
			continue // no link leads away
		}
		any = true
		if dst == 0 && !e.mem.fits(0, bytes) {
			return true // what holds the room will be done, or the device stays drained
		}
		n := e.mem.alloc(e.mem.insts[i].data, dst, p, 1, e.pieceLo(e.mem.insts[i].data, p), bytes)
		e.fill(n, p, 1, func(pieceID) valueID { return v }, forSwap)
		e.ops = e.ops[:0]
	}
	return any
}

// rebalance moves queued tasks from hot devices to cold ones.
func (e *Engine) rebalance() {
	o := e.o.Rebalance
	o.Now, o.Last = e.now, e.balance.last
	loads := make([]sched.Load, 0, len(e.devs))
	for i := range e.devs {
		if e.devs[i].state == Healthy {
			loads = append(loads, sched.Load{Device: machine.DeviceID(i), Util: e.devs[i].util})
		}
	}
	if e.queuedTasks == 0 || !sched.Uneven(loads, o) {
		return
	}
	for i := range loads {
		l := &loads[i]
		q := &e.devs[l.Device].queue
		w := l.Util / float64(max(e.view.Devices[l.Device].Queued, 1))
		l.Queued = make([]sched.QueuedTask, 0, q.len())
		q.each(func(tid taskID) { l.Queued = append(l.Queued, sched.QueuedTask{Task: int32(tid), Weight: w}) })
	}
	moves := sched.Rebalance(loads, o)
	if len(moves) > 0 {
		e.balance.last = e.now
	}
	for _, m := range moves {
		e.migrate(m)
	}
}

// migrate moves one queued task as the balancer decided.
func (e *Engine) migrate(m sched.Move) {
	tid := taskID(m.Task)
	r, gt := e.taskOf(tid)
	vd := &e.view.Devices[m.To]
	if vd.Crowd > 0 && vd.Crowd == e.view.Devices[m.From].Crowd {
		return // it computes on the same cores: nobody would be done sooner
	}
	cost, ok := e.movable(tid, m.To)
	if !ok || !e.devs[m.From].queue.remove(tid) {
		return
	}
	e.unplace(tid, queued)
	e.settle(tid, r, gt, m.From, m.To, cost)
}
