package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// Health: the recovery ladder of a lost device, telemetry with the thresholds for slowing
// and draining a device, and how slow a device is taken to be.

// Rung is a step of the recovery ladder. Rungs are tried one after another while the
// device's work already runs elsewhere.
type Rung uint8

const (
	UseStandby   Rung = iota // a warm worker takes over
	Restart                  // start the worker again
	Reopen                   // open the device anew
	GiveUpDevice             // no rung after it, nor the ladder again by itself
	OwnRung                  // what the caller brings, by the name of the TimedRung
)

var rungNames = [...]string{"standby", "restart", "reopen", "fail", "own"}

func (r Rung) String() string { return rungNames[r] }

// HealthRules holds the thresholds of the health rules; zero fields take the
// defaults named.
type HealthRules struct {
	MaxFailures    int     // failures in a row a device may have (3): it is dropped at the next
	MaxTemperature float64 // slowed, then drained, from here on (85)
	MaxMemUsed     float64 // likewise (0.95)
	PowerBudget    float64 // likewise; 0 means no budget
	// TotalPower is a budget for all devices: of those that take work, the one that draws the
	// most is slowed, then drained; 0 means none. MaxUtilisation is the utilisation by other
	// programs from which a device is slowed, then drained; 0 means no bound.
	TotalPower     float64
	MaxUtilisation float64
	// Ladder is the rungs to try, in order: by default all of them; none if it is empty and
	// not nil.
	Ladder []TimedRung
	// RungTimeout limits rungs that name no timeout of their own (5 s). Trust is the time that
	// a device must stay up until its next loss starts with the first rung again (5 s).
	RungTimeout time.Duration
	Trust       time.Duration
	// MaxLosses is the number of times a device may be lost while a task runs (2): at the
	// next the task is taken to be the cause and not tried again. The ladder has one rung
	// more, so that a device is not given up because of one task.
	MaxLosses int
	// Probe turns on probes of devices that came back or are suspect, and of healthy ones each
	// ProbeEvery if that is not 0. ProbePause is the pause between probes of a suspect device
	// (100 ms), ProbeLate the limit of a probe on a device with nothing else to do (1 s).
	Probe                             bool
	ProbeEvery, ProbePause, ProbeLate time.Duration
	// Again is the pause after which the ladder of a broken device starts over,
	// doubled each time up to 64 times as long; 0 means never.
	Again time.Duration
}

// TimedRung is a rung of a ladder and its timeout; 0 means HealthRules.RungTimeout.
type TimedRung struct {
	Rung    Rung
	Timeout time.Duration
	Name    string // of an OwnRung
}

// String returns the rung's name.
func (r *TimedRung) String() string { return cmp.Or(r.Name, r.Rung.String()) }

// ParseRung returns the rung with a name: one of own, or one of the engine's.
func ParseRung(name string, own ...string) (TimedRung, error) {
	known := rungNames[:OwnRung]
	if i := slices.Index(known, name); i >= 0 {
		return TimedRung{Rung: Rung(i)}, nil
	}
	if slices.Contains(own, name) {
		return TimedRung{Rung: OwnRung, Name: name}, nil
	}
	return TimedRung{}, fmt.Errorf("unknown rung %q; there are %s", name, strings.Join(slices.Concat(known, own), ", "))
}

// defaults fills in the fields that are zero.
func (h *HealthRules) defaults() {
	if h.Ladder == nil {
		h.Ladder = []TimedRung{{Rung: UseStandby}, {Rung: Restart}, {Rung: Reopen}}
	}
	h.MaxFailures, h.MaxLosses = cmp.Or(h.MaxFailures, 3), cmp.Or(h.MaxLosses, 2)
	h.MaxTemperature, h.MaxMemUsed = cmp.Or(h.MaxTemperature, 85), cmp.Or(h.MaxMemUsed, 0.95)
	h.RungTimeout, h.Trust = cmp.Or(h.RungTimeout, 5*time.Second), cmp.Or(h.Trust, 5*time.Second)
	h.ProbePause, h.ProbeLate = cmp.Or(h.ProbePause, 100*time.Millisecond), cmp.Or(h.ProbeLate, time.Second)
}

