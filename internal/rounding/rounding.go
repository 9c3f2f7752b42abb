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

// sigmas is how many standard deviations a sum may be off by. Of 2³⁰ sums with errors
// like random numbers none is beyond 7.
const sigmas = 8

// Dot returns the sum of the products of two vectors of one length in float64, and how
// far a float32 sum of them may be from it in any usual order.
//
// Errors of single additions are at most Unit times the partial sum, and mostly like
// random numbers of that size. Their sum then has a standard deviation of Unit ÷ √3 times
// the Euclidean norm of all partial sums (Higham and Mary, "A new approach to
// probabilistic rounding error analysis", 2019), which are here those in the order of
// the vectors, and those that a random order would have. Where errors are alike, as in sums
// of equal numbers, they add up to more: what two chains of float32 additions are off by,
// one of fused multiply-adds and one of rounded products, counts if it is larger. The
// result is +Inf where a partial sum may be too large for float32, and where the sum is
// not finite the exact sum says how.
func Dot(a, b []float32) (sum, within float64) {
	var fused, plain float32
	var partials, terms, largest float64
	for i, x := range a {
		y := b[i]
		t := float64(x) * float64(y)
		sum += t
		partials += sum * sum
		terms += t * t
		largest = max(largest, math.Abs(sum), math.Abs(t))
		fused = float32(float64(fused) + t)
		plain += float32(x * y)
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return sum, 0
	}
	n := float64(len(a))
	deviation := Unit * math.Sqrt((partials+n/2*terms)/3)
	chains := max(math.Abs(float64(fused)-sum), math.Abs(float64(plain)-sum))
	if largest > math.MaxFloat32/2 || math.IsNaN(chains) {
		return sum, math.Inf(1)
	}
	return sum, sigmas*max(deviation, chains) + Unit*math.Abs(sum) + 2*n*Tiny
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
