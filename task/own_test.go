package task_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/weft-run/weft/task"
)

// An element that returns context.Canceled while nothing is cancelled has failed by itself,
// whatever fails or ends after it.
func TestOwnCanceled(t *testing.T) {
	other := errors.New("another")
	for name, o := range optionSets() {
		// The second of two fails once the first has, in parallel, and the caller's context
		// ends before all have returned.
		for _, ends := range []bool{false, true} {
			for _, call := range []string{"Map", "Each", "Filter", "Stream"} {
				ctx, cancel := context.WithCancel(t.Context())
				began := make(chan struct{})
				f := func(ctx context.Context, x int) error {
					if x > 0 {
						close(began)
						<-ctx.Done() // the first failed, which cancels this
						if ends {
							cancel()
						}
						return other
					}
					if ctx.Err() != nil {
						t.Errorf("%s, %s: cancelled before anything failed", call, name)
					}
					<-began
					return context.Canceled
				}
				xs := indices(2)
				var err error
				switch call {
				case "Map":
					_, err = task.Map(ctx, xs, func(ctx context.Context, x int) (int, error) { return 0, f(ctx, x) }, o...)
				case "Each":
					err = task.Each(ctx, xs, f, o...)
				case "Filter":
					_, err = task.Filter(ctx, xs, func(ctx context.Context, x int) (bool, error) { return true, f(ctx, x) }, o...)
				case "Stream":
					for _, e := range task.Stream(ctx, slices.Values(xs), func(ctx context.Context, x int) (int, error) { return 0, f(ctx, x) }, o...) {
						err = e
					}
				}
				cancel()
				var element *task.ElementError
				if !errors.As(err, &element) || element.Index != 0 || !errors.Is(err, context.Canceled) {
					t.Errorf("%s, %s, ends %v: %v, want element 0: context canceled", call, name, ends, err)
				}
			}
		}
	}
}

// An element that fails by itself with context.Canceled is told, and not a later one that
// fails since that cancelled it, with an error of its own.
func TestOwnCanceledFirst(t *testing.T) {
	began := make(chan struct{})
	err := task.Each(t.Context(), []int{0, 1}, func(ctx context.Context, x int) error {
		if x == 1 {
			close(began)
			<-ctx.Done()
			return errors.New("interrupted")
		}
		<-began
		return context.Canceled
	}, task.Within(task.NewLimit(2)))
	var element *task.ElementError
	if !errors.As(err, &element) || element.Index != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want element 0: context canceled", err)
	}
}

// A slice of elements without a size can be longer than any product of its length.
func TestManyEmptyElements(t *testing.T) {
	stop := errors.New("enough")
	xs := make([]struct{}, 1<<61)
	var element *task.ElementError
	err := task.Each(t.Context(), xs, func(context.Context, struct{}) error { return stop })
	if !errors.As(err, &element) || element.Index != 0 || !errors.Is(err, stop) {
		t.Errorf("Each: %v", err)
	}
	_, err = task.Map(t.Context(), xs, func(context.Context, struct{}) (none struct{}, _ error) { return none, stop })
	if !errors.As(err, &element) || element.Index != 0 {
		t.Errorf("Map to nothing: %v", err)
	}
	for name, err := range map[string]error{
		"Map": func() error {
			_, err := task.Map(t.Context(), xs, func(context.Context, struct{}) (int, error) { return 0, nil })
			return err
		}(),
		"Filter": func() error {
			_, err := task.Filter(t.Context(), xs, func(context.Context, struct{}) (bool, error) { return true, nil })
			return err
		}(),
		"a task each": task.Each(t.Context(), xs, func(context.Context, struct{}) error { return nil }, task.Priority(1)),
	} {
		if !errors.Is(err, task.ErrOutOfMemory) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The same holds for a stream whose reader comes to the element after the context has ended.
func TestOwnCanceledStream(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	third := make(chan struct{})
	var last error
	for x, err := range task.Stream(ctx, slices.Values(indices(3)), func(_ context.Context, x int) (int, error) {
		switch x {
		case 1:
			return 0, context.Canceled
		case 2:
			close(third) // one after another: the second task has ended
		}
		return x, nil
	}, task.Within(task.NewLimit(1))) {
		if last = err; err == nil && x == 0 {
			<-third
			cancel()
		}
	}
	var element *task.ElementError
	if !errors.As(last, &element) || element.Index != 1 || !errors.Is(last, context.Canceled) {
		t.Errorf("got %v, want element 1: context canceled", last)
	}
}
