package weft_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/weft-run/weft"
)

func Example() {
	ctx := context.Background()
	words := weft.Go(ctx, func(context.Context) ([]string, error) { return strings.Fields("many hands make light work"), nil })
	lengths := weft.Go(ctx, func(ctx context.Context) ([]int, error) { // on all cores
		return weft.Map(ctx, words.Value(), func(_ context.Context, w string) (int, error) { return len(w), nil })
	}, weft.After(words))
	fmt.Println(lengths.Wait(ctx))
	// Output: [4 5 4 5 4] <nil>
}
