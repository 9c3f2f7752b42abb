package task_test

import (
	"context"
	"sync"
	"testing"

	"github.com/weft-run/weft/task"
)

// fibGo is fib of the example with goroutines, as errgroup has them too: a WaitGroup for
// each fork.
func fibGo(n int) int {
	if n < 2 {
		return n
	}
	var a int
	var wg sync.WaitGroup
	wg.Go(func() { a = fibGo(n - 1) })
	b := fibGo(n - 2)
	wg.Wait()
	return a + b
}

// BenchmarkTasksFib computes fib(30) with a task, or a goroutine, for one of the two calls
// of each: 1,346,268 of them.
func BenchmarkTasksFib(b *testing.B) {
	const n, want = 30, 832040
	ctx := context.Background()
	b.Run("weft", func(b *testing.B) {
		for b.Loop() {
			f := task.Go(ctx, func(ctx context.Context) (int, error) { return fib(ctx, n) })
			if got, err := f.Wait(ctx); got != want || err != nil {
				b.Fatal(got, err)
			}
		}
	})
	b.Run("goroutines", func(b *testing.B) {
		for b.Loop() {
			if got := fibGo(n); got != want {
				b.Fatal(got)
			}
		}
	})
}

// BenchmarkTasksIndependent starts tasks that do nothing, a million at most, and waits for
// all of them.
func BenchmarkTasksIndependent(b *testing.B) {
	nothing := func(context.Context) (int, error) { return 1, nil }
	const some = 1_000_000
	b.Run("weft", func(b *testing.B) {
		for left := b.N; left > 0; left -= some {
			err := task.Scope(context.Background(), func(ctx context.Context) error {
				for range min(left, some) {
					task.Go(ctx, nothing)
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("goroutines", func(b *testing.B) {
		for left := b.N; left > 0; left -= some {
			var wg sync.WaitGroup
			for range min(left, some) {
				wg.Go(func() {})
			}
			wg.Wait()
		}
	})
}

// BenchmarkTasksDAG runs layers of 64 tasks, each after three of the layer before.
func BenchmarkTasksDAG(b *testing.B) {
	const width = 64
	err := task.Scope(context.Background(), func(ctx context.Context) error {
		last := make([]task.Future[int], width)
		next := make([]task.Future[int], width)
		for i := range last {
			last[i] = task.Go(ctx, func(context.Context) (int, error) { return i, nil })
		}
		b.ResetTimer()
		for i := range b.N {
			k := i % width
			above := last[k]
			next[k] = task.Go(ctx, func(context.Context) (int, error) { return above.Value(), nil },
				task.After(above, last[(k+1)%width], last[(k+7)%width]))
			if k == width-1 {
				last, next = next, make([]task.Future[int], width)
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}
