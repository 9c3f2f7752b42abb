package landscape

import (
	"math"

	"github.com/weft-run/weft/internal/simd"
)

// Angles is the number of rotations in a row of the landscape.
const Angles = 1000

// lanes is a multiple of the angles that any kernel adds a pair to at once.
const lanes = 8

// turnTable returns the table that [computeRows] needs: the cosines of all rotations, then
// their sines.
func turnTable() []float64 {
	turns := make([]float64, 2*Angles)
	for k := range Angles {
		turns[Angles+k], turns[k] = math.Sincos(2 * math.Pi * float64(k) / Angles)
	}
	return turns
}

// rowCount returns the number of rows of the landscape of n beads: the last
// axis has one bead behind it.
func rowCount(n int) int { return n - 2 }

// computeRows computes the rows lo to hi-1 of the landscape of a native structure into
// the same rows of dst, with [computeRow].
func computeRows(dst, native, turns []float64, energy float64, lo, hi int) {
	for i := lo; i < hi; i++ {
		computeRow(dst[i*Angles:(i+1)*Angles], native, turns, energy, i)
	}
}

// computeRow computes row i of the landscape of a native structure: row[k] is the energy
// after turning the beads behind i+1 by k steps about the axis from bead i to bead
// i+1. turns is the result of [turnTable] and energy the energy of the native
// structure.
func computeRow(row, native, turns []float64, energy float64, i int) {
	rowPart(row[:Angles], native, turns, energy, i, 0)
}

// rowPart computes a part of row i, with the bits that [computeRow] gives it: part[k] is
// the energy after from+k steps. Its length is a multiple of lanes.
//
// Only pairs of a bead up to i+1 and a bead behind it change their distance,
// and of the rest of the potential one dihedral. With the axis through the
// origin along u, the squared distance of a pair turned by t is
//
//	|a|² + |b|² - 2(a·u)(b·u) - 2(a·b - (a·u)(b·u)) cos t - 2 a·(u×b) sin t
//
// so that a pair costs three numbers and then a few operations for each angle.
// The pairs are added in the order of the beads.
func rowPart(part, native, turns []float64, energy float64, i, from int) {
	n := len(native) / 3
	cos, sin := turns[:Angles], turns[Angles:2*Angles]
	cosPart, sinPart := cos[from:from+len(part)], sin[from:from+len(part)]
	clear(part)
	// All angles need the sum of the pairs at angle zero, including angles of a
	// part that begins after it, and it must have the same bits as in the code that
	// adds up the rest.
	var first [lanes]float64
	origin := bead(native, i+1)
	u := unit(sub(origin, bead(native, i)))
	for a := range i + 2 {
		va := sub(bead(native, a), origin)
		alongA, lengthA := dot(va, u), dot(va, va)
		for b := max(i+2, a+contactSpan); b < n; b++ {
			vb := sub(bead(native, b), origin)
			along := alongA * dot(vb, u)
			p := pair{
				constant: lengthA + dot(vb, vb) - 2*along,
				cosine:   2 * (dot(va, vb) - along),
				sine:     2 * dot(va, cross(u, vb)),
			}
			if s2 := distance2(native, a, b); s2 < contactDistance*contactDistance {
				p.size2, p.six, p.five, p.cutoff2 = s2, 5, 6, math.Inf(1)
			} else {
				p.size2, p.six, p.five, p.cutoff2 = repulsion*repulsion, 1, 0, cutoff*cutoff
			}
			p.add(part, cosPart, sinPart)
			if from > 0 {
				p.add(first[:], cos, sin)
			}
		}
	}
	if from == 0 {
		first[0] = part[0]
	}
	// What does not change is the native energy less the pairs at angle zero,
	// where the dihedral's own term is zero.
	rest := energy - first[0]
	for k := range part {
		part[k] += rest
		if i > 0 {
			part[k] += 1 - cosPart[k] + 0.5*(1-cos[3*(from+k)%Angles])
		}
	}
}

// pairOps is the floating-point operations for a pair at an angle.
const pairOps = 25

// pair holds what two beads need to know for all angles. Its energy is
// six·q⁶ - five·q⁵ with q = size2/d², for distances d below the cutoff. The
// assembly reads the fields in this order.
type pair struct {
	constant, cosine, sine float64
	size2, six, five       float64
	cutoff2                float64
}

// use is the set of kernels in use. Tests set it to run the others.
var use = simd.Best

// add adds the energy of a pair at every angle to a row.
func (p *pair) add(row, cos, sin []float64) {
	if p.addWide(row, cos, sin) {
		return
	}
	cos, sin = cos[:len(row)], sin[:len(row)]
	for k := range row {
		d2 := p.constant - p.cosine*cos[k] - p.sine*sin[k]
		if d2 < p.cutoff2 {
			q := p.size2 / d2
			q2 := q * q
			row[k] += q2 * q2 * q * (p.six*q - p.five)
		}
	}
}

// costOf returns the number of pairs whose distance changes in row i of the
// landscape of n beads, to which the time for the row is proportional.
func costOf(n, i int) int64 { return int64(i+2) * int64(n-i-2) }

// costBefore returns the cost of all rows before row i.
func costBefore(n, i int) int64 {
	// The sum of t(n-t) for t from 2 to i+1.
	t := int64(i + 1)
	return int64(n)*(t*(t+1)/2-1) - (t*(t+1)*(2*t+1)/6 - 1)
}

// cutRows divides the rows of n beads into a range for each share such that the
// costs of the ranges are to each other as the shares, as nearly as whole rows
// allow. It returns the row where each range begins, with the number of rows at
// the end. Shares are not negative and not all zero.
func cutRows(n int, shares []float64) []int {
	var total, before float64
	for _, s := range shares {
		total += s
	}
	rows := rowCount(n)
	all := float64(costBefore(n, rows))
	begin := make([]int, len(shares)+1)
	for p, s := range shares {
		before += s
		want := all * (before / total)
		row := begin[p]
		// One more row as long as that comes nearer.
		for row < rows && float64(costBefore(n, row)+costBefore(n, row+1)) < 2*want {
			row++
		}
		begin[p+1] = row
	}
	begin[len(shares)] = rows
	return begin
}
