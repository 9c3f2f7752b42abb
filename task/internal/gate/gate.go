// Package gate decides when tasks that are Go functions may start: after which others,
// within which limits, in which order, how often again, and which of them end without
// having run. It is a state machine: a call of Gate is an event, and the actions it
// appends say what the loop around it (task/internal/pool) has to do. It has no locks, clocks
// or goroutines, so that a list of events always has the same answer.
//
// The gate sees only what needs a decision. Tasks without predecessors, limit, priority
// and retries go to the queues of the pool without it; one of them that gets a successor
// is told to the gate by Outside.
//
// A task is in one of eight places (fresh, waiting, lined, out, blocked, returning, pausing, over), and Task.move
// allows only the moves of one table. Gate.admit gives the places of a limit: tasks that want theirs back go before
// tasks that have not begun. Tasks that the gate holds end at once when their context does; the gate asks the
// pool to watch a context while it holds tasks of it.
package gate

import (
	"fmt"
	"slices"
)

// Kind says what an action asks for.
type Kind uint8

const (
	// Queue puts a task without a limit into the queue of the caller.
	Queue Kind = iota
	// Offer says that Next has one more task to give.
	Offer
	// Start runs a task that has got its place within its limit.
	Start
	// Continue lets a task go on that has got its place back after it waited.
	Continue
	// Pause calls Again after the pause before the next try.
	Pause
	// Skip ends a task that will not run: because Cause, a predecessor, failed, or, if
	// there is none, because its scope was cancelled.
	Skip
	// Watch calls Cancel when the scope's context ends.
	Watch
	// Unwatch takes that back: no task of the scope is held any more.
	Unwatch
)

// Action is one thing the loop has to do.
type Action struct {
	Kind  Kind
	Task  *Task  // nil for Watch and Unwatch
	Cause *Task  // of Skip
	Scope *Scope // of Watch and Unwatch
}

// place is where a task is; Task.move changes it.
type place uint8

const (
	fresh     place = iota // not added
	waiting                // for predecessors
	lined                  // in the line of its limit, or of a priority
	out                    // handed to the loop, which queues and runs it
	blocked                // within a limit, and gave its place up while it waits
	returning              // in the line of those that want their place back
	pausing                // before another try
	over
)

var placeNames = [...]string{"fresh", "waiting", "lined", "out", "blocked", "returning", "pausing", "over"}

func (p place) String() string { return placeNames[p] }

// held reports whether the gate can still end the task without having it run.
func (p place) held() bool { return p == waiting || p == lined || p == pausing }

// moves are the places a task may go to from each.
var moves = [...][]place{
	fresh:     {waiting, lined, out, over},
	waiting:   {lined, out, over},
	lined:     {out, over},
	out:       {blocked, pausing, over},
	blocked:   {returning, pausing, over},
	returning: {out, blocked, pausing, over},
	pausing:   {lined, out, over},
	over:      {},
}

// Task is a task as the gate knows it. Its exported fields are set before Add.
type Task struct {
	Owner    any // the record of the loop
	Limit    *Limit
	Priority int32 // the highest goes first; those of zero without a limit wait in no line
	Retries  int32 // how often it is tried again if it fails
	place    place
	failed   bool // once it is over
	pending  int32
	index    int32 // in its line
	seq      uint64
	after    []*Task // successors
	scope    *Scope
	// prev and next are its neighbours in the list of held tasks of its scope.
	prev, next *Task
}

func (t *Task) move(to place) {
	for _, p := range moves[t.place] {
		if p == to {
			t.place = to
			return
		}
	}
	panic(fmt.Sprintf("gate: a task went from %v to %v", t.place, to))
}

// Scope is a set of tasks that are cancelled together.
type Scope struct {
	Owner     any
	cancelled bool
	first     *Task // of those held
	count     int
}

// Cancelled reports whether Cancel was called.
func (s *Scope) Cancelled() bool { return s.cancelled }

// Limit is how many of its tasks run at the same time.
type Limit struct {
	most int
	used int // at most most: tasks that are out
	line line
	back []*Task // those that want their place back, in order; they go first
}

// NewLimit returns a limit of most tasks, which is at least one.
func NewLimit(most int) *Limit { return &Limit{most: max(most, 1)} }

// Most is that number.
func (l *Limit) Most() int { return l.most }

