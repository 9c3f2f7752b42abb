package protein

import (
	"fmt"
	"math"
)

// Formed is the largest ratio of the distance of a contact to its native distance at which the
// contact counts as formed.
const Formed = 1.2

// Q is the share of native contacts that a conformation has: those whose distance is below 1.2
// times the native one. Without contacts it is zero. It panics unless there are as many beads
// as the model has.
func (m *Model) Q(x []float64) float64 {
	m.must(x, nil)
	n := 0
	for _, c := range m.Contacts {
		if distance2(x, c.I, c.J) < Formed*Formed*c.Distance*c.Distance {
			n++
		}
	}
	return float64(n) / float64(max(len(m.Contacts), 1))
}

// ContactMap has a row and a column for each bead: true where two beads of a conformation
// interact and are nearer than [ContactDistance]. It panics unless there are as many beads as
// the model has.
func (m *Model) ContactMap(x []float64) [][]bool {
	m.must(x, nil)
	n := m.Beads()
	out := make([][]bool, n)
	for i := range out {
		out[i] = make([]bool, n)
	}
	for c := range Near(x, ContactDistance) {
		if m.Interact(c.I, c.J) {
			out[c.I][c.J], out[c.J][c.I] = true, true
		}
	}
	return out
}

// centre is the mean of the beads of a conformation.
func centre(x []float64) vector {
	var c vector
	for i := range len(x) / 3 {
		b := bead(x, i)
		c.x += b.x
		c.y += b.y
		c.z += b.z
	}
	return scaled(c, 3/float64(max(len(x), 1)))
}

// Rg is the radius of gyration of a conformation: the root mean square distance of its beads
// from their centre, and of none zero.
func Rg(x []float64) float64 {
	c, sum := centre(x), 0.0
	for i := range len(x) / 3 {
		d := sub(bead(x, i), c)
		sum += dot(d, d)
	}
	return math.Sqrt(sum * 3 / float64(max(len(x), 1)))
}

// RMSD is the root mean square distance of the beads of two conformations, one of which is
// moved and turned, but not mirrored, to where that is least. Conformations without beads are
// at distance zero. It panics if one has more beads than the other.
func RMSD(x, y []float64) float64 {
	return math.Sqrt(mean(Distances(x, y), func(d float64) float64 { return d * d }))
}

// GDTTS is the mean share, in percent, of the beads that are within 1, 2, 4 and 8 angstrom of
// each other once two conformations are superposed as for [RMSD], and of none zero. It panics
// if one has more beads than the other.
func GDTTS(x, y []float64) float64 {
	d := Distances(x, y)
	sum := 0.0
	for _, within := range []float64{1, 2, 4, 8} {
		sum += mean(d, func(d float64) float64 {
			if d <= within {
				return 25
			}
			return 0
		})
	}
	return sum
}

func mean(d []float64, of func(float64) float64) float64 {
	sum := 0.0
	for _, v := range d {
		sum += of(v)
	}
	return sum / float64(max(len(d), 1))
}

// Distances returns the distances of the beads of two conformations after moving and turning x
// to the least mean square. It panics if one has more beads than the other.
func Distances(x, y []float64) []float64 {
	moved := Superposed(x, y)
	out := make([]float64, len(x)/3)
	for i := range out {
		d := sub(bead(moved, i), bead(y, i))
		out[i] = math.Sqrt(dot(d, d))
	}
	return out
}

// Superposed is x, moved and turned to where the mean square distance of its beads from those
// of y is least. The turn is the quaternion of the largest eigenvalue of a matrix made of the
// products of coordinates (Horn, J. Opt. Soc. Am. A 4, 629, 1987). It panics if one has more
// beads than the other.
func Superposed(x, y []float64) []float64 {
	if len(x) != len(y) || len(x)%3 != 0 {
		panic(fmt.Sprintf("protein: conformations of %d and %d coordinates; there must be as many, three for each bead", len(x), len(y)))
	}
	cx, cy := centre(x), centre(y)
	var s [3][3]float64
	for i := range len(x) / 3 {
		a, b := sub(bead(x, i), cx), sub(bead(y, i), cy)
		for r, u := range [...]float64{a.x, a.y, a.z} {
			s[r][0] += u * b.x
			s[r][1] += u * b.y
			s[r][2] += u * b.z
		}
	}
	q := largest([4][4]float64{
		{s[0][0] + s[1][1] + s[2][2], s[1][2] - s[2][1], s[2][0] - s[0][2], s[0][1] - s[1][0]},
		{s[1][2] - s[2][1], s[0][0] - s[1][1] - s[2][2], s[0][1] + s[1][0], s[2][0] + s[0][2]},
		{s[2][0] - s[0][2], s[0][1] + s[1][0], s[1][1] - s[0][0] - s[2][2], s[1][2] + s[2][1]},
		{s[0][1] - s[1][0], s[2][0] + s[0][2], s[1][2] + s[2][1], s[2][2] - s[0][0] - s[1][1]},
	})
	w, v := q[0], vector{q[1], q[2], q[3]}
	out := make([]float64, len(x))
	for i := range len(x) / 3 {
		a := sub(bead(x, i), cx)
		t := scaled(cross(v, a), 2)
		u := cross(v, t)
		out[3*i], out[3*i+1], out[3*i+2] = a.x+w*t.x+u.x+cy.x, a.y+w*t.y+u.y+cy.y, a.z+w*t.z+u.z+cy.z
	}
	return out
}

// largest is the eigenvector of the largest eigenvalue of a symmetric matrix, by Jacobi's
// rotations.
func largest(a [4][4]float64) [4]float64 {
	v := [4][4]float64{{1}, {0, 1}, {0, 0, 1}, {0, 0, 0, 1}}
	for range 50 {
		off, diagonal := 0.0, 0.0
		for p := range 4 {
			diagonal += a[p][p] * a[p][p]
			for q := p + 1; q < 4; q++ {
				off += a[p][q] * a[p][q]
			}
		}
		if off <= 1e-32*diagonal {
			break
		}
		for p := range 4 {
			for q := p + 1; q < 4; q++ {
				if a[p][q] != 0 {
					rotate(&a, &v, p, q)
				}
			}
		}
	}
	best := 0
	for p := range 4 {
		if a[p][p] > a[best][best] {
			best = p
		}
	}
	return [4]float64{v[0][best], v[1][best], v[2][best], v[3][best]}
}

// rotate makes element p, q of a symmetric matrix zero and turns the vectors along.
func rotate(a, v *[4][4]float64, p, q int) {
	theta := (a[q][q] - a[p][p]) / (2 * a[p][q])
	t := 1 / (math.Abs(theta) + math.Sqrt(theta*theta+1))
	if theta < 0 {
		t = -t
	}
	c := 1 / math.Sqrt(t*t+1)
	s := t * c
	for k := range 4 {
		a[k][p], a[k][q] = c*a[k][p]-s*a[k][q], s*a[k][p]+c*a[k][q]
	}
	for k := range 4 {
		a[p][k], a[q][k] = c*a[p][k]-s*a[q][k], s*a[p][k]+c*a[q][k]
	}
	for k := range 4 {
		v[k][p], v[k][q] = c*v[k][p]-s*v[k][q], s*v[k][p]+c*v[k][q]
	}
}
