package pool

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/fault"
	"github.com/weft-run/weft/task/internal/gate"
)

// Body is the function of a task. The record of a task and its body are usually one
// allocation.
type Body interface {
	// Run calls the function, once for every try, and turns a panic into an error.
	Run(t *Task) error
	// Blame is the error of this task, which is not run since dep failed. It is called with
	// the lock of the pool held and calls nothing of the pool but Result and Body.
	Blame(dep *Task) error
}

// States of a task. The zero state is queued, which most tasks begin with.
const (
	queued  uint32 = iota // in a deque, for whoever claims it first
	held                  // by the gate
	running               // claimed
	done
	// watched is set in addition, unless the task is done: the gate wants to know its end.
	watched uint32 = 4
	// stateMask leaves that out.
	stateMask = watched - 1
)

// Task is the record of a task, and the context that its function is called with. Its zero
// value is for Pool.Go.
type Task struct {
	state atomic.Uint32
	// at is where it runs, in one word: the record of a small task fills its size class.
	at    uint32
	scope *Scope
	body  Body
	// failure is nil if the task succeeded. It is set before done.
	failure *failure
	// rules are what the gate knows of it; the pool's lock guards the pointer.
	rules *rules
	event atomic.Pointer[event]
	waits atomic.Pointer[Task] // what it waits for, to find cycles
}

// What Task.at has: depth is how many tasks wait below this one on the stack of its
// goroutine, and slot the deque of that goroutine.
const (
	depthBits = 8
	// ruledBit says that the gate knows the task from its beginning.
	ruledBit uint32 = 1 << 31
)

// runsAt notes where a task runs, before its function is called. One of the gate may be tried
// again while goroutines of an earlier try look; for others an atomic store, which takes
// some nanoseconds of a task, is not needed.
func (t *Task) runsAt(slot uint16, depth uint8) {
	at := uint32(slot)<<depthBits | uint32(depth)
	if t.ruled() {
		atomic.StoreUint32(&t.at, at|ruledBit)
	} else {
		t.at = at
	}
}

func (t *Task) slot() uint16 { return uint16(atomic.LoadUint32(&t.at) >> depthBits) }
func (t *Task) depth() uint8 { return uint8(atomic.LoadUint32(&t.at)) }
func (t *Task) ruled() bool  { return atomic.LoadUint32(&t.at)&ruledBit != 0 }

// rules is the part of a task that only tasks with options have.
type rules struct {
	gate  gate.Task
	after []*Task // until it starts, to find cycles
	// firstError says that it was skipped, with the first error of its group.
	firstError bool
	*retry
	*stay
}

// retry is the part of a task that may be tried again.
type retry struct {
	pause time.Duration // before the next try
	timer *time.Timer
}

// stay is the part of a task within a limit.
type stay struct {
	waiters int // calls of Wait that gave its place up
	// back is closed when it has the place again. It is nil unless a call of resume waits.
	back chan struct{}
}

// failure is how a task failed. Most do not, and have a word for it instead of two.
type failure struct{ err error }

// event is closed when a task is done.
type event struct{ ch chan struct{} }

// past is the event of every task that is done.
var past = func() *event {
	e := &event{make(chan struct{})}
	close(e.ch)
	return e
}()

func (t *Task) Deadline() (time.Time, bool) { return t.scope.Deadline() }
func (t *Task) Done() <-chan struct{}       { return t.scope.done }
func (t *Task) Err() error                  { return t.scope.ctx.Err() }

func (t *Task) Value(k any) any {
	if _, ok := k.(key); ok {
		return t
	}
	return t.scope.Value(k)
}

// Ended is closed when the task has ended.
func (t *Task) Ended() <-chan struct{} {
	e := t.event.Load()
	if e == nil {
		if e = new(event{make(chan struct{})}); !t.event.CompareAndSwap(nil, e) {
			e = t.event.Load()
		}
	}
	return e.ch
}

// Body returns what Go was given.
func (t *Task) Body() Body { return t.body }

// Result reports whether the task has ended, and its error.
func (t *Task) Result() (bool, error) {
	if !t.over() {
		return false, nil
	}
	return true, t.fault()
}

// fault is the error of a task that is done.
func (t *Task) fault() error {
	if t.failure == nil {
		return nil
	}
	return t.failure.err
}

func (t *Task) over() bool { return t.state.Load() == done }

// limited reports whether the task runs within a limit.
func (t *Task) limited() bool { return t.ruled() && t.rules.gate.Limit != nil }

