package fold

import (
	"fmt"
	"math"
	"slices"

	"github.com/weft-run/weft/workload/protein"
)

// tables is a model as kernels take it.
type tables struct {
	counts
	first  []int32   // of bonds, then angles, then dihedrals
	native []float64 // of bonds, angles, cosines and sines of dihedrals
	rows   []int32   // contacts: bead i has those from rows[i] to rows[i+1]
	with   []int32
	size2  []float64 // squares of their native distances
	chain  []int32   // of each bead
	xyz    []float64 // native coordinates

	// For GPUs: contact k of bead i, listed at both of its beads, is at k*beads + i. A bead with fewer
	// contacts than degree has entries of square zero for the rest, which name any other bead.
	allWith  []int32
	allSize2 []float64
}

// counts are the sizes of a model.
type counts struct {
	beads, bonds, angles, dihedrals, contacts int
	degree                                    int // of the bead with the most contacts, made even
}

// ints and reals are how many numbers the tables of a model have.
func (c counts) ints() int {
	return c.bonds + c.angles + c.dihedrals + c.beads + 1 + c.contacts + c.beads + c.degree*c.beads
}
func (c counts) reals() int {
	return c.bonds + c.angles + 2*c.dihedrals + c.contacts + 3*c.beads + c.degree*c.beads
}

// view cuts memory into tables.
func (c counts) view(ints []int32, reals []float64) *tables {
	t := &tables{counts: c}
	cut := func(n int) []int32 {
		out := ints[:n:n]
		ints = ints[n:]
		return out
	}
	cutReal := func(n int) []float64 {
		out := reals[:n:n]
		reals = reals[n:]
		return out
	}
	t.first, t.rows = cut(c.bonds+c.angles+c.dihedrals), cut(c.beads+1)
	t.with, t.chain = cut(c.contacts), cut(c.beads)
	t.native, t.size2 = cutReal(c.bonds+c.angles+2*c.dihedrals), cutReal(c.contacts)
	t.xyz = cutReal(3 * c.beads)
	t.allWith, t.allSize2 = cut(c.degree*c.beads), cutReal(c.degree*c.beads)
	return t
}

// tablesOf makes the tables of a model, and the memory they are in.
func tablesOf(m *protein.Model) (t *tables, ints []int32, reals []float64) {
	c := counts{m.Beads(), len(m.Bonds), len(m.Angles), len(m.Dihedrals), len(m.Contacts), degreeOf(m)}
	ints, reals = make([]int32, c.ints()), make([]float64, c.reals())
	t = c.view(ints, reals)
	k := 0
	for _, terms := range [][]protein.Term{m.Bonds, m.Angles, m.Dihedrals} {
		for _, term := range terms {
			t.first[k] = int32(term.First)
			k++
		}
	}
	k = 0
	for _, terms := range [][]protein.Term{m.Bonds, m.Angles} {
		for _, term := range terms {
			t.native[k] = term.Value
			k++
		}
	}
	for i, term := range m.Dihedrals {
		t.native[k+c.dihedrals+i], t.native[k+i] = math.Sincos(term.Value)
	}
	for i, contact := range m.Contacts {
		t.rows[contact.I+1]++
		t.with[i], t.size2[i] = int32(contact.J), contact.Distance*contact.Distance
	}
	for i := range c.beads {
		t.rows[i+1] += t.rows[i]
	}
	chain, at := int32(0), 0
	for i := range c.beads {
		if i == m.Ends[at] {
			chain, at = chain+1, at+1
		}
		t.chain[i] = chain
	}
	copy(t.xyz, m.Native)
	t.fillAll()
	return t, ints, reals
}

// degreeOf is the largest number of contacts that a bead has, and one more where that is odd.
func degreeOf(m *protein.Model) int {
	of := make([]int, m.Beads())
	for _, c := range m.Contacts {
		of[c.I]++
		of[c.J]++
	}
	return (slices.Max(of) + 1) / 2 * 2
}

// fillAll sets the contacts for GPUs by the others.
func (t *tables) fillAll() {
	n := t.beads
	for at := range t.allWith {
		t.allWith[at] = int32((at%n + 1) % n)
	}
	of := make([]int, n)
	for i := range n {
		for k := t.rows[i]; k < t.rows[i+1]; k++ {
			j := int(t.with[k])
			for _, pair := range [][2]int{{i, j}, {j, i}} {
				at := of[pair[0]]*n + pair[0]
				t.allWith[at], t.allSize2[at] = int32(pair[1]), t.size2[k]
				of[pair[0]]++
			}
		}
	}
}

