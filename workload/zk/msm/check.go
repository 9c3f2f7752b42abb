package msm

import (
	"context"
	"errors"
	"fmt"

	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"

	"github.com/weft-run/weft/workload"
)

// errWrong is returned by [Job.Check] for a point that is not the sum.
var errWrong = errors.New("not the sum of the points")

// naivePoints is the number of points up to which a sum is computed naively to check it: each
// takes about 10 ms.
const naivePoints = 16

// Check compares the result in every bit. Points that were drawn are known multiples of the
// generator, so that their sum is one product and a single multiple, by doubling and adding. Few
// points of a caller are added up in the same way; for more, the sum is gnark-crypto's.
func (j *Job[P]) Check() error {
	var want P
	got, points := j.Result(), j.points
	if points == nil && j.bases != nil {
		var err error
		if points, err = j.bases.points.Get(context.Background()); err != nil {
			return fmt.Errorf("%s: %w", j.Name(), err)
		}
		points = everyPoint(points, j.bases.multiples)
	}
	switch {
	case j.logs != nil:
		var all, term fr.Element
		for i := range j.scalars {
			all.Add(&all, term.Mul(&j.scalars[i], &j.logs[i]))
		}
		want = naiveSum([]P{generator[P]()}, []fr.Element{all})
	case len(j.scalars) <= naivePoints:
		want = naiveSum(points, j.scalars)
	default:
		want = Reference(points[:len(j.scalars)], j.scalars)
	}
	if got != want {
		return fmt.Errorf("%s: %v, want %v: %w", j.Name(), any(&got), any(&want), errWrong)
	}
	return nil
}

// Misses is nothing: the result is compared in every bit.
func (j *Job[P]) Misses() []workload.Miss {
	return []workload.Miss{{What: "a wrong sum", Chance: 0}}
}

// Reference is the sum as gnark-crypto computes it on the host.
func Reference[P Point](points []P, scalars []fr.Element) (sum P) {
	// It errs for lengths that differ, which they do not.
	switch sum := any(&sum).(type) {
	case *bn254.G1Affine:
		_, _ = sum.MultiExp(any(points).([]bn254.G1Affine), scalars, ecc.MultiExpConfig{})
	case *bn254.G2Affine:
		_, _ = sum.MultiExp(any(points).([]bn254.G2Affine), scalars, ecc.MultiExpConfig{})
	}
	return sum
}

// generator is the generator of the points' group.
func generator[P Point]() (g P) {
	_, _, g1, g2 := bn254.Generators()
	switch g := any(&g).(type) {
	case *bn254.G1Affine:
		*g = g1
	case *bn254.G2Affine:
		*g = g2
	}
	return g
}