// claim makes the caller the one who runs a queued task.
func (t *Task) claim() bool {
	for {
		s := t.state.Load()
		if s&stateMask != queued {
			return false
		}
		if t.state.CompareAndSwap(s, s&^stateMask|running) {
			return true
		}
	}
}

// watch asks for the end of a task to be told to the gate, unless it is done.
func (t *Task) watch() bool {
	for {
		s := t.state.Load()
		if s == done {
			return false
		}
		if t.state.CompareAndSwap(s, s|watched) {
			return true
		}
	}
}

// publish ends a task for all who wait, and reports whether the gate watches it.
func (t *Task) publish(err error) bool {
	if err != nil {
		t.failure = &failure{err}
	}
	was := t.state.Swap(done)
	if e := t.event.Swap(past); e != nil {
		close(e.ch)
	}
	return was&watched != 0
}

// Wait waits until the task has ended and returns its error, or until ctx ends and returns
// its cause. The task that waits is the one whose context ctx is or is derived from, whatever
// goroutine calls. With the context itself it runs the other one if that was not begun;
// otherwise it gives up its place or slot. With a context of no task nothing is given up.
func (t *Task) Wait(ctx context.Context) error {
	if t.over() {
		return t.fault()
	}
	w := current(ctx)
	if w != nil && w.runs(t, ctx) && t.over() {
		return t.fault()
	}
	ch := t.Ended()
	if w != nil {
		w.waits.Store(t)
		defer w.waits.Store(nil)
		if t.leadsTo(w) {
			return fault.ErrDeadlock
		}
		if !t.over() {
			w.sleep()
			defer w.resume()
		}
	}
	select {
	case <-ch:
		return t.fault()
	case <-ctx.Done():
		if t.over() {
			return t.fault()
		}
		return context.Cause(ctx)
	}
}

// maxDepth is how many tasks may wait for one another on one stack. Each takes some
// hundred bytes of it, and what the functions themselves need; past that a task waits
// for another goroutine, with a stack of its own.
const maxDepth = 255

// runs runs t on the goroutine of w, which waits for it, and reports whether it did. That
// needs equal contexts, since the wait could not be ended by another one. A task within
// a limit runs none: its place is for others while it waits. Neither does one that waits
// already: its context was passed on, and its depth is not that of this goroutine.
func (w *Task) runs(t *Task, ctx context.Context) bool {
	own := ctx == context.Context(w) && w.scope == t.scope || ctx == context.Context(t.scope)
	if !own || w.depth() >= maxDepth || w.limited() || w.waits.Load() != nil {
		return false
	}
	p := w.scope.pool
	p.slots[w.slot()].own.drop(t)
	if !t.claim() {
		return false
	}
	w.waits.Store(t)
	p.run(t, w.slot(), w.depth()+1)
	w.waits.Store(nil)
	return true
}

// leadsTo reports whether t waits for w, as far as can be seen: by calls of Wait with the
// context of a task, and by predecessors of tasks that are held.
func (t *Task) leadsTo(w *Task) bool {
	const most = 1 << 16 // tasks looked at
	p := t.scope.pool
	open := []*Task{t}
	for seen := 0; len(open) > 0 && seen < most; seen++ {
		t := open[len(open)-1]
		open = open[:len(open)-1]
		if t == w {
			return true
		}
		if t.over() { // a goroutine that it left behind may wait
			continue
		}
		if next := t.waits.Load(); next != nil {
			open = append(open, next)
		}
		if t.state.Load()&stateMask == held {
			p.mu.Lock()
			open = append(open, t.rules.after...)
			p.mu.Unlock()
		}
	}
	return false
}

// sleep gives up what a task holds before it waits: its place if it is within a limit, else
// its slot.
func (w *Task) sleep() {
	p := w.scope.pool
	if !w.limited() {
		p.running.Add(-1)
		if p.work() {
			p.wake()
		}
		return
	}
	p.mu.Lock()
	w.rules.waiters++
	p.unlock(p.gate.Block(&w.rules.gate, nil), w)
}

// resume gets it back.
func (w *Task) resume() {
	p := w.scope.pool
	if !w.limited() {
		// The goroutine that took the place goes on too, until it ends its task.
		p.running.Add(1)
		p.guard()
		return
	}
	p.mu.Lock()
	if w.rules.waiters--; w.rules.waiters > 0 {
		// Another goroutine of the task still waits, maybe for this one.
		p.mu.Unlock()
		return
	}
	back := make(chan struct{})
	w.rules.back = back
	p.unlock(p.gate.Unblock(&w.rules.gate, nil), w)
	<-back
}
