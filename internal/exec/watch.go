package exec

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/engine"
)

const (
	// sampleEvery is the default interval at which the condition of devices is sampled.
	// Calls are looked after at this interval if sampling is off.
	sampleEvery = 100 * time.Millisecond
	// hangAfter is the time that a device with work may show no sign of life before it
	// counts as unresponsive.
	hangAfter = 3 * time.Second
	// longAfter is the time that a call in host memory may run before it is logged: it
	// cannot be ended, and its device does nothing else meanwhile.
	longAfter = time.Minute
	// ownFades is the factor by which the known use of a device by this process fades
	// with each sample. The utilisation a driver reports is an average over up to a
	// second, ten samples, and includes work that has ended in that time.
	ownFades = 0.8
)

// watch starts the sampling of every device, until the loop shuts down. A device that
// reports its condition is sampled by a goroutine of its own, since the request may take
// long or hang, and which also samples it when asked to; the others are sampled together.
// Calls in host memory are looked after at least every sampleEvery, since runs may wait for
// that.
func (l *loop) watch(c *Config) {
	every := c.HealthInterval
	if every == 0 {
		every = sampleEvery
	}
	if l.hang = c.HangAfter; l.hang == 0 {
		l.hang = hangAfter
	}
	if l.longAfter = c.longAfter; l.longAfter == 0 {
		l.longAfter = longAfter
	}
	if (every < 0 || every > sampleEvery) && slices.ContainsFunc(l.devs, func(d *dev) bool { return d.host }) {
		l.regularly(sampleEvery, nil, func(bool) func(*loop) {
			return func(l *loop) { l.looks = append(l.looks, l.devs...) }
		})
	}
	var silent []*dev
	for _, d := range l.devs {
		_, telemeter := d.Device.(driver.Telemeter)
		_, hanger := d.Device.(driver.Hanger)
		if telemeter || hanger {
			d.nudge = make(chan struct{}, 1)
			l.sampler(every, d.nudge, d)
		} else {
			silent = append(silent, d)
		}
	}
	if len(silent) > 0 && every > 0 {
		l.sampler(every, nil, silent...)
	}
}

// sampler starts the goroutine that samples some devices.
func (l *loop) sampler(every time.Duration, nudge <-chan struct{}, devs ...*dev) {
	l.regularly(every, nudge, func(asked bool) func(*loop) {
		samples := make([]engine.Sample, len(devs))
		for i, d := range devs {
			samples[i] = d.ask(l.hang)
			samples[i].Asked = asked
		}
		return func(l *loop) {
			for i, d := range devs {
				l.sample(d, &samples[i])
			}
		}
	})
}

// regularly starts a goroutine that calls prepare at an interval, unless that is negative,
// and with true when it is nudged, and has the loop call what it returns. Closing
// l.unwatched ends the goroutine.
func (l *loop) regularly(every time.Duration, nudge <-chan struct{}, prepare func(nudged bool) func(*loop)) {
	l.watchers.Add(1)
	go func() {
		defer l.watchers.Done()
		var tick <-chan time.Time
		if every > 0 {
			t := time.NewTicker(every)
			defer t.Stop()
			tick = t.C
		}
		for {
			nudged := false
			select {
			case <-tick:
			case <-nudge:
				nudged = true
			case <-l.unwatched:
				return
			}
			fn, taken := prepare(nudged), make(chan struct{})
			if !l.x.do(func(l *loop) {
				fn(l)
				close(taken)
			}) {
				return
			}
			select { // a loop that is busy gets one at a time
			case <-taken:
			case <-l.unwatched:
				return
			}
		}
	}()
}

// unknown is the condition of a device that reports nothing.
var unknown = engine.Sample{Util: -1, MemUsed: -1, MemBytes: -1, TempC: -1, PowerW: -1, ClockMHz: -1, MemErrors: -1, Faults: -1}

