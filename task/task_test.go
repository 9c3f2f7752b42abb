package task_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft/task"
)

func value[T any](x T) func(context.Context) (T, error) {
	return func(context.Context) (T, error) { return x, nil }
}

// TestTaskFails: whatever a function does instead of returning a result is an error of its
// future, and of that alone.
func TestTaskFails(t *testing.T) {
	ctx := context.Background()
	is := func(want ...error) func(error) bool {
		return func(err error) bool {
			return !slices.ContainsFunc(want, func(w error) bool { return !errors.Is(err, w) })
		}
	}
	var nilPanic *runtime.PanicNilError
	for name, c := range map[string]struct {
		f    func(context.Context) (int, error)
		want func(error) bool
	}{
		"error":               {func(context.Context) (int, error) { return 7, io.EOF }, is(io.EOF)},
		"panic":               {func(context.Context) (int, error) { panic("oh") }, is(task.ErrPanic)},
		"panic with an error": {func(context.Context) (int, error) { panic(io.EOF) }, is(task.ErrPanic, io.EOF)},
		"panic with nil":      {func(context.Context) (int, error) { panic(nil) }, func(err error) bool { return errors.As(err, &nilPanic) && errors.Is(err, task.ErrPanic) }},
		"Goexit":              {func(context.Context) (int, error) { runtime.Goexit(); return 0, nil }, is(task.ErrGoexit)},
		"self":                {nil, is(task.ErrDeadlock)},
	} {
		t.Run(name, func(t *testing.T) {
			if c.f == nil {
				self := make(chan task.Future[int], 1)
				c.f = func(ctx context.Context) (int, error) { return (<-self).Wait(ctx) }
				f := task.Go(ctx, c.f)
				self <- f
				if _, err := f.Wait(ctx); !c.want(err) {
					t.Error(err)
				}
				return
			}
			calls := 0
			f := task.Go(ctx, func(ctx context.Context) (int, error) { calls++; return c.f(ctx) })
			x, err := f.Wait(ctx)
			if !c.want(err) || x != 0 || calls != 1 {
				t.Errorf("%d, %v after %d calls", x, err, calls)
			}
			// Those that wait for it, and run it on their goroutine if they can.
			y, err := task.Go(ctx, func(ctx context.Context) (string, error) {
				_, err := task.Go(ctx, c.f).Wait(ctx)
				return "went on", err
			}).Wait(ctx)
			if !c.want(err) || y != "" {
				t.Errorf("%q, %v", y, err)
			}
			// Those after it.
			_, err = task.Go(ctx, value(1), task.After(f), task.Name("later")).Wait(ctx)
			var de *task.DependencyError
			if !c.want(err) || !errors.As(err, &de) || de.Task != "later" || !strings.Contains(de.Dependency, "TestTaskFails") {
				t.Errorf("%v", err)
			}
		})
	}
}

// The error of a task after a long chain of tasks that were not run names the one that failed, and has
// no part for each of the others.
func TestDependencyChain(t *testing.T) {
	ctx := t.Context()
	begin := make(chan struct{})
	bad := errors.New("zero")
	f := task.Go(ctx, func(context.Context) (int, error) { <-begin; return 0, bad }, task.Name("first"))
	for i := range 100 {
		f = task.Go(ctx, value(1), task.After(f), task.Name(fmt.Sprint("task", i)))
		if i == 0 {
			close(begin)
		}
	}
	_, err := f.Wait(ctx)
	want := "task task99: not run, since first failed, with 99 tasks between them that were not run either: zero"
	var de *task.DependencyError
	if !errors.Is(err, bad) || !errors.As(err, &de) || de.Dependency != "task98" || err.Error() != want {
		t.Errorf("%+v\n%v\nwant %s", de, err, want)
	}
}

// TestPanicStack: the stack is that of the function.
func TestPanicStack(t *testing.T) {
	_, err := task.Go(context.Background(), func(context.Context) (int, error) { return explode(), nil }).Wait(context.Background())
	var p *task.PanicError
	if !errors.As(err, &p) || !strings.Contains(string(p.Stack), "explode") || !strings.Contains(err.Error(), "panic: boom, in task_test.explode (task_test.go:") || p.Value != "boom" || !strings.Contains(p.Task, "TestPanicStack") {
		t.Errorf("%+v", p)
	}
}

func explode() int { panic("boom") }

// TestNoLimit: a limit without a number would let all tasks run.
func TestNoLimit(t *testing.T) {
	for _, l := range []*task.Limit{nil, {}} {
		func() {
			defer func() {
				if p, ok := recover().(error); !ok || !strings.Contains(p.Error(), "NewLimit") {
					t.Errorf("Within(%v): %v", l, p)
				}
			}()
			task.Within(l)
		}()
	}
}

