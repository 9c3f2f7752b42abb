package protein

import (
	"fmt"
	"math"
)

// Helix returns an ideal alpha helix of n alanines, for structures of any size: 100 degrees
// and 1.5 angstrom a residue, at 2.3 angstrom from the axis. It panics if n is negative.
func Helix(n int) *Structure {
	if n < 0 {
		panic(fmt.Sprintf("protein: a helix of %d residues; there must be 0 or more", n))
	}
	s := &Structure{Name: "helix", Residues: make([]Residue, n)}
	for i := range s.Residues {
		sin, cos := math.Sincos(float64(i%18) * 100 * math.Pi / 180) // 18 residues are five turns
		s.Residues[i] = Residue{Name: "ALA", Chain: "A", Number: i + 1, X: 2.3 * cos, Y: 2.3 * sin, Z: 1.5 * float64(i)}
	}
	return s
}