// check returns an error if a number of a bead is out of range: the kernels do not check.
func (t *tables) check() error {
	for i, f := range t.first {
		last := 1
		if i >= t.bonds {
			last++
		}
		if i >= t.bonds+t.angles {
			last++
		}
		if f < 0 || int(f) > t.beads-1-last {
			return fmt.Errorf("bead %d of term %d is none of %d", f, i, t.beads)
		}
	}
	if t.rows[0] != 0 || int(t.rows[t.beads]) != t.contacts || !slices.IsSorted(t.rows) {
		return fmt.Errorf("the rows of contacts are not in order from 0 to %d", t.contacts)
	}
	for i := range t.beads {
		last := int32(i)
		for _, j := range t.with[t.rows[i]:t.rows[i+1]] {
			if j <= last || int(j) >= t.beads {
				return fmt.Errorf("the contacts of bead %d are not in order, or with none of %d beads", i, t.beads)
			}
			last = j
		}
	}
	return nil
}

// skin is the distance beyond the cutoff, in angstrom, up to which pairs are listed. The list is
// valid until a bead has moved half of it.
const skin = 3.0

const listDistance2 = (protein.Cutoff + skin) * (protein.Cutoff + skin)

// group is eight replicas that are advanced together.
type group struct {
	s                  *tables
	x, v, f, listed    [][lanes]float64 // bead by bead x, y and z
	listRows, listWith []int32          // pairs that are near in one of the replicas
	grids              [lanes]grid
	seen, around       []int32
	args               args
	portable           bool // by Go code alone
}

// do does what the bits of what ask for.
func (g *group) do(what int) {
	if g.portable {
		g.args.lanes(what)
		return
	}
	g.args.do(what)
}

// bind has the group compute with a model and the positions and velocities of replicas.
func (g *group) bind(s *tables, x, v [][lanes]float64) {
	g.s, g.x, g.v = s, x, v
	n := 3 * s.beads
	g.f, g.listed = slices.Grow(g.f[:0], n)[:n], slices.Grow(g.listed[:0], n)[:n]
	g.listRows = slices.Grow(g.listRows[:0], s.beads+1)[:s.beads+1]
	g.args = args{
		x: &x[0], v: &v[0], f: &g.f[0], listed: &g.listed[0],
		rows: &s.rows[0], listRows: &g.listRows[0],
		beads: s.beads, bonds: s.bonds, angles: s.angles, dihedrals: s.dihedrals,
		reach2: skin * skin / 4, group: g,
	}
	if len(s.first) > 0 {
		g.args.first, g.args.native = &s.first[0], &s.native[0]
	}
	if s.contacts > 0 {
		g.args.with, g.args.size2 = &s.with[0], &s.size2[0]
	}
}

// few is the number of beads up to which all pairs are looked at for the list.
const few = 150

// list makes the list of pairs anew: all that are near in one of the replicas, but for
// contacts and neighbours in a chain.
func (g *group) list() {
	s := g.s
	n := s.beads
	copy(g.listed, g.x)
	g.listWith = g.listWith[:0]
	if n > few {
		g.seen = slices.Grow(g.seen[:0], n)[:n]
		clear(g.seen)
		for l := range lanes {
			g.grids[l].fill(n, func(i int) vector { return at(g.x, i, l) })
		}
	}
	for i := range n {
		g.listRows[i] = int32(len(g.listWith))
		contacts := s.with[s.rows[i]:s.rows[i+1]]
		for _, j := range g.candidates(i) {
			for len(contacts) > 0 && contacts[0] < j {
				contacts = contacts[1:]
			}
			if s.chain[i] == s.chain[j] && int(j)-i < protein.ContactSpan || len(contacts) > 0 && contacts[0] == j {
				continue
			}
			g.listWith = append(g.listWith, j)
		}
	}
	g.listRows[n] = int32(len(g.listWith))
	g.args.listWith = nil
	if len(g.listWith) > 0 {
		g.args.listWith = &g.listWith[0]
	}
}