const (
	// drainAfter is the number of samples in a row over a threshold for which a device
	// is only slowed; it is drained at the next, so that one outlier drains nothing.
	drainAfter = 2
	// strainFactor is the factor by which predictions for a strained device are
	// lengthened: at 2 it gets about half as much work, which lets it cool.
	strainFactor = 2.0
	// coolMarginC (°C) and freeMargin (a fraction of each other threshold) are
	// how far below its thresholds a drained device must be to take work again, so that
	// it does not swing around them.
	coolMarginC = 5.0
	freeMargin  = 0.05
	// loadAlpha is the weight of a new sample in the moving average of utilisation: ten
	// samples, 1 s at the usual 100 ms, move it by two thirds.
	loadAlpha = 0.1
	// maxDoublings bounds the pause before the ladder starts over: 10 s become 11
	// minutes, so that a device that never returns costs one attempt in that time.
	maxDoublings = 6
)

// deviceHealth is the state of a device that its health is judged by.
type deviceHealth struct {
	failures int           // executions that failed in a row
	faulted  bool          // a launch failed there, and no loss was attributed to it
	rung     int           // which rung of the ladder is being tried, or the next one if it is lost
	deadline time.Duration // of a lost device's rung; of a broken one when the ladder starts over, 0 for never
	breaks   int           // times the ladder gave up since the device was last trusted
	never    bool          // no rung can bring it back
	upSince  time.Duration // when it last came back
	strained int           // samples over a threshold in a row
	rule     string        // whose threshold that was first, while strained
	drained  bool          // telemetry drained it
	errors   int64         // uncorrectable memory errors at the last sample that had them
	faults   int64         // faults of the device at the last sample that had them
	seen     bool          // errors is known
	factor   float64       // slowness reported by the loop; 0 means 1
	probe    probing
	unproven bool // it came back and has not been probed since; invariant: only while it is suspect
}

// retries returns how often a task may be tried again: its own number, its run's or the
// engine's.
func (e *Engine) retries(r *run, gt graph.TaskID) int {
	if n := r.g.Task(gt).Retries; n != 0 {
		return n
	}
	if r.o.Retries != 0 {
		return r.o.Retries
	}
	return e.o.Retries
}

// climb tries the next rung of the ladder, or gives the device up as broken.
func (e *Engine) climb(dev machine.DeviceID) {
	defer e.retime(dev)
	d := &e.devs[dev]
	h := &d.health
	over := h.rung >= len(e.o.Health.Ladder)
	failed := !over && e.o.Health.Ladder[h.rung].Rung == GiveUpDevice
	if over || failed || h.never || e.o.NoFaultTolerance {
		h.deadline = 0
		if e.o.Health.Again > 0 && !failed && !h.never && !e.o.NoFaultTolerance {
			h.deadline = e.now + e.o.Health.Again<<min(h.breaks, maxDoublings)
			h.breaks++
		}
		e.setState(dev, Broken)
		e.offerAgain = true
		if e.mem.comeBack(d.space) {
			e.loseMemory(d.space)
		}
		e.tr.Record(trace.Event{Kind: trace.Fail, Device: dev, Task: -1, Start: e.now, End: e.now})
		answerAll(&d.wakers, fmt.Errorf("it cannot be brought back at present: %w", d.cause))
		return
	}
	step := &e.o.Health.Ladder[h.rung]
	h.deadline = e.now + cmp.Or(step.Timeout, e.o.Health.RungTimeout)
	a := e.out.emit(Recover)
	a.Device, a.Rung, a.Rank = dev, step.Rung, int16(h.rung)
	e.tellRule(dev, "to be brought back by "+step.String())
}

// back takes in that a device is back, with the content of its memory if that was kept. It gets
// work once a probe was good, if there are probes.
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
	h.rung++ // for a loss before it is trusted
	if d.state == Broken {
		h.rung = 0
	}
	if h.strained > 0 {
		e.ruled(dev, false)
	}
	h.failures, h.strained, h.drained = 0, 0, false
	if e.o.Health.Probe {
		h.probe.verify()
		h.unproven, d.doubt = true, nil
		e.setState(dev, Suspect)
		e.dirty(dev)
		e.probeIn(dev, 0)
		return
	}
	e.rejoin(dev)
}

