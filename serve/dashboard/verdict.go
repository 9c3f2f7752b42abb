package dashboard

import (
	"cmp"
	"sync"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/trace"
)

// pageVerdict is what kept the runs of the last seconds from being faster.
type pageVerdict struct {
	Verdict   string    `json:"verdict"`
	Sentence  string    `json:"sentence"`
	Took      float64   `json:"took"`
	Tasks     int       `json:"tasks"`
	Util      float64   `json:"util"`
	Imbalance float64   `json:"imbalance"`
	Fixes     []pageFix `json:"fixes"`
}

// pageFix is what would help, and by which part of the time.
type pageFix struct {
	What string  `json:"what"`
	Gain float64 `json:"gain"`
}

const (
	// analyzeEvery is the least time between two analyses of the trace, and analyzedEvents the
	// greatest number of events in one, which took 18 to 137 ms on two cores that were shared.
	analyzeEvery   = 5 * time.Second
	analyzedEvents = 20_000
)

// addVerdicts adds what the trace says, if one is recorded.
func (d *dashboard) addVerdicts(s *pageState) {
	s.Verdicts = []pageVerdict{}
	if v := d.reports.analyze(d.rt); v != nil {
		s.Verdicts = append(s.Verdicts, *v)
	}
}

// analyst reads the trace of a runtime, and not more often than is needed.
type analyst struct {
	mu       sync.Mutex
	read     time.Time
	events   []trace.Event
	analyzed time.Time
	verdict  *pageVerdict
}

// trace returns what the runtime recorded, nil if it records nothing. Readers share a copy.
func (a *analyst) trace(rt *weft.Runtime) []trace.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.read) > sampleEvery/2 {
		a.read, a.events = time.Now(), rt.Trace()
	}
	return a.events
}

// analyze returns the verdict about the last seconds of the trace, nil without one.
func (a *analyst) analyze(rt *weft.Runtime) *pageVerdict {
	evs := a.trace(rt)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(evs) == 0 || time.Since(a.analyzed) < analyzeEvery {
		return a.verdict
	}
	a.analyzed, a.verdict = time.Now(), nil
	from := evs[len(evs)-1].End - stripWindow
	var late []trace.Event
	for _, e := range evs[max(len(evs)-analyzedEvents, 0):] {
		if cmp.Or(e.End, e.Start) >= from && e.Kind != trace.Missing {
			late = append(late, e)
		}
	}
	res := trace.Analyze(rt.Machine(), late, nil)
	if res.Tasks == 0 {
		return nil
	}
	a.verdict = &pageVerdict{Verdict: string(res.Bottleneck), Sentence: res.Sentence, Took: res.Makespan.Seconds(), Tasks: res.Tasks,
		Util: finite(res.Mean), Imbalance: finite(res.Imbalance), Fixes: []pageFix{}}
	for _, f := range res.Fixes {
		if f.Gain > 0 && len(a.verdict.Fixes) < 3 {
			a.verdict.Fixes = append(a.verdict.Fixes, pageFix{What: f.What, Gain: f.Gain})
		}
	}
	return a.verdict
}
