package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/weft-run/weft"
)

// Funcs puts Go kernels of several workloads together, for [weft.Options].Funcs:
//
//	weft.Options{Funcs: workload.Funcs(gemm.Funcs(), merkle.Funcs())}
func Funcs(sets ...map[string]weft.Func) map[string]weft.Func {
	all := make(map[string]weft.Func)
	for _, s := range sets {
		maps.Copy(all, s)
	}
	return all
}

// smallOps and smallBytes are the work up to which a call is not predicted: a core does it
// in about the 0.5 ms that the prediction takes, which is five times what the rest of a
// small call does.
const (
	smallOps   = 1 << 21
	smallBytes = 1 << 20
)

// Call is Run for a function that computes with its caller's data, as gemm.Mul does. It
// predicts nothing of work that takes less time than the prediction. The error of a runtime
// that was opened without the Go kernels of that function's package names the option that
// brings them.
func Call(ctx context.Context, rt *weft.Runtime, j Job, pkg string) (*Result, error) {
	if rt == nil {
		return nil, fmt.Errorf("%s: %w", j.Name(), errNoRuntime)
	}
	w := j.Whole().Work
	j = form(rt, j)
	res, err := run(ctx, rt, j, nil, w.Ops <= smallOps && w.Bytes <= smallBytes, nil)
	if err != nil && res == nil {
		err = fmt.Errorf("%s: %w", j.Name(), err)
	}
	if errors.Is(err, weft.ErrNoFunc) {
		return nil, fmt.Errorf("%s: %w: open the runtime with weft.Options{Funcs: %s.Funcs()}", j.Name(), weft.ErrNoFunc, pkg)
	}
	return res, err
}