// rejoin returns a device that is back, or was suspect, to what it is meant to be.
func (e *Engine) rejoin(dev machine.DeviceID) {
	d := &e.devs[dev]
	h := &d.health
	if d.state != Suspect || h.unproven {
		h.upSince, h.unproven = e.now, false
		e.tr.Record(trace.Event{Kind: trace.Back, Device: dev, Task: -1, Start: e.now, End: e.now})
	}
	e.setState(dev, d.role)
	d.handsOver = d.role == Draining // what its memory kept
	e.retime(dev)
	vd := &e.situation.Devices[dev]
	vd.Accepts, vd.FreeAt = d.role == Healthy, e.now
	e.dirty(dev)
	e.reoffer()
	e.probeAgain(dev)
	answerAll(&d.wakers, nil)
}

// countFailure counts a failure against a device: after too many in a row it is dropped, and
// suspect after half as many.
func (e *Engine) countFailure(dev machine.DeviceID, err error) {
	d := &e.devs[dev]
	d.health.failures++
	n := d.health.failures
	switch most := e.o.Health.MaxFailures; {
	case !e.working(d) || !e.others(dev):
	case n > most:
		e.drop(dev, fmt.Errorf("%d failures in a row, the last: %v", n, err))
	case e.o.Health.Probe && 2*n > most && d.state == Healthy && d.health.probe.doubt(0):
		e.suspect(dev, fmt.Errorf("%d failures in a row, the last: %v", n, err))
	}
}

// Why telemetry has a device dropped.
var (
	errUnresponsive = errors.New("does not respond")
	errMemory       = errors.New("uncorrectable memory errors")
	errFault        = errors.New("its driver reports a fault of the device")
)

// condition returns a sample as reports show it.
func (e *Engine) condition(dev machine.DeviceID, s *Sample) *Condition {
	c := &Condition{
		Sampled: e.now, Util: s.Util, TempC: s.TempC, PowerW: s.PowerW, ClockMHz: s.ClockMHz,
		MemUsed: -1, MemBytes: s.MemBytes, MemErrors: s.MemErrors,
	}
	if c.MemBytes <= 0 {
		if c.MemBytes = e.m.Devices[dev].MemBytes; c.MemBytes == 0 {
			c.MemBytes = -1
		}
	}
	if s.MemUsed >= 0 && c.MemBytes > 0 {
		c.MemUsed = int64(s.MemUsed * float64(c.MemBytes))
	}
	return c
}

// telemetry takes in a sample of a device's condition.
func (e *Engine) telemetry(dev machine.DeviceID, s *Sample) {
	d := &e.devs[dev]
	h := &d.health
	vd := &e.situation.Devices[dev]
	if s.Util >= 0 {
		// The engine's own tasks show in queues; policies are told the part of other programs.
		d.util, vd.Util = s.Util, max(s.Util-s.Own, 0)
		if !s.Asked {
			vd.Load += loadAlpha * (s.Util - vd.Load)
		}
	}
	d.sampled = e.condition(dev, s)
	if s.PowerW >= 0 {
		if d.energy == nil {
			d.energy = new(energy)
		}
		d.energy.sample(e.now, s.PowerW)
	}
	var what error
	switch {
	case s.Unresponsive:
		what = errUnresponsive
	case h.seen && s.MemErrors > h.errors:
		what = errMemory
	case s.Faults > h.faults:
		what = errFault
	}
	// What is counted is known from here on, or the device would be dropped for it again whenever it
	// is back: its memory errors are those since the machine was started.
	if s.Faults >= 0 { // a device that was opened again counts from 0
		h.faults = s.Faults
	}
	if s.MemErrors >= 0 {
		h.errors, h.seen = s.MemErrors, true
	}
	if !e.working(d) {
		return
	}
	if what != nil {
		e.drop(dev, what)
		return
	}
	if s.Asked {
		return
	}
	rule, cool := e.judge(dev, s)
	switch {
	case rule != "":
		if h.strained++; h.strained == 1 {
			h.rule = rule
			e.ruled(dev, true)
		}
		if h.strained > drainAfter && !h.drained && d.state == Healthy && e.others(dev) {
			h.drained = true
			e.tellRule(dev, "drained: its "+h.rule+" is over the limit")
			e.drain(dev)
		}
	case cool && h.strained > 0:
		h.strained = 0
		e.ruled(dev, false)
		if h.drained {
			h.drained = false
			if d.role == Healthy {
				e.tellRule(dev, "takes work again: it is within every limit")
				e.undrain(dev)
			}
		}
	}
	e.reslow(dev)
	e.rebalance()
}

