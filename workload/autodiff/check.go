package autodiff

import (
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"

	"github.com/weft-run/weft/workload"
)

// step is the complex step. Its square is negligible next to any number, and it is a power of two,
// so that it rounds nothing.
const step = 0x1p-300

// unit is the relative difference between reference and result that one operation may cause: 8
// roundings of float64, which covers the functions of GPUs.
const unit = 8 * 0x1p-53

// Check compares values and derivatives with the expression evaluated from its tree with
// complex numbers: the derivative along d is the imaginary part of f(x + ihd) ÷ h, for which
// nothing is subtracted. With each comes a bound for what rounding does to it, by the rules of
// error propagation. Derivatives of problems that have a closed form are compared with it as
// well. Where that is much, points drawn at random stand for all.
func (j *job) Check() error { return j.check(checkedNodes) }

// checkedNodes is the number of operations of the tree that a Check takes, about: half a minute on
// a core.
const checkedNodes = 1 << 30

// check is Check with at most some operations, and one point at least.
func (j *job) check(most int) error {
	tree := newTree(j.f)
	n := len(j.f.variables)
	taken := min(j.count, max(1, most/(len(tree.list)*len(j.directions))))
	points := func(i int) int { return i }
	if taken < j.count {
		drawn := rand.New(rand.NewPCG(uint64(j.count), uint64(n))).Perm(j.count)[:taken]
		points = func(i int) int { return drawn[i] }
	}
	lost := make([]int, taken)
	err := workload.Sweep(taken, func(lo, hi int) error {
		s := tree.newState()
		closed := make([]float64, n)
		for i := lo; i < hi; i++ {
			at := points(i)
			clear(closed)
			if j.slope != nil {
				j.slope(closed, j.points[at*n:(at+1)*n])
			}
			if err := j.checkPoint(s, at, closed, &lost[i]); err != nil {
				return err
			}
		}
		return nil
	})
	sum := (j.count - taken) * (len(j.values) + len(j.derivatives)) / j.count
	for _, l := range lost {
		sum += l
	}
	j.unseen = float64(sum) / float64(len(j.values)+len(j.derivatives))
	return err
}

// checkPoint compares one point, and counts the numbers whose rounding bound is infinite.
func (j *job) checkPoint(s *state, i int, closed []float64, lost *int) error {
	n := len(j.f.variables)
	values, derivatives := j.at(i)
	for k, direction := range j.directions {
		s.evaluate(j.points[i*n:(i+1)*n], direction)
		for o := range values {
			want := s.nodes[s.roots[o]]
			if k == 0 {
				if !agree(values[o], want.v, want.ev, lost) {
					return fmt.Errorf("%s: %s: value %d is %v, want %v ± %.2g: %w", j.Name(), j.point(i), o, values[o], want.v, want.ev, errWrong)
				}
			}
			got, d := derivatives[o*len(j.directions)+k], want.im/step
			if notFinite(want.v) {
				*lost++
				continue
			}
			if !agree(got, d, want.ed, lost) {
				return fmt.Errorf("%s: %s: derivative %d of value %d is %v, want %v ± %.2g: %w", j.Name(), j.point(i), k, o, got, d, want.ed, errWrong)
			}
			if j.slope != nil && math.Abs(got-closed[k]) > 2*want.ed {
				return fmt.Errorf("%s: %s: derivative %d is %v, want %v ± %.2g by the closed form: %w", j.Name(), j.point(i), k, got, closed[k], 2*want.ed, errWrong)
			}
		}
	}
	return nil
}

// Misses returns the share of numbers that the last Check did not judge: points that were not
// drawn, derivatives of values that are not finite, and numbers without a finite bound for their
// rounding.
func (j *job) Misses() []workload.Miss {
	return []workload.Miss{{What: "one number off by more than its rounding", Chance: j.unseen}}
}

// huge is the size above which a result may overflow a float64 although its reference does not.
const huge = 0x1p1000

// agree says whether a result is the one wanted.
func agree(got, want, within float64, lost *int) bool {
	switch {
	case math.IsInf(within, 0) || math.IsNaN(within):
		*lost++
		return true
	case math.IsNaN(want):
		return notFinite(got)
	case math.Abs(want) > huge:
		return notFinite(got) || math.Abs(got) > huge/2 && math.Signbit(got) == math.Signbit(want)
	}
	return math.Abs(got-want) <= within
}

// tree holds a function's expressions as a list of nodes, each behind its operands.
type tree struct {
	list  []branch
	roots []int
}

type branch struct {
	*node
	a, b     int
	variable int
	constant bool // there is no variable in it
}

