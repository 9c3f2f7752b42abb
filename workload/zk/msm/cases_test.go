//go:build clang || lavapipe || gpu

package msm

import (
	"slices"

	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
)

// summands are points and scalars.
type summands[P Point] struct {
	points  []P
	scalars []fr.Element
}

// cases are sums where a kernel may go wrong: scalars 0, 1 and r−1, equal points, points at
// infinity, points with their opposites.
func cases[P Point](n int) map[string]summands[P] {
	var one, minus fr.Element
	one.SetOne()
	minus.Neg(&one)
	points, _ := Draw[P](uint64(n), n)
	scalars := DrawScalars(uint64(n), n)
	all := func(s fr.Element) []fr.Element { return slices.Repeat([]fr.Element{s}, n) }
	mixed, some, signed := slices.Clone(points), slices.Clone(scalars), slices.Clone(points)
	for i := range n {
		switch i % 5 {
		case 0:
			mixed[i] = *new(P)
		case 1:
			some[i] = fr.Element{}
		case 2:
			some[i] = one
		case 3:
			some[i] = minus
		}
		if i%2 == 1 {
			signed[i] = negative(signed[i-1])
		}
	}
	return map[string]summands[P]{
		"sum":                      {points, scalars},
		"scalars 0":                {points, all(fr.Element{})},
		"scalars 1":                {points, all(one)},
		"scalars r-1":              {points, all(minus)},
		"equal points":             {slices.Repeat(points[:1], n), scalars},
		"equal points and scalars": {slices.Repeat(points[:1], n), all(scalars[0])},
		"points at infinity":       {mixed, some},
		"opposites":                {signed, some},
		"opposites that cancel":    {signed, all(scalars[0])},
		"nothing but infinity":     {make([]P, n), scalars},
	}
}

func negative[P Point](p P) P {
	switch p := any(&p).(type) {
	case *bn254.G1Affine:
		p.Neg(p)
	case *bn254.G2Affine:
		p.Neg(p)
	}
	return p
}
