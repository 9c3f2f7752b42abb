package enumerative

import (
	"fmt"
	"math/big"

	"github.com/weft-run/weft/workload"
)

// maxCurves is the largest degree that Kontsevich takes: the recursion for it takes about a second.
const maxCurves = 500

// Kontsevich is the number of rational plane curves of degree d through 3d−1 general points,
// by Kontsevich's recursion
//
//	N_d = Σ_{a+b=d} N_a N_b (a²b² C(3d−4, 3a−2) − a³b C(3d−4, 3a−1))
//
// A degree below 1 or above 500 is an error that wraps [workload.ErrConfig].
func Kontsevich(d int) (*big.Int, error) {
	if d < 1 || d > maxCurves {
		return nil, fmt.Errorf("enumerative: curves of degree %d: %w: the degree must be 1 to %d", d, workload.ErrConfig, maxCurves)
	}
	n, most := []*big.Int{nil, big.NewInt(1)}, int64(d)
	for d := int64(len(n)); d <= most; d++ {
		sum, one, two := new(big.Int), new(big.Int), new(big.Int)
		choose, k := big.NewInt(1), int64(0) // C(3d−4, k)
		next := func() *big.Int {
			choose.Mul(choose, one.SetInt64(3*d-4-k))
			k++
			return choose.Quo(choose, one.SetInt64(k))
		}
		for a := int64(1); a < d; a++ { // k is 3a−3
			b := d - a
			term := new(big.Int).Mul(next(), one.SetInt64(a*a*b*b))
			term.Sub(term, two.Mul(next(), one.SetInt64(a*a*a*b)))
			sum.Add(sum, term.Mul(term, two.Mul(n[a], n[b])))
			next()
		}
		n = append(n, sum)
	}
	return n[d], nil
}
