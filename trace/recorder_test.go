package trace

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
)

func TestNilRecorder(t *testing.T) {
	var r *Recorder
	r.Record(Event{Kind: Exec})
	if r.Events() != nil || r.Dropped() != 0 {
		t.Errorf("a nil recorder kept something: %v, dropped %d", r.Events(), r.Dropped())
	}
}

// TestRecorderKeepsNewest compares with a plain slice for bounds below, at and
// across chunks.
func TestRecorderKeepsNewest(t *testing.T) {
	for _, bound := range []int{1, 7, chunkEvents, chunkEvents + 1, 3*chunkEvents - 5} {
		for _, n := range []int{0, 1, bound - 1, bound, bound + 1, 2*bound + 3, 2*bound + chunkEvents + 9, 3*bound + chunkEvents/2} {
			r := NewRecorder(bound)
			var all []Event
			for i := range n {
				// Several events share a time, so that their order shows.
				e := Event{Kind: Exec, Start: time.Duration(i / 2000), End: time.Duration(i/2000 + 10), Task: graph.TaskID(i)}
				if i%3 == 0 {
					e.Kind = Evict
				}
				all = append(all, e)
				r.Record(e)
			}
			dropped := max(0, n-bound)
			if got := r.Dropped(); got != uint64(dropped) {
				t.Errorf("bound %d, %d events: dropped %d, want %d", bound, n, got, dropped)
			}
			want := slices.Clone(all[dropped:])
			slices.SortStableFunc(want, func(a, b Event) int { return cmp.Compare(a.at(), b.at()) })
			got := r.Events()
			if dropped > 0 {
				i := slices.IndexFunc(got, func(e Event) bool { return e.Kind == Missing })
				if i < 0 || got[i].Bytes != int64(dropped) {
					t.Fatalf("bound %d, %d events: no Missing of %d", bound, n, dropped)
				}
				if oldest := all[dropped].at(); got[i].Start != oldest {
					t.Errorf("bound %d, %d events: missing until %v, want %v", bound, n, got[i].Start, oldest)
				}
				got = slices.Delete(got, i, i+1)
			}
			if !slices.Equal(got, want) {
				t.Errorf("bound %d, %d events: kept %d, want the newest %d in order", bound, n, len(got), len(want))
			}
		}
	}
}

func TestRecorderKeepsStateChanges(t *testing.T) {
	r := NewRecorder(10)
	r.Record(Event{Kind: Lost, Device: 3, Start: 5})
	for i := range 1000 {
		r.Record(Event{Kind: Exec, Start: time.Duration(i), End: time.Duration(i + 1)})
	}
	if !slices.ContainsFunc(r.Events(), func(e Event) bool { return e.Kind == Lost && e.Device == 3 }) {
		t.Error("executions pushed out a lost device")
	}
	for i := range 2 * rareEvents {
		r.Record(Event{Kind: RunBegin, Start: time.Duration(i)})
	}
	var begins []Event
	for _, e := range r.Events() {
		if e.Kind == RunBegin {
			begins = append(begins, e)
		}
	}
	if len(begins) != rareEvents || begins[0].Start != rareEvents {
		t.Errorf("kept %d state changes from %v, want the newest %d", len(begins), begins[0].Start, rareEvents)
	}
	if want := uint64(990 + rareEvents + 1); r.Dropped() != want {
		t.Errorf("dropped %d, want %d", r.Dropped(), want)
	}
}

func TestRecorderMemoryIsBounded(t *testing.T) {
	const bound = 100_000
	r := NewRecorder(bound)
	n := 0
	record := func(events int) {
		for range events {
			r.Record(Event{Kind: Exec, Start: time.Duration(n), End: time.Duration(n + 1)})
			n++
		}
	}
	record(bound + 1)
	// AllocsPerRun runs once to warm up and once to count: ten million in all.
	// It counts those of the whole process, of which the Go runtime makes a few.
	if allocs := testing.AllocsPerRun(1, func() { record(5_000_000) }); allocs > 100 {
		t.Errorf("a full recorder allocated %v times", allocs)
	}
	if got := len(r.Events()); got != bound+1 { // and the Missing event
		t.Errorf("keeps %d events, want %d", got, bound+1)
	}
}

func BenchmarkRecord(b *testing.B) {
	for _, bench := range []struct {
		name  string
		bound int
	}{{"8Ki", 1 << 13}, {"256Ki", 1 << 18}, {"1Mi", 1 << 20}} {
		b.Run(bench.name, func(b *testing.B) {
			r := NewRecorder(bench.bound)
			e := Event{Kind: Exec, Device: 1, Task: 7}
			for range bench.bound + 1 {
				r.Record(e)
			}
			b.ReportAllocs()
			for b.Loop() {
				e.Start++
				r.Record(e)
			}
		})
	}
}
