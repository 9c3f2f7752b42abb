package driver

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weft-run/weft/internal/futex"
)

// Members is how many processes can use one board.
const Members = 64

// boardHead begins the memory of a shared board.
type boardHead struct {
	lanes  uint32
	moves  atomic.Uint32 // counts when somebody elsewhere sleeps; slept on
	asleep atomic.Uint64 // a bit for each member that sleeps
	begin  int64         // by futex.Clock
	_      [104]byte
}

// shared is what a process knows of a board it shares.
//
// Who sleeps in a process waits for Board.cond as on any board. While somebody
// does, one goroutine of that process sleeps on the shared word and passes on
// what it hears.
type shared struct {
	head   *boardHead
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

// BoardBytes is the memory a shared board of n lanes takes.
func BoardBytes(n int) int64 {
	return int64(unsafe.Sizeof(boardHead{})) + int64(n)*int64(unsafe.Sizeof(progress{}))
}

// ShareBoard makes a board of n lanes in mem, which other processes map too and
// join. The caller is member 0. mem is zero, aligned to a cache line, has
// BoardBytes and outlives the board.
func ShareBoard(mem []byte, n int) *Board {
	h := (*boardHead)(unsafe.Pointer(&mem[0]))
	h.lanes, h.begin = uint32(n), int64(futex.Clock())
	return boardOn(mem, h, 0)
}

// JoinBoard returns the board another process made in the memory that mem maps,
// for a member with a number from 1 on.
func JoinBoard(mem []byte, member int) (*Board, error) {
	if int64(len(mem)) < BoardBytes(0) || member < 1 || member >= Members {
		return nil, fmt.Errorf("driver: join a board of %d bytes as member %d of %d", len(mem), member, Members)
	}
	h := (*boardHead)(unsafe.Pointer(&mem[0]))
	if int64(len(mem)) < BoardBytes(int(h.lanes)) {
		return nil, fmt.Errorf("driver: join a board of %d lanes in %d bytes", h.lanes, len(mem))
	}
	return boardOn(mem, h, member), nil
}

func boardOn(mem []byte, h *boardHead, member int) *Board {
	begin, clock := sameMoment()
	b := &Board{begin: begin, offset: clock - time.Duration(h.begin), shared: &shared{head: h, member: 1 << member}}
	b.lanes = unsafe.Slice((*progress)(unsafe.Pointer(&mem[unsafe.Sizeof(*h)])), h.lanes)
	b.cond.L = &b.mu
	return b
}

// sameMoment reads Go's clock and the one all processes read alike at once. A thread
// can be interrupted between the two, and what came between would set the clocks of
// processes apart for good: so of several tries it takes the quickest.
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

// Retire waits until nothing of this process looks at the board's memory any more
// by itself. Nobody may use the board after it was called.
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

// enter sees to it that sleepers of this process hear of the others.
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

// linger is how long the watcher stays after the last sleeper: sleeps come in
// bursts.
const linger = 10 * time.Millisecond

// watch passes on moves of other processes while anyone here sleeps.
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
