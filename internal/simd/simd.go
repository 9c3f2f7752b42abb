// Package simd says which assembly kernels a processor can run, and in which order those kernels add
// up the lanes of a vector.
package simd

// Set is a set of kernels. A set includes the sets before it that the same processor has: a package
// that has no kernel of a set uses one of an earlier set.
type Set int

// The sets.
const (
	Go     Set = iota // none in assembly
	AVX2              // four numbers of float64 at once
	AVX512            // eight at once, with the instructions DQ and VL
	NEON              // two at once, on arm64
)

// Sets returns the instruction sets of this machine, with Go first.
func Sets() []Set {
	if Best == NEON {
		return []Set{Go, NEON}
	}
	var out []Set
	for s := Go; s <= Best; s++ {
		out = append(out, s)
	}
	return out
}

func (s Set) String() string { return [...]string{"go", "avx2", "avx512", "neon"}[s] }

// Lanes is the number of sums that kernels of all sets keep.
const Lanes = 8

// Sum adds up the lanes as the assembly does: halves of a vector, halves of that, and so on.
func Sum(s *[Lanes]float64) float64 {
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}
