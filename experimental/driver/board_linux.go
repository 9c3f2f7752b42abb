package driver

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weft-run/weft/internal/futex"
)

// Members is the largest number of processes that can share a board: farHead.asleep has one
// bit for each.
const Members = 64

// boardHead begins the memory of a shared board that only its maker writes.
type boardHead struct {
	lanes uint32
	begin int64 // by futex.Clock
	_     [112]byte
}

// farHead begins the memory of a shared board that all members write.
type farHead struct {
	moves  atomic.Uint32 // counts changes while a process sleeps; processes sleep on it
	asleep atomic.Uint64 // a bit for each member that sleeps
	_      [112]byte
}

// shared is the state of one process for a board that it shares with others.
//
// Goroutines that sleep wait for Board.cond as on any board. While there are some, one
// more goroutine of their process sleeps on the shared word and wakes them when that
// changes.
type shared struct {
	head   *farHead
	member uint64 // this process's bit
	// done counts what this process completed. Where one of its goroutines goes
	// on from what another process completed, which in turn went on from what a
	// goroutine here did, Go sees no order between the two but by this.
	done atomic.Uint64

	mu       sync.Mutex
	sleepers int
	watched  bool
	watchers sync.WaitGroup
}

// BoardBytes is the memory a shared board of n lanes takes: what only its maker
// writes, and what all members do.
func BoardBytes(n int) (own, far int64) {
	own = int64(unsafe.Sizeof(boardHead{})) + int64(n)*int64(unsafe.Sizeof(laneRecord{}))
	far = int64(unsafe.Sizeof(farHead{})) + int64(n)*int64(unsafe.Sizeof(record{}))
	return own, far
}

// ShareBoard makes a board of n lanes in memory that other processes map too, own
// only to read, and join. The caller is member 0. Both are zero, aligned to a cache
// line, as large as BoardBytes says and outlive the board.
func ShareBoard(own, far []byte, n int) *Board {
	h := (*boardHead)(unsafe.Pointer(&own[0]))
	h.lanes, h.begin = uint32(n), int64(futex.Clock())
	return boardOn(own, far, 0)
}

// JoinBoard returns the board another process made in the memory that own and far
// map, for a member with a number from 1 on.
func JoinBoard(own, far []byte, member int) (*Board, error) {
	least, _ := BoardBytes(0)
	if int64(len(own)) < least || member < 1 || member >= Members {
		return nil, fmt.Errorf("driver: join a board of %d bytes as member %d of %d", len(own), member, Members)
	}
	n := (*boardHead)(unsafe.Pointer(&own[0])).lanes
	if a, b := BoardBytes(int(n)); int64(len(own)) < a || int64(len(far)) < b {
		return nil, fmt.Errorf("driver: join a board of %d lanes in %d and %d bytes", n, len(own), len(far))
	}
	return boardOn(own, far, member), nil
}

func boardOn(own, far []byte, member int) *Board {
	h, f := (*boardHead)(unsafe.Pointer(&own[0])), (*farHead)(unsafe.Pointer(&far[0]))
	begin, clock := sameMoment()
	b := &Board{begin: begin, offset: clock - time.Duration(h.begin), shared: &shared{head: f, member: 1 << member}}
	b.lanes = unsafe.Slice((*laneRecord)(unsafe.Pointer(&own[unsafe.Sizeof(*h)])), h.lanes)
	b.far = unsafe.Slice((*record)(unsafe.Pointer(&far[unsafe.Sizeof(*f)])), h.lanes)
	b.cond.L = &b.mu
	return b
}

// Away notes, in the process that made the board and before the lane is used, that
// a lane's device is in another process.
func (b *Board) Away(n Lane) {
	b.rule.Lock()
	defer b.rule.Unlock()
	l := &b.lanes[n]
	count := l.own.done.Load()
	l.ruled.given.Store(count)
	b.far[n].done.Store(count)
	l.ruled.away.Store(1)
}

// Given notes, in the process that made the board, that the device of a lane in
// another process is about to get operations up to seq: it is believed to have done
// no more.
func (b *Board) Given(n Lane, seq uint32) {
	r := &b.lanes[n].ruled
	r.given.Store(nearest(r.given.Load(), seq))
}

// Reclaim takes a lane back from a process that has ended, for the next one to go on
// with. If it wrote what no device can have written, that is discarded, and all operations
// of the lane that are not forgotten count as failed.
func (b *Board) Reclaim(n Lane) {
	b.rule.Lock()
	defer b.rule.Unlock()
	p, r := &b.far[n], &b.lanes[n].ruled
	given := r.given.Load()
	if p.sane(given) {
		return
	}
	at := max(given, r.done.Load())
	r.fail(r.forgot.Load()+1, at, r.forgot.Load())
	r.done.Store(at)
	p.next.Store(0)
	p.from.Store(0)
	p.done.Store(0)
}

// sameMoment reads Go's clock and the clock that all processes share at nearly the same
// time. A thread can be interrupted between the two readings, and the processes' clocks
// would differ by that time from then on, so it takes the quickest of ten tries.
func sameMoment() (begin time.Time, clock time.Duration) {
	best := time.Duration(1<<63 - 1)
	for range 10 {
		t, c := time.Now(), futex.Clock()
		if took := time.Since(t); took < best {
			best, begin, clock = took, t, c
		}
	}
	return begin, clock
}

// Retire waits until no goroutine of the board reads its memory. The board must not be
// used after Retire was called.
func (b *Board) Retire() {
	if b.shared != nil {
		b.shared.watchers.Wait()
	}
}

// Leave forgets a member that ended without a word.
func (b *Board) Leave(member int) { b.shared.head.asleep.And(^(1 << member)) }

func (s *shared) did() { s.done.Add(1) }
func (s *shared) saw() { s.done.Load() }

// moved tells other processes that a lane moved, if any of them sleeps.
func (s *shared) moved() {
	if s.head.asleep.Load()&^s.member != 0 {
		s.head.moves.Add(1)
		futex.Wake(&s.head.moves)
	}
}

// enter makes sure that a watcher wakes the sleepers of this process when another process
// changes the board.
func (s *shared) enter(b *Board) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sleepers++
	if !s.watched {
		s.watched = true
		s.watchers.Go(func() { s.watch(b) })
	}
}

func (s *shared) leave() {
	s.mu.Lock()
	s.sleepers--
	s.mu.Unlock()
}

// linger is the time that the watcher stays after the last sleeper. Sleeps come in bursts,
// and the watcher is then not started anew for each.
const linger = 10 * time.Millisecond

// watch wakes sleepers of this process when another process changes the board.
func (s *shared) watch(b *Board) {
	for {
		s.mu.Lock()
		idle := s.sleepers == 0
		if idle {
			s.watched = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		n := s.head.moves.Load()
		// From here on others count their moves. What moved before is seen by
		// the sleepers that Stir has look again.
		s.head.asleep.Or(s.member)
		b.Stir()
		futex.Wait(&s.head.moves, n, linger)
		s.head.asleep.And(^s.member)
		b.Stir()
	}
}
