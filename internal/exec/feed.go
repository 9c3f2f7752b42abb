package exec

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/internal/engine"
)

// feedLength is the greatest number of notices a feed keeps, about 1 MiB: what a reader
// that looks ten times a second can take of 40,000 tasks a second.
const feedLength = 4096

// noticeBatch is the greatest number of notices the loop collects before it hands them to
// the feeds: one lock for many of them, and bounded memory for a step with many tasks.
const noticeBatch = 256

// Feed is the stream of notices to one reader. It keeps the newest notices, and counts those it had to
// drop: a reader that is slow, or does not read at all, never holds up the loop. Feeds of the
// same kinds share what they keep, so that the loop's work does not grow with the readers.
type Feed struct {
	x     *Executor
	kinds uint32       // which it wants, a bit for each
	run   engine.RunID // the run it is about, 0 for all; the loop's
	wake  chan struct{}

	mu    sync.Mutex // guards the fields below
	kept  *kept      // nil until the loop has it
	at    uint64     // number of the next notice to take
	ended bool

	asleep bool // it is in kept.sleep, whose locks guard this
	// left says that the loop has taken it out of kept.feeds, and until which number it had
	// been counted for; kept.mu guards both.
	left  bool
	until uint64
}

// kept is the newest notices of some kinds, of all runs or of one, for the feeds that want
// these. Notices are numbered from 0.
type kept struct {
	kinds uint32
	one   bool           // of one run
	feeds map[*Feed]bool // the loop's

	mu    sync.RWMutex // guards the fields below; readers change what is theirs alone
	ring  []engine.Notice
	left  []atomic.Int32 // feeds that have not taken each of them; the last clears it
	next  uint64         // number of the next notice
	sleep []*Feed        // feeds that have taken all
	awake sync.Mutex     // guards sleep among readers
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

// Close ends the feed. What came before can still be taken of one that Follow returned.
func (f *Feed) Close() {
	ran := make(chan struct{})
	if f.x.do(func(l *loop) { l.unfeed(f); close(ran) }) {
		<-ran
	}
	f.mu.Lock()
	if f.kept != nil && !f.kept.one {
		f.kept.leave(f)
		f.kept = nil
	}
	f.mu.Unlock()
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
	before := len(out)
	if f.kept != nil {
		out, missed = f.kept.take(f, out)
	}
	return out, missed, !f.ended || len(out) > before || missed > 0
}

// forFeed returns the number of the first notice that is not for a feed; mu is held.
func (k *kept) forFeed(f *Feed) uint64 {
	if f.left {
		return min(f.until, k.next)
	}
	return k.next
}

// take appends what a feed has not taken.
func (k *kept) take(f *Feed, out []engine.Notice) (all []engine.Notice, missed uint64) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if oldest := k.next - uint64(len(k.ring)); f.at < oldest {
		missed, f.at = oldest-f.at, oldest
	}
	for ; f.at < k.forFeed(f); f.at++ {
		i := f.at % feedLength
		out = append(out, k.ring[i])
		if k.left[i].Add(-1) == 0 {
			k.ring[i] = engine.Notice{} // graphs and errors are not kept alive
		}
	}
	k.awake.Lock()
	defer k.awake.Unlock()
	if !f.asleep {
		f.asleep = true
		k.sleep = append(k.sleep, f)
	}
	return out, missed
}

// leave is take for a feed whose reader is gone: it drops the notices.
func (k *kept) leave(f *Feed) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for f.at = max(f.at, k.next-uint64(len(k.ring))); f.at < k.forFeed(f); f.at++ {
		if i := f.at % feedLength; k.left[i].Add(-1) == 0 {
			k.ring[i] = engine.Notice{}
		}
	}
}

