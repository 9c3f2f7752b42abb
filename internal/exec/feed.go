package exec

import (
	"sync"
	"time"

	"github.com/weft-run/weft/internal/engine"
)

// feedLength is the greatest number of notices a feed keeps, about 1 MiB: what a reader
// that looks ten times a second can take of 40,000 tasks a second.
const feedLength = 4096

// noticeBatch is the greatest number of notices the loop collects before it hands them to
// the feeds: one lock for many of them, and bounded memory for a step with many tasks.
const noticeBatch = 256

// Feed is what one reader is told. It keeps the newest notices, and counts those it had to
// drop: a reader that is slow, or does not read at all, never holds up the loop.
type Feed struct {
	x     *Executor
	kinds uint32       // which it wants, a bit for each
	run   engine.RunID // the run it is about, 0 for all; the loop's
	wake  chan struct{}

	mu     sync.Mutex // guards the fields below
	ring   []engine.Notice
	first  int // the oldest in ring, if that is full
	missed uint64
	ended  bool
}

// Kinds makes a set of kinds of notices.
func Kinds(kinds ...engine.NoticeKind) (set uint32) {
	for _, k := range kinds {
		set |= 1 << k
	}
	return set
}

// AllKinds is the set of all kinds.
const AllKinds = 1<<engine.NoticeKinds - 1

// Subscribe returns a feed of notices of some kinds from now on, until it is closed or the
// executor is.
func (x *Executor) Subscribe(kinds uint32) *Feed {
	f := x.newFeed(kinds)
	ready := make(chan struct{})
	if x.do(func(l *loop) { l.feed(f); close(ready) }) {
		<-ready
	} else {
		f.end()
	}
	return f
}

func (x *Executor) newFeed(kinds uint32) *Feed {
	return &Feed{x: x, kinds: kinds, wake: make(chan struct{}, 1)}
}

// Follow returns a feed of the notices about a job and its tasks, from the next time it is
// started. The caller closes it once the job has ended.
func (x *Executor) Follow(j *Job) *Feed {
	j.feed = x.newFeed(AllKinds)
	return j.feed
}

// Close ends the feed.
func (f *Feed) Close() {
	ran := make(chan struct{})
	if f.x.do(func(l *loop) { l.unfeed(f); close(ran) }) {
		<-ran
	}
	f.end()
}

// Ready returns a channel that has an element when there may be something to take, or the
// feed has ended.
func (f *Feed) Ready() <-chan struct{} { return f.wake }

// Take appends the notices that came since the last call to out and returns how many had
// to be dropped before them. After the feed has ended and all was taken, it returns false.
func (f *Feed) Take(out []engine.Notice) (all []engine.Notice, missed uint64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ok = !f.ended || len(f.ring) > 0 || f.missed > 0
	out = append(out, f.ring[f.first:]...)
	out = append(out, f.ring[:f.first]...)
	missed = f.missed
	clear(f.ring) // graphs and errors are not kept alive
	f.ring, f.first, f.missed = f.ring[:0], 0, 0
	return out, missed, ok
}

// put adds notices, and drops the oldest where there is no room.
func (f *Feed) put(ns []engine.Notice) {
	f.mu.Lock()
	put := false
	for i := range ns {
		n := &ns[i]
		if f.kinds>>n.Kind&1 == 0 || f.run != 0 && n.Run.ID != f.run {
			continue
		}
		put = true
		if len(f.ring) < feedLength {
			f.ring = append(f.ring, *n)
			continue
		}
		f.ring[f.first] = *n
		f.first = (f.first + 1) % feedLength
		f.missed++
	}
	f.mu.Unlock()
	if put {
		f.alert()
	}
}

// alert wakes the reader, if it sleeps.
func (f *Feed) alert() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *Feed) end() {
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.alert()
}

// feed adds a reader.
func (l *loop) feed(f *Feed) {
	if l.feeds = append(l.feeds, f); len(l.feeds) == 1 {
		l.engine.Watch(l.notice)
	}
}

// unfeed removes a reader, if it is there.
func (l *loop) unfeed(f *Feed) {
	for i := range l.feeds {
		if l.feeds[i] != f {
			continue
		}
		l.publish()
		l.feeds = append(l.feeds[:i:i], l.feeds[i+1:]...)
		if len(l.feeds) == 0 {
			l.engine.Watch(nil)
		}
		return
	}
}

// notice collects what the engine tells.
func (l *loop) notice(n *engine.Notice) {
	if l.notices = append(l.notices, *n); len(l.notices) == noticeBatch {
		l.publish()
	}
}

// publish hands what was collected to the feeds.
func (l *loop) publish() {
	for _, f := range l.feeds {
		f.put(l.notices)
	}
	clear(l.notices)
	l.notices = l.notices[:0]
}

// View is what an executor does at one time.
type View struct {
	At       time.Duration
	Devices  []engine.DeviceStatus
	Counts   Counts
	Runs     []engine.Progress // that have not ended, the oldest first
	Launches []engine.Running  // that devices run
}

// View returns what the executor does, with at most runs runs; after Close, that it does
// nothing.
func (x *Executor) View(runs int) (v View) {
	ran := make(chan struct{})
	if !x.do(func(l *loop) {
		defer close(ran)
		v.Devices, v.Counts = l.status()
		v.At, v.Launches = l.now(), l.engine.Launches()
		v.Runs = l.engine.Runs(v.At, runs)
	}) {
		<-x.ended
		v.Devices, v.Counts = x.last, x.counts
		v.At = v.Counts.Uptime
		return v
	}
	<-ran
	return v
}

// Progress returns how far a started job is; false if it has ended or not begun.
func (x *Executor) Progress(j *Job) (p engine.Progress, ok bool) {
	ran := make(chan struct{})
	if !x.do(func(l *loop) {
		defer close(ran)
		if j.id != 0 {
			p, ok = l.engine.Progress(l.now(), j.id)
		}
	}) {
		return p, false
	}
	<-ran
	return p, ok
}
