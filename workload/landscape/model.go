package landscape

import (
	"math"
	"slices"

	"github.com/weft-run/weft/workload/protein"
)

// The parameters of the potential that kernels need.
const (
	contactDistance = protein.ContactDistance
	contactSpan     = protein.ContactSpan
	repulsion       = protein.Repulsion
	cutoff          = protein.Cutoff
)

// Model is the potential around the native structure of one chain. It is the reference for the
// kernels and is not changed after [NewModel].
type Model struct{ *protein.Model }

// NewModel returns the model with the given native structure, as [protein.NewModel] does. It
// keeps the slice.
func NewModel(native []float64) (*Model, error) {
	m, err := protein.NewModel(native)
	if err != nil {
		return nil, err
	}
	return &Model{m}, nil
}

// Turned returns the native structure with the beads behind i+1 turned by an
// angle about the axis from bead i to bead i+1.
func (m *Model) Turned(i int, by float64) []float64 {
	x := slices.Clone(m.Native)
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
