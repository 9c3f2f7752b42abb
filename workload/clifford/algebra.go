// Package clifford computes in the geometric algebras Cl(p,q) with p + q up to six: vectors
// e1 to ep square to one, the q vectors behind them to minus one, and different ones
// anticommute. A multivector is a number for each product of vectors, its blades, in the order
// of their number of vectors and then of their names: 1, e1, e2, e3, e12, e13, e23, e123.
//
// [Algebra] has products, reversal, norms, exponentials and rotors in float64, one at a time.
// [Mul], [Turn] and [Normalize] take batches in float32 on the devices of a runtime. Tables of
// indices and signs are generated from the blades as sets of vectors. Every multivector is
// computed on its own, in one order of operations: class R. What is not a number makes all of
// its product none.
//
// Files: algebra.go (the algebras), kernel.go and wide_amd64.s (kernels), job.go (the work),
// check.go (its reference, by matrices), call.go (calls).
package clifford

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/weft-run/weft/workload"
)

// MaxDim is the largest p + q.
const MaxDim = 6

// maxSize is the number of blades of the largest algebras.
const maxSize = 1 << MaxDim

// Algebra is one of the algebras Cl(p,q). It is not changed after [NewAlgebra].
type Algebra struct {
	p, q   int
	blades []uint32 // as sets of vectors, in order
	at     []int    // the position of each set
	tables
}

// NewAlgebra returns Cl(p,q). A signature below zero, or p + q that is not 1 to [MaxDim], is
// an error that wraps [workload.ErrConfig].
func NewAlgebra(p, q int) (*Algebra, error) {
	if p < 0 || q < 0 || p > MaxDim || q > MaxDim || p+q < 1 || p+q > MaxDim {
		return nil, fmt.Errorf("clifford: Cl(%d,%d): %w: p and q must be 0 or more, and 1 to %d together", p, q, workload.ErrConfig, MaxDim)
	}
	return algebras[p][q], nil
}

// algebras are all there are, by p and q.
var algebras = func() (out [MaxDim + 1][MaxDim + 1]*Algebra) {
	for p := range out {
		for q := range out {
			if p+q >= 1 && p+q <= MaxDim {
				out[p][q] = newAlgebra(p, q)
			}
		}
	}
	return out
}()

func newAlgebra(p, q int) *Algebra {
	a := &Algebra{p: p, q: q, at: make([]int, 1<<(p+q))}
	for set := range uint32(1 << (p + q)) {
		a.blades = append(a.blades, set)
	}
	slices.SortFunc(a.blades, func(x, y uint32) int {
		return cmp.Or(bits.OnesCount32(x)-bits.OnesCount32(y), cmp.Compare(bits.Reverse32(y), bits.Reverse32(x)))
	})
	for i, set := range a.blades {
		a.at[set] = i
	}
	a.tables = newTables(a)
	return a
}

// String is as "Cl(3,0)".
func (a *Algebra) String() string { return fmt.Sprintf("Cl(%d,%d)", a.p, a.q) }

// Size is the number of blades, which is how many numbers a multivector has.
func (a *Algebra) Size() int { return len(a.blades) }

// Blade is the name of a blade, as "e12"; the first is "1".
func (a *Algebra) Blade(i int) string {
	if i == 0 {
		return "1"
	}
	name := "e"
	for set := a.blades[i]; set != 0; set &= set - 1 {
		name += fmt.Sprint(bits.TrailingZeros32(set) + 1)
	}
	return name
}

// BladeProduct is the product of two blades: which one it is, and its sign.
func (a *Algebra) BladeProduct(i, j int) (k int, sign float64) {
	x, y := a.blades[i], a.blades[j]
	// Each swap of two vectors that brings them into order changes the sign, and so does each
	// vector in both that squares to minus one.
	changes := bits.OnesCount32(x & y >> a.p)
	for s := x >> 1; s != 0; s >>= 1 {
		changes += bits.OnesCount32(s & y)
	}
	return a.at[x^y], 1 - 2*float64(changes%2)
}

