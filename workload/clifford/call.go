package clifford

import (
	"context"
	"fmt"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
)

// Mul multiplies pairs of multivectors on the devices of a runtime that was opened with
// [Funcs] among its kernels. x and y have [Algebra.Size] numbers for each. Numbers that are not
// whole multivectors, or none, are an error that wraps [workload.ErrConfig].
func Mul(ctx context.Context, rt *weft.Runtime, a *Algebra, x, y []float32) ([]float32, error) {
	if len(x) != len(y) {
		return nil, fmt.Errorf("clifford: %d and %d numbers: %w: there must be as many left factors as right ones", len(x), len(y), workload.ErrConfig)
	}
	j, err := callJob(a, Product, x)
	if err != nil {
		return nil, err
	}
	j.y = y
	return j.call(ctx, rt)
}

// Turn turns multivectors by a rotor, as [Algebra.Rotor] returns one, like Mul.
func Turn(ctx context.Context, rt *weft.Runtime, a *Algebra, rotor []float64, x []float32) ([]float32, error) {
	j, err := callJob(a, Rotor, x)
	if err != nil {
		return nil, err
	}
	if len(rotor) != a.Size() {
		return nil, fmt.Errorf("clifford: a rotor of %d numbers: %w: a multivector of %v has %d", len(rotor), workload.ErrConfig, a, a.Size())
	}
	j.turnBy(rotor)
	return j.call(ctx, rt)
}

// Normalize divides multivectors by their norms, the roots of [Algebra.Norm2] without its
// sign, like Mul. Those with norm zero stay as they are. Numbers may be as large or as small as float32
// has them.
func Normalize(ctx context.Context, rt *weft.Runtime, a *Algebra, x []float32) ([]float32, error) {
	j, err := callJob(a, Norm, x)
	if err != nil {
		return nil, err
	}
	return j.call(ctx, rt)
}

// callJob is a job for a caller's multivectors.
func callJob(a *Algebra, op string, x []float32) (*job, error) {
	if a == nil {
		return nil, fmt.Errorf("clifford: no algebra: %w: see NewAlgebra", workload.ErrConfig)
	}
	if len(x)%a.Size() != 0 {
		return nil, fmt.Errorf("clifford: %d numbers: %w: a multivector of %v has %d", len(x), workload.ErrConfig, a, a.Size())
	}
	c := Config{Op: op, P: a.p, Q: a.q, Count: len(x) / a.Size()}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return newJob(c, x), nil
}

func (j *job) call(ctx context.Context, rt *weft.Runtime) ([]float32, error) {
	if _, err := workload.Call(ctx, rt, j.declare(), "clifford"); err != nil {
		return nil, err
	}
	return j.out, nil
}
