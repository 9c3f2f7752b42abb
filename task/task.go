package task

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/weft-run/weft/fault"
	"github.com/weft-run/weft/task/internal/gate"
	"github.com/weft-run/weft/task/internal/pool"
)

// Errors of tasks, for errors.Is.
var (
	// ErrDeadlock is returned by a wait that could not end, since the task waits for itself,
	// directly or through others.
	ErrDeadlock = fault.ErrDeadlock
	// ErrGoexit is the error of a task whose function ended its goroutine by
	// runtime.Goexit, and of tasks that ran it on theirs while they waited for it.
	ErrGoexit = fault.ErrGoexit
	// ErrScopeEnded is the error of a task that was started with the context of a scope
	// that had ended. It is not run.
	ErrScopeEnded = pool.ErrClosed
	// ErrPanic is wrapped by the error of a function that panicked, which is a [PanicError].
	ErrPanic = fault.ErrPanic
	// ErrTimeout is wrapped by the error of a task that took longer than its [Timeout].
	ErrTimeout = fault.ErrTimeout
	// ErrOutOfMemory is wrapped by the error of a call for more elements than memory could have
	// results for.
	ErrOutOfMemory = fault.ErrOutOfMemory
)

// PanicError is the error of a function that panicked: with what (Value), where (At) and with which
// Stack. It unwraps to [ErrPanic], and to Value if that is an error. An [ElementError] around
// it unwraps to it.
type PanicError = fault.PanicError

// tasks is the pool that runs the functions given to Go, one slot for each processor. It has
// no goroutines while there are no tasks.
var tasks = sync.OnceValue(func() *pool.Pool { return pool.New(runtime.GOMAXPROCS(0)) })

// Go starts a task: f is called once, on another goroutine, and its result is in the
// future. f may start tasks with the context it is called with, and wait for them.
//
// As many tasks run at the same time as there are processors; those that wait for another with
// their context, those within a [Limit] and those in a call of [Block] do not count. If tasks block
// otherwise and processors are idle, more are run after some milliseconds. A task started by a task is
// the next that its goroutine runs, the newest first; those from elsewhere run in the order they
// were started. Now and then the oldest goes first, so that tasks which start others without end
// keep no task waiting for ever.
//
// The task is cancelled with ctx: if it has not begun it is not run, and f gets a context
// that ends with ctx. If ctx belongs to a [Scope], so does the task. The error of a task that
// belongs to none is seen by those who wait for its future, and otherwise by no one.
func Go[T any](ctx context.Context, f func(context.Context) (T, error), options ...Option) Future[T] {
	need("Go", ctx, f != nil)
	return start(ctx, f, entry(f), options)
}

// need panics if a call was given no context or no function. A task would find that out on
// another goroutine.
func need(call string, ctx context.Context, function bool) {
	if ctx == nil {
		panic(fmt.Errorf("task: %s: the context is nil; use context.Background()", call))
	}
	if !function {
		panic(fmt.Errorf("task: %s: the function is nil", call))
	}
}

// entry returns the address of a function's code, from which its name is found.
func entry(f any) uintptr { return reflect.ValueOf(f).Pointer() }

// start is Go for a task that errors call by the function at pc, of which f may be a wrapper.
func start[T any](ctx context.Context, f func(context.Context) (T, error), pc uintptr, options []Option) Future[T] {
	c := &closure[T]{fn: f, pc: pc}
	if len(options) == 0 {
		tasks().Go(ctx, &c.rec, c, nil)
		return Future[T]{c}
	}
	r := requested(options)
	if r.asked != (asked{}) {
		c.asked = &asked{r.name, r.timeout, r.again}
	}
	tasks().Go(ctx, &c.rec, c, &r.spec)
	return Future[T]{c}
}

// Do is [Go] for a function without a result.
func Do(ctx context.Context, f func(context.Context) error, options ...Option) Future[struct{}] {
	need("Do", ctx, f != nil)
	return start(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) }, entry(f), options)
}

// Block calls wait, which blocks on something that package task does not see: a channel, a lock, the
// network, a device. If ctx is that of a task, or derived from it, the task does
// not count as running until wait returns, so that tasks which are queued can begin at once. One
// of them may be what wait waits for. Without Block they begin once processors have been idle for some
// milliseconds.
//
// With a context of no task wait is only called. A task within a [Limit] keeps its place, since the
// limit bounds how many of its tasks wait. [Future.Wait], [Scope], [Stream] and those calls of the root package that
// wait and take a context need no Block: they let other tasks run by themselves.
func Block(ctx context.Context, wait func()) {
	need("Block", ctx, wait != nil)
	pool.Block(ctx, wait)
}

// ScopeOption is something that a scope asks for.
type ScopeOption interface{ setScope(*scopeRequest) }

