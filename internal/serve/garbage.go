package serve

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
)

// garbage is memory of bodies and answers that was given back and is not collected yet. The collector of Go would wait until
// there is as much of it as there is memory in use, and the server take twice what its limits say. So a collection is
// begun once what is in use and the garbage together exceed the limit by a part. What the collector has done by itself
// counts: a server that collects often enough anyway is never made to.
type garbage struct {
	limit int64         // of what is in use, in bytes
	inUse *atomic.Int64 // bytes of bodies and answers
	bytes atomic.Int64  // given back since the last collection, by whomever that was begun

	mu     sync.Mutex
	cycles uint64        // collections that had ended at the last look
	ended  chan struct{} // closed when the collection that was begun here has ended; nil for none
}

// Parts of the limit.
const (
	collectAfter = 64 // exceeding it by this part begins a collection
	waitAfter    = 32 // and by this has those who take memory wait for its end
	scavengeOver = 16 // heap beyond it by this part, between what is in use, goes back to the system
	lookAfter    = 64 // given back between two looks at what the collector has done
)

// add counts memory that was given back.
func (g *garbage) add(n int64) {
	if was, step := g.bytes.Load(), max(g.limit/lookAfter, 1); n > 0 && (was+n)/step != was/step {
		g.mu.Lock()
		g.look()
		g.mu.Unlock()
	}
	g.bytes.Add(max(n, 0))
}

// look forgets what a collection has collected. What is given back while one runs may stay until the next, and is
// forgotten all the same: a collection takes milliseconds. g.mu is held.
func (g *garbage) look() {
	had := g.bytes.Load()
	if now := uint64(figures("/gc/cycles/total:gc-cycles")[0]); g.ended == nil && now != g.cycles {
		g.cycles = now
		g.bytes.Add(-had)
	}
}

// exceeds reports whether what is in use and the garbage exceed the limit by a part of it.
func (g *garbage) exceeds(part int64) bool {
	return g.inUse.Load()+g.bytes.Load() > g.limit+g.limit/part
}

// collect has garbage collected if there is too much of it, and waits for that if there is far too much.
func (g *garbage) collect() {
	if !g.exceeds(collectAfter) {
		return
	}
	g.mu.Lock()
	if g.look(); g.ended == nil && g.exceeds(collectAfter) {
		g.ended = make(chan struct{})
		go g.run()
	}
	ended := g.ended
	g.mu.Unlock()
	if ended != nil && g.exceeds(waitAfter) {
		<-ended
	}
}

// run is a collection.
func (g *garbage) run() {
	had := g.bytes.Load()
	heap := figures("/memory/classes/heap/objects:bytes", "/memory/classes/heap/unused:bytes", "/memory/classes/heap/free:bytes")
	if g.scattered(heap[0], heap[0]+heap[1]+heap[2], had) {
		debug.FreeOSMemory() // which collects first
	} else {
		runtime.GC()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bytes.Add(-had)
	g.cycles = uint64(figures("/gc/cycles/total:gc-cycles")[0])
	close(g.ended)
	g.ended = nil
}

// scattered reports whether a heap has so much room between its objects that it takes more memory than it may, as when
// bodies and answers are of all sizes. Whatever else is in it may have as much garbage as there is of it, as the
// collector of Go lets it.
func (g *garbage) scattered(objects, heap, had int64) bool {
	other := max(objects-g.inUse.Load()-had, 0)
	return heap > g.limit+g.limit/scavengeOver+2*other
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
