package task

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"

	"github.com/weft-run/weft/fault"
	"github.com/weft-run/weft/task/internal/pool"
)

// Future is the result that a task started by [Go] will have. It is a small value that can
// be copied, and any number of goroutines may wait for it. The zero Future belongs to no
// task; its methods panic.
type Future[T any] struct{ c *closure[T] }

// Wait returns the result of the task when it has ended, or the cause of ctx when that
// ends first. The error is the one that the function returned, a [PanicError], a
// [DependencyError], or, if the task was cancelled before it began, the cause of the
// context it was started with.
//
// Which task waits is told by ctx: the one whose function was called with it, or with a context
// that it is derived from, whatever goroutine calls. That task gives its place to another, within
// a limit too, so that tasks that wait for tasks do not run out of places. With the context it
// was called with, it also runs the other task itself if that was not begun, which is much
// quicker. A wait that could not end, since the other task waits for this one, returns
// [ErrDeadlock]; cycles through channels, locks and the ends of scopes are not seen.
//
// With a context of no task, such as [context.Background], a task that waits keeps its place. If
// it waits so for a task that needs the last place of its own [Limit], neither ends.
func (f Future[T]) Wait(ctx context.Context) (value T, err error) {
	if ctx == nil {
		panic(errors.New("task: Wait: the context is nil; use context.Background()"))
	}
	switch err := f.task().rec.Wait(ctx); err {
	case nil:
		return f.c.value, nil
	case ErrDeadlock, ErrScopeEnded:
		return value, fmt.Errorf("wait for task %s: %w", f.c.name(), err)
	default:
		return value, err
	}
}

// Value returns the result of a task that has succeeded, as every task has that is named in
// [After] once the later task runs. It panics if the task has not ended or has failed.
func (f Future[T]) Value() T {
	switch ended, err := f.task().rec.Result(); {
	case !ended:
		panic(fmt.Errorf("task: value of task %s, which has not ended", f.c.name()))
	case err != nil:
		panic(fmt.Errorf("task: value of task %s, which failed: %w", f.c.name(), err))
	}
	return f.c.value
}

// Done returns a channel that is closed when the task has ended.
func (f Future[T]) Done() <-chan struct{} { return f.task().rec.Ended() }

// task is the task of the future.
func (f Future[T]) task() *closure[T] {
	if f.c == nil {
		panic(errors.New("task: the zero Future belongs to no task; Go returns one that does"))
	}
	return f.c
}

// record is nil for the zero Future.
func (f Future[T]) record() *pool.Task {
	if f.c == nil {
		return nil
	}
	return &f.c.rec
}

// WaitAll waits for all of the futures, which may be none, and returns their results in
// order, or the error of the first in this order that failed.
func WaitAll[T any](ctx context.Context, futures ...Future[T]) ([]T, error) {
	out := make([]T, len(futures))
	var failed error
	// The last to be started is the first that a task can run itself.
	for i := len(futures) - 1; i >= 0; i-- {
		var err error
		if out[i], err = futures[i].Wait(ctx); err != nil {
			failed = err
		}
	}
	if failed != nil {
		return nil, failed
	}
	return out, nil
}

// DependencyError is the error of a task that was not run, since one that it was to run
// after failed with Err.
type DependencyError struct {
	Task       string
	Dependency string // the task that failed
	Err        error
}

// Error names the task that failed first and, where that is another than Dependency, how many tasks
// were not run between the two.
func (e *DependencyError) Error() string {
	first, between := e, 0
	for {
		before, skipped := first.Err.(*DependencyError)
		if !skipped {
			break
		}
		first, between = before, between+1
	}
	others := ""
	switch between {
	case 0:
	case 1:
		others = ", with 1 task between them that was not run either"
	default:
		others = fmt.Sprintf(", with %d tasks between them that were not run either", between)
	}
	return fmt.Sprintf("task %s: not run, since %s failed%s: %v", e.Task, first.Dependency, others, first.Err)
}

func (e *DependencyError) Unwrap() error { return e.Err }

// closure is a task with its function and its result: one allocation.
type closure[T any] struct {
	rec   pool.Task
	fn    func(context.Context) (T, error) // nil once it is not called any more
	pc    uintptr                          // of the caller's function, for its name
	asked *asked                           // nil if it asked for none of it
	value T
}

// Run calls the function.
func (c *closure[T]) Run(rec *pool.Task) (err error) {
	fn := c.fn
	if c.asked == nil || !c.asked.again {
		c.fn = nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fault.Recovered(c.name(), p)
		}
	}()
	if c.asked != nil && c.asked.timeout > 0 {
		ctx, cancel := context.WithTimeoutCause(rec, c.asked.timeout, fmt.Errorf("task %s: %w after %v", c.name(), ErrTimeout, c.asked.timeout))
		defer cancel()
		c.value, err = fn(ctx)
		if cause := context.Cause(ctx); err != nil && errors.Is(cause, ErrTimeout) && !errors.Is(err, ErrTimeout) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return err
	}
	c.value, err = fn(rec)
	return err
}

// Blame is the error of a task that is not run because of another.
func (c *closure[T]) Blame(dep *pool.Task) error {
	_, err := dep.Result()
	e := &DependencyError{Task: c.name(), Dependency: "another task", Err: err}
	if b, ok := dep.Body().(interface{ name() string }); ok {
		e.Dependency = b.name()
	}
	return e
}

// name returns the name of the task in errors: that of the option Name, or of its function.
func (c *closure[T]) name() string {
	if c.asked != nil && c.asked.name != "" {
		return c.asked.name
	}
	if f := runtime.FuncForPC(c.pc); f != nil {
		return path.Base(f.Name())
	}
	return "without a name"
}
