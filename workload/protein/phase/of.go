package phase

import (
	"context"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/protein"
)

// Of returns the phase states of a caller's structure at a time in picoseconds, computed on
// the devices of a runtime that was opened with [Funcs] among its kernels: Ψᵢⱼ is at [i*n+j] of n
// residues. A structure or a time that has none is an error that wraps [workload.ErrConfig].
func Of(ctx context.Context, rt *weft.Runtime, s *protein.Structure, time float64) ([]complex128, error) {
	c := Config{Structure: "structure", Time: time}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	j, err := newJob(c, s)
	if err != nil {
		return nil, err
	}
	if _, err := workload.Call(ctx, rt, j, "phase"); err != nil {
		return nil, err
	}
	return j.states, nil
}