// Gate is the state machine. The zero value is ready; it has one owner.
type Gate struct {
	seq          uint64
	urgent, idle line // tasks without a limit whose priority is above and below zero
	// touched are limits that may have room for a task in line. They are looked at once,
	// at the end of an event, when all tasks that it lets go are in line.
	touched []*Limit
	// ended are tasks whose successors are to be looked at, empty between events.
	ended []*Task
}

// Outside is a task that runs, or is queued, without the gate, which it needs as a
// predecessor of others.
func Outside(owner any) *Task { return &Task{Owner: owner, place: out} }

// Over is a task that has ended without the gate.
func Over(owner any, failed bool) *Task { return &Task{Owner: owner, place: over, failed: failed} }

// Out reports whether the loop has the task: it is queued or runs.
func (t *Task) Out() bool { return t.place == out }

// Over reports whether the task has ended for good.
func (t *Task) Over() bool { return t.place == over }

// Add takes a task of a scope that starts after others.
func (g *Gate) Add(t *Task, s *Scope, after []*Task, acts []Action) []Action {
	g.seq++
	t.seq, t.scope, t.index = g.seq, s, -1
	if s.cancelled {
		return g.skip(t, nil, acts)
	}
	for _, p := range after {
		if p.place == over && p.failed {
			return g.skip(t, p, acts)
		}
	}
	for _, p := range after {
		if p.place != over {
			p.after = append(p.after, t)
			t.pending++
		}
	}
	if t.pending > 0 {
		t.move(waiting)
		return g.hold(t, acts)
	}
	return g.admit(g.release(t, acts))
}

// Ended says that the function of a task has returned. It is tried again if it failed, has
// tries left, and its scope goes on. One that is blocked or returning can end too: a
// goroutine that the function left behind still waits.
func (g *Gate) Ended(t *Task, failed bool, acts []Action) []Action {
	switch t.place {
	case out:
		if t.Limit != nil {
			t.Limit.used--
		}
	case returning:
		acts = g.goOn(t, acts)
	}
	if failed && t.Retries > 0 && !t.scope.cancelled {
		t.Retries--
		t.move(pausing)
		acts = g.hold(t, append(acts, Action{Kind: Pause, Task: t}))
	} else {
		t.move(over)
		t.failed = failed
		g.ended = append(g.ended, t)
		acts = g.follow(acts)
	}
	if t.Limit != nil {
		g.touched = append(g.touched, t.Limit)
	}
	return g.admit(acts)
}

// Again says that the pause before another try is over. The task may have been cancelled
// meanwhile.
func (g *Gate) Again(t *Task, acts []Action) []Action {
	if t.place != pausing {
		return acts
	}
	return g.admit(g.release(t, acts))
}

// Block says that a task that runs within a limit waits for another: its place is free. One
// that is returning goes on without a place: the goroutine that waits may wait for something
// that needs it.
func (g *Gate) Block(t *Task, acts []Action) []Action {
	switch t.place {
	case out:
		t.Limit.used--
	case returning:
		acts = g.goOn(t, acts)
	default:
		return acts
	}
	t.move(blocked)
	g.touched = append(g.touched, t.Limit)
	return g.admit(acts)
}

// Unblock says that a blocked task wants to go on, which it may at Continue. One that has
// its place, or has ended, goes on at once.
func (g *Gate) Unblock(t *Task, acts []Action) []Action {
	if t.place != blocked {
		return append(acts, Action{Kind: Continue, Task: t})
	}
	t.move(returning)
	t.Limit.back = append(t.Limit.back, t)
	g.touched = append(g.touched, t.Limit)
	return g.admit(acts)
}

// goOn lets a task that is returning go on without its place.
func (g *Gate) goOn(t *Task, acts []Action) []Action {
	t.Limit.back = slices.DeleteFunc(t.Limit.back, func(b *Task) bool { return b == t })
	return append(acts, Action{Kind: Continue, Task: t})
}

// Cancel ends all tasks of a scope that are held, and those that come.
func (g *Gate) Cancel(s *Scope, acts []Action) []Action {
	s.cancelled = true
	for t := s.first; t != nil; t = s.first {
		acts = g.skip(t, nil, acts)
		g.ended = append(g.ended, t)
	}
	return g.admit(g.follow(acts))
}

