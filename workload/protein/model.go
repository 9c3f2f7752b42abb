package protein

import (
	"fmt"
	"math"
)

// The parameters of the potential.
const (
	ContactDistance = 8.0  // beads nearer than this in the native structure attract each other
	ContactSpan     = 4    // least difference of the numbers of two beads of a chain that interact
	Repulsion       = 4.0  // size of the beads of other pairs
	Cutoff          = 12.0 // beyond which those do not repel each other
	BondStiffness   = 100.0
	AngleStiffness  = 20.0
)

// leastBeads is the number of beads that a model needs.
const leastBeads = 4

// Term is a bond, an angle or a dihedral of successive beads, with its native value.
type Term struct {
	First int // of its beads
	Value float64
}

// Model is the structure-based C-alpha model of Clementi, Nymeyer and Onuchic (J. Mol. Biol.
// 298, 937, 2000): one bead for each residue, and a potential whose minimum is the native
// structure. It is built from that structure and predicts none. Energies are in units of the
// contact energy, lengths in angstrom, masses and Boltzmann's constant are one.
//
//	V = Σ bonds 100 (r-r0)² + Σ angles 20 (θ-θ0)²
//	  + Σ dihedrals [1-cos(φ-φ0)] + ½ [1-cos 3(φ-φ0)]
//	  + Σ contacts [5(s/r)¹² - 6(s/r)¹⁰] + Σ other pairs nearer than 12 (4/r)¹²
//
// It is the reference for kernels and is not changed after [NewModel]. Conformations are slices
// of x, y and z, one bead after the other.
type Model struct {
	Native    []float64
	Ends      []int // of chains: bonds, angles and dihedrals are within one
	Bonds     []Term
	Angles    []Term // at bead First+1
	Dihedrals []Term
	Contacts  []Contact // native ones, in the order of I and then J
	chain     []int     // of each bead
}

// NewModel returns the model with the given native conformation, which it keeps, of chains
// that end before some beads, the last before the number of beads; without ends there is one
// chain. It returns ErrStructure for fewer than four beads, coordinates that are not finite, beads that
// coincide and three successive ones on a line, for which the potential is not defined.
func NewModel(native []float64, ends ...int) (*Model, error) {
	n := len(native) / 3
	if len(native)%3 != 0 || n < leastBeads {
		return nil, fmt.Errorf("protein: %d coordinates are not three for each of four or more beads: %w", len(native), ErrStructure)
	}
	if len(ends) == 0 {
		ends = []int{n}
	}
	for i, v := range native {
		if math.IsNaN(v) || math.Abs(v) > maxCoordinate {
			return nil, fmt.Errorf("protein: coordinate %v of bead %d is not finite or beyond 1e6 angstrom: %w", v, i/3, ErrStructure)
		}
	}
	for c := range Near(native, nearest) {
		return nil, fmt.Errorf("protein: beads %d and %d are less than %g angstrom apart: %w", c.I, c.J, nearest, ErrStructure)
	}
	m := &Model{Native: native, Ends: ends, chain: make([]int, n)}
	begin := 0
	for c, end := range ends {
		if end <= begin || end > n || c == len(ends)-1 && end != n {
			return nil, fmt.Errorf("protein: chains of %d beads end at %v: %w", n, ends, ErrStructure)
		}
		for i := begin; i < end; i++ {
			m.chain[i] = c
			if i+1 < end {
				m.Bonds = append(m.Bonds, Term{i, math.Sqrt(distance2(native, i, i+1))})
			}
			if i+2 < end {
				a := angle(native, i)
				if a < 1e-3 || a > math.Pi-1e-3 {
					return nil, fmt.Errorf("protein: beads %d to %d are on a line: %w", i, i+2, ErrStructure)
				}
				m.Angles = append(m.Angles, Term{i, a})
			}
			if i+3 < end {
				m.Dihedrals = append(m.Dihedrals, Term{i, dihedral(native, i)})
			}
		}
		begin = end
	}
	for c := range Near(native, ContactDistance) {
		if m.Interact(c.I, c.J) {
			m.Contacts = append(m.Contacts, c)
		}
	}
	return m, nil
}

