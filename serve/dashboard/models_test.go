package dashboard

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/serve/internal/infer"
)

// tallied are latencies as a server counts them.
type tallied infer.Histogram

func (c tallied) Quantile(q float64, before Latencies) (seconds float64, ok bool) {
	then, _ := before.(tallied)
	return infer.Histogram(c).Since(infer.Histogram(then)).Quantile(q)
}

// Latencies are of the time between two samples, and none of a model that was loaded anew.
func TestModelSince(t *testing.T) {
	at := func(n uint64, counts ...uint64) ModelState {
		return ModelState{Name: "m", Version: "1", Succeeded: n, Items: 4 * n, Batches: n, Total: tallied{Bounds: []float64{0.001, 0.01}, Counts: counts}}
	}
	then := at(100, 100, 0, 0)
	before := &point{models: map[modelKey]ModelState{{"m", "1"}: then}}
	now := at(110, 100, 10, 0)
	if m := modelOf(&now, before, 5); *m.Rate != 2 || *m.Batch != 4 || *m.P50 < 0.001 || *m.P99 > 0.01 {
		t.Errorf("%+v: the slow requests were all there were", m)
	}
	if m := modelOf(&then, before, 5); *m.Rate != 0 || m.P50 != nil || m.Batch != nil {
		t.Errorf("%+v: there were no requests", m)
	}
	anew := at(3, 3, 0, 0)
	if m := modelOf(&anew, before, 5); m.Rate != nil || m.P50 != nil {
		t.Errorf("%+v: the counts began anew", m)
	}
}

// Tasks of any number and order are laid out without overlap, none is lost, and memory is bounded.
func TestStrips(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	var line timeline
	line.reset([]weft.Device{{}}, 0)
	line.names["d"] = 0
	const n = 40_000
	at := time.Duration(0)
	for i := range n {
		at += time.Duration(r.IntN(int(100 * time.Microsecond)))
		line.add(&weft.Event{Kind: weft.EventTaskDone, At: at, Took: 1 + min(at, time.Duration(r.ExpFloat64()*float64(150*time.Microsecond))), Device: "d", Run: int64(i), Task: fmt.Sprint(i)})
	}
	s := &line.strips[0]
	tasks, ends := 0, map[int]float64{}
	for _, sp := range s.Spans {
		if sp.Start < ends[sp.Lane] || sp.Busy > sp.End-sp.Start+1e-9 {
			t.Fatalf("%+v begins before %v", sp, ends[sp.Lane])
		}
		ends[sp.Lane] = sp.End
		tasks += sp.Tasks
	}
	if at < stripWindow && tasks != n {
		t.Errorf("%d tasks are shown, want %d", tasks, n)
	}
	if most := int(stripWindow/stripCell+2) * 2 * s.Lanes; len(s.Spans) > most {
		t.Errorf("%d spans are kept of %d lanes, want at most %d", len(s.Spans), s.Lanes, most)
	}
	// Long after, what is old goes.
	for range 600 {
		at += time.Second
		line.add(&weft.Event{Kind: weft.EventTaskDone, At: at, Took: time.Millisecond, Device: "d"})
	}
	if len(s.Spans) > 600 || s.Spans[0].End < at.Seconds()-600 {
		t.Errorf("%d spans are kept, the oldest of %v", len(s.Spans), s.Spans[0])
	}
}

// A flood of runs does not push out the loss of a device.
func TestEventLog(t *testing.T) {
	var l eventLog
	l.add(&weft.Event{Kind: weft.EventDevice, Device: "d", From: "healthy", To: "lost"})
	for i := range 5_000 {
		l.add(&weft.Event{Kind: weft.EventRunEnded, Run: int64(i)})
		l.add(&weft.Event{Kind: weft.EventTaskMoved})
	}
	all := l.all()
	if len(all) != keptRoutine+1 || !all[0].Bad || !strings.Contains(all[0].Text, "lost") || all[keptRoutine].N != 5_001 {
		t.Errorf("%d events, from %+v to %+v", len(all), all[0], all[len(all)-1])
	}
	if len(l.routine) > 2*keptRoutine {
		t.Errorf("%d events are kept", len(l.routine))
	}
}
