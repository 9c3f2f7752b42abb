package autodiff_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload/autodiff"
)

// every is an expression with all operations and functions, and a few that are shared.
const every = "sin(x*y)+exp(z); x^3/y - 2^(x/2) + sqrt(x+y)*log(z+1) - x^-2*y^1.5; " +
	"tan(x/2)*atan(y-z) + asin(x/3) - acos(y/4)^2; sinh(x)*cosh(y) - tanh(x*y*3)/abs(z-0.5); -cos(x)^(y+z) + 3/(x+1) - pi; 4"

func configs(count int) []autodiff.Config {
	return []autodiff.Config{
		{Problem: autodiff.Rosenbrock, Count: count, Seed: 1},
		{Problem: autodiff.Rosenbrock, Count: count / 16, Dims: 131, Seed: 2},
		{Problem: autodiff.Rosenbrock, Count: count, Directions: 3, Seed: 3},
		{Problem: autodiff.Helmholtz, Count: count, Dims: 5, Seed: 4},
		{Problem: autodiff.Helmholtz, Count: count / 16, Dims: 40, Seed: 5},
		{Problem: autodiff.Expression, Expr: "sin(x*y)+exp(z)", Count: count, Low: -2, High: 2, Seed: 6},
		{Problem: autodiff.Expression, Expr: every, Count: count, Low: 0.1, High: 1.4, Seed: 7},
		{Problem: autodiff.Expression, Expr: "log(x) + sqrt(y)/(x-y)", Count: count, Low: -1, High: 2, Seed: 8},
	}
}

func results(j *autodiff.Job) []byte {
	values, derivatives := j.Result()
	return slices.Concat(workloadtest.Bytes(values), workloadtest.Bytes(derivatives))
}

func TestJobOnDevices(t *testing.T) {
	for _, c := range configs(600) {
		workloadtest.Invariant(t, autodiff.Funcs(), func() (*autodiff.Job, error) { return autodiff.New(c) }, results)
	}
}

// Every number that is off by more than its rounding is found.
func TestCheckFinds(t *testing.T) {
	rt := workloadtest.Open(t, 2, autodiff.Funcs())
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range configs(48) {
		j := workloadtest.New[*autodiff.Job](t)(autodiff.New(c))
		workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
		holes := strings.Contains(c.Expr, "log(x) +") // and without a value there are no derivatives
		if m := j.Misses(); len(m) != 1 || m[0].Chance > 0 != holes {
			t.Errorf("%s may miss %v", j.Name(), m)
		}
		values, derivatives := j.Result()
		for range 8 {
			for _, all := range [][]float64{values, derivatives} {
				x := &all[r.IntN(len(all))]
				was := *x
				if holes && (math.IsNaN(values[0]) || math.IsNaN(was)) {
					continue
				}
				for _, wrong := range []float64{math.NaN(), was + 1e-9*max(1, math.Abs(was)), 0.5 * was} {
					if *x = wrong; wrong == was {
						continue
					}
					if err := j.Check(); !errors.Is(err, autodiff.ErrWrong) && !holes {
						t.Errorf("%s: %v in place of %v: the check says %v", j.Name(), wrong, was, err)
					}
				}
				*x = was
			}
		}
	}
}
