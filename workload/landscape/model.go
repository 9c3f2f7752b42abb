package landscape

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrStructure says that coordinates are not those of a chain of beads.
var ErrStructure = errors.New("not a chain of beads")

// The parameters of the potential.
const (
	contactDistance = 8.0  // beads nearer than this in the native structure attract each other
	contactSpan     = 4    // least difference of the numbers of two beads that interact
	repulsion       = 4.0  // size of the beads of other pairs
	cutoff          = 12.0 // beyond which those do not repel each other
	bondStiffness   = 100.0
	angleStiffness  = 20.0
)

// Model is the potential around a native structure. It is the reference for the
// kernels and is not changed after [NewModel].
type Model struct {
	native    []float64
	bonds     []float64 // native distance of beads i and i+1
	angles    []float64 // native angle at bead i+1
	dihedrals []float64 // native dihedral of beads i to i+3
}

// NewModel returns the model with the given native structure of at least four
// beads. It keeps the slice. It returns ErrStructure if a coordinate is not
// finite, or if beads coincide or three successive ones are on a line, for which
// the potential is not defined.
func NewModel(native []float64) (*Model, error) {
	n := len(native) / 3
	if len(native)%3 != 0 || n < 4 {
		return nil, fmt.Errorf("landscape: %d coordinates are not three for each of four or more beads: %w", len(native), ErrStructure)
	}
	for i, v := range native {
		if math.IsNaN(v) || math.Abs(v) > 1e6 {
			return nil, fmt.Errorf("landscape: coordinate %v of bead %d is not finite or beyond 1e6 angstrom: %w", v, i/3, ErrStructure)
		}
	}
	m := &Model{native: native}
	for i := range n {
		for j := range i {
			if d := distance2(native, i, j); d < 0.01 {
				return nil, fmt.Errorf("landscape: beads %d and %d are less than 0.1 angstrom apart: %w", j, i, ErrStructure)
			}
		}
	}
	for i := range n - 1 {
		m.bonds = append(m.bonds, math.Sqrt(distance2(native, i, i+1)))
	}
	for i := range n - 2 {
		a := angle(native, i)
		if a < 1e-3 || a > math.Pi-1e-3 {
			return nil, fmt.Errorf("landscape: beads %d to %d are on a line: %w", i, i+2, ErrStructure)
		}
		m.angles = append(m.angles, a)
	}
	for i := range n - 3 {
		m.dihedrals = append(m.dihedrals, dihedral(native, i))
	}
	return m, nil
}

// Beads returns the number of beads.
func (m *Model) Beads() int { return len(m.native) / 3 }

// Contacts returns the number of native contacts.
func (m *Model) Contacts() int {
	count := 0
	for j := contactSpan; j < m.Beads(); j++ {
		for i := 0; i <= j-contactSpan; i++ {
			if distance2(m.native, i, j) < contactDistance*contactDistance {
				count++
			}
		}
	}
	return count
}

// Energy returns the potential of a conformation with as many beads.
func (m *Model) Energy(x []float64) float64 {
	var sum float64
	for i, r0 := range m.bonds {
		d := math.Sqrt(distance2(x, i, i+1)) - r0
		sum += bondStiffness * d * d
	}
	for i, a0 := range m.angles {
		d := angle(x, i) - a0
		sum += angleStiffness * d * d
	}
	for i, p0 := range m.dihedrals {
		d := dihedral(x, i) - p0
		sum += 1 - math.Cos(d) + 0.5*(1-math.Cos(3*d))
	}
	for j := contactSpan; j < m.Beads(); j++ {
		for i := 0; i <= j-contactSpan; i++ {
			r2 := distance2(x, i, j)
			s2 := distance2(m.native, i, j)
			switch {
			case s2 < contactDistance*contactDistance:
				sum += 5*math.Pow(s2/r2, 6) - 6*math.Pow(s2/r2, 5)
			case r2 < cutoff*cutoff:
				sum += math.Pow(repulsion*repulsion/r2, 6)
			}
		}
	}
	return sum
}

// Turned returns the native structure with the beads behind i+1 turned by an
// angle about the axis from bead i to bead i+1.
func (m *Model) Turned(i int, by float64) []float64 {
	x := slices.Clone(m.native)
	turn(x, i, by)
	return x
}

// turn turns the beads behind i+1 by an angle about the axis from bead i to bead i+1.
func turn(x []float64, i int, by float64) {
	p := bead(x, i+1)
	u := unit(sub(p, bead(x, i)))
	sin, cos := math.Sincos(by)
	for j := i + 2; j < len(x)/3; j++ {
		// Rodrigues' formula.
		v := sub(bead(x, j), p)
		w, along := cross(u, v), dot(u, v)
		x[3*j] = p.x + v.x*cos + w.x*sin + u.x*along*(1-cos)
		x[3*j+1] = p.y + v.y*cos + w.y*sin + u.y*along*(1-cos)
		x[3*j+2] = p.z + v.z*cos + w.z*sin + u.z*along*(1-cos)
	}
}

// vector has its coordinates in registers, where an array's would be in memory.
type vector struct{ x, y, z float64 }

func bead(x []float64, i int) vector {
	b := x[3*i : 3*i+3]
	return vector{b[0], b[1], b[2]}
}

func sub(a, b vector) vector { return vector{a.x - b.x, a.y - b.y, a.z - b.z} }

func dot(a, b vector) float64 { return a.x*b.x + a.y*b.y + a.z*b.z }

func cross(a, b vector) vector {
	return vector{a.y*b.z - a.z*b.y, a.z*b.x - a.x*b.z, a.x*b.y - a.y*b.x}
}

func unit(a vector) vector {
	r := 1 / math.Sqrt(dot(a, a))
	return vector{a.x * r, a.y * r, a.z * r}
}

// distance2 returns the square of the distance of two beads.
func distance2(x []float64, i, j int) float64 {
	d := sub(bead(x, i), bead(x, j))
	return dot(d, d)
}

// angle returns the angle at bead i+1 between beads i and i+2.
func angle(x []float64, i int) float64 {
	a, b := sub(bead(x, i), bead(x, i+1)), sub(bead(x, i+2), bead(x, i+1))
	c := cross(a, b)
	return math.Atan2(math.Sqrt(dot(c, c)), dot(a, b))
}

// dihedral returns the angle between the planes of beads i to i+2 and i+1 to
// i+3, zero when the outer beads are on the same side.
func dihedral(x []float64, i int) float64 {
	a, b, c := sub(bead(x, i+1), bead(x, i)), sub(bead(x, i+2), bead(x, i+1)), sub(bead(x, i+3), bead(x, i+2))
	ab, bc := cross(a, b), cross(b, c)
	return math.Atan2(math.Sqrt(dot(b, b))*dot(a, bc), dot(ab, bc))
}