// candidates are the beads behind i that are near it in one of the replicas, in order.
func (g *group) candidates(i int) []int32 {
	g.around = g.around[:0]
	if g.s.beads <= few {
		for j := i + 1; j < g.s.beads; j++ {
			for l := range lanes {
				if near(at(g.x, i, l), at(g.x, j, l)) {
					g.around = append(g.around, int32(j))
					break
				}
			}
		}
		return g.around
	}
	for l := range lanes {
		g.grids[l].around(at(g.x, i, l), func(j int32) {
			if int(j) > i && g.seen[j] != int32(i+1) && near(at(g.x, i, l), at(g.x, int(j), l)) {
				g.seen[j] = int32(i + 1)
				g.around = append(g.around, j)
			}
		})
	}
	slices.Sort(g.around)
	return g.around
}

func near(a, b vector) bool {
	d := sub(a, b)
	return d.x*d.x+d.y*d.y+d.z*d.z < listDistance2
}

// grid has the beads of a conformation by cubes of space, in a table by a hash of the cube.
type grid struct{ head, next []int32 }

// cube is the cube of space that a bead is in.
func cube(v vector) (a, b, c int64) {
	const side = protein.Cutoff + skin
	return int64(math.Floor(v.x / side)), int64(math.Floor(v.y / side)), int64(math.Floor(v.z / side))
}

func (g *grid) slot(a, b, c int64) int {
	return int(uint64(a*73856093^b*19349663^c*83492791) & uint64(len(g.head)-1))
}

// fill puts the beads into the grid by their positions.
func (g *grid) fill(n int, at func(i int) vector) {
	size := 1
	for size < 2*n {
		size *= 2
	}
	g.head, g.next = slices.Grow(g.head[:0], size)[:size], slices.Grow(g.next[:0], n)[:n]
	for i := range g.head {
		g.head[i] = -1
	}
	for i := range n {
		s := g.slot(cube(at(i)))
		g.next[i], g.head[s] = g.head[s], int32(i)
	}
}

// around calls f for the beads in the cube of a position and those around it, and for some others.
func (g *grid) around(v vector, f func(j int32)) {
	a, b, c := cube(v)
	for da := a - 1; da <= a+1; da++ {
		for db := b - 1; db <= b+1; db++ {
			for dc := c - 1; dc <= c+1; dc++ {
				for j := g.head[g.slot(da, db, dc)]; j >= 0; j = g.next[j] {
					f(j)
				}
			}
		}
	}
}

// motion holds the parameters of the motion of a group.
type motion struct {
	dt, gamma float64
	seed      uint32
	first     uint64 // number of the first step
	steps     int
}

// stream is the stream of random numbers that the motion draws.
const stream = 1

// errNowhere says that a bead has no finite position.
type errNowhere struct {
	step          uint64
	replica, bead int
}

func (e *errNowhere) Error() string {
	return fmt.Sprintf("at step %d bead %d of replica %d is nowhere: its coordinates are no numbers; take a shorter time step or a lower temperature", e.step, e.bead, e.replica)
}

// advance takes steps by the BAOAB scheme at the temperatures of the replicas, whose numbers
// are given. stopped is asked now and then whether to go on.
func (g *group) advance(m motion, temperature [lanes]float64, replica [lanes]uint64, stopped func() bool) error {
	a := &g.args
	a.half, a.c1, a.key, a.replica = m.dt/2, math.Exp(-m.gamma*m.dt), uint64(stream)<<32|uint64(m.seed), replica
	for l := range lanes {
		a.noise[l] = math.Sqrt((1 - a.c1*a.c1) * temperature[l])
	}
	if err := g.nowhere(m.first, replica); err != nil {
		return err
	}
	g.list()
	g.do(doForce)
	for s := range m.steps {
		a.step = m.first + uint64(s)
		g.do(doDrift)
		if a.far != [lanes]int64{} {
			if err := g.nowhere(a.step, replica); err != nil {
				return err
			}
			g.list()
			if stopped != nil && stopped() {
				return nil
			}
		}
		g.do(doForce | doKick)
	}
	return g.nowhere(m.first+uint64(m.steps), replica)
}

// nowhere errs for a bead without finite coordinates.
func (g *group) nowhere(step uint64, replica [lanes]uint64) error {
	for i, x := range g.x {
		for l, v := range x {
			if !(math.Abs(v) <= 1e12) {
				return &errNowhere{step, int(replica[l]), i / 3}
			}
		}
	}
	return nil
}
