package task_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft/task"
	"go.uber.org/goleak"
)

// counted is a sequence of n numbers that counts those it has given and whether it runs.
func counted(n int, given *atomic.Int64, runs *atomic.Bool) iter.Seq[int] {
	return func(yield func(int) bool) {
		runs.Store(true)
		defer runs.Store(false)
		for i := range n {
			given.Add(1)
			if !yield(i) {
				return
			}
		}
	}
}

// Results come in order however long each takes, and never are more elements on their way
// than twice as many as run at a time.
func TestStream(t *testing.T) {
	for name, o := range map[string][]task.Option{"plain": nil, "limit": {task.Within(task.NewLimit(40))}} {
		most := int64(2 * runtime.GOMAXPROCS(0))
		if o != nil {
			most = max(most, 80)
		}
		inTask(t, o, func(ctx context.Context) error {
			var given, taken, peak atomic.Int64
			var runs atomic.Bool
			at := 0
			for y, err := range task.Stream(ctx, counted(500, &given, &runs), func(_ context.Context, x int) (int, error) {
				if n := given.Load() - taken.Load(); n > peak.Load() {
					peak.Store(n)
				}
				if x%7 == 0 {
					time.Sleep(time.Duration(x%5) * 100 * time.Microsecond)
				}
				return x * x, nil
			}, o...) {
				if err != nil || y != at*at {
					return fmt.Errorf("%s: result %d is %d, %w", name, at, y, err)
				}
				if at%50 == 0 {
					time.Sleep(time.Millisecond) // others get ahead as far as they may
				}
				at++
				taken.Store(int64(at))
			}
			// The loop has taken one more than it has counted, at most.
			if at != 500 || runs.Load() || peak.Load() > most+1 {
				return fmt.Errorf("%s: %d results, %d on their way, at most %d may be; the sequence runs: %v", name, at, peak.Load(), most, runs.Load())
			}
			return nil
		})
	}
}

// When the loop is left, the calls under way are cancelled, and neither they nor the
// sequence run any more.
func TestStreamBreak(t *testing.T) {
	old := goleak.IgnoreCurrent()
	for _, leave := range []string{"break", "panic", "at the first", "error"} {
		var given, calls atomic.Int64
		var runs atomic.Bool
		func() {
			defer func() {
				if p := recover(); (p != nil) != (leave == "panic") {
					t.Errorf("%s: recovered %v", leave, p)
				}
			}()
			at := 0
			for _, err := range task.Stream(t.Context(), counted(1<<40, &given, &runs), func(ctx context.Context, x int) (int, error) {
				calls.Add(1)
				defer calls.Add(-1)
				if leave == "error" && x == 30 {
					return 0, io.EOF
				}
				if x > 40 || leave == "at the first" && x > 0 {
					<-ctx.Done() // for ever, if nobody cancels it
				}
				return x, nil
			}) {
				at++
				if leave == "error" {
					if (err != nil) != (at == 31) || err != nil && !errors.Is(err, io.EOF) {
						t.Errorf("result %d: %v", at, err)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", leave, err)
				}
				if leave == "at the first" || at == 30 {
					if leave == "panic" {
						panic("enough")
					}
					break
				}
			}
		}()
		if calls.Load() != 0 || runs.Load() {
			t.Errorf("%s: %d calls go on, the sequence runs: %v", leave, calls.Load(), runs.Load())
		}
		if err := goleak.Find(old); err != nil {
			t.Errorf("%s: %v", leave, err)
		}
	}
}

// A result is there before the sequence gives the next element: here it gives none until
// then.
func TestStreamAnswers(t *testing.T) {
	answers := make(chan int, 1)
	ask := func(yield func(int) bool) {
		for x := 1; x < 1000 && yield(x); {
			x = <-answers
		}
	}
	var got []int
	for y, err := range task.Stream(t.Context(), ask, func(_ context.Context, x int) (int, error) { return 2 * x, nil }) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, y)
		answers <- y
	}
	if want := []int{2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// How a stream ends whose sequence or context does.
func TestStreamEnds(t *testing.T) {
	same := func(_ context.Context, x int) (int, error) { return x, nil }
	last := func(ctx context.Context, xs iter.Seq[int]) (n int, err error) {
		for _, e := range task.Stream(ctx, xs, same) {
			if err != nil {
				t.Errorf("goes on after %v", err)
			}
			if err = e; e == nil {
				n++
			}
		}
		return n, err
	}
	if n, err := last(t.Context(), func(func(int) bool) {}); n != 0 || err != nil {
		t.Errorf("empty: %d, %v", n, err)
	}
	var p *task.PanicError
	if n, err := last(t.Context(), func(yield func(int) bool) { yield(1); panic("no more") }); n != 1 || !errors.As(err, &p) || p.Value != "no more" {
		t.Errorf("panic: %d, %v", n, err)
	}
	if n, err := last(t.Context(), func(yield func(int) bool) { yield(1); runtime.Goexit() }); n != 1 || !errors.Is(err, task.ErrGoexit) {
		t.Errorf("Goexit: %d, %v", n, err)
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	n, err := last(ctx, func(yield func(int) bool) {
		for i := 0; yield(i); i++ {
			if i == 100 {
				cancel(why)
			}
		}
	})
	if n > 101 || err != why {
		t.Errorf("cancelled: %d, %v", n, err)
	}
	if n, err := last(ctx, slices.Values(indices(10))); n != 0 || err != why {
		t.Errorf("cancelled before: %d, %v", n, err)
	}
	// The same sequence of results can be had twice.
	s := task.Stream(t.Context(), slices.Values(indices(3)), same)
	for range 2 {
		sum := 0
		for x, err := range s {
			if sum += x; err != nil {
				t.Error(err)
			}
		}
		if sum != 3 {
			t.Errorf("sum %d", sum)
		}
	}
}
