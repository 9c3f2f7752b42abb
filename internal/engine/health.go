package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

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

func (e *Engine) retries(r *run, gt graph.TaskID) int {
	if n := r.g.Task(gt).Retries; n != 0 {
		return n
	}
	if r.o.Retries != 0 {
		return r.o.Retries
	}
	return e.o.Retries
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

// sick counts a failure against a device.
func (e *Engine) countFailure(dev machine.DeviceID) {
	d := &e.devs[dev]
	d.health.failures++
	if d.health.failures > e.o.Health.MaxFailures && e.working(d) && e.others(dev) {
		e.drop(dev, fmt.Errorf("%d failures in a row", d.health.failures))
	}
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
