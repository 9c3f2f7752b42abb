package task_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/task"
)

// optionSets are the options that calls of the family are tested with.
func optionSets() map[string][]task.Option {
	return map[string][]task.Option{
		"plain": nil, "limit": {task.Within(task.NewLimit(3))}, "urgent": {task.Priority(1)}, "idle": {task.Priority(-1)},
	}
}

// inTask calls f, and again in a task with the options.
func inTask(t *testing.T, o []task.Option, f func(ctx context.Context) error) {
	t.Helper()
	if err := f(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := task.Do(t.Context(), f, o...).Wait(t.Context()); err != nil {
		t.Errorf("in a task: %v", err)
	}
}

func TestMap(t *testing.T) {
	for name, o := range optionSets() {
		for _, n := range []int{0, 1, 2, 7, 1000, 30_000} {
			inTask(t, o, func(ctx context.Context) error {
				got, err := task.Map(ctx, indices(n), func(_ context.Context, x int) (string, error) { return strconv.Itoa(x), nil }, o...)
				if err != nil || len(got) != n || got == nil {
					return fmt.Errorf("%s: %d elements gave %d, %w", name, n, len(got), err)
				}
				for i := range got {
					if got[i] != strconv.Itoa(i) {
						return fmt.Errorf("%s: result %d of %d is %q", name, i, n, got[i])
					}
				}
				return nil
			})
		}
	}
}

// Many at once do not see one another, and calls may be nested.
func TestMapsAtOnce(t *testing.T) {
	sums, err := task.Map(t.Context(), indices(40), func(ctx context.Context, k int) (int, error) {
		inner, err := task.Map(ctx, indices(500), func(_ context.Context, x int) (int, error) { return x * k, nil })
		if err != nil {
			return 0, err
		}
		return task.Reduce(ctx, inner, func(_ context.Context, a, b int) (int, error) { return a + b, nil })
	})
	for k := range sums {
		if sums[k] != k*500*499/2 {
			t.Errorf("sum %d is %d", k, sums[k])
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// Every call of the family fails in the same way: with the first element in order, if the
// function does not look at its context.
func TestElementError(t *testing.T) {
	const n = 5000
	odd := errors.New("odd")
	calls := func(f func(x int) error, o []task.Option) map[string]func() error {
		return map[string]func() error{
			"Map": func() error {
				_, err := task.Map(t.Context(), indices(n), func(_ context.Context, x int) (int, error) { return x, f(x) }, o...)
				return err
			},
			"Each": func() error {
				return task.Each(t.Context(), indices(n), func(_ context.Context, x int) error { return f(x) }, o...)
			},
			"Filter": func() error {
				_, err := task.Filter(t.Context(), indices(n), func(_ context.Context, x int) (bool, error) { return true, f(x) }, o...)
				return err
			},
			"Stream": func() error {
				want := 0
				for x, err := range task.Stream(t.Context(), slices.Values(indices(n)), func(_ context.Context, x int) (int, error) { return x, f(x) }, o...) {
					if err != nil {
						return err
					}
					if x != want {
						t.Fatalf("Stream: result %d is %d", want, x)
					}
					want++
				}
				return nil
			},
		}
	}
	for _, first := range []int{0, 1, 2, 600, n - 1} {
		failing := calls(func(x int) error {
			if x >= first && (x-first)%3 == 0 {
				return fmt.Errorf("%d: %w", x, odd)
			}
			return nil
		}, nil)
		panicking := calls(func(x int) error {
			if x >= first {
				var none []int
				none[x] = 1
			}
			return nil
		}, nil)
		for name := range failing {
			var e *task.ElementError
			if err := failing[name](); !errors.Is(err, odd) || !errors.As(err, &e) || e.Index != first {
				t.Errorf("%s, first at %d: %v", name, first, err)
			}
			var p *task.PanicError
			err := panicking[name]()
			if !errors.Is(err, task.ErrPanic) || !errors.As(err, &e) || e.Index != first || !errors.As(err, &p) ||
				!strings.Contains(p.At, "map_test.go:") || !strings.Contains(string(p.Stack), "TestElementError") {
				t.Errorf("%s, first panic at %d: %v", name, first, err)
			}
		}
	}
	for _, o := range [][]task.Option{nil, {task.Priority(1)}} {
		for name, call := range calls(func(x int) error {
			if x == 77 {
				runtime.Goexit()
			}
			return nil
		}, o) {
			var e *task.ElementError
			if err := call(); !errors.Is(err, task.ErrGoexit) || !errors.As(err, &e) || e.Index != 77 {
				t.Errorf("%s: Goexit: %v", name, err)
			}
		}
	}
}

// The first error cancels the context of the others, with and without options, and is told
// in place of what they return then.
func TestFirstErrorCancels(t *testing.T) {
	for name, o := range map[string][]task.Option{"plain": nil, "limit": {task.Within(task.NewLimit(20))}, "retry": {task.Retry(1, time.Nanosecond)}} {
		var calls atomic.Int32
		xs := indices(1000)
		fails := len(xs) / 2
		got, err := task.Map(t.Context(), xs, func(ctx context.Context, x int) (int, error) {
			if calls.Add(1); x == fails {
				return 0, io.EOF
			}
			if x > fails || x%2 == 0 { // some are quick, so that all get to the one that fails
				return x, nil
			}
			select {
			case <-ctx.Done():
				return 0, ctx.Err()
			case <-time.After(time.Millisecond):
				return x, nil
			}
		}, o...)
		var e *task.ElementError
		if got != nil || !errors.As(err, &e) || e.Index != fails || e.Err != io.EOF {
			t.Errorf("%s: %v after %d calls", name, err, calls.Load())
		}
	}
	// Those that wait for nothing but their context.
	var calls atomic.Int32
	_, err := task.Map(t.Context(), indices(1000), func(ctx context.Context, x int) (int, error) {
		if calls.Add(1); x == 17 {
			return 0, io.EOF
		}
		<-ctx.Done()
		return 0, ctx.Err()
	}, task.Within(task.NewLimit(20)))
	if !errors.Is(err, io.EOF) || calls.Load() > 20 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
	two := make(chan struct{})
	err = task.Each(t.Context(), indices(2), func(ctx context.Context, x int) error {
		if x == 1 {
			<-two
			return io.EOF
		}
		close(two)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	var e *task.ElementError
	if !errors.As(err, &e) || e.Index != 1 || e.Err != io.EOF {
		t.Errorf("one of two: %v", err)
	}
}

// Elements before one that failed are still computed, with a context that is cancelled: here
// the last fails first, and the second, which is begun after that, is told.
func TestEarlierElements(t *testing.T) {
	n := 8 * runtime.GOMAXPROCS(0) // two for each part
	err := task.Each(t.Context(), indices(n), func(ctx context.Context, x int) error {
		switch x {
		case 0:
			<-ctx.Done()
		case 1, n - 1:
			return fmt.Errorf("%d fails, cancelled: %v", x, ctx.Err() != nil)
		}
		return nil
	})
	if want := "element 1: 1 fails, cancelled: true"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestMapCancelled(t *testing.T) {
	for name, o := range optionSets() {
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		got, err := task.Map(ctx, indices(100_000), func(ctx context.Context, x int) (int, error) {
			if x == 50 {
				cancel(why)
				return 0, ctx.Err()
			}
			return x, nil
		}, o...)
		if got != nil || err != why {
			t.Errorf("%s: cancelled under way: %d results, %v", name, len(got), err)
		}
		never := func(context.Context, int) (int, error) { t.Error("called"); return 0, nil }
		if _, err := task.Map(ctx, indices(10), never, o...); err != why {
			t.Errorf("%s: cancelled before: %v", name, err)
		}
		if _, err := task.Reduce(ctx, indices(1), func(context.Context, int, int) (int, error) { return 0, nil }, o...); err != why {
			t.Errorf("%s: Reduce, cancelled before: %v", name, err)
		}
	}
	var ended context.Context
	if err := task.Scope(t.Context(), func(ctx context.Context) error { ended = ctx; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := task.Each(ended, indices(10), func(context.Context, int) error { return nil }); !errors.Is(err, task.ErrScopeEnded) {
		t.Errorf("in a scope that has ended: %v", err)
	}
	failed := task.Do(t.Context(), func(context.Context) error { return io.EOF })
	err := task.Each(t.Context(), indices(10), func(context.Context, int) error { return nil }, task.After(failed))
	var de *task.DependencyError
	if !errors.As(err, &de) || de.Err != io.EOF {
		t.Errorf("after a task that failed: %v", err)
	}
}

// A part whose elements take long is divided: the first of all goes on only once one behind
// it has begun, which is half of the way to the end of its part.
func TestMapDivides(t *testing.T) {
	if runtime.GOMAXPROCS(0) == 1 {
		t.Skip("one processor")
	}
	const n = 100_000
	var far atomic.Int64
	part := n / (4 * runtime.GOMAXPROCS(0))
	err := task.Each(t.Context(), indices(n), func(_ context.Context, x int) error {
		if x >= part/2 && x < part {
			far.Store(1)
		}
		if x == 0 {
			time.Sleep(10 * time.Millisecond) // much longer than a part should take
		}
		// The clock has been looked at.
		if x == maxStride && !poll.Within(time.Minute, func() bool { return far.Load() != 0 }) {
			return errors.New("no other goroutine took the second half")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// maxStride is how many elements a part takes at most before it is divided.
const maxStride = 64

// All processors compute elements that take long.
func TestMapUsesCores(t *testing.T) {
	most := int32(min(runtime.GOMAXPROCS(0), 2))
	var now, peak atomic.Int32
	_, err := task.Map(t.Context(), indices(40), func(_ context.Context, i int) (int, error) {
		n := now.Add(1)
		for old := peak.Load(); n > old && !peak.CompareAndSwap(old, n); old = peak.Load() {
		}
		poll.Within(time.Minute, func() bool { return peak.Load() >= most }) // it takes until another begins
		now.Add(-1)
		return i, nil
	})
	if err != nil || peak.Load() < most {
		t.Errorf("%d at once, %v", peak.Load(), err)
	}
}

func TestFilter(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, o := range optionSets() {
		for _, n := range []int{0, 1, 5, 3000} {
			xs := make([]int, n)
			for i := range xs {
				xs[i] = r.IntN(10)
			}
			want := slices.DeleteFunc(slices.Clone(xs), func(x int) bool { return x%3 != 0 })
			inTask(t, o, func(ctx context.Context) error {
				got, err := task.Filter(ctx, xs, func(_ context.Context, x int) (bool, error) { return x%3 == 0, nil }, o...)
				if err != nil || got == nil || !slices.Equal(got, want) {
					return fmt.Errorf("%s: %d of %d elements: %d, %w", name, len(want), n, len(got), err)
				}
				return nil
			})
		}
	}
}

// tree combines as Reduce says it does: all before the last power of two, and the rest.
func tree[T any](xs []T, f func(a, b T) T) T {
	if len(xs) == 1 {
		return xs[0]
	}
	half := 1
	for 2*half < len(xs) {
		half *= 2
	}
	return f(tree(xs[:half], f), tree(xs[half:], f))
}

// The order depends on the number of elements alone.
func TestReduce(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	join := func(a, b string) string { return "(" + a + " " + b + ")" }
	for name, o := range optionSets() {
		for n := range 140 {
			xs := make([]string, n)
			for i := range xs {
				xs[i] = strconv.Itoa(i)
			}
			want := ""
			if n > 0 {
				want = tree(xs, join)
			}
			got, err := task.Reduce(t.Context(), xs, func(_ context.Context, a, b string) (string, error) { return join(a, b), nil }, o...)
			if err != nil || got != want {
				t.Fatalf("%s: %d elements: %s, %v; want %s", name, n, got, err, want)
			}
		}
		floats := make([]float32, 20_000)
		for i := range floats {
			floats[i] = float32(math.Ldexp(r.Float64()-0.5, r.IntN(40)))
		}
		want := tree(floats, func(a, b float32) float32 { return a + b })
		inTask(t, o, func(ctx context.Context) error {
			got, err := task.Reduce(ctx, floats, func(_ context.Context, a, b float32) (float32, error) { return a + b, nil }, o...)
			if err != nil || math.Float32bits(got) != math.Float32bits(want) {
				return fmt.Errorf("%s: %v, %w; want %v", name, got, err, want)
			}
			return nil
		})
	}
}

// An error of Reduce names the first element behind b.
func TestReduceError(t *testing.T) {
	type span struct{ lo, hi int }
	xs := make([]span, 1000)
	for i := range xs {
		xs[i] = span{i, i + 1}
	}
	for _, o := range [][]task.Option{nil, {task.Priority(1)}} {
		for _, at := range []int{1, 2, 64, 511, 512, 513, 999} {
			for _, panics := range []bool{false, true} {
				_, err := task.Reduce(t.Context(), xs, func(_ context.Context, a, b span) (span, error) {
					if a.hi != b.lo {
						t.Errorf("%v and %v", a, b)
					}
					if b.lo == at && panics {
						panic(io.EOF)
					}
					if b.lo == at {
						return a, io.EOF
					}
					return span{a.lo, b.hi}, nil
				}, o...)
				var e *task.ElementError
				if !errors.As(err, &e) || e.Index != at || !errors.Is(err, io.EOF) || errors.Is(err, task.ErrPanic) != panics {
					t.Errorf("at %d: %v", at, err)
				}
			}
		}
	}
}

// What is nil is named when it is given, on the goroutine that gave it.
func TestNilArguments(t *testing.T) {
	ctx, xs := t.Context(), []int{1}
	f := func(context.Context, int) (int, error) { return 0, nil }
	var none context.Context
	for want, call := range map[string]func(){
		"task: Go: the context is nil; use context.Background()":     func() { task.Go(none, value(1)) },
		"task: Go: the function is nil":                              func() { task.Go[int](ctx, nil) },
		"task: Do: the function is nil":                              func() { task.Do(ctx, nil) },
		"task: WithProgress: the function is nil":                    func() { task.WithProgress(ctx, nil) },
		"task: Block: the context is nil; use context.Background()":  func() { task.Block(none, func() {}) },
		"task: Block: the function is nil":                           func() { task.Block(ctx, nil) },
		"task: Scope: the function is nil":                           func() { task.Scope(ctx, nil) },
		"task: Scope: option 1 is nil":                               func() { task.Scope(ctx, func(context.Context) error { return nil }, task.KeepGoing(), nil) },
		"task: Map: the function is nil":                             func() { task.Map[int, int](ctx, xs, nil) },
		"task: Map: the context is nil; use context.Background()":    func() { task.Map(none, xs, f) },
		"task: option 0 is nil":                                      func() { task.Map(ctx, xs, f, nil) },
		"task: Each: the function is nil":                            func() { task.Each(ctx, xs, nil) },
		"task: Filter: the function is nil":                          func() { task.Filter(ctx, xs, nil) },
		"task: Reduce: the function is nil":                          func() { task.Reduce(ctx, xs, nil) },
		"task: Stream: the function is nil":                          func() { task.Stream[int, int](ctx, slices.Values(xs), nil) },
		"task: Stream: the sequence is nil":                          func() { task.Stream(ctx, nil, f) },
		"task: Stream: the context is nil; use context.Background()": func() { task.Stream(none, slices.Values(xs), f) },
		"task: After: future 0 belongs to no task":                   func() { task.After(nil) },
		"task: After: future 1 belongs to no task":                   func() { task.After(task.Go(ctx, value(1)), task.Future[int]{}) },
		"task: Wait: the context is nil; use context.Background()":   func() { task.Go(ctx, value(1)).Wait(none) },
		"task: the zero Future belongs to no task; Go returns one that does": func() {
			task.Future[int]{}.Wait(ctx)
		},
	} {
		func() {
			defer func() {
				if p := recover(); p == nil || fmt.Sprint(p) != want {
					t.Errorf("%v, want %s", p, want)
				}
			}()
			call()
		}()
	}
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
