// Package rounding says how far float32 sums of products may be from exact ones, for
// checks that compare a device's result with float64: an error beyond it is a fault,
// one within it could be the order in which a device adds.
package rounding

import "math"

const (
	// Unit is the unit roundoff of float32: the most a result is off by, relative to
	// itself.
	Unit = 0x1p-24
	// Tiny is the smallest normal float32. What is smaller a device may take for zero.
	Tiny = 0x1p-126
)

// sigmas is the number of standard deviations that a sum may be off by. Of 2³⁰ sums with random
// errors none is beyond 7.
const sigmas = 8

// Sum is a sum in float64, and which float32 sums of the same terms are right.
type Sum struct {
	Want   float64
	Within float64 // how far a float32 sum may be off if nothing overflows on the way
	// Whether a partial sum may be too large for float32, above and below zero, in some order of the terms.
	up, down bool
}

// Dot returns the sum of the products of two vectors of one length, and how far a float32 sum of them may be from
// it in any usual order.
//
// Errors of single additions are at most Unit times the partial sum, and mostly like
// random numbers of that size. Their sum then has a standard deviation of Unit ÷ √3 times
// the Euclidean norm of all partial sums (Higham and Mary, "A new approach to
// probabilistic rounding error analysis", 2019), which are here those in the order of
// the vectors, and those that a random order would have. Where errors are alike, as in sums
// of equal numbers, they add up to more: what two chains of float32 additions are off by,
// one of fused multiply-adds and one of rounded products, counts if it is larger. Where a chain
// overflows, the largest error that rounding can cause counts.
func Dot(a, b []float32) Sum {
	var fused, plain float32
	var sum, partials, terms, above, below float64
	for i, x := range a {
		y := b[i]
		t := float64(x) * float64(y)
		sum += t
		partials += sum * sum
		terms += t * t
		above, below = above+max(t, 0), below+max(-t, 0)
		fused = float32(float64(fused) + t)
		plain += float32(x * y)
	}
	n := float64(len(a))
	most := math.MaxFloat32 / (1 + 2*n*Unit)
	s := Sum{Want: sum, up: above > most, down: below > most}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return s
	}
	off := max(math.Abs(float64(fused)-sum), math.Abs(float64(plain)-sum))
	if math.IsInf(off, 0) || math.IsNaN(off) {
		off = n * Unit * (above + below)
	}
	s.Within = sigmas*max(Unit*math.Sqrt((partials+n/2*terms)/3), off) + Unit*math.Abs(sum) + 2*n*Tiny
	return s
}

// Is reports whether a float32 is the sum but for its rounding. It may be infinite where a partial sum is, and not
// a number where there are partial sums of both infinities.
func (s Sum) Is(got float32) bool {
	up, down := s.up || math.IsInf(s.Want, 1), s.down || math.IsInf(s.Want, -1)
	switch g := float64(got); {
	case math.IsNaN(s.Want):
		return g != g
	case g != g:
		return up && down
	case math.IsInf(g, 1):
		return up && !math.IsInf(s.Want, -1)
	case math.IsInf(g, -1):
		return down && !math.IsInf(s.Want, 1)
	default:
		return math.Abs(g-s.Want) <= s.Within
	}
}

// Same reports whether a float32 is the number wanted, but for so much. What is
// not a number agrees with nothing else, and infinities with themselves.
func Same(got float32, want, within float64) bool {
	switch g := float64(got); {
	case math.IsInf(within, 1):
		return true
	case math.IsNaN(want):
		return g != g
	case math.IsInf(want, 0):
		return g == want
	default:
		return math.Abs(g-want) <= within
	}
}
