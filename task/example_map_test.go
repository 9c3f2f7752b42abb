package task_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/weft-run/weft/task"
)

// A Go function over a slice, on all cores. The results stand where their inputs stood, and
// an error says for which element.
func ExampleMap() {
	ctx := context.Background()
	parse := func(_ context.Context, s string) (int, error) { return strconv.Atoi(s) }
	fmt.Println(task.Map(ctx, []string{"1", "2", "3"}, parse))
	_, err := task.Map(ctx, []string{"1", "2", "three", "four"}, parse)
	fmt.Println(err)
	var e *task.ElementError
	fmt.Println(errors.As(err, &e), e.Index, errors.Is(err, strconv.ErrSyntax))
	// Output:
	// [1 2 3] <nil>
	// element 2: strconv.Atoi: parsing "three": invalid syntax
	// true 2 true
}

// Each is Map without results.
func ExampleEach() {
	var sum atomic.Int64
	err := task.Each(context.Background(), []int64{1, 2, 3, 4}, func(_ context.Context, x int64) error {
		sum.Add(x)
		return nil
	})
	fmt.Println(sum.Load(), err)
	// Output: 10 <nil>
}

// Filter keeps the order.
func ExampleFilter() {
	prime := func(_ context.Context, n int) (bool, error) {
		for d := 2; d*d <= n; d++ {
			if n%d == 0 {
				return false, nil
			}
		}
		return n > 1, nil
	}
	fmt.Println(task.Filter(context.Background(), []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, prime))
	// Output: [2 3 5 7 11] <nil>
}

// The order of a Reduce depends on the length of the slice alone, here as brackets.
func ExampleReduce() {
	join := func(_ context.Context, a, b string) (string, error) { return "(" + a + b + ")", nil }
	fmt.Println(task.Reduce(context.Background(), []string{"a", "b", "c", "d", "e"}, join))
	// Output: (((ab)(cd))e) <nil>
}

// Map and reduce: words are counted in each line, and the counts added up.
func ExampleReduce_words() {
	ctx := context.Background()
	lines := []string{"the cat sat", "on the mat", "and the dog too"}
	counts, err := task.Map(ctx, lines, func(_ context.Context, line string) (int, error) { return len(strings.Fields(line)), nil })
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(task.Reduce(ctx, counts, func(_ context.Context, a, b int) (int, error) { return a + b, nil }))
	// Output: 10 <nil>
}

// The lines of a reader go through a function on all cores and come out in order, while no
// more than a few are in memory.
func ExampleStream() {
	lines := func(yield func(string) bool) {
		for s := bufio.NewScanner(strings.NewReader("one\ntwo\nthree\nfour\n")); s.Scan() && yield(s.Text()); {
		}
	}
	upper := func(_ context.Context, s string) (string, error) { return strings.ToUpper(s), nil }
	for line, err := range task.Stream(context.Background(), lines, upper) {
		if err != nil {
			fmt.Println(err)
			break
		}
		if line == "FOUR" {
			break // ends the calls under way and the sequence
		}
		fmt.Println(line)
	}
	// Output:
	// ONE
	// TWO
	// THREE
}

// A callback is told how far a call is: here of the scope, for all that is called in it.
func ExampleWithProgress_map() {
	var last task.Progress
	ctx := task.WithProgress(context.Background(), func(p task.Progress) { last = p }) // at most 20 times a second
	double := func(_ context.Context, x int) (int, error) { return 2 * x, nil }
	ys, err := task.Map(ctx, []int{1, 2, 3, 4}, double)
	fmt.Println(ys, err, last.Done, "of", last.Tasks, "elements")

	err = task.Scope(ctx, func(ctx context.Context) error {
		inner := task.Go(ctx, func(ctx context.Context) ([]int, error) { return task.Map(ctx, []int{5, 6}, double) })
		if ys, err = inner.Wait(ctx); err != nil {
			return err
		}
		_, err := task.Map(ctx, ys, double)
		return err
	})
	fmt.Println(ys, err, last.Done, "of", last.Tasks, "tasks and elements")
	// Output:
	// [2 4 6 8] <nil> 4 of 4 elements
	// [10 12] <nil> 5 of 5 tasks and elements
}

// With an option every call is a task of its own: here at most two wait for a service.
func ExampleStream_within() {
	service := task.NewLimit(2)
	square := func(_ context.Context, x int) (int, error) { return x * x, nil }
	for y, err := range task.Stream(context.Background(), slices.Values([]int{1, 2, 3}), square, task.Within(service)) {
		fmt.Println(y, err)
	}
	// Output:
	// 1 <nil>
	// 4 <nil>
	// 9 <nil>
}
