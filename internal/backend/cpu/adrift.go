package cpu

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weft-run/weft/driver"
)

// adrift is the calls that were detached from their lanes: each has the goroutine, and
// the team, that the lane had.
type adrift struct {
	any   atomic.Bool // there was one
	mu    sync.Mutex
	calls map[driver.Wait]*lane
	done  []driver.Completion
	out   sync.WaitGroup
}

// Detach gives a lane, and its device, to other goroutines, and leaves to those it had
// the call they run.
func (d *device) Detach(op driver.Wait, upto uint32) bool {
	old := d.byLane[op.Lane]
	a := &d.adrift
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
	used := d.team.Load()
	alone := len(d.lanes) == 1 // else another lane may be using the team
	a.out.Go(func() {
		<-old.end
		if alone {
			used.close()
		}
	})
	a.mu.Unlock()
	if alone {
		d.teams = slices.DeleteFunc(d.teams, func(t *team) bool { return t == used })
	}
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

// ended takes in that a detached call has returned.
func (a *adrift) ended(l *lane, c driver.Completion) {
	a.mu.Lock()
	delete(a.calls, driver.Wait{Lane: c.Lane, Seq: c.Seq})
	a.done = append(a.done, c)
	a.mu.Unlock()
	l.dev.wake()
}

func (a *adrift) completions(dst []driver.Completion) int {
	if !a.any.Load() {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	n := copy(dst, a.done)
	a.done = a.done[:copy(a.done, a.done[n:])]
	return n
}

// stop has a detached call end when its kernel asks; false if there is none.
func (a *adrift) stop(op driver.Wait) bool {
	a.mu.Lock()
	l := a.calls[op]
	a.mu.Unlock()
	if l == nil {
		return false
	}
	l.mu.Lock()
	l.stopped = append(l.stopped, op.Seq)
	l.stops.Store(int32(len(l.stopped)))
	l.mu.Unlock()
	return true
}

// wait waits until all have returned.
func (a *adrift) wait() { a.out.Wait() }
