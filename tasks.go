package weft

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/weft-run/weft/internal/gate"
	"github.com/weft-run/weft/internal/pool"
)

// Errors of tasks that are Go functions, for errors.Is.
var (
	// ErrDeadlock is returned by a wait that could not end, since the task waits for itself,
	// directly or through others.
	ErrDeadlock = pool.ErrDeadlock
	// ErrGoexit is the error of a task whose function ended its goroutine by
	// runtime.Goexit, and of tasks that ran it on theirs while they waited for it.
	ErrGoexit = pool.ErrGoexit
	// ErrScopeEnded is the error of a task that was started with the context of a scope
	// that had ended. It is not run.
	ErrScopeEnded = pool.ErrClosed
)

// tasks is the pool that runs the functions given to Go, one slot for each processor. It has
// no goroutines while there are no tasks.
var tasks = sync.OnceValue(func() *pool.Pool { return pool.New(runtime.GOMAXPROCS(0)) })

// Go starts a task: f is called once, on another goroutine, and its result is in the
// future. It needs no [Runtime]. f may start tasks with the context it is called with, and
// wait for them.
//
// As many tasks run at the same time as there are processors; those that wait for another,
// and those within a [Limit], do not count. If tasks block otherwise and processors are
// idle, more are run after some milliseconds. A task started by a task is the next that
// its goroutine runs, the newest first; those from elsewhere run in the order they were
// started.
//
// The task is cancelled with ctx: if it has not begun it is not run, and f gets a context
// that ends with ctx. If ctx belongs to a [Scope], so does the task. The error of a task that
// belongs to none is seen by those who wait for its future, and otherwise by no one.
func Go[T any](ctx context.Context, f func(context.Context) (T, error), options ...TaskOption) Future[T] {
	return start(ctx, f, entry(f), options)
}

// entry is where the code of a function begins, which tells its name.
func entry(f any) uintptr { return reflect.ValueOf(f).Pointer() }

// start is Go for a task that errors call by the function at pc, of which f may be a wrapper.
func start[T any](ctx context.Context, f func(context.Context) (T, error), pc uintptr, options []TaskOption) Future[T] {
	c := &closure[T]{fn: f, pc: pc}
	if len(options) == 0 {
		tasks().Go(ctx, &c.rec, c, nil)
		return Future[T]{c}
	}
	r := new(request)
	for _, o := range options {
		o.set(r)
	}
	if r.asked != (asked{}) {
		c.asked = &asked{r.name, r.timeout, r.again}
	}
	tasks().Go(ctx, &c.rec, c, &r.spec)
	return Future[T]{c}
}

// Do is [Go] for a function without a result.
func Do(ctx context.Context, f func(context.Context) error, options ...TaskOption) Future[struct{}] {
	return start(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) }, entry(f), options)
}

// Each calls f for every element, in a task of its own that has the options, waits for all of
// them and returns the results in the order of the elements. The first error cancels the
// tasks that have not begun, and is returned. For functions that take less than a
// microsecond see [Map], which makes one task of many elements.
func Each[T, U any](ctx context.Context, xs []T, f func(context.Context, T) (U, error), options ...TaskOption) ([]U, error) {
	out, pc := make([]U, len(xs)), entry(f)
	err := Scope(ctx, func(ctx context.Context) error {
		futures := make([]Future[struct{}], len(xs))
		for i, x := range xs {
			futures[i] = start(ctx, func(ctx context.Context) (_ struct{}, err error) {
				out[i], err = f(ctx, x)
				return struct{}{}, err
			}, pc, options)
		}
		WaitAll(ctx, futures...) // the scope has the error
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// ScopeOption changes what a [Scope] does.
type ScopeOption int

// KeepGoing lets the other tasks of a scope go on when one has failed.
const KeepGoing ScopeOption = 1

// Scope calls body, waits until every task has ended that was started with its context, by
// body or by these tasks, and returns the first error of any of them. That error cancels
// the context and with it the tasks that have not begun, unless options has [KeepGoing].
// A panic of body goes on after all tasks have ended.
func Scope(ctx context.Context, body func(context.Context) error, options ...ScopeOption) error {
	keep := false
	for _, o := range options {
		keep = keep || o == KeepGoing
	}
	g := tasks().NewGroup(ctx, keep)
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

// TaskOption is something that a task asks for.
type TaskOption interface{ set(*request) }

// request is what the options of a task ask for.
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

type option func(*request)

func (o option) set(s *request) { o(s) }

// Dependency is the future of any task.
type Dependency interface{ record() *pool.Task }

// After lets a task run after others have succeeded. If one of them fails or is cancelled,
// the task is not run, and its error is a [DependencyError].
func After(futures ...Dependency) TaskOption {
	return option(func(s *request) {
		s.spec.After = slices.Grow(s.spec.After, len(futures))
		for _, f := range futures {
			s.spec.After = append(s.spec.After, f.record())
		}
	})
}

// Limit is how many of its tasks run at the same time. They run on goroutines of their own,
// beside the tasks of no limit, so that it suits work that waits for a disk, a network or
// a service. A task that waits for another gives up its place and gets it back before
// Wait returns. NewLimit makes one.
type Limit struct{ gate *gate.Limit }

// NewLimit returns a limit of n tasks, at least one.
func NewLimit(n int) *Limit { return &Limit{gate.NewLimit(n)} }

// Within lets a task run when the limit has room. Tasks that wait for it run by priority,
// and in the order they were started. It panics if NewLimit did not make l: such a limit
// has no number.
func Within(l *Limit) TaskOption {
	if l == nil || l.gate == nil {
		panic(errors.New("weft: Within a limit that NewLimit did not make"))
	}
	return option(func(s *request) { s.spec.Limit = l.gate })
}

// Priority lets a task run before those of a lower one that are ready too. Zero is that of
// tasks without the option; tasks below it run when there is nothing else to do.
func Priority(n int) TaskOption {
	return option(func(s *request) { s.spec.Priority = n })
}

// Timeout ends the context that the function is called with after d, with a cause that wraps
// [ErrTimeout]; an error that the function returns then wraps it too. With [Retry] each
// try has as long. A function that does not look at its context is not ended.
func Timeout(d time.Duration) TaskOption {
	return option(func(s *request) { s.timeout = d })
}

// Retry calls the function up to n times more while it fails or panics, after a pause that
// doubles each time, up to a minute. Without it a function is called once.
func Retry(n int, pause time.Duration) TaskOption {
	return option(func(s *request) { s.spec.Retries, s.spec.Pause, s.again = n, pause, n > 0 })
}

// Name is what errors call the task. Without it they use the name of its function.
func Name(name string) TaskOption {
	return option(func(s *request) { s.name = name })
}
