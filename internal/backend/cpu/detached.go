package cpu

import (
	"sync"
	"sync/atomic"

	"github.com/weft-run/weft/experimental/driver"
)

// detached holds the calls that were detached from their lanes. Each keeps the goroutine
// and the team that its lane had.
type detached struct {
	any   atomic.Bool // a call has been detached; while false, completions skips the lock
	mu    sync.Mutex
	calls map[driver.Wait]*lane
	done  []driver.Completion
	out   sync.WaitGroup
}

// Detach starts another goroutine for a lane, and another team for its device. The former
// goroutine ends with the call it runs, and so do the helpers of its team.
func (d *device) Detach(op driver.Wait, upto uint32) bool {
	old := d.byLane[op.Lane]
	a := &d.detached
	a.mu.Lock() // held until the call is listed: it may return at once
	if old == nil || !d.board.TakeOver(op.Lane, op.Seq, upto) {
		a.mu.Unlock()
		return false
	}
	if a.calls == nil {
		a.calls = make(map[driver.Wait]*lane)
	}
	a.calls[op] = old
	a.any.Store(true)
	old.replaced.Store(true)
	used := d.team.Load()
	a.out.Go(func() {
		<-old.end
		used.close()
	})
	a.mu.Unlock()
	fresh := newLane(d, op.Lane)
	for i, l := range d.lanes {
		if l == old {
			d.lanes[i] = fresh
		}
	}
	d.byLane[op.Lane] = fresh
	d.gather()
	go fresh.run()
	return true
}

// ended notes the completion of a detached call that has returned.
func (a *detached) ended(l *lane, c driver.Completion) {
	a.mu.Lock()
	delete(a.calls, driver.Wait{Lane: c.Lane, Seq: c.Seq})
	a.done = append(a.done, c)
	a.mu.Unlock()
	l.dev.wake()
}

func (a *detached) completions(dst []driver.Completion) int {
	if !a.any.Load() {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	n := copy(dst, a.done)
	a.done = a.done[:copy(a.done, a.done[n:])]
	return n
}

// stop has Call.Stopped of a detached call return true, and reports whether op is one.
func (a *detached) stop(op driver.Wait) bool {
	a.mu.Lock()
	l := a.calls[op]
	a.mu.Unlock()
	if l == nil {
		return false
	}
	l.mu.Lock()
	l.addStop(op.Seq)
	l.mu.Unlock()
	return true
}

// wait waits until all detached calls have returned.
func (a *detached) wait() { a.out.Wait() }
