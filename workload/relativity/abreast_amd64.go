package relativity

import (
	"math"

	"github.com/weft-run/weft/internal/simd"
)

// abreast says whether orbits with fixed steps are followed eight at a time. Tests set it to run the
// Go code.
var abreast = simd.Best == simd.AVX512

func newFlight() *flight {
	return &flight{one: 1, two: 2, three: 3, clear: math.Float64frombits(1<<63 - 1)}
}

// orbitsAVX512 takes at most the given steps of all orbits and returns their number. It ends before a step in
// which an orbit reaches the horizon or a periapsis, or its energy is not a number. It rounds as the
// Go code does, in the same order and without fusing.
//
//go:noescape
func orbitsAVX512(f *flight, steps int) int

// advance takes steps until one ends a turn or an orbit.
func (f *flight) advance(steps int) int { return orbitsAVX512(f, steps) }
