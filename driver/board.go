package driver

import (
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
// read. A lane's count only grows; operations that failed are kept by name.
type Board struct {
	lanes []progress
	begin time.Time

	mu       sync.Mutex
	cond     sync.Cond
	sleepers atomic.Int32
}

// progress sits on cache lines of its own: its writer must not slow down others.
type progress struct {
	_     [64]byte
	done  atomic.Uint32
	fails atomic.Uint32 // how many ever failed: 0 spares looking
	gone  atomic.Uint32 // what is not complete up to here never will be
	mu    sync.Mutex
	bad   map[uint32]struct{}
	_     [64]byte
}

// NewBoard returns a board of n lanes.
func NewBoard(n int) *Board {
	b := &Board{lanes: make([]progress, n), begin: time.Now()}
	b.cond.L = &b.mu
	return b
}

// Now is the time since the board was made, on a clock that never goes back.
func (b *Board) Now() time.Duration { return time.Since(b.begin) }

// Done notes that a lane completed everything up to seq; failed says that seq
// itself did not succeed.
func (b *Board) Done(l Lane, seq uint32, failed bool) {
	p := &b.lanes[l]
	if failed {
		p.mu.Lock()
		if p.bad == nil {
			p.bad = make(map[uint32]struct{})
		}
		p.bad[seq] = struct{}{}
		p.mu.Unlock()
		p.fails.Add(1)
	}
	p.done.Store(seq)
	if b.sleepers.Load() > 0 {
		b.mu.Lock()
		b.cond.Broadcast()
		b.mu.Unlock()
	}
}

// Abandon notes that nobody waits for a lane's operations up to seq any more:
// those that are not complete count as failed from now on, so that whoever waits
// for them goes on.
func (b *Board) Abandon(l Lane, seq uint32) {
	b.lanes[l].gone.Store(seq)
	b.Stir()
}

// State reports whether an operation is complete, and whether it succeeded.
func (b *Board) State(w Wait) (done, ok bool) {
	p := &b.lanes[w.Lane]
	if int32(p.done.Load()-w.Seq) < 0 {
		gone := p.gone.Load()
		return gone != 0 && int32(gone-w.Seq) >= 0, false
	}
	if p.fails.Load() == 0 {
		return true, true
	}
	p.mu.Lock()
	_, bad := p.bad[w.Seq]
	p.mu.Unlock()
	return true, !bad
}

// Sleep blocks until any lane moves, until ready returns true, or until Stir.
func (b *Board) Sleep(ready func() bool) {
	b.mu.Lock()
	b.sleepers.Add(1)
	for !ready() {
		b.cond.Wait()
	}
	b.sleepers.Add(-1)
	b.mu.Unlock()
}

// Stir wakes everyone who sleeps on the board, as when a device closes.
func (b *Board) Stir() {
	b.mu.Lock()
	b.cond.Broadcast()
	b.mu.Unlock()
}