// TestTaskNames: errors name the caller's function or the name that it gave, never one of
// the package's own functions, and so do errors that it makes.
func TestTaskNames(t *testing.T) {
	ctx := context.Background()
	_, done := task.Do(ctx, panicking).Wait(ctx)
	_, each := task.Map(ctx, []int{1}, panicsOn, task.Priority(1))
	_, late := task.Do(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, task.Name("slow"), task.Timeout(time.Millisecond)).Wait(ctx)
	var self task.Future[int]
	begin := make(chan struct{})
	self = task.Go(ctx, func(ctx context.Context) (int, error) { <-begin; return self.Wait(ctx) }, task.Name("self"))
	close(begin)
	_, dead := self.Wait(ctx)
	var ended context.Context
	if err := task.Scope(ctx, func(ctx context.Context) error { ended = ctx; return nil }); err != nil {
		t.Fatal(err)
	}
	_, after := task.Go(ended, value(1), task.Name("after")).Wait(ctx)
	for _, c := range []struct {
		err, is error
		text    string
	}{
		{done, task.ErrPanic, "task task_test.panicking: panic: boom, in task_test.panicking (task_test.go:"},
		{each, task.ErrPanic, "element 0: task task_test.panicsOn: panic: boom, in task_test.panicsOn (task_test.go:"},
		{late, task.ErrTimeout, "task slow: timed out after 1ms: context deadline exceeded"},
		{dead, task.ErrDeadlock, "wait for task self: the task waits for itself"},
		{after, task.ErrScopeEnded, "wait for task after: the scope has ended"},
	} {
		if c.err == nil || !strings.HasPrefix(c.err.Error(), c.text) || !errors.Is(c.err, c.is) {
			t.Errorf("%v, not %s", c.err, c.text)
		}
	}
}

func panicking(context.Context) error { panic("boom") }

func panicsOn(context.Context, int) (int, error) { panic("boom") }

// TestManyWait: one future, many that wait.
func TestManyWait(t *testing.T) {
	release := make(chan struct{})
	f := task.Go(context.Background(), func(context.Context) (int, error) { <-release; return 3, nil })
	var sum atomic.Int64
	err := task.Scope(context.Background(), func(ctx context.Context) error {
		var wg sync.WaitGroup
		for range 50 {
			task.Do(ctx, func(ctx context.Context) error {
				x, err := f.Wait(ctx)
				sum.Add(int64(x))
				return err
			})
			wg.Go(func() {
				x, _ := f.Wait(context.Background())
				sum.Add(int64(x))
			})
		}
		close(release)
		wg.Wait()
		return nil
	})
	if err != nil || sum.Load() != 300 {
		t.Errorf("%d, %v", sum.Load(), err)
	}
}

// TestValueTooEarly: there is no value before the task has ended.
func TestValueTooEarly(t *testing.T) {
	release := make(chan struct{})
	f := task.Go(context.Background(), func(context.Context) (int, error) { <-release; return 3, nil }, task.Name("slow"))
	for _, want := range []string{"task: value of task slow, which has not ended", ""} {
		got := func() (text string) {
			defer func() {
				if p := recover(); p != nil {
					text = fmt.Sprint(p)
				}
			}()
			if f.Value() != 3 {
				t.Error("wrong value")
			}
			return ""
		}()
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if want != "" {
			close(release)
			<-f.Done()
		}
	}
}

// TestScopeEnds: a scope ends after all its tasks, those of tasks included, however its
// body ends.
func TestScopeEnds(t *testing.T) {
	var ended atomic.Int32
	var leaked context.Context
	start := func(ctx context.Context) {
		leaked = ctx
		began := make(chan struct{})
		task.Do(ctx, func(ctx context.Context) error {
			close(began)
			task.Do(ctx, func(ctx context.Context) error { return nil })
			<-ctx.Done()
			time.Sleep(time.Millisecond) // a Scope that does not wait would return meanwhile
			ended.Add(1)
			return nil
		})
		<-began
	}
	// An error, a panic, and the end of the context that the scope was made from.
	err := task.Scope(context.Background(), func(ctx context.Context) error { start(ctx); return io.EOF })
	if err != io.EOF || ended.Load() != 1 {
		t.Errorf("%v, %d", err, ended.Load())
	}
	func() {
		defer func() {
			if p := recover(); p != "body" || ended.Load() != 2 {
				t.Errorf("%v, %d", p, ended.Load())
			}
		}()
		task.Scope(context.Background(), func(ctx context.Context) error { start(ctx); panic("body") }, task.KeepGoing())
	}()
	ctx, cancel := context.WithCancelCause(context.Background())
	if err := task.Scope(ctx, func(ctx context.Context) error { start(ctx); cancel(io.ErrNoProgress); return nil }); err != nil && err != io.ErrNoProgress || ended.Load() != 3 {
		t.Errorf("%v, %d", err, ended.Load())
	}
	if _, err := task.Go(leaked, value(1)).Wait(context.Background()); !errors.Is(err, task.ErrScopeEnded) {
		t.Errorf("a task of a scope that has ended: %v", err)
	}
	if err := task.Scope(context.Background(), func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
}

// TestContextValues: a task sees the values of the context it was started with.
func TestContextValues(t *testing.T) {
	type key struct{}
	type inner struct{}
	ctx := context.WithValue(context.Background(), key{}, "v")
	got, err := task.Go(ctx, func(ctx context.Context) (any, error) {
		return task.Go(context.WithValue(ctx, inner{}, 2), func(ctx context.Context) (any, error) {
			return fmt.Sprint(ctx.Value(key{}), ctx.Value(inner{})), nil
		}).Wait(ctx)
	}).Wait(ctx)
	if got != "v2" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}
