package proc

import (
	"testing"
	"time"
)

// A worker that has begun to serve is silent after hang without a beat, and one that is busy after a
// longer time; one that is stopped is so after hang, whatever it does. What this process has slept
// through does not count.
func TestBeats(t *testing.T) {
	const tick, hang, busy = 50 * time.Millisecond, time.Second, 10 * time.Second
	for name, c := range map[string]struct {
		beats, busy bool                        // it has begun to serve, and is busy
		stopped     func(at time.Duration) bool // nil for never
		slept       func(at time.Duration) bool // this process is stopped for a minute before; nil for never
		beat        func(at time.Duration) bool // nil for never again
		want        time.Duration               // when it is found silent; 0 for never
	}{
		"silent":           {beats: true, want: hang},
		"beating":          {beats: true, beat: func(at time.Duration) bool { return at%(hang/2) == 0 }},
		"falls silent":     {beats: true, beat: func(at time.Duration) bool { return at <= hang }, want: 2 * hang},
		"busy":             {beats: true, busy: true, want: busy},
		"being started":    {},
		"stopped":          {beats: true, stopped: always, want: hang},
		"stopped and busy": {beats: true, busy: true, stopped: always, want: hang},
		"stopped at start": {stopped: always, want: hang},
		"stopped later":    {beats: true, busy: true, stopped: func(at time.Duration) bool { return at > 2*hang }, want: 3 * hang},
		"stopped in turn":  {busy: true, stopped: func(at time.Duration) bool { return at%(hang/2) != 0 }},
		"both stopped":     {beats: true, slept: func(at time.Duration) bool { return at == hang/2 }, want: hang},
	} {
		mem := make([]byte, ringMemory)
		h := ringOn(mem).h
		if c.beats {
			h.beat.Store(1)
		}
		if c.busy {
			h.busy.Store(1)
		}
		at, now, got := time.Duration(0), time.Unix(0, 0), time.Duration(0)
		p := &beats{h: h, stopped: func() bool { return c.stopped != nil && c.stopped(at) }, beat: h.beat.Load(), seen: now, ran: now}
		limit := busy
		if !c.beats {
			limit = time.Hour
		}
		for at < 20*hang && got == 0 {
			slept := now
			at, now = at+tick, now.Add(tick)
			if c.slept != nil && c.slept(at) {
				now = now.Add(time.Minute)
			}
			if c.beat != nil && c.beat(at) {
				h.beat.Add(1)
			}
			if p.silent(slept, now, hang, limit) > 0 {
				got = at
			}
		}
		// It is found at the first look after its time.
		if got < c.want || got > c.want+2*tick || got > 0 && c.want == 0 {
			t.Errorf("%s: silent after %v, want %v", name, got, c.want)
		}
	}
}

func always(time.Duration) bool { return true }