// ModelOf is the model of a structure and its chains.
func ModelOf(s *Structure) (*Model, error) {
	if n := s.Len(); n < leastBeads {
		return nil, fmt.Errorf("%s: protein: a model needs %d residues or more, and there are %d: %w", s.Name, leastBeads, n, ErrStructure)
	}
	m, err := NewModel(s.Coordinates(), s.Ends()...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	return m, nil
}

// Beads is the number of beads.
func (m *Model) Beads() int { return len(m.Native) / 3 }

// Interact reports whether beads i < j are a contact or repel each other: they are in
// different chains, or far enough apart along theirs.
func (m *Model) Interact(i, j int) bool { return j-i >= ContactSpan || m.chain[i] != m.chain[j] }

// must panics unless a conformation, and forces if they are not nil, have as many beads as the
// model.
func (m *Model) must(x, f []float64) {
	if len(x) != len(m.Native) || f != nil && len(f) != len(x) {
		panic(fmt.Sprintf("protein: a conformation of %d coordinates, forces of %d; the model has %d beads and takes %d", len(x), len(f), m.Beads(), len(m.Native)))
	}
}

// Energy is the potential of a conformation. It panics unless there are as many beads as the
// model has.
func (m *Model) Energy(x []float64) float64 { return m.Forces(nil, x) }

// Forces sets f to the forces on the beads of a conformation, unless f is nil, and returns its
// potential. It panics unless both have as many beads as the model.
func (m *Model) Forces(f, x []float64) float64 {
	m.must(x, f)
	clear(f)
	push := func(i int, by vector, scale float64) {
		if f != nil {
			f[3*i] += by.x * scale
			f[3*i+1] += by.y * scale
			f[3*i+2] += by.z * scale
		}
	}
	var sum float64
	for _, t := range m.Bonds {
		i := t.First
		d := sub(bead(x, i), bead(x, i+1))
		r := math.Sqrt(dot(d, d))
		off := r - t.Value
		sum += BondStiffness * off * off
		push(i, d, -2*BondStiffness*off/r)
		push(i+1, d, 2*BondStiffness*off/r)
	}
	for _, t := range m.Angles {
		i := t.First
		a, b := sub(bead(x, i), bead(x, i+1)), sub(bead(x, i+2), bead(x, i+1))
		c := cross(a, b)
		sin, cos := math.Sqrt(dot(c, c)), dot(a, b)
		off := math.Atan2(sin, cos) - t.Value
		sum += AngleStiffness * off * off
		// The angle grows fastest where a bead moves in the plane at right angles to its arm.
		slope := 2 * AngleStiffness * off / sin
		onA, onB := scaled(cross(a, c), slope/dot(a, a)), scaled(cross(c, b), slope/dot(b, b))
		push(i, onA, -1)
		push(i+2, onB, -1)
		push(i+1, onA, 1)
		push(i+1, onB, 1)
	}
	for _, t := range m.Dihedrals {
		i := t.First
		d := dihedral(x, i) - t.Value
		sum += 1 - math.Cos(d) + 0.5*(1-math.Cos(3*d))
		slope := math.Sin(d) + 1.5*math.Sin(3*d)
		a, b, c := sub(bead(x, i+1), bead(x, i)), sub(bead(x, i+2), bead(x, i+1)), sub(bead(x, i+3), bead(x, i+2))
		ab, bc := cross(a, b), cross(b, c)
		length := math.Sqrt(dot(b, b))
		g0, g3 := scaled(ab, -length/dot(ab, ab)), scaled(bc, length/dot(bc, bc))
		s, u := dot(a, b)/dot(b, b), dot(c, b)/dot(b, b)
		push(i, g0, -slope)
		push(i+3, g3, -slope)
		push(i+1, g0, slope*(1+s))
		push(i+1, g3, -slope*u)
		push(i+2, g0, -slope*s)
		push(i+2, g3, slope*(1+u))
	}
	for _, c := range m.Contacts {
		d := sub(bead(x, c.I), bead(x, c.J))
		r2 := dot(d, d)
		q := c.Distance * c.Distance / r2
		q5 := q * q * q * q * q
		sum += q5 * (5*q - 6)
		push(c.I, d, 60*q5*(q-1)/r2)
		push(c.J, d, -60*q5*(q-1)/r2)
	}
	return m.repel(sum, x, push)
}

// repel adds to sum the energies of beads that repel each other, and returns it.
func (m *Model) repel(sum float64, x []float64, push func(i int, by vector, scale float64)) float64 {
	contacts := m.Contacts
	for c := range Near(x, Cutoff) {
		for len(contacts) > 0 && (contacts[0].I < c.I || contacts[0].I == c.I && contacts[0].J < c.J) {
			contacts = contacts[1:]
		}
		if isContact := len(contacts) > 0 && contacts[0].I == c.I && contacts[0].J == c.J; m.Interact(c.I, c.J) && !isContact {
			d := sub(bead(x, c.I), bead(x, c.J))
			r2 := dot(d, d)
			q := Repulsion * Repulsion / r2
			e := q * q * q * q * q * q
			sum += e
			push(c.I, d, 12*e/r2)
			push(c.J, d, -12*e/r2)
		}
	}
	return sum
}

type vector struct{ x, y, z float64 }

func bead(x []float64, i int) vector {
	b := x[3*i : 3*i+3]
	return vector{b[0], b[1], b[2]}
}

func sub(a, b vector) vector { return vector{a.x - b.x, a.y - b.y, a.z - b.z} }

func scaled(a vector, by float64) vector { return vector{a.x * by, a.y * by, a.z * by} }

func dot(a, b vector) float64 { return a.x*b.x + a.y*b.y + a.z*b.z }

func cross(a, b vector) vector {
	return vector{a.y*b.z - a.z*b.y, a.z*b.x - a.x*b.z, a.x*b.y - a.y*b.x}
}

// angle is the angle at bead i+1 between beads i and i+2.
func angle(x []float64, i int) float64 {
	a, b := sub(bead(x, i), bead(x, i+1)), sub(bead(x, i+2), bead(x, i+1))
	c := cross(a, b)
	return math.Atan2(math.Sqrt(dot(c, c)), dot(a, b))
}

// dihedral is the angle between the planes of beads i to i+2 and i+1 to i+3, zero when the
// outer beads are on the same side.
func dihedral(x []float64, i int) float64 {
	a, b, c := sub(bead(x, i+1), bead(x, i)), sub(bead(x, i+2), bead(x, i+1)), sub(bead(x, i+3), bead(x, i+2))
	ab, bc := cross(a, b), cross(b, c)
	return math.Atan2(math.Sqrt(dot(b, b))*dot(a, bc), dot(ab, bc))
}
