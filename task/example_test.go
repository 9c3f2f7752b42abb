package task_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/weft-run/weft/task"
)

func Example() {
	ctx := context.Background()
	words := task.Go(ctx, func(context.Context) ([]string, error) { return strings.Fields("many hands make light work"), nil })
	lengths := task.Go(ctx, func(ctx context.Context) ([]int, error) { // on all cores
		return task.Map(ctx, words.Value(), func(_ context.Context, w string) (int, error) { return len(w), nil })
	}, task.After(words))
	fmt.Println(lengths.Wait(ctx))
	// Output: [4 5 4 5 4] <nil>
}
