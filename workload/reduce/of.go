package reduce

import (
	"context"
	"slices"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
)

// Of folds a caller's vector into one number by one of [Operations], on the devices of a
// runtime that was opened with [Funcs] among its kernels. Elements that are not numbers make
// the result none. The sum of no elements is 0; other operations on none, and operations
// that are not known, are an error that wraps [workload.ErrConfig].
func Of(ctx context.Context, rt *weft.Runtime, op string, xs []float32) (float32, error) {
	if len(xs) == 0 && op == "sum" {
		return 0, nil
	}
	c := Config{Op: op, N: len(xs)}
	if err := c.Validate(); err != nil {
		return 0, err
	}
	j := &job{c: c, op: operations[slices.Index(Operations(), op)], x: xs}
	if _, err := workload.Call(ctx, rt, j.declare(), "reduce"); err != nil {
		return 0, err
	}
	return j.Result(), nil
}
