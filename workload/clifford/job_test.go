package clifford_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/clifford"
)

// signatures are those with kernels of their own on some devices, and others.
var signatures = [][2]int{{3, 0}, {1, 3}, {4, 1}, {1, 0}, {0, 2}, {2, 1}, {3, 3}}

// configs are jobs of about so many numbers each.
func configs(numbers int) (out []clifford.Config) {
	for i, op := range clifford.Operations() {
		for _, s := range signatures {
			out = append(out, clifford.Config{Op: op, P: s[0], Q: s[1], Count: numbers>>(s[0]+s[1]) + 11, Seed: uint64(i)})
		}
	}
	return out
}

func TestJobOnDevices(t *testing.T) {
	for _, c := range configs(2000) {
		workloadtest.Invariant(t, clifford.Funcs(),
			func() (*clifford.Job, error) { return clifford.New(c) },
			func(j *clifford.Job) []byte { return workloadtest.Bytes(j.Result()) })
	}
}

// Every number that is off by more than rounding is found, in any multivector.
func TestCheckFinds(t *testing.T) {
	rt := workloadtest.Open(t, 2, clifford.Funcs())
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range configs(1000) {
		j := workloadtest.New[*clifford.Job](t)(clifford.New(c))
		workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
		out, good := j.Result(), slices.Clone(j.Result())
		for i := range 6 {
			at := r.IntN(len(out))
			if i%3 == 0 {
				out[at] = float32(math.NaN())
			} else {
				out[at] += 2e-3 * max(1, float32(math.Abs(float64(out[at]))))
			}
			if err := j.Check(); !errors.Is(err, clifford.ErrWrong) {
				t.Errorf("%s: number %d is %v and not %v: the check says %v", j.Name(), at, out[at], good[at], err)
			}
			copy(out, good)
		}
	}
}

// Multivectors pass whatever numbers they have.
func TestCheckNeverCriesWolf(t *testing.T) {
	rt := workloadtest.Open(t, 1, clifford.Funcs())
	for name, number := range map[string]func(x float32, i int) float32{
		"small":    func(x float32, _ int) float32 { return 1e-22 * x },
		"tiny":     func(x float32, _ int) float32 { return 1e-42 * x },
		"large":    func(x float32, _ int) float32 { return 1e25 * x },
		"zero":     func(float32, int) float32 { return 0 },
		"null":     func(_ float32, i int) float32 { return float32(i % 2) },
		"infinite": func(x float32, i int) float32 { return x * float32(math.Inf(i%2*2-1)) },
		"NaN": func(x float32, i int) float32 {
			if i%97 == 5 {
				return float32(math.NaN())
			}
			return x
		},
	} {
		for _, c := range configs(400) {
			j := workloadtest.New[*clifford.Job](t)(clifford.New(c))
			x, y := j.Operands()
			for i := range x {
				x[i] = number(x[i], i)
			}
			for i := range y {
				y[i] = number(y[i], i)
			}
			workloadtest.Run(t, rt, j)
			if err := j.Check(); err != nil {
				t.Errorf("%s numbers: %v", name, err)
			}
		}
	}
}

func TestRejects(t *testing.T) {
	for want, c := range map[string]clifford.Config{
		"no operation":   {Op: "x", P: 3, Count: 1},
		"Cl(4,3)":        {Op: clifford.Product, P: 4, Q: 3, Count: 1},
		"Cl(0,0)":        {Op: clifford.Product, Count: 1},
		"Cl(-1,3)":       {Op: clifford.Product, P: -1, Q: 3, Count: 1},
		"Cl(3,-1)":       {Op: clifford.Product, P: 3, Q: -1, Count: 1},
		"0 multivectors": {Op: clifford.Product, P: 3},
		"to 33554432":    {Op: clifford.Product, P: 3, Count: 1<<25 + 1},
	} {
		if _, err := clifford.New(c); !errors.Is(err, workload.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
	huge := fmt.Sprintf("Cl(%d,%d)", math.MaxInt, math.MaxInt)
	if _, err := clifford.NewAlgebra(math.MaxInt, math.MaxInt); !errors.Is(err, workload.ErrConfig) || !strings.Contains(err.Error(), huge) {
		t.Error(err)
	}
	rt, three := workloadtest.Open(t, 1, clifford.Funcs()), make([]float32, 3)
	a, err := clifford.NewAlgebra(3, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() ([]float32, error){
		"no algebra":        func() ([]float32, error) { return clifford.Mul(t.Context(), rt, nil, three, three) },
		"half":              func() ([]float32, error) { return clifford.Mul(t.Context(), rt, a, three, three) },
		"different lengths": func() ([]float32, error) { return clifford.Mul(t.Context(), rt, a, make([]float32, 8), three) },
		"none":              func() ([]float32, error) { return clifford.Normalize(t.Context(), rt, a, nil) },
		"no rotor":          func() ([]float32, error) { return clifford.Turn(t.Context(), rt, a, nil, make([]float32, 8)) },
	} {
		if _, err := call(); !errors.Is(err, workload.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
