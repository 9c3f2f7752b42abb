package enumerative

import (
	"fmt"
	"math/big"
)

// maxCurves is the largest degree that Kontsevich takes: the recursion for it takes seconds.
const maxCurves = 500

// Kontsevich is the number of rational plane curves of degree d through 3d−1 general points,
// by Kontsevich's recursion
//
//	N_d = Σ_{a+b=d} N_a N_b (a²b² C(3d−4, 3a−2) − a³b C(3d−4, 3a−1))
//
// A degree below 1 or above 500 is an error that wraps [ErrConfig].
func Kontsevich(d int) (*big.Int, error) {
	if d < 1 || d > maxCurves {
		return nil, fmt.Errorf("enumerative: curves of degree %d: %w: the degree must be 1 to %d", d, ErrConfig, maxCurves)
	}
	n, most := []*big.Int{nil, big.NewInt(1)}, int64(d)
	for d := int64(len(n)); d <= most; d++ {
		sum := new(big.Int)
		for a := int64(1); a < d; a++ {
			b := d - a
			one := new(big.Int).Binomial(3*d-4, 3*a-2)
			one.Mul(one, big.NewInt(a*a*b*b))
			two := new(big.Int).Binomial(3*d-4, 3*a-1)
			one.Sub(one, two.Mul(two, big.NewInt(a*a*a*b)))
			sum.Add(sum, one.Mul(one, n[a]).Mul(one, n[b]))
		}
		n = append(n, sum)
	}
	return n[d], nil
}
