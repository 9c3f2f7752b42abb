package driver

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Lane numbers an in-order queue of operations over all devices.
type Lane int32

// Wait names an operation another must not begin before.
type Wait struct {
	Lane Lane
	Seq  uint32
}

// Board shows how far every lane is, so that a device can wait for another's
// operations without anybody in between. Each lane has one writer; all may
// read. A lane's count only grows; which of the last window operations failed
// is kept as well. A board can lie in memory that several processes map (see
// ShareBoard).
type Board struct {
	lanes  []progress
	begin  time.Time
	offset time.Duration // what the board's clock showed at begin
	shared *shared       // nil within one process

	mu       sync.Mutex
	cond     sync.Cond
	sleepers atomic.Int32
}

// window is how many operations of a lane back a failure is remembered: far more
// than are ever in flight.
const window = 1 << 14

// progress is one lane. It sits on cache lines of its own, since its writer must
// not slow down others, and holds no pointers, since processes share it.
type progress struct {
	_     [64]byte
	done  atomic.Uint32
	fails atomic.Uint32 // how many ever failed: 0 spares looking
	gone  atomic.Uint32 // what is not complete up to here never will be
	_     [52]byte
	bad   [window / 32]atomic.Uint32 // a bit for each failed operation, by number modulo window
}

// NewBoard returns a board of n lanes.
func NewBoard(n int) *Board {
	b := &Board{lanes: make([]progress, n), begin: time.Now()}
	b.cond.L = &b.mu
	return b
}

// Lanes is the number of lanes.
func (b *Board) Lanes() int { return len(b.lanes) }

// Now is the time since the board was made, on a clock that never goes back.
func (b *Board) Now() time.Duration { return b.offset + time.Since(b.begin) }

// Done notes that a lane completed everything up to seq; failed says that seq
// itself did not succeed.
func (b *Board) Done(l Lane, seq uint32, failed bool) {
	p := &b.lanes[l]
	if b.shared != nil {
		b.shared.did()
	}
	if failed {
		p.fails.Add(1)
	}
	if p.fails.Load() > 0 {
		p.mark(seq, failed)
	}
	p.done.Store(seq)
	if b.sleepers.Load() > 0 {
		b.Stir()
	}
	if b.shared != nil {
		b.shared.moved()
	}
}

// mark writes the bits of the operations up to seq that were not complete, over
// those of a window ago.
func (p *progress) mark(seq uint32, failed bool) {
	gone := p.gone.Load()
	for s := p.done.Load() + 1; ; s++ {
		word, bit := &p.bad[s%window/32], uint32(1)<<(s%32)
		if s == seq && failed || gone != 0 && int32(gone-s) >= 0 {
			word.Or(bit)
		} else if word.Load()&bit != 0 {
			word.And(^bit)
		}
		if s == seq {
			return
		}
	}
}

// Abandon notes that nobody waits for a lane's operations up to seq any more:
// those that are not complete count as failed from now on, whatever becomes of them,
// so that whoever waits for them goes on.
func (b *Board) Abandon(l Lane, seq uint32) {
	b.lanes[l].fails.Add(1)
	b.lanes[l].gone.Store(seq)
	b.Stir()
	if b.shared != nil {
		b.shared.moved()
	}
}

// Count returns the number of the last operation a lane completed.
func (b *Board) Count(l Lane) uint32 { return b.lanes[l].done.Load() }

// State reports whether an operation is complete, and whether it succeeded.
func (b *Board) State(w Wait) (done, ok bool) {
	p := &b.lanes[w.Lane]
	if int32(p.done.Load()-w.Seq) < 0 {
		gone := p.gone.Load()
		return gone != 0 && int32(gone-w.Seq) >= 0, false
	}
	if b.shared != nil {
		b.shared.saw()
	}
	if p.fails.Load() == 0 {
		return true, true
	}
	return true, p.bad[w.Seq%window/32].Load()&(1<<(w.Seq%32)) == 0
}

// Sleep blocks until any lane moves, until ready returns true, or until Stir.
func (b *Board) Sleep(ready func() bool) {
	if b.shared != nil {
		b.shared.enter(b)
	}
	b.mu.Lock()
	b.sleepers.Add(1)
	for !ready() {
		b.cond.Wait()
	}
	b.sleepers.Add(-1)
	b.mu.Unlock()
	if b.shared != nil {
		b.shared.leave()
	}
}

// Stir wakes everyone in this process who sleeps on the board, as when a device
// closes.
func (b *Board) Stir() {
	b.mu.Lock()
	b.cond.Broadcast()
	b.mu.Unlock()
}

// Spare reports whether this process has so many cores that one of them may look all
// the time for what others do, since being woken takes longer than a small kernel. A
// container's quota counts, and so do cores that are not there.
func Spare() bool { return min(runtime.GOMAXPROCS(0), runtime.NumCPU()) >= 8 }