// judge returns which rule a sample breaks, "" for none, and whether it is clearly within all.
func (e *Engine) judge(dev machine.DeviceID, s *Sample) (rule string, cool bool) {
	o := &e.o.Health
	others := s.Util - s.Own
	total, most := max(s.PowerW, 0), true
	for i := range e.devs {
		if d := &e.devs[i]; machine.DeviceID(i) != dev && e.working(d) && d.sampled != nil {
			total += max(d.sampled.PowerW, 0)
			most = most && (d.state != Healthy || d.sampled.PowerW <= s.PowerW)
		}
	}
	switch {
	case s.TempC >= o.MaxTemperature:
		rule = "temperature"
	case s.MemUsed > o.MaxMemUsed:
		rule = "memory"
	case o.PowerBudget > 0 && s.PowerW > o.PowerBudget:
		rule = "power"
	case o.TotalPower > 0 && s.PowerW > 0 && total > o.TotalPower && most:
		rule = "power of all devices"
	case o.MaxUtilisation > 0 && others > o.MaxUtilisation:
		rule = "use by other programs"
	}
	under := func(x, limit float64) bool { return limit == 0 || x < limit*(1-freeMargin) }
	cool = s.TempC < o.MaxTemperature-coolMarginC && under(s.MemUsed, o.MaxMemUsed) && under(s.PowerW, o.PowerBudget) &&
		under(total, o.TotalPower) && under(others, o.MaxUtilisation)
	return rule, cool
}

// Ruling tells that a health rule begins or ceases to act on a device.
type Ruling struct {
	Device machine.DeviceID
	Rule   string // which, in words
	Acts   bool
	Health Condition
}

// ruled reports to Options.Ruled that the present rule acts on a device, or no longer does.
func (e *Engine) ruled(dev machine.DeviceID, acts bool) {
	d := &e.devs[dev]
	if e.o.Ruled != nil && d.sampled != nil && d.health.rule != "" {
		e.o.Ruled(Ruling{Device: dev, Rule: d.health.rule, Acts: acts, Health: *d.sampled})
	}
	if !acts {
		d.health.rule = ""
	}
}

// slowed takes in how slow the loop says a device is.
func (e *Engine) slowed(dev machine.DeviceID, factor float64) {
	e.devs[dev].health.factor = factor
	e.tr.Record(trace.Event{Kind: trace.Slow, Device: dev, Task: -1, Start: e.now, End: e.now})
	e.reslow(dev)
}

// reslow computes how slow a device is taken to be. Tasks in flight there are predicted
// anew, and tasks queued there are placed anew.
func (e *Engine) reslow(dev machine.DeviceID) {
	h := &e.devs[dev].health
	slow := max(h.factor, 1)
	if h.strained > 0 {
		slow *= strainFactor
	}
	vd := &e.situation.Devices[dev]
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
				continue // its cost is that of its slowest member
			}
			t.cost += more
			t.eft += more
			d.load += more
			d.backlog += more
			if d.team > 0 {
				w := e.width(ln.rec(s).task)
				d.load += more * (w - 1)
				ln.backlog += more
				ln.extra += more * (w - 1)
			}
		}
	}
	vd.Slow = slow
	e.tellRule(dev, slowness(slow))
	e.takeLoad(dev, 0)
	e.requeueAll(dev)
}

// slowness says how slow a device is taken to be.
func slowness(times float64) string {
	if times == 1 {
		return "taken to be as fast as its model"
	}
	return fmt.Sprintf("taken to be %.3g times slower than its model", times)
}
