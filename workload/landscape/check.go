package landscape

import (
	"errors"
	"fmt"
	"math"

	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/workload"
)

// errWrong is returned by [job.Check] for energies that differ from those of the turned
// structures.
var errWrong = errors.New("not the landscape")

// Check computes as many entries again as have checkPairs pairs of beads in all, which
// takes about five seconds of a core's time, but at least checkEntries. Up to 200 residues
// those are all entries.
const (
	checkPairs   = 3 << 29
	checkEntries = 16
)

// picked says which entries of a landscape Check compares: each entries of each row, one
// at random in every stretch of equally many angles, or one entry of some rows.
type picked struct{ rows, each, of int }

// sampleOf returns the sample for a number of rows, whose entries have the given number of
// pairs on average. More than hostedParts entries of a row are a multiple of hostedParts,
// so that some are in every part of a row that a task can have.
func sampleOf(rows int, pairs float64) picked {
	entries := int(max(min(checkPairs/max(pairs, 1), float64(rows*Angles)), checkEntries))
	if entries < rows {
		return picked{entries, 1, rows}
	}
	each := min(entries/rows, Angles)
	if each > hostedParts {
		each -= each % hostedParts
	}
	return picked{rows, each, rows}
}

// row is the i-th row of the sample.
func (s picked) row(i int, places philox.Source) int {
	lo, hi := i*s.of/s.rows, (i+1)*s.of/s.rows
	return lo + int(places.Uint32(uint64(i), 0, 0))%(hi-lo)
}

// angle is the k-th angle of a row of the sample.
func (s picked) angle(row, k int, places philox.Source) int {
	lo, hi := k*Angles/s.each, (k+1)*Angles/s.each
	return lo + int(places.Uint32(uint64(row), 1, uint32(k)))%(hi-lo)
}

// Check sees that every row begins with the native energy, and compares entries with the
// potential of the turned structure: of chains of up to 200 residues all, of longer ones
// some of every row, and of very long ones some of all. An energy may be off by what
// rounding does to distances that are differences of large numbers, and to the sums.
func (j *job) Check() error {
	n := j.model.Beads()
	count := rowCount(n)
	places := philox.Source{}
	s := sampleOf(count, float64(costBefore(n, count))/float64(count))
	j.sampled = s
	for i := range count {
		if got := j.energies[i*Angles]; !(math.Abs(got-j.energy) <= 1e-9*(100+math.Abs(j.energy))) {
			return fmt.Errorf("landscape: row %d begins with %v, not with the native energy %v: %w", i, got, j.energy, errWrong)
		}
	}
	// computeRows in the middle cost most: in parts of one row, all cores have something to do.
	return workload.Sweep(s.rows*s.each, func(lo, hi int) error {
		r := axis{model: j.model, row: -1}
		for at := lo; at < hi; at++ {
			i := s.row(at/s.each, places)
			if i != r.row {
				r.set(i)
			}
			k := s.angle(i, at%s.each, places)
			want, within := r.energy(j.energy, 2*math.Pi*float64(k)/Angles)
			if got := j.energies[i*Angles+k]; !(math.Abs(got-want) <= within) {
				return fmt.Errorf("landscape: row %d, angle %d: energy %v, by the turned structure %v ± %.2g: %w", i, k, got, want, within, errWrong)
			}
		}
		return nil
	})
}

// Misses lists errors that Check may not see.
func (j *job) Misses() []workload.Miss {
	s := j.sampled
	rows := float64(s.rows) / float64(s.of)
	out := []workload.Miss{
		{What: "one wrong energy", Chance: 1 - rows*float64(s.each)/Angles},
		{What: "one wrong row", Chance: 1 - rows},
	}
	if s.each < hostedParts {
		return append(out, workload.Miss{What: "a wrong fifth of a row", Chance: 1 - rows*float64(s.each)/hostedParts})
	}
	return out
}

// axis holds the quantities that change when beads are turned about the axis of a row: the
// pairs of a bead up to i+1 and a later one, and a dihedral.
//
// Beads are turned with the axis' end as the origin, as in kernels. A distance is then rounded
// relative to the beads' distances from there, which reach bounds. With another origin it
// would also be rounded relative to the distance from that origin, unlike in any kernel: 300
// angstrom along a helix this is more than all other errors.
type axis struct {
	model  *Model
	row    int
	from   []float64 // the native structure, seen from the axis' end
	turned []float64 // that, turned by an angle
	size2  []float64 // the squares of native distances, pair by pair
	reach  []float64 // the squares of beads' distances from the axis' end
	native float64   // the energy of the pairs in the native structure
	off    float64   // how far that may be off
}

// precise is the rounding error of a few operations of a device, relative to the largest
// number among them.
const precise = 16 * 0x1p-53

// set prepares a row.
func (r *axis) set(row int) {
	m := r.model
	r.row, r.native, r.off = row, 0, 0
	r.from, r.size2, r.reach = r.from[:0], r.size2[:0], r.reach[:0]
	end := bead(m.Native, row+1)
	for a := range m.Beads() {
		d := sub(bead(m.Native, a), end)
		r.from = append(r.from, d.x, d.y, d.z)
		r.reach = append(r.reach, dot(d, d))
	}
	for a := range row + 2 {
		for b := max(row+2, a+contactSpan); b < m.Beads(); b++ {
			s2 := distance2(m.Native, a, b)
			r.size2 = append(r.size2, s2)
			e, off := pairEnergy(s2, s2, r.reach[a]+r.reach[b])
			r.native += e
			r.off += off
		}
	}
}

// pairEnergy is the energy of two beads and how far it may be off: native and actual
// square of their distance, and the numbers whose difference the latter is.
func pairEnergy(s2, d2, reach float64) (energy, off float64) {
	wrong := precise * reach / d2 // of d2, relative
	if s2 < contactDistance*contactDistance {
		q := s2 / d2
		q5 := q * q * q * q * q
		return q5 * (5*q - 6), 30 * q5 * (q + 1) * (wrong + precise)
	}
	q := repulsion * repulsion / d2
	e := q * q * q
	e *= e
	switch beyond := d2/(cutoff*cutoff) - 1; {
	case math.Abs(beyond) <= wrong+precise:
		return e, e // either side of the cutoff
	case beyond > 0:
		return 0, 0
	}
	return e, 6 * e * (wrong + precise)
}

// energy returns the energy of the structure turned by an angle, and the error a device may
// have.
func (r *axis) energy(native, by float64) (energy, off float64) {
	m, i := r.model, r.row
	r.turned = append(r.turned[:0], r.from...)
	x := r.turned
	turn(x, i, by)
	sum, size, pair := 0.0, 0.0, 0
	off = r.off
	for a := range i + 2 {
		for b := max(i+2, a+contactSpan); b < m.Beads(); b++ {
			e, wrong := pairEnergy(r.size2[pair], distance2(x, a, b), r.reach[a]+r.reach[b])
			sum += e
			size += math.Abs(e)
			off += wrong
			pair++
		}
	}
	energy = native - r.native + sum
	if i > 0 {
		d := dihedral(x, i-1) - m.Dihedrals[i-1].Value
		energy += 1 - math.Cos(d) + 0.5*(1-math.Cos(3*d))
	}
	// The sums have as many terms as pairs, whose errors are like random numbers.
	terms := math.Sqrt(float64(pair)) + 8
	return energy, off + precise*(terms*(size+math.Abs(native)+math.Abs(r.native))+100)
}
