package driver

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Lane numbers an in-order queue of operations over all devices.
type Lane int32

// Wait names an operation that must be complete before another begins.
type Wait struct {
	Lane Lane
	Seq  uint32
}

// Board holds the progress of every lane, so that a device can wait directly for the
// operations of another. Any goroutine may read it. A lane's count only grows, and a
// failure is remembered until Forget says that no operation waits for it.
//
// Operations have 32-bit numbers that wrap. The board counts with 64 bits and reads a
// number as the nearest count that ends in those 32 bits, so a wait must name an
// operation less than 2³¹ back.
//
// A board can lie in memory that several processes map (see ShareBoard). What the
// process that made the board decides is in memory that the others only read.
type Board struct {
	lanes  []laneRecord
	far    []record // of lanes whose device is in another process; nil within one process
	begin  time.Time
	offset time.Duration // what the board's clock showed at begin
	shared *shared       // nil within one process

	mu       sync.Mutex
	cond     sync.Cond
	sleepers atomic.Int32
	rule     sync.Mutex // held to write what is ruled
}

// laneRecord is the state of a lane as written by the process that made the board. It holds no
// pointers, since processes share it.
type laneRecord struct {
	own record // what its device did, where that is in the same process
	// ruled is written in place of the device's own record when it may be lost: operations
	// up to ruled.done have ended, and those that were not complete then count as failed.
	ruled record
}

// NewBoard returns a board of n lanes.
func NewBoard(n int) *Board {
	b := &Board{lanes: make([]laneRecord, n), begin: time.Now()}
	b.cond.L = &b.mu
	return b
}

// boardKey is the key of the board in the context of a launch.
type boardKey struct{}

// Context returns a context that says that a launch on a lane of the board has it.
func (b *Board) Context() context.Context {
	return context.WithValue(context.Background(), boardKey{}, b)
}

// Launched reports whether ctx belongs to a launch on a lane of the board, or derives from
// one.
func (b *Board) Launched(ctx context.Context) bool { return ctx.Value(boardKey{}) == b }

// Lanes is the number of lanes.
func (b *Board) Lanes() int { return len(b.lanes) }

// Now is the time since the board was made, on a clock that never goes back.
func (b *Board) Now() time.Duration { return b.offset + time.Since(b.begin) }

// nearest returns the count closest to near that has seq as its lower half.
func nearest(near uint64, seq uint32) uint64 { return near + uint64(int64(int32(seq-uint32(near)))) }

// told returns what a lane's device tells, how far that says the lane is, and the
// count that numbers of its operations are near. A device in another process is
// believed as far as it was given operations.
func (b *Board) told(n Lane) (p *record, count, near uint64) {
	if b.far != nil && b.lanes[n].ruled.away.Load() != 0 {
		return b.toldFar(n)
	}
	p = &b.lanes[n].own
	count = p.done.Load() &^ claimed
	return p, count, count
}

func (b *Board) toldFar(n Lane) (p *record, count, near uint64) {
	p, near = &b.far[n], b.lanes[n].ruled.given.Load()
	if count = p.done.Load(); count > near {
		count = 0
	}
	return p, count, near
}

// Done notes that a lane completed everything up to seq; failed says that seq
// itself did not succeed. Each lane has one caller at a time, in the process that
// has its device.
func (b *Board) Done(n Lane, seq uint32, failed bool) {
	if b.shared != nil {
		b.shared.did()
	}
	p, _, near := b.told(n)
	at := nearest(near, seq)
	if failed {
		p.fail(at, at, b.lanes[n].ruled.forgot.Load())
	}
	p.done.Store(at)
	if b.sleepers.Load() > 0 {
		b.Stir()
	}
	if b.shared != nil {
		b.shared.moved()
	}
}

