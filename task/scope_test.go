package task_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft/task"
)

// questioned is a context that counts what it is asked.
type questioned struct {
	context.Context
	asked *atomic.Int64
}

func (c questioned) Deadline() (time.Time, bool) { c.asked.Add(1); return c.Context.Deadline() }
func (c questioned) Done() <-chan struct{}       { c.asked.Add(1); return c.Context.Done() }
func (c questioned) Err() error                  { c.asked.Add(1); return c.Context.Err() }
func (c questioned) Value(k any) any             { c.asked.Add(1); return c.Context.Value(k) }

// nested opens scopes within scopes, with a task in each, and within every task if in is true.
func nested(ctx context.Context, depth int, in bool) error {
	if depth == 0 {
		return nil
	}
	return task.Scope(ctx, func(ctx context.Context) error {
		inner := task.Do(ctx, func(ctx context.Context) error {
			if !in {
				return nil
			}
			return nested(ctx, depth-1, in)
		}, task.Timeout(time.Hour))
		if in {
			_, err := inner.Wait(ctx)
			return err
		}
		return nested(ctx, depth-1, in)
	})
}

// A scope asks the one around it: the outermost context is asked as often for many nested
// scopes as for few, where asking through all of them would take the square of their number.
func TestNestedScopesAskTheNearest(t *testing.T) {
	for _, in := range []bool{false, true} {
		var few, many atomic.Int64
		for asked, depth := range map[*atomic.Int64]int{&few: 20, &many: 200} {
			if err := nested(questioned{context.Background(), asked}, depth, in); err != nil {
				t.Fatal(err)
			}
		}
		if f, m := few.Load(), many.Load(); f == 0 || m > 2*f {
			t.Errorf("in tasks %v: asked %d times by 20 nested scopes, %d times by 200", in, f, m)
		}
	}
}

// What a scope knows of the contexts around it is what they say: a deadline, values, and the
// callback of WithProgress for the outermost scope alone, which counts the tasks of those inside
// too, unless there is another callback inside.
func TestNestedScopesKnowTheirContext(t *testing.T) {
	type name struct{}
	until := time.Now().Add(time.Hour)
	ctx, cancel := context.WithDeadline(context.WithValue(context.Background(), name{}, "outer"), until)
	defer cancel()
	var outer, inner atomic.Int64
	told := func(n *atomic.Int64) func(task.Progress) {
		return func(p task.Progress) { n.Store(int64(p.Tasks)) }
	}
	look := func(ctx context.Context) error {
		if d, ok := ctx.Deadline(); !ok || !d.Equal(until) || ctx.Value(name{}) != "outer" {
			t.Errorf("deadline %v %v, value %v", d, ok, ctx.Value(name{}))
		}
		return nil
	}
	two := func(ctx context.Context) error {
		task.Do(ctx, look)
		task.Do(ctx, look)
		return look(ctx)
	}
	err := task.Scope(task.WithProgress(ctx, told(&outer)), func(ctx context.Context) error {
		nested := task.Do(ctx, func(ctx context.Context) error { return task.Scope(ctx, two) })
		if _, err := nested.Wait(ctx); err != nil {
			return err
		}
		return task.Scope(task.WithProgress(ctx, told(&inner)), two)
	})
	if err != nil || outer.Load() != 3 || inner.Load() != 2 {
		t.Errorf("%v: %d tasks of the outer scope told, %d of the inner", err, outer.Load(), inner.Load())
	}
	task.Scope(context.Background(), func(ctx context.Context) error {
		if d, ok := ctx.Deadline(); ok {
			t.Errorf("a scope of no deadline has %v", d)
		}
		return nil
	})
}

// BenchmarkNestedScopes is scopes within scopes; ns/scope is the same for any number of them.
func BenchmarkNestedScopes(b *testing.B) {
	const depth = 10_000
	var open func(ctx context.Context, left int) error
	open = func(ctx context.Context, left int) error {
		if left == 0 {
			return nil
		}
		return task.Scope(ctx, func(ctx context.Context) error { return open(ctx, left-1) })
	}
	for b.Loop() {
		open(context.Background(), depth)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/depth, "ns/scope")
}
