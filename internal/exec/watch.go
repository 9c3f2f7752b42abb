package exec

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/internal/engine"
)

const (
	// sampleEvery is how often the condition of devices is sampled unless the
	// configuration says otherwise, and how often calls are looked after where no
	// condition is sampled.
	sampleEvery = 100 * time.Millisecond
	// hangAfter is how long a device with work may show no sign of life.
	hangAfter = 3 * time.Second
	// longAfter is how long a call in host memory may run before that is logged: it
	// cannot be ended, and its device does nothing else meanwhile.
	longAfter = time.Minute
	// ownFades is what is left of our own use of a device after a sample: what
	// a driver tells is an average over up to a second, ten samples, and still
	// holds what we ended in that time.
	ownFades = 0.8
)

// watch has the condition of every device sampled until the loop shuts down. A
// device that tells something about itself has a goroutine of its own, since
// asking it may take a while or hang; the others are sampled together.
func (l *loop) watch(c *Config) {
	every, hang := c.HealthInterval, c.HangAfter
	if every == 0 {
		every = sampleEvery
	}
	if hang == 0 {
		hang = hangAfter
	}
	if l.longAfter = c.longAfter; l.longAfter == 0 {
		l.longAfter = longAfter
	}
	if every < 0 {
		if slices.ContainsFunc(l.devs, func(d *dev) bool { return d.host }) {
			l.regularly(sampleEvery, func() func(*loop) {
				return func(l *loop) {
					for _, d := range l.devs {
						l.lookAfter(d, l.now())
					}
				}
			})
		}
		return
	}
	var silent []*dev
	for _, d := range l.devs {
		_, telemeter := d.Device.(driver.Telemeter)
		_, hanger := d.Device.(driver.Hanger)
		if telemeter || hanger {
			l.sampler(every, hang, d)
		} else {
			silent = append(silent, d)
		}
	}
	if len(silent) > 0 {
		l.sampler(every, hang, silent...)
	}
}

// sampler starts the goroutine that samples some devices.
func (l *loop) sampler(every, hang time.Duration, devs ...*dev) {
	l.regularly(every, func() func(*loop) {
		samples := make([]engine.Sample, len(devs))
		for i, d := range devs {
			samples[i] = d.ask(hang)
		}
		return func(l *loop) {
			for i, d := range devs {
				l.sample(d, &samples[i])
			}
		}
	})
}

// regularly starts a goroutine that prepares something for the loop to do, again and
// again. Closing l.unwatched ends it.
func (l *loop) regularly(every time.Duration, prepare func() func(*loop)) {
	l.watchers.Add(1)
	go func() {
		defer l.watchers.Done()
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-l.unwatched:
				return
			}
			fn, taken := prepare(), make(chan struct{})
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

// ask returns what a device says about itself.
func (d *dev) ask(hang time.Duration) engine.Sample {
	s := engine.Sample{Util: -1, MemUsed: -1, TempC: -1, PowerW: -1, MemErrors: -1, Faults: -1}
	if d.away.Load() {
		return s
	}
	if t, ok := d.Device.(driver.Telemeter); ok {
		switch v, err := t.Telemetry(); {
		case err == nil:
			s = engine.Sample{Util: v.Util, MemUsed: v.MemUsed, TempC: v.TempC, PowerW: v.PowerW, MemErrors: v.MemErrors, Faults: v.Faults}
		case errors.Is(err, driver.ErrDeviceLost):
			s.Unresponsive = true
		}
	}
	if h, ok := d.Device.(driver.Hanger); ok {
		// It is quiet for as long as it had work and did nothing.
		since := h.LastSeen()
		if idle := time.Unix(0, d.idle.Load()); idle.After(since) {
			since = idle
		}
		s.Unresponsive = s.Unresponsive || time.Since(since) > hang
	}
	return s
}

// sample hands a device's condition to the engine. How busy a device is that
// does not say so follows from the time its tasks took, and of one that does how
// much of that is ours.
func (l *loop) sample(d *dev, s *engine.Sample) {
	d.away.Store(d.lost)
	if d.flight == 0 {
		d.idle.Store(time.Now().UnixNano())
	}
	if d.lost {
		return
	}
	now, st := l.now(), l.engine.Status(d.id)
	l.lookAfter(d, now)
	own := 0.0
	switch passed := now - d.sampled; {
	case st.Stats.Tasks == d.tasks && d.flight > 0:
		own = 1 // the whole time in what it runs now
	case passed > 0:
		lanes := time.Duration(max(l.x.Machine.Devices[d.id].Lanes, 1))
		own = min((st.Stats.Total-d.busy).Seconds()/(passed*lanes).Seconds(), 1)
	}
	d.own = max(own, d.own*ownFades)
	if s.Util < 0 {
		s.Util, s.Own = own, own
	} else {
		s.Own = min(d.own, s.Util)
	}
	if known := d.memory; known != 0 && known != st.MemBytes {
		l.log.Warn("memory of device that may be used changed", "device", d.Info().Name, "from", known, "to", st.MemBytes)
	}
	d.memory = st.MemBytes
	d.sampled, d.tasks, d.busy = now, st.Stats.Tasks, st.Stats.Total
	l.evs = append(l.evs, engine.Event{Kind: engine.Telemetry, Device: d.id, Sample: s})
}

// lookAfter sees to calls in host memory that take long, which nobody can end.
func (l *loop) lookAfter(d *dev, now time.Duration) {
	if d.host && !d.lost {
		l.sayLong(d, now)
		l.goBeside(d, now)
	}
}

// unheard reports whether the engine is yet to hear of the end of an operation.
func (l *loop) unheard(op engine.Op) bool {
	return slices.ContainsFunc(l.evs, func(ev engine.Event) bool { return ev.Kind == engine.OpDone && ev.Op == op })
}

// goBeside has a device go on beside a call that keeps other runs waiting, which nobody
// can end.
func (l *loop) goBeside(d *dev, now time.Duration) {
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
	l.evs = append(l.evs, engine.Event{Kind: engine.Detached, Op: o.Op})
	l.log.Warn("a Go kernel keeps its device from other runs: they go on beside it", "device", d.Info().Name,
		"task", o.Graph.TaskName(o.Task), "kernels", strings.Join(kernelNames(o.Graph.Task(o.Task)), ", "), "for", (now - o.Since).Round(time.Millisecond))
}

// sayLong says once of a call that it takes long, and which kernel that is.
func (l *loop) sayLong(d *dev, now time.Duration) {
	o, ok := l.engine.Oldest(d.id)
	if !ok || now-o.Since < l.longAfter || o.Op == d.said || l.unheard(o.Op) {
		return
	}
	d.said = o.Op
	l.log.Warn("a task takes long: a Go kernel that does not return keeps its device", "device", d.Info().Name,
		"task", o.Graph.TaskName(o.Task), "kernels", strings.Join(kernelNames(o.Graph.Task(o.Task)), ", "), "for", (now - o.Since).Round(time.Millisecond))
}