// Complete is Done for lanes that can be taken over: it notes nothing and returns false
// if this one was since the operation began.
func (b *Board) Complete(n Lane, seq uint32, failed bool) bool {
	if b.shared != nil {
		b.shared.did()
	}
	p, _, near := b.told(n)
	at := nearest(near, seq)
	if failed {
		b.rule.Lock()
		taken := p.done.Load() >= at
		if !taken {
			p.fail(at, at, b.lanes[n].ruled.forgot.Load())
			p.done.Store(at)
		}
		b.rule.Unlock()
		if taken {
			return false
		}
	} else if count := p.done.Load(); count >= at || !p.done.CompareAndSwap(count, at) {
		return false // the lane's own writer is here, so only TakeOver can have changed it
	}
	if b.sleepers.Load() > 0 {
		b.Stir()
	}
	if b.shared != nil {
		b.shared.moved()
	}
	return true
}

// TakeOver ends the operations running to upto of a lane on behalf of the device that does
// not: they count as failed, and the next to complete on the lane is the one after upto. It
// returns false and changes nothing if running is complete or is not the oldest operation.
func (b *Board) TakeOver(n Lane, running, upto uint32) bool {
	p, count, near := b.told(n)
	at := nearest(near, running)
	if max(count, b.lanes[n].ruled.done.Load()) != at-1 {
		return false
	}
	b.rule.Lock() // an operation that fails completes under it
	ok := p.done.CompareAndSwap(count, count|claimed)
	b.rule.Unlock()
	if ok {
		b.Abandon(n, upto) // before it counts as complete
		p.done.Store(nearest(near, upto))
	}
	return ok
}

// claimed marks record.done of a lane that is being taken over: the operation running
// does not complete any more. No count is as high.
const claimed = 1 << 63

// Abandon makes the lane's operations up to seq that are not complete count as failed,
// however they end, so that operations that wait for them go on. Only the process that
// made the board calls it, also for lanes of devices in other processes.
func (b *Board) Abandon(n Lane, seq uint32) {
	b.rule.Lock()
	r := &b.lanes[n].ruled
	_, count, near := b.told(n)
	at := nearest(max(near, r.done.Load()), seq)
	if count = max(count, r.done.Load()); at > count {
		r.fail(count+1, at, r.forgot.Load())
		r.done.Store(at)
	}
	b.rule.Unlock()
	b.Stir()
	if b.shared != nil {
		b.shared.moved()
	}
}

// Forget notes that no operation that waits for one of a lane's up to seq is in
// flight, or ever will be: failures up to there need not be remembered.
func (b *Board) Forget(n Lane, seq uint32) {
	b.rule.Lock()
	defer b.rule.Unlock()
	r := &b.lanes[n].ruled
	_, count, near := b.told(n)
	if at := nearest(max(near, r.done.Load()), seq); at > r.forgot.Load() && at <= max(count, r.done.Load()) {
		r.forgot.Store(at)
	}
}

// Count returns the number of the last operation a lane completed.
func (b *Board) Count(n Lane) uint32 {
	_, count, _ := b.told(n)
	return uint32(max(count, b.lanes[n].ruled.done.Load()))
}

// State reports whether an operation is complete, and whether it succeeded.
func (b *Board) State(w Wait) (done, ok bool) {
	p, count, near := b.told(w.Lane)
	r := &b.lanes[w.Lane].ruled
	at := nearest(near, w.Seq)
	if at > count && at > r.done.Load() {
		return false, false
	}
	if b.shared != nil {
		b.shared.saw()
	}
	if p.clean() && r.clean() {
		return true, true
	}
	return true, !p.has(at) && !r.has(at)
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

// Stir wakes all goroutines of this process that sleep on the board, as when a device
// closes.
func (b *Board) Stir() {
	b.mu.Lock()
	b.cond.Broadcast()
	b.mu.Unlock()
}

// Spare reports whether this process has enough cores, eight, for one of them to poll for
// what others do: to be woken takes longer than a small kernel. Both a container's quota
// and the number of cores present limit what it counts.
func Spare() bool { return min(runtime.GOMAXPROCS(0), runtime.NumCPU()) >= 8 }
