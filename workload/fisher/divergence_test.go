package fisher_test

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/fisher"
)

func divergenceConfigs() (out []fisher.DivergenceConfig) {
	for i, f := range fisher.Functions() {
		for _, dim := range []int{1, 8, 13} {
			out = append(out, fisher.DivergenceConfig{Function: f, Pairs: 3001 / dim, Dim: dim, Seed: uint32(i)})
		}
	}
	return out
}

func TestDivergencesOnDevices(t *testing.T) {
	for _, c := range divergenceConfigs() {
		workloadtest.Invariant(t, fisher.Funcs(),
			func() (*fisher.DivergenceJob, error) { return fisher.NewDivergences(c) },
			func(j *fisher.DivergenceJob) []byte { return workloadtest.Bytes(j.Result()) })
	}
}

// lnBig is the logarithm of x > 0 to some 100 digits: a series in (x − 1) ÷ (x + 1) after roots.
func lnBig(x *big.Float) *big.Float {
	real := func(v float64) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(v) }
	y, scale := real(0).Set(x), real(1)
	for range 40 { // near one
		y.Sqrt(y)
		scale.Mul(scale, real(2))
	}
	s := real(0).Quo(real(0).Sub(y, real(1)), real(0).Add(y, real(1)))
	z, power, sum := real(0).Mul(s, s), real(0).Set(s), real(0)
	for k := 1.; k < 60; k += 2 {
		sum.Add(sum, real(0).Quo(power, real(k)))
		power.Mul(power, z)
	}
	return sum.Mul(sum, scale.Mul(scale, real(2)))
}

// exact is the divergence of two numbers by its definition, rounded once.
func exact(function string, p, q float64) float64 {
	real := func(v float64) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(v) }
	a, b := real(p), real(q)
	d := real(0).Sub(a, b)
	var out *big.Float
	switch function {
	case fisher.Entropy:
		out = real(0).Mul(a, lnBig(real(0).Quo(a, b)))
		out.Sub(out, d)
	case fisher.Burg:
		t := real(0).Quo(a, b)
		out = real(0).Sub(t, lnBig(t))
		out.Sub(out, real(1))
	default:
		out = real(0).Mul(d, d)
	}
	v, _ := out.Float64()
	return v
}

// Divergences are right to the last few digits, for numbers as close and as far apart as they can
// be, and so is the check.
func TestDivergencesExact(t *testing.T) {
	rt := workloadtest.Open(t, 2, fisher.Funcs())
	r := rand.New(rand.NewPCG(3, 4))
	var p, q []float64
	for e := -52; e < 60; e++ {
		y := math.Ldexp(0.5+r.Float64(), r.IntN(20)-10)
		for _, sign := range []float64{1, -0.9} {
			if by := sign * math.Ldexp(1, e); by > -0.99 {
				p, q = append(p, y+by*y), append(q, y)
			}
		}
	}
	for _, t := range []float64{0.59, 0.61, 1.66, 1.67, 0x1p-900, 0x1p490} { // where other formulas begin
		p, q = append(p, t), append(q, 1)
	}
	p, q = append(p, 0x1p-1060, 0x1p-1060, 0x1p499), append(q, 0x1p499, 0x1p-1066, 0x1p-1060)
	for _, f := range fisher.Functions() {
		got, err := fisher.Divergences(t.Context(), rt, f, 1, p, q)
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range got {
			want := exact(f, p[i], q[i])
			if !(math.Abs(d-want) <= 32*0x1p-53*want+0x1p-1070) && d != want {
				t.Errorf("%s of %v from %v is %v, want %v", f, p[i], q[i], d, want)
			}
		}
		j := workloadtest.New[*fisher.DivergenceJob](t)(fisher.NewDivergences(fisher.DivergenceConfig{Function: f, Pairs: len(p), Dim: 1}))
		x, y := j.Operands()
		copy(x, p)
		copy(y, q)
		workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Error(err)
		}
	}
}

