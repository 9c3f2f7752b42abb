package dashboard

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/trace"
)

const (
	// stripWindow is the time a timeline covers.
	stripWindow = 30 * time.Second
	// stripCell is the time within which short tasks of a lane are told as one span: a page
	// draws it about three pixels wide.
	stripCell = 100 * time.Millisecond
	// laneSlack is by how much a task may seem to begin before the one before it has ended on
	// its lane: an event has the time at which weft took notice of the end.
	laneSlack = 2 * time.Millisecond
	// maxLanes is the greatest number of lanes of a device that are told apart.
	maxLanes = 32
)

// pageTimeline is what devices ran in the last seconds, as far as it is known.
type pageTimeline struct {
	Started int64   `json:"started"`
	From    float64 `json:"from"` // uptime: nothing is known of before
	To      float64 `json:"to"`
	// Recorded says that lanes and copies come from a trace; otherwise tasks are laid out so
	// that none overlap, and copies are not known.
	Recorded bool        `json:"recorded"`
	Missed   uint64      `json:"missed"` // tasks that were too many to be told
	Devices  []pageStrip `json:"devices"`
}

// pageStrip is the timeline of a device.
type pageStrip struct {
	Name  string     `json:"name"`
	Lanes int        `json:"lanes"`
	Spans []pageSpan `json:"spans"`

	tops []top // by lane
}

// top is the latest span of a lane.
type top struct {
	end  float64
	span int // its index; negative if it is forgotten
}

// pageSpan is a task on a lane, or several short ones.
type pageSpan struct {
	Lane  int     `json:"lane"`
	Start float64 `json:"start"`
	End   float64 `json:"end"`
	Busy  float64 `json:"busy"` // seconds within that something ran
	Tasks int     `json:"tasks"`
	Run   int64   `json:"run"`  // of the last of them
	Name  string  `json:"name"` // of the last of them
	Bad   int     `json:"bad"`  // that failed
	Copy  bool    `json:"copy"`
}

// timeline lays out tasks as they end.
type timeline struct {
	since  time.Duration
	missed uint64
	names  map[string]int
	strips []pageStrip
}

// reset begins anew, with nothing known of before.
func (t *timeline) reset(devices []weft.Device, at time.Duration) {
	*t = timeline{since: at, names: make(map[string]int)}
	for i, d := range devices {
		t.names[d.Name] = i
		t.strips = append(t.strips, pageStrip{Name: d.Name, Lanes: 1})
	}
}

// add takes in a task that has ended.
func (t *timeline) add(e *weft.Event) {
	i, ok := t.names[e.Device]
	if !ok || e.Took <= 0 {
		return
	}
	sp := pageSpan{Start: (e.At - e.Took).Seconds(), End: e.At.Seconds(), Busy: e.Took.Seconds(), Tasks: 1, Run: e.Run, Name: e.Task}
	if e.Err != nil {
		sp.Bad = 1
	}
	s := &t.strips[i]
	sp.Lane = s.free(sp.Start)
	s.add(sp)
	s.forget(e.At.Seconds() - stripWindow.Seconds())
}

// free returns a lane on which nothing has run after a time, or the one that was free first.
func (s *pageStrip) free(start float64) int {
	best := 0
	for lane, t := range s.tops {
		if t.end <= start+laneSlack.Seconds() {
			return lane
		}
		if t.end < s.tops[best].end {
			best = lane
		}
	}
	if len(s.tops) < maxLanes {
		return len(s.tops)
	}
	return best
}

