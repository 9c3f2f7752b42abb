// Command alone uses every call of package task, and nothing else of weft: what it is linked from is what
// package task brings into a program.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/weft-run/weft/task"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var last task.Progress
	ctx := task.WithProgress(context.Background(), func(p task.Progress) { last = p })
	double := func(_ context.Context, x int) (int, error) { return 2 * x, nil }
	sum := func(_ context.Context, a, b int) (int, error) { return a + b, nil }
	total := 0
	err := task.Scope(ctx, func(ctx context.Context) error {
		xs := task.Go(ctx, func(ctx context.Context) ([]int, error) { return task.Map(ctx, []int{1, 2, 3, 4}, double) }, task.Name("xs"))
		few := task.Go(ctx, func(ctx context.Context) (int, error) {
			some, err := task.Filter(ctx, xs.Value(), func(_ context.Context, x int) (bool, error) { return x > 2, nil })
			if err != nil {
				return 0, err
			}
			return task.Reduce(ctx, some, sum)
		}, task.After(xs), task.Priority(1), task.Timeout(time.Minute), task.Retry(1, time.Millisecond))
		all, err := task.WaitAll(ctx, few)
		if err != nil {
			return err
		}
		for y, err := range task.Stream(ctx, slices.Values(all), double, task.Within(task.NewLimit(1))) {
			if err != nil {
				return err
			}
			total += y
		}
		ready := make(chan struct{})
		task.Do(ctx, func(context.Context) error { close(ready); return nil })
		task.Block(ctx, func() { <-ready })
		return nil
	}, task.KeepGoing())
	if err != nil {
		return err
	}
	err = task.Each(context.Background(), []int{1}, func(context.Context, int) error { panic("oh") })
	var p *task.PanicError
	var e *task.ElementError
	fmt.Println(total, last.Done == last.Tasks, errors.As(err, &p) && errors.As(err, &e))
	return nil
}
