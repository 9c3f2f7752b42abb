package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Suspicion: probes of devices, and what follows from them. A probe is a run of a small graph
// with a known answer, which the loop submits when it is asked to (the action Probe) and judges
// (the event Probed). It is the only thing that a suspect device runs.

// probing is the state of a device's probes.
type probing struct {
	standing
	next  time.Duration // when the next probe is due; 0 for never
	out   bool          // one is under way
	late  time.Duration // when the one under way is late; 0 for never
	tardy bool          // it was late
	stale bool          // the device was lost since it began
	warm  bool          // one has ended well in the device's present process
}

// timed reports whether something is due at some time.
func (p *probing) timed() bool { return p.next > 0 || p.late > 0 }

var (
	// ErrWrongAnswer is the cause of a device that is given up because its probe gave something
	// else than it should. The content of its memory is not trusted either.
	ErrWrongAnswer = errors.New("its probe gave a wrong answer")
	errSuspect     = errors.New("it is suspect, and takes no work before its probes are good")
	errLate        = errors.New("its probe is late, with nothing else to do")
)

// probeIn has a device probed after a time, unless one is under way; a negative one means never.
func (e *Engine) probeIn(dev machine.DeviceID, after time.Duration) {
	p := &e.devs[dev].health.probe
	p.next = 0
	if after >= 0 && !p.out {
		p.next = e.now + max(after, 1) // time 0 is for never
	}
	e.retime(dev)
}

// probeAgain has a device probed at its next time: soon while it is suspect, at the interval if
// there is one while it is healthy.
func (e *Engine) probeAgain(dev machine.DeviceID) {
	switch d := &e.devs[dev]; {
	case d.state == Suspect:
		e.probeIn(dev, e.o.Health.ProbePause)
	case d.state == Healthy && e.o.Health.ProbeEvery > 0:
		e.probeIn(dev, e.o.Health.ProbeEvery)
	default:
		e.probeIn(dev, -1)
	}
}

// probeTimer asks for the probe of a device that is due, or judges one that is late.
func (e *Engine) probeTimer(dev machine.DeviceID) {
	d := &e.devs[dev]
	p := &d.health.probe
	switch {
	case p.late > 0 && p.late <= e.now:
		e.probeLate(dev)
	case p.next == 0 || p.next > e.now:
	case d.state == Healthy && !d.process.Own && d.flight > 0:
		// A call in the caller's process cannot be ended: it is not to be in a probe's way.
		e.probeAgain(dev)
	case d.state != Healthy && d.state != Suspect:
		e.probeIn(dev, -1)
	default:
		p.out, p.next = true, 0
		if p.warm { // the first may wait for a compiler
			p.late = e.now + e.o.Health.ProbeLate
		}
		e.out.emit(Probe).Device = dev
		e.retime(dev)
	}
}

// probeLate judges a probe that has not ended in time: a device that runs nothing else is to
// blame for that, but the last one that takes work is not given up for being slow.
func (e *Engine) probeLate(dev machine.DeviceID) {
	d := &e.devs[dev]
	p := &d.health.probe
	p.late = e.now + e.o.Health.ProbeLate
	launches := uint64(0)
	for l := d.lanes[0]; l < d.lanes[1]; l++ {
		launches += e.lanes[l].issued - e.lanes[l].done
	}
	if d.space == hostSpace && !d.process.Own && d.state == Suspect {
		return // what runs in the caller's process cannot be ended: it is waited for
	}
	if launches != 1 || d.queue.len() > 0 || !e.others(dev) || d.state != Healthy && d.state != Suspect {
		return
	}
	p.tardy = true
	e.judgeProbe(dev, errLate)
}

// probed takes in how a probe ended.
func (e *Engine) probed(dev machine.DeviceID, err error) {
	d := &e.devs[dev]
	p := &d.health.probe
	tardy, stale := p.tardy, p.stale
	p.out, p.late, p.tardy, p.stale = false, 0, false, false
	switch {
	case stale: // of the device before it was lost
		if d.state == Suspect {
			e.probeIn(dev, 0)
		}
	case d.state != Healthy && d.state != Suspect:
	case err == nil && tardy: // which was held against it
		p.warm = true
	default:
		p.warm = p.warm || err == nil
		e.judgeProbe(dev, err)
	}
	if p.next == 0 {
		e.probeAgain(dev)
	}
}

// judgeProbe does what follows from a probe that ended well, or not.
func (e *Engine) judgeProbe(dev machine.DeviceID, err error) {
	d := &e.devs[dev]
	if err != nil {
		err = fmt.Errorf("probe: %w", err)
	}
	switch d.health.probe.probed(err == nil) {
	case doubted:
		e.suspect(dev, err)
	case cleared:
		e.tellRule(dev, "is trusted: its probes are good")
		e.rejoin(dev)
	case givenUp:
		e.out.emit(Drop).Device = dev
		e.keepInUse(dev)
		e.lose(dev, d.process.Keeps && !errors.Is(err, ErrWrongAnswer), true, err)
	}
}

// suspect takes work away from a healthy device until its probes are good. What it runs goes on.
func (e *Engine) suspect(dev machine.DeviceID, why error) {
	d := &e.devs[dev]
	d.doubt, d.lastErr = why, why
	e.setState(dev, Suspect)
	e.situation.Devices[dev].Accepts = false
	e.dirty(dev)
	e.requeueAll(dev)
	e.unparkFrom(dev)
	e.probeAgain(dev)
}

// placeProbe puts the task of a probe into the queue of its device, whatever the policy thinks
// of that; it fails if the device takes no operations.
func (e *Engine) placeProbe(t *task, r *run, gt graph.TaskID, sh *shape) {
	for i := range e.devs {
		dev := machine.DeviceID(i)
		if !e.allowed(r.g.Task(gt), dev) {
			continue
		}
		cost := sh.costs[e.situation.Devices[dev].Class]
		if s := e.devs[dev].state; cost < 0 || s != Healthy && s != Suspect {
			e.fail(r, e.taskErr(r, gt, dev, fmt.Errorf("%w: the device is %s", ErrNoDevice, s)))
			return
		}
		e.offer(t, r, gt, sh)
		n := len(e.situation.Tasks) - 1
		e.enqueue(&e.situation.Tasks[n], dev, e.situation.Assign(n, dev, 0, cost))
		e.situation.Tasks = e.situation.Tasks[:n]
		e.dirty(dev)
		return
	}
	e.fail(r, e.taskErr(r, gt, machine.Host, ErrNoDevice))
}