// add puts a span on its lane, and with the one before it if both are short and close.
func (s *pageStrip) add(sp pageSpan) {
	for len(s.tops) <= sp.Lane {
		s.tops = append(s.tops, top{span: -1})
	}
	s.Lanes = max(s.Lanes, len(s.tops))
	t := &s.tops[sp.Lane]
	sp.Start = max(sp.Start, t.end)
	sp.End = max(sp.End, sp.Start)
	t.end = sp.End
	if t.span >= 0 {
		const cell = float64(stripCell) / 1e9
		last := &s.Spans[t.span]
		if last.Copy == sp.Copy && sp.End-last.Start <= cell && int64(sp.Start/cell) == int64(last.Start/cell) {
			last.End = sp.End
			last.Busy = min(last.Busy+sp.Busy, last.End-last.Start)
			last.Tasks, last.Bad = last.Tasks+sp.Tasks, last.Bad+sp.Bad
			last.Run, last.Name = sp.Run, sp.Name
			return
		}
	}
	sp.Busy = min(sp.Busy, sp.End-sp.Start)
	t.span = len(s.Spans)
	s.Spans = append(s.Spans, sp)
}

// forget drops spans that ended before a time, once there are many.
func (s *pageStrip) forget(before float64) {
	const many = 256
	if len(s.Spans) < many || s.Spans[len(s.Spans)/2].End >= before {
		return
	}
	old := 0
	for old < len(s.Spans) && s.Spans[old].End < before {
		old++
	}
	s.Spans = slices.Clone(s.Spans[old:])
	for i := range s.tops {
		s.tops[i].span = max(s.tops[i].span-old, -1)
	}
}

// after returns the spans that ended after a time.
func (s *pageStrip) after(end float64) pageStrip {
	out := pageStrip{Name: s.Name, Lanes: s.Lanes, Spans: []pageSpan{}}
	for _, sp := range s.Spans {
		if sp.End > end {
			out.Spans = append(out.Spans, sp)
		}
	}
	return out
}

// serveTimeline answers with the spans that ended after ?since=SECONDS of uptime.
func (d *dashboard) serveTimeline(w http.ResponseWriter, r *http.Request) {
	since := 0.0
	if text := r.URL.Query().Get("since"); text != "" {
		var err error
		if since, err = strconv.ParseFloat(text, 64); err != nil {
			refuse(w, r, http.StatusBadRequest, "since must be a number of seconds, as in since=12.5")
			return
		}
	}
	reply(w, http.StatusOK, d.ran(since))
}

// timeline returns what is known since a time, of a trace where there is one.
func (d *dashboard) timeline(since float64) *pageTimeline {
	to := d.rt.Metrics().Uptime
	since = max(since, (to - stripWindow).Seconds())
	out := &pageTimeline{Started: d.started, To: to.Seconds(), Devices: []pageStrip{}}
	if evs := d.reports.trace(d.rt); len(evs) > 0 {
		out.Recorded = true
		t := recorded(d.rt, evs, since)
		out.From, out.Missed = t.since.Seconds(), t.missed
		for i := range t.strips {
			out.Devices = append(out.Devices, t.strips[i].after(since))
		}
		return out
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	out.From, out.Missed = d.strip.since.Seconds(), d.strip.missed
	for i := range d.strip.strips {
		out.Devices = append(out.Devices, d.strip.strips[i].after(since))
	}
	return out
}

// recorded lays out what a trace has after a time.
func recorded(rt *weft.Runtime, evs []trace.Event, since float64) *timeline {
	var t timeline
	t.reset(rt.Devices(), 0)
	// A cell that began before the time is made from all that is in it, as it was told before.
	from := time.Duration(since*1e9) - 2*stripCell
	for i := range evs {
		e := &evs[i]
		if e.Kind == trace.Missing {
			t.since = e.Start
		}
		if (e.Kind != trace.Exec && e.Kind != trace.Copy) || e.End < from || int(e.Device) < 0 || int(e.Device) >= len(t.strips) {
			continue
		}
		sp := pageSpan{Lane: min(int(e.Lane), maxLanes-1), Start: e.Start.Seconds(), End: e.End.Seconds(), Busy: (e.End - e.Start).Seconds(), Tasks: 1, Run: int64(e.Run), Copy: e.Kind == trace.Copy}
		if sp.Name = fmt.Sprintf("task %d", e.Task); sp.Copy {
			sp.Name = fmt.Sprintf("copy of %d bytes", e.Bytes)
		}
		if e.Failed {
			sp.Bad = 1
		}
		t.strips[e.Device].add(sp)
	}
	return &t
}