// Next hands out the first task of a priority above zero, or below if idle is true, nil if
// there is none.
func (g *Gate) Next(idle bool, acts []Action) (*Task, []Action) {
	l := &g.urgent
	if idle {
		l = &g.idle
	}
	if len(*l) == 0 {
		return nil, acts
	}
	t := (*l)[0]
	acts = g.drop(t, acts)
	t.move(out)
	return t, acts
}

// release lets a task start whose predecessors are over, as soon as its limit and its
// priority allow.
func (g *Gate) release(t *Task, acts []Action) []Action {
	switch {
	case t.Limit != nil:
		acts = g.hold(t, acts)
		t.move(lined)
		t.Limit.line.push(t)
		g.touched = append(g.touched, t.Limit)
		return acts
	case t.Priority != 0:
		acts = g.hold(t, acts)
		t.move(lined)
		g.lineOf(t).push(t)
		return append(acts, Action{Kind: Offer, Task: t})
	}
	acts = g.unhold(t, acts)
	t.move(out)
	return append(acts, Action{Kind: Queue, Task: t})
}

// admit starts tasks of limits that have room: first those that were within one before.
func (g *Gate) admit(acts []Action) []Action {
	for _, l := range g.touched {
		for l.used < l.most && len(l.back)+len(l.line) > 0 {
			var t *Task
			if len(l.back) > 0 {
				t = l.back[0]
				l.back[0] = nil // or its results would be kept
				l.back = l.back[1:]
				acts = append(acts, Action{Kind: Continue, Task: t})
			} else {
				t = l.line[0]
				acts = append(g.drop(t, acts), Action{Kind: Start, Task: t})
			}
			t.move(out)
			l.used++
		}
	}
	g.touched = g.touched[:0]
	return acts
}

// skip ends a task that is not run.
func (g *Gate) skip(t, cause *Task, acts []Action) []Action {
	acts = append(g.drop(t, acts), Action{Kind: Skip, Task: t, Cause: cause})
	t.move(over)
	t.failed = true
	return acts
}

// follow goes on to the successors of tasks that have ended: they are skipped if one failed,
// and with them those after them, and may start if none did.
func (g *Gate) follow(acts []Action) []Action {
	for len(g.ended) > 0 {
		last := len(g.ended) - 1
		t := g.ended[last]
		g.ended[last] = nil
		g.ended = g.ended[:last]
		for _, next := range t.after {
			switch next.pending--; {
			case next.place != waiting: // cancelled, or another predecessor failed
			case t.failed:
				acts = g.skip(next, t, acts)
				g.ended = append(g.ended, next)
			case next.pending == 0:
				acts = g.release(next, acts)
			}
		}
		t.after = nil
	}
	return acts
}

// drop takes a held task out of every list.
func (g *Gate) drop(t *Task, acts []Action) []Action {
	if t.place == lined {
		l := g.lineOf(t)
		l.remove(int(t.index))
	}
	return g.unhold(t, acts)
}

// lineOf is the line a task that is lined is in.
func (g *Gate) lineOf(t *Task) *line {
	switch {
	case t.Limit != nil:
		return &t.Limit.line
	case t.Priority > 0:
		return &g.urgent
	}
	return &g.idle
}

// hold puts a task on the list of those that a cancelled scope ends.
func (g *Gate) hold(t *Task, acts []Action) []Action {
	s := t.scope
	if t.prev != nil || t.next != nil || s.first == t {
		return acts
	}
	if t.next = s.first; t.next != nil {
		t.next.prev = t
	}
	s.first = t
	if s.count++; s.count == 1 {
		acts = append(acts, Action{Kind: Watch, Scope: s})
	}
	return acts
}

// unhold takes a task off that list, if it is on it.
func (g *Gate) unhold(t *Task, acts []Action) []Action {
	s := t.scope
	switch {
	case t.prev != nil:
		t.prev.next = t.next
	case s.first == t:
		s.first = t.next
	default:
		return acts
	}
	if t.next != nil {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
	if s.count--; s.count == 0 {
		acts = append(acts, Action{Kind: Unwatch, Scope: s})
	}
	return acts
}

// Lined returns how many tasks Next can hand out: of a priority above zero, and below.
func (g *Gate) Lined() (urgent, idle int) { return len(g.urgent), len(g.idle) }