// Product writes the geometric product of x and y to dst, which may not overlap them. All
// three have [Algebra.Size] numbers.
func (a *Algebra) Product(dst, x, y []float64) {
	n := a.Size()
	dst, x, y = dst[:n], x[:n], y[:n]
	clear(dst)
	for i := range x {
		for k, e := range a.entries[i*n : (i+1)*n] {
			term := x[i] * y[e&^negative]
			if e&negative != 0 {
				term = -term
			}
			dst[k] += term
		}
	}
}

// Reverse writes x with the vectors of every blade in reverse order to dst, which may be x.
func (a *Algebra) Reverse(dst, x []float64) {
	for i, set := range a.blades {
		dst[i] = x[i]
		if reversed(set) {
			dst[i] = -x[i]
		}
	}
}

// reversed says whether a blade changes its sign with the order of its vectors.
func reversed(set uint32) bool { return bits.OnesCount32(set)%4 >= 2 }

// Norm2 is the scalar part of x times its reverse. It may be negative, and zero for x that is
// not, unless q is zero.
func (a *Algebra) Norm2(x []float64) (sum float64) {
	for i, set := range a.blades {
		if bits.OnesCount32(set>>a.p)%2 == 1 {
			sum -= x[i] * x[i]
		} else {
			sum += x[i] * x[i]
		}
	}
	return sum
}

// Exp writes the exponential of x to dst, which may be x, by the power series of x ÷ 2ˢ and s
// squarings. An x that is not finite is an error that wraps [workload.ErrConfig].
func (a *Algebra) Exp(dst, x []float64) error {
	size := 0.
	for _, v := range x[:a.Size()] {
		size += math.Abs(v)
	}
	if math.IsNaN(size) || math.IsInf(size, 0) {
		return fmt.Errorf("clifford: the exponential of %v: %w: its numbers must be finite", x, workload.ErrConfig)
	}
	halvings := max(0, math.Ilogb(size)+2)
	small, sum, term, next := make([]float64, a.Size()), make([]float64, a.Size()), make([]float64, a.Size()), make([]float64, a.Size())
	for i := range small {
		small[i] = math.Ldexp(x[i], -halvings)
	}
	sum[0], term[0] = 1, 1
	for k := 1; k <= 20; k++ { // (1/2)²⁰ ÷ 20! is below 1e-24
		a.Product(next, term, small)
		for i := range next {
			next[i] /= float64(k)
			sum[i] += next[i]
		}
		term, next = next, term
	}
	for range halvings {
		a.Product(next, sum, sum)
		sum, next = next, sum
	}
	copy(dst, sum)
	return nil
}

// Rotor returns the rotor of a plane and an angle, exp(−angle/2 · plane). The plane is a
// multivector; if it is a blade of two vectors that squares to minus one, then
// R x ~R turns x in it by the angle, and if it squares to one that is a boost. A plane with a
// number for a blade that is not of two vectors is an error that wraps [workload.ErrConfig], as is
// one that is not finite.
func (a *Algebra) Rotor(angle float64, plane []float64) ([]float64, error) {
	if len(plane) != a.Size() {
		return nil, fmt.Errorf("clifford: a plane of %d numbers: %w: a multivector of %v has %d", len(plane), workload.ErrConfig, a, a.Size())
	}
	r := make([]float64, a.Size())
	for i, v := range plane {
		if bits.OnesCount32(a.blades[i]) != 2 && v != 0 {
			return nil, fmt.Errorf("clifford: a plane with %v of %s: %w: it may have blades of two vectors only", v, a.Blade(i), workload.ErrConfig)
		}
		r[i] = -angle / 2 * v
	}
	return r, a.Exp(r, r)
}

// Sandwich writes r x ~r to dst, which may not overlap them.
func (a *Algebra) Sandwich(dst, r, x []float64) {
	back, half := make([]float64, a.Size()), make([]float64, a.Size())
	a.Reverse(back, r)
	a.Product(half, r, x)
	a.Product(dst, half, back)
}
