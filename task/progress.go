package task

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/task/internal/pool"
)

// Progress is an account of a call of [Scope], [Map] and the like under way; see [WithProgress].
type Progress struct {
	Tasks   int // tasks and elements known of so far
	Done    int // of these
	Running int // all of these that are still to end
	Elapsed time.Duration
	// Part is Done of Tasks, from 0 to 1.
	Part float64
	// Left is an estimate of the time that the call still takes, negative while none of its tasks and
	// elements has ended.
	Left time.Duration
}

// progressEvery is the least time between two calls of a callback: 20 calls a second are
// enough for a display, and few enough for their cost not to matter.
const progressEvery = 50 * time.Millisecond

// WithProgress returns a context that has fn told the progress of calls of [Map], [Each], [Filter],
// [Reduce], [Stream] and [Scope] which are made with it. fn is called at most 20 times a second, if
// something has changed, and for a last time before the call returns. It has a goroutine of its own
// for each call and holds up no task, but the call waits for it to return.
//
// [Map], [Each] and [Filter] tell how many elements were computed of all there are, [Reduce] the same
// of calls of its function, one fewer than elements, and [Stream] of the elements that its sequence has
// given so far, so that Tasks grows. An element counts as done when its function has returned, for the
// last time with [Retry], also with an error. Elements that are not computed, since another failed or the context
// ended, are never done: after the last call Running is 0, and Done may be less than Tasks. What the
// function of an element calls is part of the element and not counted.
//
// A [Scope] tells how many have ended of the tasks that were started in it, by its body, by these tasks and in scopes
// within it, and of the elements of calls of Map and the like that they make. Tasks grows as they begin;
// neither Tasks nor Done goes back. A call within the scope that is given another context of
// WithProgress tells that callback, and is not counted by the scope.
//
// Left takes tasks and elements to be alike and none to be added. Elements of a call without options are
// counted in parts, each about 200 µs or one element long, and 64 elements at most where short ones
// are followed by long ones.
func WithProgress(ctx context.Context, fn func(Progress)) context.Context {
	need("WithProgress", ctx, fn != nil)
	return context.WithValue(ctx, pool.OuterKey{}, fn)
}

// often calls tell with a pause in between. The function it returns ends that, and returns after
// a last call.
func often(tell func()) (stop func()) {
	over, returned := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(returned)
		for more := true; more; {
			tell()
			select {
			case <-time.After(progressEvery):
			case <-over:
				more = false
			}
		}
		tell()
	}()
	return func() {
		close(over)
		<-returned
	}
}

// followAccount has fn told what an account counts. The function it returns is called when there is no
// more to count.
func followAccount(t *pool.Account, fn func(Progress)) (told func()) {
	began := time.Now()
	last := Progress{Done: -1}
	return often(func() {
		started, done, dropped := t.Counts()
		p := Progress{Tasks: started, Done: done, Running: started - done - dropped, Elapsed: time.Since(began), Left: -1}
		if p.Tasks == last.Tasks && p.Done == last.Done && p.Running == last.Running {
			return
		}
		if done > 0 {
			p.Part = float64(done) / float64(started)
			p.Left = time.Duration(float64(p.Elapsed) * float64(p.Running) / float64(done))
		}
		last = p
		fn(p)
	})
}

// member is a call of Scope, Map and the like as part of what is around it: of the scope that its
// context belongs to, which waits for its end, and of the account of who watches.
type member struct {
	group   *pool.Group   // of the scope; nil for none
	ended   bool          // the scope had ended before
	account *pool.Account // nil if nobody watches
	told    func()        // returns after the last call of a callback for this call; nil for none
	all     int           // elements of the call
	done    atomic.Int64
}

// join begins a call. What is done in it does not see the callback.
func (m *member) join(ctx context.Context) *member {
	if g := pool.GroupOf(ctx); g != nil {
		if m.ended = !g.Hold(); !m.ended {
			m.group, m.account = g, g.Account
		}
	}
	if fn, own := ctx.Value(pool.OuterKey{}).(func(Progress)); own {
		m.account = new(pool.Account)
		m.told = followAccount(m.account, fn)
	}
	return m
}

// leave ends a call. Elements that were not computed will not be.
func (m *member) leave() {
	if m.account != nil {
		m.account.Drop(m.all - int(m.done.Load()))
	}
	if m.told != nil {
		m.told()
	}
	if m.group != nil {
		m.group.Release()
	}
}

// newGroup makes the group of the call, none of whose tasks is run if the scope has ended.
func (m *member) newGroup(ctx context.Context, keep bool) *pool.Group {
	g := tasks().NewGroup(ctx, keep)
	if m.ended {
		g.Cancel(ErrScopeEnded)
	}
	return g
}

// add says that the call has n more elements. One goroutine at a time calls it.
func (m *member) add(n int) {
	if m.account != nil {
		m.all += n
		m.account.Start(n)
	}
}

// ran says that n more of them were computed.
func (m *member) ran(n int) {
	if m.account != nil && n > 0 {
		m.done.Add(int64(n))
		m.account.Done(n)
	}
}
