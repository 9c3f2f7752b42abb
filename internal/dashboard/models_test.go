package dashboard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft"
)

// A quantile is in the bucket that the same quantile of the durations themselves is in.
func TestQuantile(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 2000 {
		var bounds []float64
		for at := 0.0; len(bounds) < 1+r.IntN(12); {
			at += 0.001 + r.Float64()
			bounds = append(bounds, at)
		}
		counts := make([]uint64, len(bounds)+1)
		var all []float64
		for range 1 + r.IntN(300) {
			x := r.ExpFloat64() * bounds[len(bounds)-1] / 3
			all = append(all, x)
			i, _ := slices.BinarySearch(bounds, x)
			counts[i]++
		}
		slices.Sort(all)
		last := 0.0
		for _, p := range []float64{0.01, 0.5, 0.95, 0.99, 1} {
			got := quantile(bounds, counts, p)
			want := all[int(math.Ceil(p*float64(len(all))))-1]
			i, _ := slices.BinarySearch(bounds, want)
			low, high := 0.0, bounds[min(i, len(bounds)-1)]
			if i > 0 {
				low = bounds[i-1]
			}
			if got == nil || *got < low-1e-9 || *got > high+1e-9 || *got < last {
				t.Fatalf("p %v of %v in %v is %v; it is %v, between %v and %v", p, counts, bounds, *got, want, low, high)
			}
			last = *got
		}
	}
	for _, c := range []struct {
		bounds []float64
		counts []uint64
	}{{nil, nil}, {[]float64{1}, []uint64{0, 0}}, {[]float64{1}, []uint64{5}}, {nil, []uint64{5}}} {
		if got := quantile(c.bounds, c.counts, 0.5); got != nil {
			t.Errorf("of %v in %v: %v, want none", c.counts, c.bounds, *got)
		}
	}
	if got := quantile([]float64{1, 2}, []uint64{0, 0, 9}, 0.5); got == nil || *got != 2 {
		t.Errorf("above all bounds: %v, want the last", got)
	}
}

// Latencies are of the time between two samples, and none of a model that was loaded anew.
func TestModelSince(t *testing.T) {
	at := func(n uint64, counts ...uint64) ModelState {
		return ModelState{Name: "m", Version: "1", Succeeded: n, Items: 4 * n, Batches: n, Total: Histogram{Bounds: []float64{0.001, 0.01}, Counts: counts}}
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
