package pool

import (
	"context"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/task/internal/gate"
)

// key is what a Scope and a Task answer for with themselves, as contexts.
type key struct{}

// OuterKey is the key of a value that is meant for the outermost of nested groups: what is
// done with the context of a group does not see it. So the search for it ends at the nearest
// group, however many there are around that.
type OuterKey struct{}

// Scope is the context that tasks were started with. It is one itself.
type Scope struct {
	gate gate.Scope
	pool *Pool
	ctx  context.Context
	// done is the channel of ctx, which is cheaper to look at than ctx.
	done <-chan struct{}
	// deadline is that of ctx, if bounded. To find it all contexts around ctx may have to be
	// asked, of which a nested scope has many: it asks the scope around it instead.
	deadline time.Time
	bounded  bool
	group    *Group // nil for tasks of none
	// maker is the task whose context ctx is derived from, nil if that is none. Tasks are
	// queued where it runs.
	maker *Task
	// stop ends the watch of ctx that the gate asked for; the pool's lock guards it.
	stop func() bool
}

func newScope(p *Pool, ctx context.Context, g *Group) *Scope {
	s := &Scope{pool: p, ctx: ctx, done: ctx.Done(), group: g}
	s.deadline, s.bounded = ctx.Deadline()
	s.gate.Owner = s
	return s
}

// ended reports whether the context has ended.
func (s *Scope) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

func (s *Scope) Deadline() (time.Time, bool) { return s.deadline, s.bounded }
func (s *Scope) Done() <-chan struct{}       { return s.done }
func (s *Scope) Err() error                  { return s.ctx.Err() }

func (s *Scope) Value(k any) any {
	switch k.(type) {
	case key:
		return s
	case OuterKey:
		if s.group != nil && s.group.scope == s {
			return nil
		}
	}
	return s.ctx.Value(k)
}

// Group are tasks that are waited for together, with the first error of any of them.
type Group struct {
	// Account counts the tasks of the group for a progress callback; nil if there is none. It is set before the first
	// task is started.
	Account *Account

	scope *Scope
	// count is the number of tasks that have not ended, and of holds, and one more until Close;
	// at zero the group is closed for good.
	count  atomic.Int64
	empty  chan struct{} // closed when none is open
	cancel context.CancelCauseFunc
	keep   bool
	mu     sync.Mutex
	first  error
}

// NewGroup makes a group whose tasks run on p. Its first error cancels the tasks that have
// not ended, unless keep is true.
func (p *Pool) NewGroup(ctx context.Context, keep bool) *Group {
	inner, cancel := context.WithCancelCause(ctx)
	g := &Group{cancel: cancel, keep: keep, empty: make(chan struct{})}
	g.scope = newScope(p, inner, g)
	if w := current(ctx); w != nil {
		g.scope.maker, g.scope.pool = w, w.scope.pool
	}
	g.count.Store(1)
	return g
}

// Context is what tasks of the group are started with.
func (g *Group) Context() context.Context { return g.scope }

// GroupOf returns the group that tasks which are started with ctx belong to, nil for none.
func GroupOf(ctx context.Context) *Group {
	switch c := ctx.Value(key{}).(type) {
	case *Task:
		return c.scope.group
	case *Scope:
		return c.group
	}
	return nil
}

// Hold has Close wait until Release is called, as for a task. It reports false if the group is
// closed, and holds nothing then.
func (g *Group) Hold() bool {
	for {
		n := g.count.Load()
		if n == 0 {
			return false
		}
		if g.count.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release ends a hold.
func (g *Group) Release() {
	if g.count.Add(-1) == 0 {
		close(g.empty)
	}
}

// enter counts one more task, unless the group is closed.
func (g *Group) enter() bool {
	if !g.Hold() {
		return false
	}
	if g.Account != nil {
		g.Account.Start(1)
	}
	return true
}

// leave counts the end of a task.
func (g *Group) leave() {
	if g.Account != nil {
		g.Account.Done(1)
	}
	g.Release()
}

// Account counts work for somebody who watches it.
type Account struct{ started, done, dropped atomic.Int64 }

// Start counts work that is known of, Done what of it has ended, and Drop what will not be done.
func (a *Account) Start(n int) { a.started.Add(int64(n)) }
func (a *Account) Done(n int)  { a.done.Add(int64(n)) }
func (a *Account) Drop(n int)  { a.dropped.Add(int64(n)) }

// Counts returns the three counts so far. What is started is read last, so that it is never less
// than the others together.
func (a *Account) Counts() (started, done, dropped int) {
	done, dropped = int(a.done.Load()), int(a.dropped.Load())
	return int(a.started.Load()), done, dropped
}

// Fail is for an error of the caller's own.
func (g *Group) Fail(err error) {
	if g.note(err) {
		g.stop()
	}
}

// note keeps the first error, and reports whether this is it.
func (g *Group) note(err error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first != nil {
		return false
	}
	g.first = err
	return true
}

// stop cancels the tasks after the first error.
func (g *Group) stop() {
	if !g.keep {
		g.cancel(g.first)
	}
}

// Cancel ends the context of the group.
func (g *Group) Cancel(cause error) { g.cancel(cause) }

// Close waits until every task and every hold has ended and returns the first error. ctx is what the
// caller was given: if that is a task, it gives up its place while it waits.
func (g *Group) Close(ctx context.Context) error {
	g.Release()
	select {
	case <-g.empty:
	default:
		g.Await(ctx, func() { <-g.empty })
	}
	g.scope.unwatch()
	g.cancel(ErrClosed)
	return g.first
}

// Await calls wait, which blocks for something that tasks of the group do. ctx is what the
// caller was given: if that is a task, it gives up its place meanwhile.
func (g *Group) Await(ctx context.Context, wait func()) {
	if w := current(ctx); w != nil {
		w.sleep()
		defer w.resume()
	}
	wait()
}

// Block calls wait, which blocks on something that the pool does not see. If ctx is that of a task, or
// derived from it, the slot of the task is for others meanwhile. A task within a limit holds no slot,
// and keeps its place: the limit bounds how many of its tasks wait so.
func Block(ctx context.Context, wait func()) {
	if w := current(ctx); w != nil && !w.limited() {
		w.sleep()
		defer w.resume()
	}
	wait()
}

// where returns the scope that tasks started with ctx have, and the task that starts them,
// nil if that is none.
func (p *Pool) where(ctx context.Context) (*Task, *Scope) {
	switch c := ctx.(type) {
	case *Task:
		return c, c.scope
	case *Scope:
		return c.maker, c
	}
	if ctx == context.Background() {
		return nil, p.background
	}
	// Contexts that are pointers can be compared.
	pointer := reflect.TypeOf(ctx).Kind() == reflect.Pointer
	if r := p.recent.Load(); r != nil && pointer && r.ctx == ctx {
		return r.maker, r
	}
	s := newScope(p, ctx, nil)
	switch c := ctx.Value(key{}).(type) {
	case *Task:
		s.pool, s.group, s.maker = c.scope.pool, c.scope.group, c
	case *Scope:
		s.pool, s.group, s.maker = c.pool, c.group, c.maker
	}
	if pointer {
		p.recent.Store(s)
	}
	return s.maker, s
}

// current is the task that ctx was given to, or that opened the scope ctx was given to. It
// is nil if there is none or it has ended.
func current(ctx context.Context) *Task {
	t, ok := ctx.(*Task)
	if !ok {
		switch c := ctx.Value(key{}).(type) {
		case *Task:
			t = c
		case *Scope:
			t = c.maker
		}
	}
	if t == nil || t.over() {
		return nil
	}
	return t
}
