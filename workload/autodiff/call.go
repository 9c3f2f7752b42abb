package autodiff

import (
	"context"
	"fmt"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/workload"
)

// Gradient returns the values of a function of one expression at points, and its gradients
// there, on the devices of a runtime that was opened with [Funcs] among its kernels. points has
// a number for every variable of a point, in the order of [Function.Variables], and so have the
// gradients. An empty points, or one whose length is no multiple of the number of variables, is an
// error that wraps [workload.ErrConfig]; values that are not finite are no error (see the package's comment).
func Gradient(ctx context.Context, rt *weft.Runtime, f *Function, points []float64) (values, gradients []float64, err error) {
	if f != nil && f.Outputs() != 1 {
		return nil, nil, fmt.Errorf("autodiff: a gradient of %s: %w: it is of one; Jacobian takes all", text.Count(f.Outputs(), "expression"), workload.ErrConfig)
	}
	return Jacobian(ctx, rt, f, points)
}

// Jacobian returns the values of a function's expressions at points, and their derivatives by
// all variables, like Gradient: for every point the values of all expressions, and for every
// point and expression the derivatives.
func Jacobian(ctx context.Context, rt *weft.Runtime, f *Function, points []float64) (values, derivatives []float64, err error) {
	if f == nil {
		return nil, nil, errNone
	}
	p, err := f.program(MaxDirections)
	if err != nil {
		return nil, nil, err
	}
	return call(ctx, rt, f, p, units(len(f.variables)), points)
}

// Along returns the values of a function's expressions at points, and their derivatives along
// up to 64 directions, each with a number for every variable, like Jacobian: for every point and
// expression the derivatives along all directions.
func Along(ctx context.Context, rt *weft.Runtime, f *Function, directions [][]float64, points []float64) (values, derivatives []float64, err error) {
	if f == nil {
		return nil, nil, errNone
	}
	if len(directions) < 1 || len(directions) > MaxDirections {
		return nil, nil, fmt.Errorf("autodiff: %d directions: %w: there must be 1 to %d", len(directions), workload.ErrConfig, MaxDirections)
	}
	for i, d := range directions {
		if len(d) != len(f.variables) {
			return nil, nil, fmt.Errorf("autodiff: direction %d has %d numbers: %w: there must be %d, one for each variable", i, len(d), workload.ErrConfig, len(f.variables))
		}
		for k, x := range d {
			if notFinite(x) {
				return nil, nil, fmt.Errorf("autodiff: direction %d is %v in variable %s: %w: it must be finite", i, x, f.variables[k], workload.ErrConfig)
			}
		}
	}
	p, err := newProgram(len(f.variables), f.index, f.exprs, directions, MaxDirections)
	if err != nil {
		return nil, nil, err
	}
	return call(ctx, rt, f, p, directions, points)
}

var errNone = fmt.Errorf("autodiff: no function: %w: see Parse and Compile", workload.ErrConfig)

func call(ctx context.Context, rt *weft.Runtime, f *Function, p *program, directions [][]float64, points []float64) (values, derivatives []float64, err error) {
	n := len(f.variables)
	if len(points)%n != 0 {
		return nil, nil, fmt.Errorf("autodiff: points of %d numbers: %w: a point has %d, one for each variable", len(points), workload.ErrConfig, n)
	}
	if err := enough(f, len(points)/n, len(directions)); err != nil {
		return nil, nil, err
	}
	j := newJob(f, p, directions, points)
	if _, err := workload.Call(ctx, rt, j, "autodiff"); err != nil {
		return nil, nil, err
	}
	return j.values, j.derivatives, nil
}
