// Package pool runs tasks that are Go functions on a few goroutines. Package task
// gives it tasks with their contexts; which of them may start when is decided by package
// gate, unless there is nothing to decide: a task without predecessors, limit, priority
// and retries goes straight into a deque.
//
// A goroutine of the pool has a slot. It runs the newest task that tasks of the slot have
// started, else the oldest that came from outside, else the oldest that another slot has;
// of the last two it takes several at a time. Every 61st time it takes the oldest first, or
// tasks that start others without end would keep the older ones waiting for ever. It ends
// when it finds nothing, and one is started when a task comes and fewer run than there are
// slots: a pool that has nothing to do has no goroutine. A task that waits for another runs
// it itself if it was not begun; else another goroutine gets its slot.
//
// Where a task runs is in its record, which is the context that its function is called with.
// So a call of the pool knows by its context alone which task makes it.
//
// Who owns what: deques and the state of a task are for every goroutine; the gate, the
// rules of tasks and the watches of scopes are behind Pool.mu. Under it no function of a
// task is called, and no lock is taken but that of a context and Group.mu.
//
// # Order
//
// A task without options is never shown to the gate. It is pushed to the deque of the goroutine that starts it, or to
// the queue of tasks from outside; the goroutine that claims it first, by one atomic change of its state, runs
// it. Every 61st time the oldest come first, in turns those from outside, those that tasks of the slot have started
// and those of another slot. If a plain task gets a successor, its state is marked, and its end is told to the gate.
//
// # Goroutines
//
// A goroutine ends when it finds no task; a push starts one if fewer run than there are slots. The goroutine
// gives up its count first and looks at the deques afterwards, and a push does it the other way round, so that one of
// the two sees the other. While tasks are queued and processors are idle, twice in a row 10 ms apart, the watchdog
// doubles the number of goroutines that may run: tasks may block on a channel or the network, which the pool cannot see.
//
// # Waiting
//
// A task that waits, with the context it was called with, for one that is queued runs that one on its own stack, at
// most 255 deep (Task.Wait, Task.runs). It runs no other task, since that might in turn wait for it. If the other one
// runs already or is held, the goroutine sleeps and its slot gets another; when it goes on, there is one goroutine
// more than slots until one of them ends its task. A wait with a context derived from that of a task is a wait of
// this task, on whatever goroutine, and runs no other task. A wait with a context of no task is from outside: the
// task keeps its slot or its place within a limit.
//
// Within a limit a task runs on a goroutine of its own and tells the gate Block and Unblock around a wait: its place
// is free while any goroutine of the task waits, and its other goroutines go on without.
//
// Each task notes what it waits for. Before it sleeps it follows these notes, and the predecessors of tasks that are
// held, and returns ErrDeadlock if they lead back to it (Task.leadsTo). Waits of tasks without a limit are noted
// only with the context of the task.
package pool

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/fault"
	"github.com/weft-run/weft/task/internal/gate"
)

// ErrClosed is the cause with which tasks of a group that was closed end.
var ErrClosed = errors.New("the scope has ended")

// slot is what a goroutine of the pool takes tasks from.
type slot struct {
	own   deque // tasks that tasks of the slot have started, taken from the back
	inbox deque // tasks moved here from outside or from another slot, taken from the front
}

// Pool runs tasks.
type Pool struct {
	slots      []slot
	outside    deque // tasks that no task started
	background *Scope
	// recent is the scope made last for a context of the caller's, which the next task
	// often has too.
	recent  atomic.Pointer[Scope]
	running atomic.Int32  // goroutines that look for tasks or run one that does not wait
	want    atomic.Int32  // the most of them; above the number of slots while tasks block
	turn    atomic.Uint32 // gives tasks within limits their slots
	starts  atomic.Uint32 // goroutines that were started for tasks of no limit
	steals  atomic.Uint32 // how often a slot has taken tasks of another
	guarded atomic.Bool   // watchdog runs
	// spawn starts loop on a goroutine of its own. Tests take its place.
	spawn func(slot uint16, tick uint32)
	// urgent and idle are how many tasks the gate has for Next.
	urgent, idle atomic.Int32

	mu   sync.Mutex
	gate gate.Gate
}

// New makes a pool with a number of slots.
func New(slots int) *Pool {
	p := &Pool{slots: make([]slot, slots)}
	p.spawn = func(slot uint16, tick uint32) { go p.loop(slot, tick) }
	p.want.Store(int32(slots))
	p.background = newScope(p, context.Background(), nil)
	return p
}

// Spec is what a task may ask for.
type Spec struct {
	After    []*Task
	Limit    *gate.Limit
	Priority int
	Retries  int
	Pause    time.Duration // before the second try; it doubles with each
}

// plain reports whether there is nothing for the gate to decide.
func (s *Spec) plain() bool {
	return s == nil || len(s.After) == 0 && s.Limit == nil && s.Priority == 0 && s.Retries == 0
}

