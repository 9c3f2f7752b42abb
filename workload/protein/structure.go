package protein

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
)

// ErrStructure is wrapped by errors about a text that is not a structure, or not one that
// can be computed with.
var ErrStructure = errors.New("not a usable structure")

// maxCoordinate is the largest coordinate in angstrom; the PDB format has room for less.
const maxCoordinate = 1e6

// nearest is the least distance of two C-alpha atoms in angstrom. Real ones are 2.8 or
// farther apart; nearer than this, energies lose their meaning.
const nearest = 0.1

// Residue is one residue of a chain, by its C-alpha atom.
type Residue struct {
	Name      string // three letters, as in "ALA"
	Chain     string // "_" where the file leaves it blank
	Number    int    // as the authors number residues
	Insertion string // the insertion code, mostly empty
	X, Y, Z   float64
	B         float64 // temperature factor, zero where the file has none
}

// String is the residue's name, chain and number, as in "ALA A 38".
func (r Residue) String() string {
	return fmt.Sprintf("%s %s %d%s", r.Name, r.Chain, r.Number, r.Insertion)
}

// Structure is a C-alpha trace: the residues of one or more chains in order.
type Structure struct {
	Name     string
	Residues []Residue
}

// Len is the number of residues.
func (s *Structure) Len() int { return len(s.Residues) }

// Coordinates are x, y and z of each residue's C-alpha atom in angstrom, in a slice of its
// own.
func (s *Structure) Coordinates() []float64 {
	xyz := make([]float64, 0, 3*len(s.Residues))
	for _, r := range s.Residues {
		xyz = append(xyz, r.X, r.Y, r.Z)
	}
	return xyz
}

// Ends are the numbers of residues, counted from zero, behind which a chain ends; the last
// is the number of residues.
func (s *Structure) Ends() []int {
	var ends []int
	for i := 1; i < len(s.Residues); i++ {
		if s.Residues[i].Chain != s.Residues[i-1].Chain {
			ends = append(ends, i)
		}
	}
	return append(ends, len(s.Residues))
}

// gapDistance is the distance in angstrom beyond which two C-alpha atoms do not belong to
// neighbours in a chain. Neighbours are 3.8 apart, and 2.9 where the peptide bond is cis.
const gapDistance = 4.5

// Missing is the number of residues that the chains lack in between: where successive ones are
// too far apart to be neighbours, as many as their numbers leave out, and at least one.
func (s *Structure) Missing() int {
	n := 0
	for i := 1; i < len(s.Residues); i++ {
		a, b := s.Residues[i-1], s.Residues[i]
		if a.Chain == b.Chain && math.Hypot(math.Hypot(a.X-b.X, a.Y-b.Y), a.Z-b.Z) > gapDistance {
			n += max(b.Number-a.Number-1, 1)
		}
	}
	return n
}

// Contact is a pair of residues, counted from zero, and their distance in angstrom.
type Contact struct {
	I, J     int // I < J
	Distance float64
}

// Contacts are the pairs of residues nearer than a cutoff in angstrom whose numbers differ by
// span or more, in the order of I and then J. Residues of different chains count with any span.
func (s *Structure) Contacts(cutoff float64, span int) []Contact {
	var out []Contact
	for c := range Near(s.Coordinates(), cutoff) {
		if c.J-c.I >= span || s.Residues[c.I].Chain != s.Residues[c.J].Chain {
			out = append(out, c)
		}
	}
	return out
}

// Near are all pairs of beads nearer than a cutoff, in the order of I and then J. Coordinates
// are x, y and z of each bead.
func Near(xyz []float64, cutoff float64) iter.Seq[Contact] {
	return func(yield func(Contact) bool) {
		n := len(xyz) / 3
		pair := func(i, j int) bool {
			d2 := distance2(xyz, i, j)
			return !(d2 < cutoff*cutoff) || yield(Contact{i, j, math.Sqrt(d2)})
		}
		var in *cells
		if n >= 256 {
			in = newCells(xyz, cutoff)
		}
		if in == nil || len(in.at) <= 27 { // a cube and those around it, which are most of the pairs
			for i := range n {
				for j := i + 1; j < n; j++ {
					if !pair(i, j) {
						return
					}
				}
			}
			return
		}
		var around []int
		for i := range n {
			around = in.behind(around[:0], xyz, i)
			for _, j := range around {
				if !pair(i, j) {
					return
				}
			}
		}
	}
}

// cells are the beads of a conformation by cubes of space.
type cells struct {
	size float64
	at   map[[3]int32][]int
}

func newCells(xyz []float64, size float64) *cells {
	c := &cells{size: size, at: make(map[[3]int32][]int)}
	for i := range len(xyz) / 3 {
		k := c.of(xyz, i)
		c.at[k] = append(c.at[k], i)
	}
	return c
}

func (c *cells) of(xyz []float64, i int) [3]int32 {
	return [3]int32{int32(math.Floor(xyz[3*i] / c.size)), int32(math.Floor(xyz[3*i+1] / c.size)), int32(math.Floor(xyz[3*i+2] / c.size))}
}

// behind appends the beads with higher numbers than i in its cube and those around it, in
// order.
func (c *cells) behind(dst []int, xyz []float64, i int) []int {
	k := c.of(xyz, i)
	for x := k[0] - 1; x <= k[0]+1; x++ {
		for y := k[1] - 1; y <= k[1]+1; y++ {
			for z := k[2] - 1; z <= k[2]+1; z++ {
				for _, j := range c.at[[3]int32{x, y, z}] {
					if j > i {
						dst = append(dst, j)
					}
				}
			}
		}
	}
	slices.Sort(dst)
	return dst
}

// check checks that residues are apart from each other and that a chain's residues are
// together.
func (s *Structure) check() error {
	begun := make(map[string]bool)
	for i, r := range s.Residues {
		if i > 0 && r.Chain == s.Residues[i-1].Chain {
			continue
		}
		if begun[r.Chain] {
			return fmt.Errorf("protein: %s: chain %s goes on after another has begun; keep the residues of a chain together: %w", s.Name, r.Chain, ErrStructure)
		}
		begun[r.Chain] = true
	}
	for c := range Near(s.Coordinates(), nearest) {
		return fmt.Errorf("protein: %s: residues %s and %s are %.3g angstrom apart, which clashes; give coordinates at least %g apart: %w",
			s.Name, s.Residues[c.I], s.Residues[c.J], c.Distance, nearest, ErrStructure)
	}
	return nil
}

// distance2 is the square of the distance of two beads.
func distance2(x []float64, i, j int) float64 {
	dx, dy, dz := x[3*i]-x[3*j], x[3*i+1]-x[3*j+1], x[3*i+2]-x[3*j+2]
	return dx*dx + dy*dy + dz*dz
}
