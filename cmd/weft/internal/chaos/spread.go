package chaos

import "slices"

// Spread is the distribution of a figure.
type Spread struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// SpreadOf returns the distribution of some figures: quantiles are the smallest figure that
// as many are not above.
func SpreadOf(xs []float64) Spread {
	if len(xs) == 0 {
		return Spread{}
	}
	xs = slices.Sorted(slices.Values(xs))
	at := func(q int) float64 { return xs[(len(xs)*q+99)/100-1] }
	return Spread{len(xs), at(50), at(99), xs[len(xs)-1]}
}
