package bench

import (
	"math"
	"slices"
)

// mannWhitney returns the chance that samples of one distribution differ in rank by as
// much as a and b do, in either direction: the two-sided p-value of the U test of Mann and
// Whitney. It is exact for samples without equal values of up to exactSamples each, and
// by the normal distribution, with corrections for ties and continuity, for others.
func mannWhitney(a, b []float64) float64 {
	n, m := len(a), len(b)
	if n == 0 || m == 0 {
		return 1
	}
	u, ties, equal := rankSum(a, b)
	u = min(u, float64(n*m)-u)
	if !equal && n <= exactSamples && m <= exactSamples {
		return exactU(n, m, int(u))
	}
	total := float64(n + m)
	variance := float64(n*m) / 12 * (total + 1 - ties/(total*(total-1)))
	if !(variance > 0) {
		return 1 // all are equal
	}
	z := max(float64(n*m)/2-u-0.5, 0) / math.Sqrt(variance)
	return math.Erfc(z / math.Sqrt2)
}

// exactSamples is the largest sample whose distribution of U is counted: 50 take about
// 0.1 s, and the normal distribution is within 0.001 of it from 20 on.
const exactSamples = 50

// rankSum returns the number of pairs whose value of a is above that of b, pairs of equal
// values counted half, the sum Σ(t³ − t) over groups of t equal values, and whether there
// are such groups.
func rankSum(a, b []float64) (u, ties float64, equal bool) {
	type value struct {
		x    float64
		ours bool
	}
	var all []value
	for _, x := range a {
		all = append(all, value{x, true})
	}
	for _, x := range b {
		all = append(all, value{x, false})
	}
	slices.SortFunc(all, func(p, q value) int {
		switch {
		case p.x < q.x:
			return -1
		case p.x > q.x:
			return 1
		}
		return 0
	})
	ranks := 0.0
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].x == all[i].x {
			j++
		}
		t := float64(j - i)
		equal = equal || j-i > 1
		ties += t*t*t - t
		for ; i < j; i++ {
			if all[i].ours {
				ranks += float64(j) - (t-1)/2
			}
		}
	}
	n := float64(len(a))
	return ranks - n*(n+1)/2, ties, equal
}

// exactU returns the chance that U of samples of n and m is at most u, or as far from the
// mean on the other side. counts[i][k] counts the orders of i values of the one and j of the
// other in which U is k; j grows with each round.
func exactU(n, m, u int) float64 {
	counts := make([][]float64, n+1)
	for i := range counts {
		counts[i] = make([]float64, u+1)
		counts[i][0] = 1
	}
	for j := 1; j <= m; j++ {
		for i := 1; i <= n; i++ {
			// The highest value is of the one sample, and above j of the other, or of the
			// other.
			for k := u; k >= 0; k-- {
				if k >= j {
					counts[i][k] += counts[i-1][k-j]
				}
			}
		}
	}
	sum := 0.0
	for _, w := range counts[n] {
		sum += w
	}
	orders := 1.0 // (n+m)! / (n! m!)
	for i := 1; i <= m; i++ {
		orders *= float64(n+i) / float64(i)
	}
	return min(2*sum/orders, 1)
}
