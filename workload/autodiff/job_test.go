package autodiff_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
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
		{Problem: autodiff.Helmholtz, Count: count / 16, Dims: 18, Seed: 5},
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
	for _, c := range configs(160) {
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

func TestRejects(t *testing.T) {
	for want, c := range map[string]autodiff.Config{
		`no problem "x"`:                     {Problem: "x", Count: 1},
		"0 points":                           {Problem: autodiff.Rosenbrock},
		"-5 points":                          {Problem: autodiff.Rosenbrock, Count: -5},
		"to 33554432":                        {Problem: autodiff.Rosenbrock, Count: 1 << 26},
		"1 dimension":                        {Problem: autodiff.Rosenbrock, Count: 1, Dims: 1},
		"2 to 1024":                          {Problem: autodiff.Rosenbrock, Count: 1, Dims: 4000},
		"1 to 64":                            {Problem: autodiff.Helmholtz, Count: 1, Dims: 65},
		"65 directions":                      {Problem: autodiff.Helmholtz, Count: 1, Directions: 65},
		"-1 directions":                      {Problem: autodiff.Helmholtz, Count: 1, Directions: -1},
		"no expression":                      {Problem: autodiff.Expression, Count: 1, Expr: " "},
		"only problem expression":            {Problem: autodiff.Rosenbrock, Count: 1, Expr: "x"},
		"bounds":                             {Problem: autodiff.Rosenbrock, Count: 1, High: 1},
		"the expression names its variables": {Problem: autodiff.Expression, Count: 1, Expr: "x", Dims: 2},
		"from 2 to 1":                        {Problem: autodiff.Expression, Count: 1, Expr: "x", Low: 2, High: 1},
		"from NaN to 1":                      {Problem: autodiff.Expression, Count: 1, Expr: "x", Low: math.NaN(), High: 1},
		"from 0 to +Inf":                     {Problem: autodiff.Expression, Count: 1, Expr: "x", High: math.Inf(1)},
		"column 3: the end where a":          {Problem: autodiff.Expression, Count: 1, Expr: "x+"},
	} {
		_, err := autodiff.New(c)
		if valid := c.Validate(); valid == nil || err == nil || valid.Error() != err.Error() || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") ||
			!errors.Is(err, workload.ErrConfig) && !errors.Is(err, autodiff.ErrExpr) || c.Bytes() < 0 {
			t.Errorf("%+v: %v and %v, want %q", c, err, valid, want)
		}
	}
	rt := workloadtest.Open(t, 1, autodiff.Funcs())
	one := workloadtest.New[*autodiff.Function](t)(autodiff.Parse("x*y"))
	two := workloadtest.New[*autodiff.Function](t)(autodiff.Parse("x*y; x"))
	gradient := func(f *autodiff.Function, points ...float64) error {
		_, _, err := autodiff.Gradient(t.Context(), rt, f, points)
		return err
	}
	along := func(f *autodiff.Function, directions ...[]float64) error {
		_, _, err := autodiff.Along(t.Context(), rt, f, directions, []float64{1, 2})
		return err
	}
	_, _, none := autodiff.Jacobian(t.Context(), rt, nil, []float64{1, 2})
	for want, err := range map[string]error{
		"no function":             gradient(nil, 1, 2),
		"see Parse":               none,
		"see Parse and":           along(nil, []float64{1, 2}),
		"a gradient of 2":         gradient(two, 1, 2),
		"points of 3 numbers":     gradient(one, 1, 2, 3),
		"0 points":                gradient(one),
		"0 directions":            along(one),
		"65 directions":           along(one, make([][]float64, 65)...),
		"direction 0 has 1":       along(one, []float64{1}),
		"direction 1 is NaN in v": along(one, []float64{1, 1}, []float64{0, math.NaN()}),
	} {
		if !errors.Is(err, workload.ErrConfig) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Right results pass the check at points of any size.
func TestCheckNeverCriesWolf(t *testing.T) {
	rt := workloadtest.Open(t, 1, autodiff.Funcs())
	r := rand.New(rand.NewPCG(7, 8))
	for _, c := range configs(32) {
		for _, size := range []float64{1e-300, 1e-160, 1e-30, 1e-8, 1e8, 1e30, 1e160, 1e300, math.Inf(1), math.NaN(), 0} {
			j := workloadtest.New[*autodiff.Job](t)(autodiff.New(c))
			for i := range j.Points() {
				if j.Points()[i] *= size; r.IntN(20) == 0 {
					j.Points()[i] = size
				}
			}
			workloadtest.Run(t, rt, j)
			if err := j.Check(); err != nil {
				t.Errorf("size %v: %v", size, err)
			}
		}
	}
}
