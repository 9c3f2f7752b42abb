// Command dag runs four tasks that depend on one another.
//
//	go run ./examples/dag
package main

import (
	"context"
	"fmt"

	"github.com/weft-run/weft"
)

func main() {
	ctx := context.Background()
	a := weft.Go(ctx, func(context.Context) (int, error) { return 6, nil })
	b := weft.Go(ctx, func(context.Context) (int, error) { return a.Value() + 1, nil }, weft.After(a))
	c := weft.Go(ctx, func(context.Context) (int, error) { return a.Value() * 2, nil }, weft.After(a))
	d := weft.Go(ctx, func(context.Context) (int, error) { return b.Value() * c.Value(), nil }, weft.After(b, c))
	fmt.Println(d.Wait(ctx))
}
