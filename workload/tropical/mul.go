package tropical

import (
	"context"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
)

// Mul returns the max-plus product of a and b in new memory, computed on the devices of a
// runtime that was opened with [Funcs] among its kernels. A candidate that is not a number
// is passed over. Where there is no candidate, as where a has no columns, the maximum is
// -Inf. Matrices may have no rows or no columns; a may have 65,536 columns at most. Errors
// about sizes wrap [workload.ErrConfig], that about a product larger than memory
// [weft.ErrOutOfMemory].
func Mul(ctx context.Context, rt *weft.Runtime, a, b workload.Matrix) (workload.Matrix, error) {
	return kind.Mul(ctx, rt, a, b)
}

// MulInto is Mul into the memory of c, which must not overlap a or b, with a split of the
// caller's choice. It returns the result of the run, nil where there was nothing to run.
// After an error c is undefined. Where devices have memory of their own, matrices in
// memory of [weft.NewBuffer] are copied there and back without staging.
func MulInto(ctx context.Context, rt *weft.Runtime, c, a, b workload.Matrix, split workload.Split) (*workload.Result, error) {
	return kind.MulInto(ctx, rt, c, a, b, split)
}