// Divergences are those of the functions as [fisher.Bregman] takes them.
func TestDivergencesByDefinition(t *testing.T) {
	phi, grad := fisher.NegativeEntropy()
	rt := workloadtest.Open(t, 1, fisher.Funcs())
	p, q := []float64{0.2, 0.5, 0.3, 0.5, 0, 0.5}, []float64{0.1, 0.1, 0.8, 0.25, 0.25, 0.5}
	got, err := fisher.Divergences(t.Context(), rt, fisher.Entropy, 3, p, q)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		near(t, "divergence", got[i], fisher.Bregman(phi, grad, p[3*i:3*i+3], q[3*i:3*i+3]), 1e-15)
	}
}

// A number outside of the function's domain makes the divergence NaN or infinite, wherever it is in a
// vector, and the check expects it.
func TestDivergencesOfWhat(t *testing.T) {
	rt := workloadtest.Open(t, 1, fisher.Funcs())
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct{ p, q, entropy, burg, squares float64 }{
		{0, 0, 0, 0, 0},
		{0, 2, 2, inf, 4},
		{2, 0, inf, inf, 4},
		{-1, 2, nan, nan, 9},
		{1, -2, nan, nan, 9},
		{nan, 1, nan, nan, nan},
		{1, nan, nan, nan, nan},
		{inf, inf, nan, nan, nan},
		{0x1p501, 1, nan, nan, nan},
	} {
		for i, f := range fisher.Functions() {
			want := []float64{c.entropy, c.burg, c.squares}[i]
			j := workloadtest.New[*fisher.DivergenceJob](t)(fisher.NewDivergences(fisher.DivergenceConfig{Function: f, Pairs: 2, Dim: 3}))
			p, q := j.Operands()
			for i := range p {
				p[i], q[i] = 1, 1
			}
			p[4], q[4] = c.p, c.q
			workloadtest.Run(t, rt, j)
			if got := j.Result(); got[0] != 0 || got[1] != want && !(want != want && got[1] != got[1]) {
				t.Errorf("%s of %v from %v: %v, want %v", f, c.p, c.q, got, want)
			}
			if err := j.Check(); err != nil {
				t.Error(err)
			}
			j.Result()[1] = 5
			if err := j.Check(); !errors.Is(err, fisher.ErrDivergence) {
				t.Errorf("%s: the check says %v", j.Name(), err)
			}
		}
	}
}

func TestDivergencesCheckFinds(t *testing.T) {
	rt := workloadtest.Open(t, 2, fisher.Funcs())
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range divergenceConfigs() {
		j := workloadtest.New[*fisher.DivergenceJob](t)(fisher.NewDivergences(c))
		workloadtest.Run(t, rt, j)
		out, good := j.Result(), slices.Clone(j.Result())
		for i := range 6 {
			at := r.IntN(len(out))
			if out[at] *= 1 + 1e-13; i%3 == 0 || good[at] == 0 {
				out[at] = math.NaN()
			}
			if err := j.Check(); !errors.Is(err, fisher.ErrDivergence) {
				t.Errorf("%s: number %d is %v and not %v: the check says %v", j.Name(), at, out[at], good[at], err)
			}
			copy(out, good)
		}
		if err := j.Check(); err != nil {
			t.Error(err)
		}
	}
}

func TestDivergencesReject(t *testing.T) {
	for want, c := range map[string]fisher.DivergenceConfig{
		"no function":       {Function: "x", Pairs: 1, Dim: 1},
		"1 to 4096":         {Function: fisher.Entropy, Pairs: 1, Dim: 4097},
		"vectors of 0":      {Function: fisher.Entropy, Pairs: 1},
		"0 pairs":           {Function: fisher.Entropy, Dim: 2},
		"1 to 134217728":    {Function: fisher.Entropy, Pairs: math.MaxInt, Dim: 2},
		"vectors of -1 num": {Function: fisher.Entropy, Pairs: 1, Dim: -1},
	} {
		if _, err := fisher.NewDivergences(c); !errors.Is(err, workload.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
	rt := workloadtest.Open(t, 1, fisher.Funcs())
	for name, c := range map[string]struct{ dim, p, q int }{
		"no numbers": {3, 0, 0}, "no dimension": {0, 3, 3}, "half a vector": {2, 3, 3}, "not pairs": {1, 3, 2},
	} {
		if _, err := fisher.Divergences(t.Context(), rt, fisher.Entropy, c.dim, make([]float64, c.p), make([]float64, c.q)); !errors.Is(err, workload.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
