package fisher

import "math"

// Closed forms of information geometry, in float64: what computed matrices are
// compared with.

// Gaussian is the Fisher information of a normal distribution in its mean and
// standard deviation, by row.
func Gaussian(sigma float64) [4]float64 {
	return [4]float64{1 / (sigma * sigma), 0, 0, 2 / (sigma * sigma)}
}

// Categorical is the Fisher information of a distribution over len(p)+1 outcomes in
// the probabilities of all but the last, by row.
func Categorical(p []float64) []float64 {
	last := 1.
	for _, x := range p {
		last -= x
	}
	out := make([]float64, len(p)*len(p))
	for i := range p {
		for j := range p {
			out[i*len(p)+j] = 1 / last
		}
		out[i*len(p)+i] += 1 / p[i]
	}
	return out
}

// Bregman is the divergence of p from q that belongs to a convex function with the
// gradient given: phi(p) − phi(q) − ⟨grad phi(q), p − q⟩. grad writes into its first
// argument. Where p and q agree the gradient does not count, so that it may be infinite
// there: the divergence of Kullback and Leibler is 0 of equal distributions, also of
// those with zeros, and +Inf where only q is zero.
func Bregman(phi func(x []float64) float64, grad func(to, x []float64), p, q []float64) float64 {
	g := make([]float64, len(q))
	grad(g, q)
	d := phi(p) - phi(q)
	for i := range p {
		if p[i] != q[i] {
			d -= g[i] * (p[i] - q[i])
		}
	}
	return d
}

// NegativeEntropy is Σ x ln x and its gradient, whose divergence of distributions is
// the Kullback-Leibler divergence.
func NegativeEntropy() (phi func(x []float64) float64, grad func(to, x []float64)) {
	phi = func(x []float64) (sum float64) {
		for _, v := range x {
			if v > 0 { // v ln v goes to 0 with v
				sum += v * math.Log(v)
			}
		}
		return sum
	}
	grad = func(to, x []float64) {
		for i, v := range x {
			to[i] = math.Log(v) + 1
		}
	}
	return phi, grad
}