// put adds notices of the kinds that are wanted in the place of the oldest, and wakes the
// feeds that had taken all.
func (k *kept) put(ns []engine.Notice) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.next
	for i := range ns {
		if k.kinds>>ns[i].Kind&1 == 0 {
			continue
		}
		if at := k.next % feedLength; len(k.ring) < feedLength {
			k.ring, k.left = append(k.ring, ns[i]), append(k.left, atomic.Int32{})
		} else {
			k.ring[at] = ns[i]
		}
		k.left[k.next%feedLength].Store(int32(len(k.feeds)))
		k.next++
	}
	if k.next == before {
		return
	}
	for _, f := range k.sleep {
		f.asleep = false
		f.alert()
	}
	clear(k.sleep)
	k.sleep = k.sleep[:0]
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

// feeds are the readers of an executor, by what they want.
type feeds struct {
	all   []*kept                // of all runs, each of other kinds
	runs  map[engine.RunID]*kept // of one run each
	count int                    // feeds
	// looked counts the notices that were looked at for each kept: what readers cost the loop.
	looked uint64
}

// find returns the entry kept for a feed, or nil.
func (fs *feeds) find(f *Feed) *kept {
	if f.run != 0 {
		return fs.runs[f.run]
	}
	for _, k := range fs.all {
		if k.kinds == f.kinds {
			return k
		}
	}
	return nil
}

// feed adds a reader.
func (l *loop) feed(f *Feed) {
	if l.publish(); l.feeds.count == 0 {
		l.engine.Watch(l.notice)
	}
	l.feeds.count++
	k := l.feeds.find(f)
	if k == nil {
		k = &kept{kinds: f.kinds, one: f.run != 0, feeds: make(map[*Feed]bool)}
		switch {
		case f.run == 0:
			l.feeds.all = append(l.feeds.all, k)
		case l.feeds.runs == nil:
			l.feeds.runs = make(map[engine.RunID]*kept)
			fallthrough
		default:
			l.feeds.runs[f.run] = k
		}
	}
	k.feeds[f] = true
	f.mu.Lock()
	defer f.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	f.kept, f.at, f.asleep = k, k.next, true
	k.sleep = append(k.sleep, f)
}

// unfeed removes a reader, if it is there.
func (l *loop) unfeed(f *Feed) {
	k := l.feeds.find(f)
	if k == nil || !k.feeds[f] {
		return
	}
	l.publish()
	k.mu.Lock()
	f.left, f.until = true, k.next
	k.mu.Unlock()
	if delete(k.feeds, f); len(k.feeds) == 0 {
		if f.run != 0 {
			delete(l.feeds.runs, f.run)
		}
		l.feeds.all = slices.DeleteFunc(l.feeds.all, func(o *kept) bool { return o == k })
	}
	if l.feeds.count--; l.feeds.count == 0 {
		l.engine.Watch(nil)
	}
}

// endFeeds tells all readers that there will be no more.
func (l *loop) endFeeds() {
	for _, k := range l.feeds.all {
		k.end()
	}
	for _, k := range l.feeds.runs {
		k.end()
	}
}

func (k *kept) end() {
	for f := range k.feeds {
		f.end()
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
	for _, k := range l.feeds.all {
		l.feeds.looked += uint64(len(l.notices))
		k.put(l.notices)
	}
	for lo := 0; lo < len(l.notices) && len(l.feeds.runs) > 0; {
		hi, run := lo+1, l.notices[lo].Run.ID
		for hi < len(l.notices) && l.notices[hi].Run.ID == run {
			hi++
		}
		if k := l.feeds.runs[run]; k != nil {
			l.feeds.looked += uint64(hi - lo)
			k.put(l.notices[lo:hi])
		}
		lo = hi
	}
	clear(l.notices)
	l.notices = l.notices[:0]
}

// Activity is the activity of an executor at one time.
type Activity struct {
	At       time.Duration
	Devices  []engine.DeviceStatus
	Counts   Counts
	Runs     []engine.Progress // that have not ended, the oldest first
	Launches []engine.Running  // that devices run
}

// Activity returns what the executor does, with at most runs runs; after Close it is empty.
func (x *Executor) Activity(runs int) (v Activity) {
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

// Progress returns the progress of a started job; false if it has ended or not begun.
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