func newTree(f *Function) *tree {
	t := &tree{}
	at := make(map[*node]int)
	var walk func(n *node) int
	walk = func(n *node) int {
		if i, ok := at[n]; ok {
			return i
		}
		b := branch{node: n, a: -1, b: -1, variable: f.index[n.name]}
		b.constant = n.op != opVariable
		if n.a != nil {
			b.a = walk(n.a)
			b.constant = t.list[b.a].constant
		}
		if n.b != nil {
			b.b = walk(n.b)
			b.constant = b.constant && t.list[b.b].constant
		}
		t.list = append(t.list, b)
		at[n] = len(t.list) - 1
		return at[n]
	}
	for _, e := range f.exprs {
		t.roots = append(t.roots, walk(e.n))
	}
	return t
}

// dual is one node of an evaluation: the value, the imaginary part (step times the derivative), and
// the bounds for the errors of value and derivative.
type dual struct {
	v, im, ev, ed float64
}

func (d dual) z() complex128 { return complex(d.v, d.im) }

// state is an evaluation of a tree.
type state struct {
	*tree
	nodes []dual
}

func (t *tree) newState() *state { return &state{t, make([]dual, len(t.list))} }

// evaluate computes all nodes at a point, moved along a direction.
func (s *state) evaluate(point, direction []float64) {
	for i := range s.list {
		b := &s.list[i]
		switch b.op {
		case opNumber:
			s.nodes[i] = dual{v: b.number}
		case opVariable:
			s.nodes[i] = dual{v: point[b.variable], im: step * direction[b.variable]}
		case opPow:
			s.nodes[i] = raise(s.nodes[b.a], s.nodes[b.b], s.list[b.b].constant)
		case opAdd, opSub, opMul, opDiv:
			s.nodes[i] = combine(b.op, s.nodes[b.a], s.nodes[b.b])
		default:
			s.nodes[i] = apart(b.op, s.nodes[b.a])
		}
	}
}

// tiny is the error that underflow may cause in a result, and tinyStep in a derivative.
const (
	tiny     = 0x1p-1020
	tinyStep = 0x1p-1074 / step * 8
)

// small is the largest ratio of imaginary to real part whose square is negligible.
const small = 0x1p-30

// known sets a bound to infinity where it says nothing, or where intermediate numbers are too large.
func (d dual) known(large float64) dual {
	if large = max(large, math.Abs(d.im)/step); large > huge || math.IsNaN(large) {
		d.ed = math.Inf(1)
	}
	if notFinite(d.v) {
		if d.ev = 0; math.IsNaN(large) {
			d.ev = math.Inf(1)
		}
	}
	return d
}

// combine is an operation on two numbers.
func combine(o op, a, b dual) dual {
	da, db := math.Abs(a.im)/step, math.Abs(b.im)/step
	va, vb := math.Abs(a.v), math.Abs(b.v)
	var out dual
	var large float64
	switch o {
	case opAdd, opSub:
		if o == opSub {
			b.v, b.im = -b.v, -b.im
		}
		out = dual{a.v + b.v, a.im + b.im, a.ev + b.ev, a.ed + b.ed}
		out.ed += unit * (da + db)
		out.ev += unit * math.Abs(out.v)
	case opMul:
		z := a.z() * b.z()
		out = dual{v: a.v * b.v, im: imag(z), ev: va*b.ev + vb*a.ev + a.ev*b.ev, ed: va*b.ed + vb*a.ed + (da+a.ed)*b.ev + (db+b.ed)*a.ev}
		large = max(va*db, vb*da)
		out.ev += unit * math.Abs(out.v)
		out.ed += unit * (va*db + vb*da)
	default:
		out = divide(a, b)
		large = max(da/vb, 1/vb, math.Abs(out.v)*db/vb, math.Abs(out.v)*db)
	}
	out.ev, out.ed = out.ev+tiny, out.ed+tinyStep
	return out.known(large)
}

func divide(a, b dual) dual {
	da, db := math.Abs(a.im)/step, math.Abs(b.im)/step
	vb := math.Abs(b.v)
	v := a.v / b.v
	d := imag(a.z() / b.z())
	if b.im == 0 { // complex division would mix infinities
		d = a.im / b.v
	}
	out := dual{v: v, im: d, ev: (a.ev+math.Abs(v)*b.ev)/vb + unit*math.Abs(v)}
	out.ed = (a.ed+math.Abs(v)*b.ed+db*out.ev+math.Abs(d)/step*b.ev)/vb + unit*(da+math.Abs(v)*db)/vb + tiny/vb
	if b.ev > vb/4 && b.ev > tiny*4 {
		out.ev, out.ed = math.Inf(1), math.Inf(1)
	}
	if math.Abs(b.im) > small*vb {
		out.ed = math.Inf(1)
	}
	return out
}

