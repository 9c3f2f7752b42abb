// Command dag runs four tasks that depend on one another.
//
//	go run ./examples/dag
package main

import (
	"context"
	"fmt"

	"github.com/weft-run/weft/task"
)

func main() {
	ctx := context.Background()
	a := task.Go(ctx, func(context.Context) (int, error) { return 6, nil })
	b := task.Go(ctx, func(context.Context) (int, error) { return a.Value() + 1, nil }, task.After(a))
	c := task.Go(ctx, func(context.Context) (int, error) { return a.Value() * 2, nil }, task.After(a))
	d := task.Go(ctx, func(context.Context) (int, error) { return b.Value() * c.Value(), nil }, task.After(b, c))
	fmt.Println(d.Wait(ctx))
}
