package msm

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fp"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
)

// ErrInput is wrapped by errors about points and scalars that are not added up.
var ErrInput = errors.New("bad points or scalars")

// Point is a point of one of the two groups, in affine coordinates. The point at infinity has
// coordinates zero.
type Point interface {
	bn254.G1Affine | bn254.G2Affine
}

// MaxPoints is the largest number of points that are added up.
const MaxPoints = 1 << 28

// G1 returns the sum of the points' multiples by the scalars, computed on the devices of a runtime
// that was opened with [Funcs] among its kernels. There must be as many points as scalars, and
// scalars must be reduced; otherwise the error wraps [ErrInput]. Points are not checked (see
// [Check]). The sum of none is the point at infinity.
func G1(ctx context.Context, rt *weft.Runtime, points []bn254.G1Affine, scalars []fr.Element) (bn254.G1Affine, error) {
	return of(ctx, rt, points, scalars)
}

// G2 is [G1] for points of the other group.
func G2(ctx context.Context, rt *weft.Runtime, points []bn254.G2Affine, scalars []fr.Element) (bn254.G2Affine, error) {
	return of(ctx, rt, points, scalars)
}

func of[P Point](ctx context.Context, rt *weft.Runtime, points []P, scalars []fr.Element) (sum P, err error) {
	if len(points) != len(scalars) {
		return sum, fmt.Errorf("msm: %d points and %d scalars: %w: there must be as many of both", len(points), len(scalars), ErrInput)
	}
	j, err := NewJob(points, scalars)
	if err != nil || len(scalars) == 0 {
		return sum, err
	}
	return j.call(ctx, rt)
}

// call runs the job for a caller.
func (j *Job[P]) call(ctx context.Context, rt *weft.Runtime) (sum P, err error) {
	if _, err := workload.Call(ctx, rt, j, "msm"); err != nil {
		return sum, err
	}
	return j.Result(), nil
}

// checkScalars errs unless all scalars are reduced.
func checkScalars(scalars []fr.Element) error {
	for i := range scalars {
		if !below(&scalars[i], &frModulus) {
			return fmt.Errorf("msm: scalar %d is not below the order of the group: %w: reduce it", i, ErrInput)
		}
	}
	return nil
}

// Check errs unless all points are of the group: reduced coordinates of a point on the curve, or
// infinity, and for G2 in the subgroup of the generator. The error wraps [ErrInput].
func Check[P Point](points []P) error {
	return workload.Sweep(len(points), func(lo, hi int) error {
		for i := lo; i < hi; i++ {
			good := true
			switch p := any(&points[i]).(type) {
			case *bn254.G1Affine:
				good = below(&p.X, &fpModulus) && below(&p.Y, &fpModulus) && p.IsInSubGroup()
			case *bn254.G2Affine:
				for _, c := range []*fp.Element{&p.X.A0, &p.X.A1, &p.Y.A0, &p.Y.A1} {
					good = good && below(c, &fpModulus)
				}
				good = good && p.IsInSubGroup()
			}
			if !good {
				return fmt.Errorf("msm: point %d is not on the curve, or not in %s: %w: the key is damaged, or of another curve", i, group[P](), ErrInput)
			}
		}
		return nil
	})
}

// The moduli by words, from the lowest.
var frModulus, fpModulus = words(fr.Modulus().FillBytes(make([]byte, 32))), words(fp.Modulus().FillBytes(make([]byte, 32)))

func words(big []byte) (out [4]uint64) {
	for i, b := range big {
		out[3-i/8] = out[3-i/8]<<8 | uint64(b)
	}
	return out
}

// below says whether an element's words are a number below a modulus.
func below[E fp.Element | fr.Element](e *E, modulus *[4]uint64) bool {
	w := [4]uint64(*e)
	for i := 3; i > 0; i-- {
		if w[i] != modulus[i] {
			return w[i] < modulus[i]
		}
	}
	return w[0] < modulus[0]
}

// group is the name of the points' group.
func group[P Point]() string {
	if pointBytes[P]() == 64 {
		return "G1"
	}
	return "G2"
}

// scalarBytes and pointBytes are the sizes of a scalar and of a point.
const scalarBytes = fr.Bytes

func pointBytes[P Point]() int64 {
	var p P
	return int64(unsafe.Sizeof(p))
}
