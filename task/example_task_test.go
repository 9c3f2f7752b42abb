package task_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/task"
)

// A graph of tasks: two that are independent, one that needs both. What it runs after has
// succeeded, so that it takes the values without a wait.
func ExampleAfter() {
	ctx := context.Background()
	width := task.Go(ctx, func(context.Context) (int, error) { return 6, nil })
	height := task.Go(ctx, func(context.Context) (int, error) { return 7, nil })
	area := task.Go(ctx, func(context.Context) (int, error) { return width.Value() * height.Value(), nil }, task.After(width, height))
	fmt.Println(area.Wait(ctx))
	// Output: 42 <nil>
}

// A task that fails is named by the error of those that were to run after it.
func ExampleDependencyError() {
	ctx := context.Background()
	load := task.Go(ctx, func(context.Context) ([]byte, error) { return nil, errors.New("no such file") }, task.Name("load"))
	parse := task.Go(ctx, func(context.Context) (int, error) { return len(load.Value()), nil }, task.After(load), task.Name("parse"))
	_, err := parse.Wait(ctx)
	fmt.Println(err)
	// Output: task parse: not run, since load failed: no such file
}

// fib starts a task for one of its two calls. While it waits it runs that task itself, if
// none of the other goroutines has begun it.
func fib(ctx context.Context, n int) (int, error) {
	if n < 2 {
		return n, nil
	}
	a := task.Go(ctx, func(ctx context.Context) (int, error) { return fib(ctx, n-1) })
	b, err := fib(ctx, n-2)
	if err != nil {
		return 0, err
	}
	x, err := a.Wait(ctx)
	return x + b, err
}

// Recursion: tasks that start tasks and wait for them. A loop or a condition is one of Go.
func ExampleGo_recursion() {
	ctx := context.Background()
	f := task.Go(ctx, func(ctx context.Context) (int, error) { return fib(ctx, 20) })
	fmt.Println(f.Wait(ctx))
	// Output: 6765 <nil>
}

// At most three of these run at a time, on goroutines of their own, however many
// processors there are.
func ExampleLimit() {
	service := task.NewLimit(3)
	var now, most atomic.Int32
	err := task.Each(context.Background(), make([]int, 20), func(context.Context, int) error {
		n := now.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		time.Sleep(time.Millisecond) // a request
		now.Add(-1)
		return nil
	}, task.Within(service))
	fmt.Println(most.Load() <= 3, err)
	// Output: true <nil>
}

// A task that fails is called again only if that is asked for.
func ExampleRetry() {
	tries := 0
	f := task.Go(context.Background(), func(context.Context) (string, error) {
		if tries++; tries < 3 {
			return "", errors.New("busy")
		}
		return "served", nil
	}, task.Retry(5, time.Millisecond))
	answer, err := f.Wait(context.Background())
	fmt.Println(answer, err, tries)
	// Output: served <nil> 3
}

// A panic is an error with its place and its stack.
func ExamplePanicError() {
	f := task.Go(context.Background(), func(context.Context) (int, error) {
		var xs []int
		return xs[3], nil
	}, task.Name("lookup"))
	_, err := f.Wait(context.Background())
	var p *task.PanicError
	if errors.As(err, &p) {
		fmt.Println(p.Value)
		fmt.Println(strings.Contains(p.At, "example_task_test.go:"), errors.Is(err, task.ErrPanic), len(p.Stack) > 0)
	}
	// Output:
	// runtime error: index out of range [3] with length 0
	// true true true
}

// A scope ends when all its tasks have, with the first error, which cancels the others.
func ExampleScope() {
	err := task.Scope(context.Background(), func(ctx context.Context) error {
		task.Do(ctx, func(ctx context.Context) error {
			<-ctx.Done() // the other has failed
			return ctx.Err()
		})
		task.Do(ctx, func(context.Context) error { return errors.New("disk full") })
		return nil
	})
	fmt.Println(err)
	// Output: disk full
}

// With KeepGoing the others go on.
func ExampleScope_keepGoing() {
	var done atomic.Int32
	err := task.Scope(context.Background(), func(ctx context.Context) error {
		for i := range 5 {
			task.Do(ctx, func(context.Context) error {
				if i == 2 {
					return errors.New("the third failed")
				}
				done.Add(1)
				return nil
			})
		}
		return nil
	}, task.KeepGoing())
	fmt.Println(done.Load(), err)
	// Output: 4 the third failed
}

// Cancelling its context ends a task that has not begun, and tells one that runs. The
// future has the cause.
func ExampleFuture_Wait_cancelled() {
	ctx, cancel := context.WithCancelCause(context.Background())
	never := make(chan int)
	first := task.Go(ctx, func(ctx context.Context) (int, error) {
		select {
		case x := <-never:
			return x, nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	})
	second := task.Go(ctx, func(context.Context) (int, error) { return 1, nil }, task.After(first))
	cancel(errors.New("shutting down"))
	_, err := second.Wait(context.Background())
	fmt.Println(errors.Is(err, context.Cause(ctx)))
	_, err = first.Wait(context.Background())
	fmt.Println(err)
	// Output:
	// true
	// shutting down
}

// A timeout is for each call of the function.
func ExampleTimeout() {
	f := task.Go(context.Background(), func(ctx context.Context) (int, error) {
		<-ctx.Done() // a service that does not answer
		return 0, ctx.Err()
	}, task.Timeout(time.Millisecond))
	_, err := f.Wait(context.Background())
	fmt.Println(errors.Is(err, task.ErrTimeout), errors.Is(err, context.DeadlineExceeded))
	// Output: true true
}

// Within a limit of one the order can be seen: by priority, then as they were started.
func ExamplePriority() {
	one := task.NewLimit(1)
	var order []string
	err := task.Scope(context.Background(), func(ctx context.Context) error {
		ready := make(chan struct{})
		task.Do(ctx, func(context.Context) error { <-ready; return nil }, task.Within(one))
		for _, t := range []struct {
			name     string
			priority int
		}{{"tidy up", -1}, {"work", 0}, {"alarm", 5}, {"more work", 0}} {
			task.Do(ctx, func(context.Context) error {
				order = append(order, t.name)
				return nil
			}, task.Within(one), task.Priority(t.priority))
		}
		close(ready)
		return nil
	})
	fmt.Println(strings.Join(order, ", "), err)
	// Output: alarm, work, more work, tidy up <nil>
}

// Done is for select.
func ExampleFuture_Done() {
	f := task.Go(context.Background(), func(context.Context) (int, error) { return 5, nil })
	select {
	case <-f.Done():
		fmt.Println(f.Value())
	case <-time.After(time.Minute):
		fmt.Println("it takes long")
	}
	// Output: 5
}

// The results of several futures, in order.
func ExampleWaitAll() {
	ctx := context.Background()
	var squares []task.Future[int]
	for i := range 5 {
		squares = append(squares, task.Go(ctx, func(context.Context) (int, error) { return i * i, nil }))
	}
	fmt.Println(task.WaitAll(ctx, squares...))
	// Output: [0 1 4 9 16] <nil>
}

// A task that blocks on something else than a task says so, and others run meanwhile: here the one that
// it waits for by a channel, on any number of cores.
func ExampleBlock() {
	ctx := context.Background()
	answers := make(chan string)
	ask := task.Go(ctx, func(ctx context.Context) (answer string, err error) {
		task.Do(ctx, func(context.Context) error { answers <- "42"; return nil })
		task.Block(ctx, func() { answer = <-answers })
		return answer, nil
	})
	fmt.Println(ask.Wait(ctx))
	// Output: 42 <nil>
}