// Go starts a task. spec may be nil.
func (p *Pool) Go(ctx context.Context, t *Task, b Body, spec *Spec) {
	w, s := p.where(ctx)
	p = s.pool
	t.scope, t.body = s, b
	if s.group != nil && !s.group.enter() {
		t.publish(ErrClosed)
		return
	}
	if s.ended() {
		p.end(t, context.Cause(s.ctx))
		return
	}
	if spec.plain() {
		p.push(t, w)
		return
	}
	t.state.Store(held)
	t.at = ruledBit
	t.rules = &rules{after: spec.After, gate: gate.Task{Owner: t, Limit: spec.Limit, Priority: clamp(spec.Priority), Retries: clamp(spec.Retries)}}
	if spec.Retries > 0 {
		t.rules.retry = &retry{pause: spec.Pause}
	}
	if spec.Limit != nil {
		t.rules.stay = new(stay)
	}
	p.mu.Lock()
	var room [4]*gate.Task
	after := room[:0]
	for _, d := range spec.After {
		if n := d.known(); n != nil {
			after = append(after, n)
		}
	}
	var acts [4]gate.Action
	p.unlock(p.gate.Add(&t.rules.gate, &s.gate, after, acts[:0]), w)
}

func clamp(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }

// known returns the task as a predecessor for the gate, nil if it is over and did not fail.
func (t *Task) known() *gate.Task {
	switch {
	case t.rules != nil:
	case t.watch():
		t.rules = &rules{gate: *gate.Outside(t)}
	case t.failure != nil:
		return gate.Over(t, true)
	default:
		return nil
	}
	return &t.rules.gate
}

// push queues a task: where w runs, or with those from outside.
func (p *Pool) push(t, w *Task) {
	if w != nil {
		p.slots[w.slot()].own.push(t)
	} else {
		p.outside.push(t)
	}
	if p.running.Load() < p.want.Load() {
		p.wake()
	}
}

// wake starts a goroutine if fewer run than may. They get the slots in turn, and count their
// tasks from the number of goroutines that the slot has had: where each has one task, the
// oldest come first as often as where one goroutine has all.
func (p *Pool) wake() {
	if p.join() {
		n, slots := p.starts.Add(1), uint32(len(p.slots))
		p.spawn(uint16(n%slots), n/slots)
		p.guard()
	}
}

