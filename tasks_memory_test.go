//go:build !race

// The race detector allocates, and makes records larger.

package weft_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/weft-run/weft"
)

// TestTaskAllocations: an independent task is one allocation beside its function.
func TestTaskAllocations(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	nothing := value(1)
	for _, ctx := range []context.Context{context.Background(), ctx} {
		n := testing.AllocsPerRun(20, func() {
			for range 1000 {
				weft.Go(ctx, nothing)
			}
		})
		if n > 1100 { // some for goroutines
			t.Errorf("%.0f allocations for 1000 tasks", n)
		}
	}
}

// TestPendingMemory: a million tasks that have not begun take little memory each.
func TestPendingMemory(t *testing.T) {
	const n = 1_000_000
	var stop atomic.Bool
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for name, after := range map[string]bool{"plain": false, "after another": true} {
		stop.Store(false)
		var busy []weft.Future[int]
		for range runtime.GOMAXPROCS(0) {
			began := make(chan struct{})
			busy = append(busy, weft.Go(context.Background(), func(context.Context) (int, error) {
				for close(began); !stop.Load(); runtime.Gosched() {
				}
				return 1, nil
			}))
			<-began
		}
		var sum atomic.Int64
		err := weft.Scope(context.Background(), func(ctx context.Context) error {
			before := heap()
			for i := range n {
				f := func(context.Context) (struct{}, error) { sum.Add(int64(i)); return struct{}{}, nil }
				if after {
					weft.Go(ctx, f, weft.After(busy[0]))
				} else {
					weft.Go(ctx, f)
				}
			}
			each := (heap() - before) / n
			t.Logf("%s: %d bytes for each of a million pending tasks", name, each)
			if sum.Load() != 0 {
				t.Error("some have begun")
			}
			if each > 300 {
				t.Errorf("%s: %d bytes for each of a million pending tasks", name, each)
			}
			stop.Store(true)
			return nil
		})
		if err != nil || sum.Load() != n*(n-1)/2 {
			t.Errorf("%s: the sum is %d, %v", name, sum.Load(), err)
		}
	}
}
