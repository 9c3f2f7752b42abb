//go:build !race

// The race detector allocates, and makes records larger.

package task_test

import (
	"context"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft/task"
)

// TestTaskAllocations: an independent task is one allocation beside its function.
func TestTaskAllocations(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	nothing := value(1)
	for _, ctx := range []context.Context{context.Background(), ctx} {
		n := testing.AllocsPerRun(20, func() {
			for range 1000 {
				task.Go(ctx, nothing)
			}
		})
		if n > 1100 { // some for goroutines
			t.Errorf("%.0f allocations for 1000 tasks", n)
		}
	}
}

// TestPendingMemory: a million tasks that have not begun take little memory each.
func TestPendingMemory(t *testing.T) {
	for name, after := range map[string]bool{"plain": false, "after another": true} {
		// A goroutine of the pool that replaced a waiting one in an earlier test may begin some of
		// the tasks, and garbage of that test may be collected meanwhile. The memory of a task is
		// not known then.
		for end := time.Now().Add(2 * time.Minute); ; {
			each, known := pendingMemory(t, after)
			if known {
				t.Logf("%s: %d bytes for each of a million pending tasks", name, each)
				if each > 300 {
					t.Errorf("%s: %d bytes for each of a million pending tasks", name, each)
				}
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s: some have begun, although all processors are busy, or memory was given back", name)
			}
		}
	}
}

// pendingMemory starts a million tasks while all processors are busy. It returns how many
// bytes each takes, and whether that is known.
func pendingMemory(t *testing.T, after bool) (each uint64, known bool) {
	t.Helper()
	const n = 1_000_000
	var stop atomic.Bool
	heap := func() uint64 { // once nothing of the tests before this one is left to collect
		for least := uint64(math.MaxUint64); ; {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if m.HeapAlloc+1<<20 > least {
				return m.HeapAlloc
			}
			least = m.HeapAlloc
		}
	}
	var busy []task.Future[int]
	for range runtime.GOMAXPROCS(0) {
		began := make(chan struct{})
		busy = append(busy, task.Go(context.Background(), func(context.Context) (int, error) {
			for close(began); !stop.Load(); runtime.Gosched() {
			}
			return 1, nil
		}))
		<-began
	}
	var sum atomic.Int64
	err := task.Scope(context.Background(), func(ctx context.Context) error {
		before := heap()
		for i := range n {
			f := func(context.Context) (struct{}, error) { sum.Add(int64(i)); return struct{}{}, nil }
			if after {
				task.Go(ctx, f, task.After(busy[0]))
			} else {
				task.Go(ctx, f)
			}
		}
		end := heap()
		each = (end - before) / n
		known = sum.Load() == 0 && end >= before
		stop.Store(true)
		return nil
	})
	if err != nil || sum.Load() != n*(n-1)/2 {
		t.Errorf("the sum is %d, %v", sum.Load(), err)
	}
	return each, known
}