// join counts one more goroutine that runs, if there may be one.
func (p *Pool) join() bool {
	for {
		n := p.running.Load()
		if n >= p.want.Load() {
			return false
		}
		if p.running.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// surplus gives up the place of the caller if more goroutines run than may, since tasks
// that waited go on.
func (p *Pool) surplus() bool {
	for {
		n := p.running.Load()
		if n <= p.want.Load() {
			return false
		}
		if p.running.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

// work reports whether any task is queued.
func (p *Pool) work() bool {
	if p.outside.size.Load() > 0 || p.urgent.Load() > 0 || p.idle.Load() > 0 {
		return true
	}
	for i := range p.slots {
		if p.slots[i].own.size.Load() > 0 || p.slots[i].inbox.size.Load() > 0 {
			return true
		}
	}
	return false
}

// visit runs a task within a limit, on a goroutine of its own. The tasks that it starts are
// for one of the slots in turn.
func (p *Pool) visit(t *Task) {
	p.run(t, uint16(p.turn.Add(1)%uint32(len(p.slots))), 0)
}

// loop is a goroutine of the pool. tick is one more for each task.
func (p *Pool) loop(slot uint16, tick uint32) {
	ends := false
	defer func() {
		if !ends { // by Goexit
			p.running.Add(-1)
			if p.work() {
				p.wake()
			}
		}
	}()
	for ; p.step(slot, tick); tick++ {
	}
	ends = true
}

// step runs one task, and reports whether the goroutine goes on.
func (p *Pool) step(slot uint16, tick uint32) bool {
	if t := p.next(slot, tick); t != nil {
		p.run(t, slot, 0)
		return !p.surplus()
	}
	p.running.Add(-1)
	return p.again()
}

// again reports whether a goroutine that found no task and is not counted any more goes on:
// a task that was pushed while it was counted started no other.
func (p *Pool) again() bool { return p.work() && p.join() }

// agedEvery is how often the oldest tasks go first. 61 is Go's own choice for its scheduler: a
// prime, so that it is in step with no pattern of tasks.
const agedEvery = 61

// next claims a task.
func (p *Pool) next(slot uint16, tick uint32) *Task {
	if p.urgent.Load() > 0 {
		if t := p.offered(false); t != nil {
			return t
		}
	}
	s := &p.slots[slot]
	if tick%agedEvery == 0 {
		if t := p.aged(slot, tick/agedEvery); t != nil {
			return t
		}
	}
	for t := s.own.pop(); t != nil; t = s.own.pop() {
		if t.claim() {
			return t
		}
	}
	if t := p.older(s); t != nil {
		return t
	}
	for i := 1; i < len(p.slots); i++ {
		if t := p.steal(&p.slots[(int(slot)+i)%len(p.slots)], s); t != nil {
			return t
		}
	}
	if p.idle.Load() > 0 {
		return p.offered(true)
	}
	return nil
}

// aged claims a task that newer ones could keep waiting without end: the oldest of those from
// outside, of those that tasks of the slot have started, or of another slot, whose
// goroutine may be elsewhere. Each of the three goes first in its turn.
func (p *Pool) aged(slot uint16, turn uint32) *Task {
	s, n := &p.slots[slot], uint32(len(p.slots))
	for kind := range uint32(3) {
		var t *Task
		switch (turn + kind) % 3 {
		case 0:
			t = p.older(s)
		case 1:
			t = s.own.oldest()
		case 2:
			if n > 1 {
				t = p.steal(&p.slots[other(uint32(slot), turn/3, n)], s)
			}
		}
		if t != nil {
			return t
		}
	}
	return nil
}

// other returns one of n slots that is not the given one: each of them once in n-1 turns.
func other(slot, turn, n uint32) uint32 { return (slot + 1 + turn%(n-1)) % n }

// older claims the oldest task of an inbox, or else of those from outside.
func (p *Pool) older(s *slot) *Task {
	if t := s.inbox.oldest(); t != nil {
		return t
	}
	return p.grab(&p.outside, s)
}

// steal claims the oldest task of another slot, and moves some of those after it to s.
func (p *Pool) steal(victim, s *slot) *Task {
	for _, d := range [...]*deque{&victim.own, &victim.inbox} {
		if t := p.grab(d, s); t != nil {
			p.steals.Add(1)
			return t
		}
	}
	return nil
}

// batch is how many tasks are moved between deques at a time: the lock of the other one is
// taken once for all of them.
const batch = 32

// grab claims the oldest task of a deque, and moves some of those after it to the inbox of
// the caller.
func (p *Pool) grab(from *deque, s *slot) *Task {
	var some [batch]*Task
	for {
		n := from.take(some[:])
		if n == 0 {
			return nil
		}
		var first *Task
		for _, t := range some[:n] {
			if first != nil {
				s.inbox.push(t)
			} else if t.claim() {
				first = t
			}
		}
		if first != nil {
			if n > 1 && p.running.Load() < p.want.Load() {
				p.wake()
			}
			return first
		}
	}
}

// offered claims the next task the gate has a priority for.
func (p *Pool) offered(idle bool) *Task {
	p.mu.Lock()
	n, acts := p.gate.Next(idle, nil)
	if n == nil {
		p.unlock(acts, nil)
		return nil
	}
	t := n.Owner.(*Task)
	t.rules.after = nil
	t.state.Store(running)
	p.unlock(acts, nil)
	return t
}

// run calls the function of a claimed task and ends it.
func (p *Pool) run(t *Task, slot uint16, depth uint8) {
	t.runsAt(slot, depth)
	if t.scope.ended() {
		p.finish(t, context.Cause(t.scope.ctx))
		return
	}
	returned := false
	defer func() {
		if !returned {
			p.finish(t, fault.ErrGoexit)
		}
	}()
	err := t.body.Run(t)
	returned = true
	p.finish(t, err)
}

// finish ends a task whose function has returned, unless it is to be tried again.
func (p *Pool) finish(t *Task, err error) {
	if !t.ruled() {
		p.end(t, err)
		return
	}
	p.mu.Lock()
	var some [4]gate.Action
	acts := p.gate.Ended(&t.rules.gate, err != nil, some[:0])
	if !t.rules.gate.Over() { // it is tried again
		t.state.Store(held)
		p.unlock(acts, t)
		return
	}
	if t.note(err) { // before another task of the group takes its place
		t.scope.group.stop()
	}
	t.publish(err)
	p.unlock(acts, t)
	t.settle(false)
}

// end ends a task that the gate does not decide about: a plain one, or one that is not begun.
func (p *Pool) end(t *Task, err error) {
	first := t.note(err)
	if t.publish(err) {
		var acts [4]gate.Action
		p.mu.Lock()
		p.unlock(p.gate.Ended(&t.rules.gate, err != nil, acts[:0]), t)
	}
	t.settle(first)
}

// note tells the group of a task its error, before any that waits for the task can have an
// error because of it, and reports whether that is the first of the group.
func (t *Task) note(err error) bool {
	return err != nil && t.scope.group != nil && t.scope.group.note(err)
}

// settle tells the group of a task that it has ended, and cancels the others if its error
// was the first.
func (t *Task) settle(first bool) {
	if g := t.scope.group; g != nil {
		if first {
			g.stop()
		}
		g.leave()
	}
}
