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
	const limit = 64 << 20
	s := &Server{}
	s.garbage.limit, s.garbage.inUse, s.limits.Bodies = limit, &s.bodies, limit
	s.garbage.heap = func() []int64 { return make([]int64, 2) } // whatever other tests left behind
	forced := func() int {
		s.garbage.mu.Lock()
		defer s.garbage.mu.Unlock()
		return s.garbage.begun
	}
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
	if n := forced() - before; n != 0 {
		t.Errorf("%d collections beside the %d there were", n, rounds)
	}
	// Without it one is begun, where it is needed.
	runtime.GC()
	s.garbage.mu.Lock()
	s.garbage.look()
	s.garbage.mu.Unlock()
	if n := s.garbage.bytes(); n != 0 {
		t.Fatalf("%d bytes are left of what was collected", n)
	}
	before = forced()
	pass(limit / 2)
	if pass(limit / 2); forced() != before {
		t.Error("a collection before the limit is reached")
	}
	if pass(limit / 2); forced() != before+1 || s.garbage.bytes() != limit/2 {
		t.Errorf("%d collections, %d bytes are left", forced()-before, s.garbage.bytes())
	}
	// What is refused was never made.
	had := s.garbage.bytes()
	for range rounds {
		if h.take(limit) == nil {
			t.Fatal("more than one may have")
		}
		h.release()
	}
	if s.garbage.bytes() != had || s.bodies.Load() != 0 {
		t.Errorf("%d bytes of garbage, and there were %d", s.garbage.bytes(), had)
	}
	// Many who need it share one.
	before = forced()
	s.garbage.add(2 * limit)
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() { s.garbage.collect(1) })
	}
	all.Wait()
	if n := forced() - before; n != 1 || s.garbage.bytes() != 0 {
		t.Errorf("%d collections, %d bytes are left", n, s.garbage.bytes())
	}
}

// What is given back during a collection may stay until the next, whoever begins that: who takes memory waits for as many as
// it takes, and a mark that was made during one says nothing at its end.
func TestGarbageMeanwhile(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const limit = 1 << 20
	s := &Server{}
	g := &s.garbage
	g.limit, g.inUse = limit, &s.bodies
	g.heap = func() []int64 { return make([]int64, 2) }
	g.add(2 * limit)
	g.mu.Lock()
	g.ended = make(chan struct{})
	g.mu.Unlock()
	went := make(chan struct{})
	go func() { g.collect(1); close(went) }()
	g.add(2 * limit)
	g.mu.Lock() // the collection of another ends, which had but the first
	g.collected.Store(2 * limit)
	close(g.ended)
	g.ended = nil
	g.mu.Unlock()
	<-went
	if g.begun != 1 || g.bytes() != 0 {
		t.Errorf("%d collections, %d bytes are left", g.begun, g.bytes())
	}
	// What was given back after the last mark is not taken for collected.
	g.add(limit)
	g.given.Add(limit / 2)
	runtime.GC()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.look(); g.bytes() != limit/2 || len(g.marks) != 0 {
		t.Errorf("%d bytes are left, and %d marks", g.bytes(), len(g.marks))
	}
}

// Free memory between objects goes back to the system before who takes more could have the process take too much beside it.
func TestSpread(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const piece = 1 << 20
	free := func() int64 { return figures("/memory/classes/heap/free:bytes")[0] }
	s := &Server{}
	debug.FreeOSMemory()
	other := figures("/memory/classes/heap/objects:bytes")[0]
	limit := 64*piece + 2*other // also if it grows meanwhile
	s.garbage.limit, s.garbage.inUse, s.limits.Bodies = limit, &s.bodies, Size(2*limit)
	h := s.hold(t.Context())
	defer h.release()
	var kept [][]byte
	for range limit / piece {
		_, b := make([]byte, piece), make([]byte, piece)
		kept = append(kept, b)
	}
	if err := h.take(limit); err != nil {
		t.Fatal(err)
	}
	if n := free(); n > limit/8 {
		t.Errorf("%d bytes of free memory beside %d that are in use", n, limit)
	}
	runtime.KeepAlive(kept)
}

// Memory goes back to the system only where a heap is scattered, not because there is traffic, nor for what others have in it.
func TestScattered(t *testing.T) {
	const limit = 1600
	for _, c := range []struct {
		inUse, objects, free, had int64
		want                      bool
	}{
		{inUse: 0, objects: 1620, free: 80, had: 1620},               // all of it is garbage
		{inUse: 1400, objects: 1620, free: 80, had: 220},             // little room
		{inUse: 1400, objects: 1620, free: 81, had: 220, want: true}, // much
		{inUse: 1400, objects: 11_620, free: 10_080, had: 220},       // 10,000 of others, which have room for as much
		{inUse: 1400, objects: 11_620, free: 10_081, had: 220, want: true},
		{inUse: 1600, objects: 1000, free: 700, had: 0}, // what is reserved is not all there yet
	} {
		var inUse atomic.Int64
		inUse.Store(c.inUse)
		g := garbage{limit: limit, inUse: &inUse}
		g.given.Store(c.had)
		if got := g.scattered(c.objects, c.free); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}