// scopeRequest has the settings that the options of a scope set.
type scopeRequest struct{ keepGoing bool }

type scopeOption func(*scopeRequest)

func (o scopeOption) setScope(s *scopeRequest) { o(s) }

// KeepGoing lets the other tasks of a scope go on when one has failed.
func KeepGoing() ScopeOption { return scopeOption(func(s *scopeRequest) { s.keepGoing = true }) }

// Scope calls body, waits until every task has ended that was started with its context, by
// body or by these tasks, and returns the first error of any of them. That error cancels
// the context and with it the tasks that have not begun, unless options has [KeepGoing].
// A panic of body goes on after all tasks have ended.
//
// Calls of [Map], [Each], [Filter], [Reduce], [Stream] and Scope that are made with its context belong to it too: they are
// cancelled with its tasks, and it waits for them, also for those that another goroutine makes. Their
// errors are for their callers alone. [WithProgress] tells how many tasks and elements have ended.
func Scope(ctx context.Context, body func(context.Context) error, options ...ScopeOption) error {
	need("Scope", ctx, body != nil)
	var r scopeRequest
	for i, o := range options {
		if o == nil {
			panic(fmt.Errorf("task: Scope: option %d is nil", i))
		}
		o.setScope(&r)
	}
	var m member
	m.join(ctx)
	defer m.leave()
	g := m.newGroup(ctx, r.keepGoing)
	g.Account = m.account
	returned := false
	defer func() {
		if !returned {
			g.Cancel(errors.New("the function of the scope did not return"))
			g.Close(ctx)
		}
	}()
	err := body(g.Context())
	returned = true
	if err != nil {
		g.Fail(err)
	}
	return g.Close(ctx)
}

// Option is something that a task asks for.
type Option interface{ set(*request) }

// request has the settings that the options of a task set.
type request struct {
	spec pool.Spec
	asked
}

// asked is the part of a request that a task keeps.
type asked struct {
	name    string
	timeout time.Duration
	again   bool // the function may be called more than once
}

// requested puts options together.
func requested(options []Option) *request {
	r := new(request)
	for i, o := range options {
		if o == nil {
			panic(fmt.Errorf("task: option %d is nil", i))
		}
		o.set(r)
	}
	return r
}

type option func(*request)

func (o option) set(s *request) { o(s) }

// Dependency is the future of any task.
type Dependency interface{ record() *pool.Task }

// After lets a task run after others have succeeded. If one of them fails or is cancelled,
// the task is not run, and its error is a [DependencyError]. It panics if one is nil or the
// zero Future.
func After(futures ...Dependency) Option {
	for i, f := range futures {
		if f == nil || f.record() == nil {
			panic(fmt.Errorf("task: After: future %d belongs to no task", i))
		}
	}
	return option(func(s *request) {
		s.spec.After = slices.Grow(s.spec.After, len(futures))
		for _, f := range futures {
			s.spec.After = append(s.spec.After, f.record())
		}
	})
}

// Limit bounds the number of its tasks that run at the same time. They run on goroutines of their own,
// beside the tasks of no limit, so that it suits work that waits for a disk, a network or
// a service. A task that waits for another with its context gives up its place and gets it back
// before Wait returns; with a context of no task it keeps it. NewLimit makes one.
type Limit struct{ gate *gate.Limit }

// NewLimit returns a limit of n tasks, at least one.
func NewLimit(n int) *Limit { return &Limit{gate.NewLimit(n)} }

// Within lets a task run when the limit has room. Tasks that wait for it run by priority,
// and in the order they were started. It panics if NewLimit did not make l: such a limit
// has no number.
func Within(l *Limit) Option {
	if l == nil || l.gate == nil {
		panic(errors.New("task: Within a limit that NewLimit did not make"))
	}
	return option(func(s *request) { s.spec.Limit = l.gate })
}

// Priority lets a task run before those of a lower one that are ready too. Zero is that of
// tasks without the option; tasks below it run when there is nothing else to do.
func Priority(n int) Option {
	return option(func(s *request) { s.spec.Priority = n })
}

// Timeout ends the context that the function is called with after d, with a cause that wraps
// [ErrTimeout]; an error that the function returns then wraps it too. With [Retry] each
// try has as long. A function that does not look at its context is not ended.
func Timeout(d time.Duration) Option {
	return option(func(s *request) { s.timeout = d })
}

// Retry calls the function up to n times more while it fails or panics, after a pause that
// doubles each time, up to a minute. Without it a function is called once.
func Retry(n int, pause time.Duration) Option {
	return option(func(s *request) { s.spec.Retries, s.spec.Pause, s.again = n, pause, n > 0 })
}

// Name is the name of the task in errors. Without it they use the name of its function.
func Name(name string) Option {
	return option(func(s *request) { s.name = name })
}
