package msm

import (
	"math/big"

	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fp"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
)

// The reference's own arithmetic, with numbers of any length and the formulas of school.

// complexNumber is a + b u with u² = −1 modulo p, the field of G2's coordinates. Those of G1 have
// b = 0.
type complexNumber struct{ a, b *big.Int }

var modulus = fp.Modulus()

func mod(x *big.Int) *big.Int { return x.Mod(x, modulus) }

func (x complexNumber) plus(y complexNumber) complexNumber {
	return complexNumber{mod(new(big.Int).Add(x.a, y.a)), mod(new(big.Int).Add(x.b, y.b))}
}

func (x complexNumber) minus(y complexNumber) complexNumber {
	return complexNumber{mod(new(big.Int).Sub(x.a, y.a)), mod(new(big.Int).Sub(x.b, y.b))}
}

func (x complexNumber) times(y complexNumber) complexNumber {
	mul := func(a, b *big.Int) *big.Int { return new(big.Int).Mul(a, b) }
	re, im := mul(x.a, y.a), mul(x.a, y.b)
	return complexNumber{mod(re.Sub(re, mul(x.b, y.b))), mod(im.Add(im, mul(x.b, y.a)))}
}

// over is x ÷ y for y ≠ 0.
func (x complexNumber) over(y complexNumber) complexNumber {
	norm := new(big.Int).Add(new(big.Int).Mul(y.a, y.a), new(big.Int).Mul(y.b, y.b))
	norm.ModInverse(mod(norm), modulus)
	return x.times(complexNumber{mod(new(big.Int).Mul(y.a, norm)), mod(new(big.Int).Mul(new(big.Int).Neg(y.b), norm))})
}

func (x complexNumber) equal(y complexNumber) bool { return x.a.Cmp(y.a) == 0 && x.b.Cmp(y.b) == 0 }

// naivePoint is a point in affine coordinates, or nil for infinity.
type naivePoint *[2]complexNumber

// naiveAdd adds two points by chord and tangent.
func naiveAdd(p, q naivePoint) naivePoint {
	if p == nil {
		return q
	}
	if q == nil {
		return p
	}
	var slope complexNumber
	switch {
	case !p[0].equal(q[0]):
		slope = q[1].minus(p[1]).over(q[0].minus(p[0]))
	case p[1].equal(q[1]): // and not zero, since no point has order two
		square := p[0].times(p[0])
		slope = square.plus(square).plus(square).over(p[1].plus(p[1]))
	default:
		return nil
	}
	x := slope.times(slope).minus(p[0]).minus(q[0])
	return &[2]complexNumber{x, slope.times(p[0].minus(x)).minus(p[1])}
}

// naiveTimes multiplies a point by doubling and adding.
func naiveTimes(p naivePoint, s *fr.Element) (out naivePoint) {
	k := s.BigInt(new(big.Int))
	for i := k.BitLen() - 1; i >= 0; i-- {
		out = naiveAdd(out, out)
		if k.Bit(i) == 1 {
			out = naiveAdd(out, p)
		}
	}
	return out
}

// naiveSum adds up multiples of points, one after another.
func naiveSum[P Point](points []P, scalars []fr.Element) P {
	var sum naivePoint
	for i := range scalars {
		sum = naiveAdd(sum, naiveTimes(toNaive(points[i]), &scalars[i]))
	}
	return fromNaive[P](sum)
}

func toNaive[P Point](p P) naivePoint {
	number := func(a, b fp.Element) complexNumber {
		return complexNumber{a.BigInt(new(big.Int)), b.BigInt(new(big.Int))}
	}
	switch p := any(&p).(type) {
	case *bn254.G1Affine:
		if !p.IsInfinity() {
			return &[2]complexNumber{number(p.X, fp.Element{}), number(p.Y, fp.Element{})}
		}
	case *bn254.G2Affine:
		if !p.IsInfinity() {
			return &[2]complexNumber{number(p.X.A0, p.X.A1), number(p.Y.A0, p.Y.A1)}
		}
	}
	return nil
}

func fromNaive[P Point](n naivePoint) (p P) {
	if n == nil {
		return p
	}
	switch p := any(&p).(type) {
	case *bn254.G1Affine:
		p.X.SetBigInt(n[0].a)
		p.Y.SetBigInt(n[1].a)
	case *bn254.G2Affine:
		p.X.A0.SetBigInt(n[0].a)
		p.X.A1.SetBigInt(n[0].b)
		p.Y.A0.SetBigInt(n[1].a)
		p.Y.A1.SetBigInt(n[1].b)
	}
	return p
}
