package serve

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
)

// A collection is begun only where so much was given back since the last one, by whomever that was begun, that it and
// what is in use exceed the limit, and once for all who take memory.
func TestGarbage(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // no collection but those that are asked for
	const limit = 1 << 20
	s := &Server{}
	s.garbage.limit, s.garbage.inUse, s.limits.Bodies = limit, &s.bodies, limit
	forced := func() int64 { return figures("/gc/cycles/forced:gc-cycles")[0] }
	h := s.hold(t.Context())
	pass := func(n int64) {
		t.Helper()
		if err := h.take(n); err != nil {
			t.Fatal(err)
		}
		h.release()
	}
	before := forced()
	const rounds = 100
	for range rounds { // fifty times the limit in all, and the collector keeps pace
		pass(limit / 2)
		runtime.GC()
	}
	if n := forced() - before; n != rounds {
		t.Errorf("%d collections, and %d were asked for", n, rounds)
	}
	// Without it one is begun, where it is needed.
	before = forced()
	s.garbage.mu.Lock()
	s.garbage.look()
	s.garbage.mu.Unlock()
	pass(limit / 2)
	if pass(limit / 2); forced() != before {
		t.Error("a collection before the limit is reached")
	}
	if pass(limit / 2); forced() != before+1 || s.garbage.bytes.Load() != limit/2 {
		t.Errorf("%d collections, %d bytes are left", forced()-before, s.garbage.bytes.Load())
	}
	// What is refused was never made.
	had := s.garbage.bytes.Load()
	for range rounds {
		if h.take(limit) == nil {
			t.Fatal("more than one may have")
		}
		h.release()
	}
	if s.garbage.bytes.Load() != had || s.bodies.Load() != 0 {
		t.Errorf("%d bytes of garbage, and there were %d", s.garbage.bytes.Load(), had)
	}
	// Many who need it share one.
	before = forced()
	s.garbage.bytes.Store(2 * limit)
	var all sync.WaitGroup
	for range 32 {
		all.Go(s.garbage.collect)
	}
	all.Wait()
	if n := forced() - before; n != 1 || s.garbage.bytes.Load() != 0 {
		t.Errorf("%d collections, %d bytes are left", n, s.garbage.bytes.Load())
	}
}

// Memory goes back to the system only where a heap is scattered, not because there is traffic, nor for what others have in it.
func TestScattered(t *testing.T) {
	const limit = 1600
	for _, c := range []struct {
		inUse, objects, heap, had int64
		want                      bool
	}{
		{inUse: 0, objects: 1620, heap: 1700, had: 1620},               // all of it is garbage
		{inUse: 1400, objects: 1620, heap: 1700, had: 220},             // little room
		{inUse: 1400, objects: 1620, heap: 1701, had: 220, want: true}, // much
		{inUse: 1400, objects: 11_620, heap: 21_700, had: 220},         // 10,000 of others, which have room for as much
		{inUse: 1400, objects: 11_620, heap: 21_701, had: 220, want: true},
		{inUse: 1600, objects: 1000, heap: 1700, had: 0}, // what is reserved is not all there yet
	} {
		var inUse atomic.Int64
		inUse.Store(c.inUse)
		g := garbage{limit: limit, inUse: &inUse}
		if got := g.scattered(c.objects, c.heap, c.had); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}
