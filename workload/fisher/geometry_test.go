package fisher_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weft-run/weft/workload/fisher"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s is %v, want %v ± %v", what, got, want, within)
	}
}

// The information of a normal distribution is the mean of products of scores over
// many draws.
func TestGaussian(t *testing.T) {
	const sigma, n = 1.7, 400_000
	r := rand.New(rand.NewPCG(1, 1))
	var sums [4]float64
	for range n {
		x := sigma * r.NormFloat64()
		s := [2]float64{x / (sigma * sigma), x*x/(sigma*sigma*sigma) - 1/sigma}
		for k := range sums {
			sums[k] += s[k/2] * s[k%2] / n
		}
	}
	for k, want := range fisher.Gaussian(sigma) {
		near(t, "information", sums[k], want, 0.01)
	}
}

// Of near distributions, the divergence is half the square of their distance in the
// Fisher information.
func TestBregman(t *testing.T) {
	phi, grad := fisher.NegativeEntropy()
	p, step := []float64{0.2, 0.5, 0.3}, []float64{3e-4, -1e-4, -2e-4}
	q := make([]float64, 3)
	kl := 0.
	for i := range q {
		q[i] = p[i] + step[i]
		kl += p[i] * math.Log(p[i]/q[i])
	}
	d := fisher.Bregman(phi, grad, p, q)
	near(t, "divergence", d, kl, 1e-15)
	f, half := fisher.Categorical(p[:2]), 0.
	for i := range 2 {
		for j := range 2 {
			half += f[2*i+j] * step[i] * step[j] / 2
		}
	}
	near(t, "divergence", d, half, 1e-3*half)
	near(t, "divergence of itself", fisher.Bregman(phi, grad, p, p), 0, 0)
	// Of squares it is the square of the distance.
	square := func(x []float64) (s float64) {
		for _, v := range x {
			s += v * v
		}
		return s
	}
	twice := func(to, x []float64) {
		for i, v := range x {
			to[i] = 2 * v
		}
	}
	near(t, "divergence of squares", fisher.Bregman(square, twice, []float64{3, 1}, []float64{1, 2}), 5, 1e-12)
}

// Equal distributions do not diverge, also where outcomes are impossible; one that is
// impossible by q alone makes them infinitely different.
func TestDivergenceOfZeros(t *testing.T) {
	phi, grad := fisher.NegativeEntropy()
	p := []float64{0.5, 0, 0.5}
	near(t, "divergence of itself", fisher.Bregman(phi, grad, p, p), 0, 0)
	near(t, "divergence", fisher.Bregman(phi, grad, p, []float64{0.5, 0.25, 0.25}), 0.5*math.Log(2), 1e-15)
	if d := fisher.Bregman(phi, grad, []float64{0.5, 0.5}, []float64{1, 0}); !math.IsInf(d, 1) {
		t.Errorf("the divergence from what cannot happen is %v", d)
	}
}