// ask returns the condition that a device reports. -1 stands for what it does not report.
func (d *dev) ask(hang time.Duration) engine.Sample {
	s := unknown
	if d.away.Load() {
		return s
	}
	if t, ok := d.Device.(driver.Telemeter); ok {
		switch v, err := t.Telemetry(); {
		case err == nil:
			s = engine.Sample{
				Util: v.Util, MemUsed: v.MemUsed, MemBytes: v.MemBytes, TempC: v.TempC, PowerW: v.PowerW, ClockMHz: v.ClockMHz,
				MemErrors: v.MemErrors, Faults: v.Faults,
			}
		case errors.Is(err, driver.ErrDeviceLost):
			s.Unresponsive = true
		}
	}
	if h, ok := d.Device.(driver.Hanger); ok {
		// A device is silent from its last sign of life on, or from when it got work.
		since := h.LastSeen()
		if idle := time.Unix(0, d.idle.Load()); idle.After(since) {
			since = idle
		}
		s.Unresponsive = s.Unresponsive || time.Since(since) > hang
	}
	return s
}

// sample hands a device's condition to the engine. The time its tasks took gives the
// utilisation of a device that does not report one, and this process's share of the
// utilisation of a device that does. Callers of Probe are answered.
func (l *loop) sample(d *dev, s *engine.Sample) {
	d.away.Store(d.lost)
	if d.flight == 0 {
		d.idle.Store(time.Now().UnixNano())
	}
	probes := d.probes
	d.probes = nil
	answer := func(error) {
		for _, taken := range probes {
			close(taken)
		}
	}
	if d.lost {
		answer(nil)
		return
	}
	now, st := l.now(), l.engine.Status(d.id)
	l.looks = append(l.looks, d)
	own := 0.0
	switch passed := now - d.sampled; {
	case st.Stats.Tasks == d.tasks && d.flight > 0:
		own = st.Taken // the whole time in what it runs now
	case passed > 0:
		own = min((st.Busy-d.busy).Seconds()/passed.Seconds(), 1)
	}
	ours := max(own, d.own*ownFades)
	if s.Util < 0 {
		s.Util, s.Own = own, own
	} else {
		s.Own = min(ours, s.Util)
	}
	if known := d.memory; known != 0 && known != st.MemBytes {
		l.log.Warn("memory of device that may be used changed", "device", d.Info().Name, "from", known, "to", st.MemBytes)
	}
	d.memory = st.MemBytes
	if !s.Asked { // the interval goes on
		d.own, d.sampled, d.tasks, d.busy = ours, now, st.Stats.Tasks, st.Busy
	}
	l.evs = append(l.evs, engine.Event{Kind: engine.Telemetry, Device: d.id, Sample: s, Answer: answer})
}

// lookAfter logs calls in host memory that take long, and detaches those that keep other
// runs waiting: a Go kernel cannot be ended from outside. It comes after a step: the engine
// has heard of all that happened to the devices, and these have all that was issued.
func (l *loop) lookAfter() {
	now := l.now()
	for _, d := range l.looks {
		if d.host && !d.lost {
			l.sayLong(d, now)
			l.detach(d, now)
		}
	}
	l.looks = l.looks[:0]
}

// detach lets a device run other operations while a call that keeps other runs waiting goes
// on and cannot be ended.
func (l *loop) detach(d *dev, now time.Duration) {
	can, ok := d.Device.(driver.Detacher)
	if !ok {
		return
	}
	o, upto, blocks := l.engine.Blocks(now, d.id)
	if !blocks || !can.Detach(driver.Wait{Lane: driver.Lane(o.Op.Lane), Seq: o.Op.Seq}, upto) {
		return
	}
	l.forgets.due = true
	d.flight -= int(upto - o.Op.Seq)
	// Blocks knows nothing of the other events, one of which may have the device dropped.
	l.evs = slices.Insert(l.evs, 0, engine.Event{Kind: engine.Detached, Op: o.Op})
	l.log.Warn("a Go kernel blocks its device for other runs: they continue without waiting for it", "device", d.Info().Name,
		"task", o.Graph.TaskName(o.Task), "kernels", strings.Join(kernelNames(o.Graph.Task(o.Task)), ", "), "for", (now - o.Since).Round(time.Millisecond))
}

// sayLong logs, once for each call, that a call takes long, with the names of its kernels.
func (l *loop) sayLong(d *dev, now time.Duration) {
	o, ok := l.engine.Oldest(d.id)
	if !ok || now-o.Since < l.longAfter || o.Op == d.said {
		return
	}
	d.said = o.Op
	l.log.Warn("a task takes long: a Go kernel that does not return keeps its device", "device", d.Info().Name,
		"task", o.Graph.TaskName(o.Task), "kernels", strings.Join(kernelNames(o.Graph.Task(o.Task)), ", "), "for", (now - o.Since).Round(time.Millisecond))
}
