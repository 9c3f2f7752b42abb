package serve

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"weak"
)

// garbage is memory of bodies and answers that was given back and is not collected yet. The collector of Go would wait until
// there is as much of it as there is memory in use, and the server take twice what its limits say. So a collection is
// begun once what is in use and the garbage together exceed the limit by a part. What the collector has done by itself
// counts: a server that collects often enough anyway is never made to.
//
// What was collected has room for what comes next only where that fits, as when bodies and answers are of all sizes: it
// stays free memory of the process, and the rest is taken from the system beside it. So the free memory goes back to the
// system before somebody takes more, if the process would have too much with that.
type garbage struct {
	limit     int64          // of what is in use, in bytes
	inUse     *atomic.Int64  // bytes of bodies and answers
	given     atomic.Int64   // bytes given back, ever
	collected atomic.Int64   // of these
	heap      func() []int64 // bytes of its objects and its free memory; nil for that of the process

	mu    sync.Mutex
	marks []mark        // the oldest first
	ended chan struct{} // closed when the collection that was begun here has ended; nil for none
	begun int           // collections, for tests
}

// mark is an object that nobody has. The first collection that begins after it was made takes it, and with it all that was
// given back before.
type mark struct {
	object weak.Pointer[marked]
	given  int64 // until it was made
}

type marked struct{ _ *byte } // a pointer, or the allocator might put it beside an object that stays

// Parts of the limit.
const (
	collectAfter = 64 // exceeding it by this part begins a collection
	waitAfter    = 32 // and by this has those who take memory wait for its end
	scatterAfter = 16 // memory beyond it by this part that is free goes back to the system
	markAfter    = 64 // given back between two marks
)

// add counts memory that was given back, and that nobody has.
func (g *garbage) add(n int64) {
	if n <= 0 {
		return
	}
	now, step := g.given.Add(n), max(g.limit/markAfter, 1)
	if now/step == (now-n)/step {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.look()
	g.marks = append(g.marks, mark{weak.Make(new(marked)), now})
}

// look finds what was collected since the last look. g.mu is held.
func (g *garbage) look() {
	for len(g.marks) > 0 && (g.marks[0].given <= g.collected.Load() || g.marks[0].object.Value() == nil) {
		g.collected.Store(max(g.collected.Load(), g.marks[0].given))
		g.marks = g.marks[1:]
	}
}

// bytes returns how much there is.
func (g *garbage) bytes() int64 { return max(g.given.Load()-g.collected.Load(), 0) }

// exceeds reports whether what is in use and the garbage exceed the limit by a part of it.
func (g *garbage) exceeds(part int64) bool {
	return g.inUse.Load()+g.bytes() > g.limit+g.limit/part
}

// collect is called by those who took n bytes, before they are made. It has garbage collected if there is too much of it,
// and waits for that if there is far too much: also for a second collection, if much was given back during the first.
func (g *garbage) collect(n int64) {
	spread := g.spread(n)
	for spread || g.exceeds(collectAfter) {
		g.mu.Lock()
		g.look()
		begun := g.ended == nil && (spread || g.exceeds(collectAfter))
		if begun {
			g.ended = make(chan struct{})
			g.begun++
			go g.run(spread)
		}
		ended := g.ended
		g.mu.Unlock()
		if ended == nil || !spread && !g.exceeds(waitAfter) {
			return
		}
		<-ended
		spread = !begun && g.spread(n) // which the collection of another may have left
	}
}

// run is a collection, after which free memory goes back to the system if it is spread.
func (g *garbage) run(spread bool) {
	had := g.given.Load()
	if spread || g.spread(0) {
		debug.FreeOSMemory() // which collects first
	} else {
		runtime.GC()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.collected.Store(max(g.collected.Load(), had))
	close(g.ended)
	g.ended = nil
}

// spread reports whether the process has so much free memory that it has too much if n bytes more do not fit there.
func (g *garbage) spread(n int64) bool {
	if n > 0 && n <= firstBytes { // which fit anywhere
		return false
	}
	heap := g.heap
	if heap == nil {
		heap = processHeap
	}
	now := heap()
	return g.scattered(now[0], now[1]+n)
}

// scattered reports whether a heap of objects and of free memory is larger than it may be. Whatever else is in it may have as
// much garbage as there is of it, as the collector of Go lets it.
func (g *garbage) scattered(objects, free int64) bool {
	other := max(objects-g.inUse.Load()-g.bytes(), 0)
	return objects+free > g.limit+g.limit/scatterAfter+2*other
}

func processHeap() []int64 {
	return figures("/memory/classes/heap/objects:bytes", "/memory/classes/heap/free:bytes")
}

// figures reads figures of package metrics, which takes less than a microsecond.
func figures(names ...string) []int64 {
	samples := make([]metrics.Sample, len(names))
	for i, name := range names {
		samples[i].Name = name
	}
	metrics.Read(samples)
	out := make([]int64, len(names))
	for i, s := range samples {
		out[i] = int64(s.Value.Uint64())
	}
	return out
}