// raise is a power: a product for integers that are no variables, of roots for halves of them,
// and else by logarithms.
func raise(a, b dual, constant bool) dual {
	switch n := b.v; {
	case constant && n > 1 && a.v == 0 && a.ev == 0: // where roots and logarithms have no derivative
		return dual{ev: tiny, ed: a.ed + tinyStep}
	case constant && n == math.Trunc(n) && math.Abs(n) <= maxPower:
		return whole(a, int(n))
	case constant && 2*n == math.Trunc(2*n) && math.Abs(n) <= maxPower/2:
		return whole(apart(opSqrt, a), int(2*n))
	}
	return apart(opExp, combine(opMul, b, apart(opLog, a)))
}

func whole(a dual, n int) dual {
	out := dual{v: 1}
	for k := max(n, -n); k > 0; k /= 2 {
		if k%2 == 1 {
			out = combine(opMul, out, a)
		}
		if k > 1 {
			a = combine(opMul, a, a)
		}
	}
	if n < 0 {
		return combine(opDiv, dual{v: 1}, out)
	}
	return out
}

// farTurns is the angle in radians above which package math, and so the CPU, is off by about farOff.
const farTurns, farOff = 1 << 29, 0x1p-52

// apart evaluates a function of one number. The real part is computed by real arithmetic, since
// complex functions are defined where real ones are not.
func apart(o op, a dual) dual {
	x, da := a.v, math.Abs(a.im)/step
	if o == opNeg {
		return dual{-a.v, -a.im, a.ev, a.ed}
	}
	v := compute(o, x)
	im, p, q := function(o, a.z(), v)
	out := dual{v: v, im: im, ev: math.Abs(p)*a.ev + q*a.ev*a.ev + unit*math.Abs(v) + tiny}
	out.ed = math.Abs(p)*a.ed + q*a.ev*(da+a.ed) + unit*math.Abs(p)*da + tinyStep
	if math.Abs(x) > farTurns && o >= opSin && o <= opTan {
		out.ev, out.ed = out.ev+math.Abs(p)*farOff, out.ed+q*farOff*da
	}
	scale := 1. // the size beside which the imaginary part must be small
	if o == opLog || o == opSqrt {
		scale = math.Abs(x)
	}
	if math.Abs(a.im) > small*scale {
		out.ed = math.Inf(1)
	}
	if (o == opAbs && math.Abs(x) <= a.ev || o != opAbs && q*a.ev > math.Abs(p)/4) && a.ev > 4*tiny {
		out.ed = math.Inf(1) // the function bends within the bound
	}
	if a.ev > 0 && notFinite(v) && !notFinite(x) && math.Abs(x) < 4*a.ev+1e-8 {
		out.ev, out.ed = math.Inf(1), math.Inf(1) // on one side of the bound there may be a value
		return out
	}
	edge := math.Inf(1) // distance of x from the nearest argument without a value
	switch o {
	case opAsin, opAcos:
		edge = math.Abs(math.Abs(x) - 1)
	case opSqrt, opLog:
		edge = math.Abs(x)
	}
	if edge <= 4*a.ev && a.ev > 4*tiny {
		out.ev, out.ed = math.Inf(1), math.Inf(1)
		return out
	}
	return out.known(max(math.Abs(p), math.Abs(p)*da))
}

// function returns the imaginary part of a function at z, and the sizes of its first and second
// derivatives there. v is the function of the real part.
func function(o op, z complex128, v float64) (im, p, q float64) {
	x, y := real(z), imag(z)
	switch o {
	case opAbs:
		return sign(x) * y, 1, 0
	case opSqrt:
		return imag(cmplx.Sqrt(z)), 0.5 / v, 0.25 / (v * x)
	case opExp:
		return imag(cmplx.Exp(z)), v, v
	case opLog:
		return imag(cmplx.Log(z)), 1 / x, 1 / (x * x)
	case opSin:
		return imag(cmplx.Sin(z)), math.Cos(x), math.Abs(v)
	case opCos:
		return imag(cmplx.Cos(z)), math.Sin(x), math.Abs(v)
	case opTan:
		return imag(cmplx.Sin(z) / cmplx.Cos(z)), 1 + v*v, 2 * math.Abs(v) * (1 + v*v)
	case opAsin, opAcos: // of the angle's sine and cosine
		p = 1 / math.Sqrt((1-x)*(1+x))
		if im = y * p; o == opAcos {
			im = -im
		}
		return im, p, math.Abs(x) * p * p * p
	case opAtan:
		return y / (1 + x*x), 1 / (1 + x*x), 2 * math.Abs(x) / (1 + x*x)
	case opSinh:
		return imag(cmplx.Sinh(z)), math.Cosh(x), math.Abs(v)
	case opCosh:
		return imag(cmplx.Cosh(z)), math.Sinh(x), v
	}
	p = 1 / (math.Cosh(x) * math.Cosh(x))
	return imag(cmplx.Tanh(z)), p, 2 * math.Abs(v) * p
}
