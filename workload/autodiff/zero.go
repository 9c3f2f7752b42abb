package autodiff

import (
	"math"
	"slices"
)

// Derivatives at zero. The rules of products and functions have 0·∞ where a product of roots has a derivative,
// as x·√x and x^2.5 have, or a power, as x^y has: the root and the logarithm have none there. Such products and powers
// have rules of their own.

// factor is a value and how often it is in a product.
type factor struct {
	v     value
	times int
}

// maxFactors is the number of values that are looked at for the factors of one.
const maxFactors = 64

// factors returns what a value is a product of, the largest value first, or nil if there is too much of it.
func (g *values) factors(v value) (out []factor) {
	times := map[value]int{v: 1}
	for visited := 0; len(times) > 0; visited++ {
		if visited == maxFactors {
			return nil
		}
		v := none // all that it is in come after it
		for w := range times {
			v = max(v, w)
		}
		n := times[v]
		delete(times, v)
		switch e := g.list[v]; e.op {
		case opMul:
			times[e.a] += n
			times[e.b] += n
		case opMulNumber:
			out = append(out, factor{g.number(math.Float64frombits(e.number)), n})
			times[e.a] += n
		case opNeg:
			out = append(out, factor{g.number(-1), n})
			times[e.a] += n
		default:
			out = append(out, factor{v, n})
		}
	}
	return out
}

// rooted is the derivative of a product that has a root √u twice, or √u and u: of √uᵏ·r, where k is at least 2,
// it is k/2·√uᵏ⁻²·r·u′ + √uᵏ·r′.
func (g *values) rooted(v value, d []value) (value, bool) {
	if !g.hasRoot(v) {
		return none, false
	}
	all := g.factors(v)
	if root, _, _ := g.split(all); root == none {
		return none, false
	}
	return g.slopeOf(all, d), true
}

// hasRoot reports whether a root is a factor of a product of few values.
func (g *values) hasRoot(v value) bool {
	for len(g.roots) < len(g.list) {
		e := g.list[len(g.roots)]
		has := e.op == opSqrt
		switch e.op {
		case opMul:
			has = g.roots[e.a] || g.roots[e.b]
		case opMulNumber, opNeg:
			has = g.roots[e.a]
		}
		g.roots = append(g.roots, has)
	}
	return g.roots[v]
}

// split finds a root that is in a product at least twice, by itself or in what it is the root of, how often it is, and the
// other factors. root is none if there is no such root.
func (g *values) split(all []factor) (root value, power int, rest []factor) {
	times := make(map[value]int)
	for _, f := range all {
		times[f.v] += f.times
	}
	for _, f := range all {
		if g.list[f.v].op != opSqrt {
			continue
		}
		of, number := g.numbers(g.factors(g.list[f.v].a))
		whole := 0 // how often the argument of the root is in the product, but for a number
		if size := math.Abs(number); len(of) > 0 && size >= 0x1p-500 && size <= 0x1p500 {
			whole = math.MaxInt
			for _, o := range of {
				whole = min(whole, times[o.v]/o.times)
			}
		}
		if power = times[f.v] + 2*whole; power < 2 {
			continue
		}
		delete(times, f.v)
		for _, o := range of {
			times[o.v] -= whole * o.times
		}
		if by := math.Pow(number, -float64(whole)); by != 1 {
			rest = append(rest, factor{g.number(by), 1})
		}
		for v, n := range times {
			if n > 0 {
				rest = append(rest, factor{v, n})
			}
		}
		slices.SortFunc(rest, func(a, b factor) int { return int(b.v) - int(a.v) })
		return f.v, power, rest
	}
	return none, 0, nil
}

// numbers takes the numbers out of factors, and returns their product.
func (g *values) numbers(all []factor) (rest []factor, product float64) {
	product = 1
	for _, f := range all {
		if x, ok := g.is(f.v); ok {
			product *= math.Pow(x, float64(f.times))
		} else {
			rest = append(rest, f)
		}
	}
	return rest, product
}

// slopeOf is the derivative of a product.
func (g *values) slopeOf(all []factor, d []value) value {
	root, power, rest := g.split(all)
	if root == none {
		return g.sumOf(all, d)
	}
	product, slope := g.productOf(rest), none
	if du := g.derivative(d, g.list[root].a); du != none {
		// Of √u² it is u′, and no number where √u is none.
		below := g.with(opAddNumber, g.binary(opSub, root, root), 1)
		if power > 2 {
			below = g.integer(root, power-2)
		}
		slope = g.product(g.product(g.product(below, g.number(float64(power)/2)), product), du)
	}
	if dr := g.slopeOf(rest, d); dr != none {
		slope = g.both(slope, g.product(g.integer(root, power), dr))
	}
	return slope
}

// sumOf is the derivative of a product by the rule of products.
func (g *values) sumOf(all []factor, d []value) value {
	sum := none
	for i, f := range all {
		df := g.derivative(d, f.v)
		if df == none {
			continue
		}
		others := slices.Clone(all)
		others[i].times--
		term := g.product(g.product(g.productOf(others), g.number(float64(f.times))), df)
		sum = g.both(sum, term)
	}
	return sum
}

func (g *values) productOf(all []factor) value {
	product := g.number(1)
	for _, f := range all {
		product = g.product(product, g.integer(f.v, f.times))
	}
	return product
}

// derivative returns the derivative of a value, or none for one that has turned into a number.
func (g *values) derivative(d []value, v value) value {
	if _, ok := g.is(v); ok {
		return none
	}
	return d[v]
}

// lowest stands for the logarithm of zero, which times zero is no number.
const lowest = -1e300

// powered is the derivative of v = exp(y·log a), a power: v·(y·a′/a + log a·y′). What is no number at a = 0 by that is
// the limit there: z is 1 if a is zero, and otherwise 0.
func (g *values) powered(v value, d []value) (value, bool) {
	m := g.list[g.list[v].a]
	y, log := none, m.a
	switch {
	case m.op == opMulNumber:
		y = g.number(math.Float64frombits(m.number))
	case m.op == opMul && m.a != m.b && g.list[m.a].op == opLog:
		y = m.b
	case m.op == opMul && m.a != m.b:
		y, log = m.a, m.b
	}
	if y == none || g.list[log].op != opLog {
		return none, false
	}
	a := g.list[log].a
	zero := g.with(opSubNumber, g.function(opAbs, g.function(opSign, a)), 1)
	slope := none
	if da := g.derivative(d, a); da != none {
		slope = g.base(v, y, a, zero, da)
	}
	if dy := g.derivative(d, y); dy != none {
		finite := g.sum(g.function(opLog, g.sum(a, zero)), g.with(opMulNumber, zero, lowest))
		slope = g.both(slope, g.product(v, g.product(finite, dy)))
	}
	return slope, true
}

// base is the derivative of v = a^y along a: v·y·a′/a, or at a = 0 none for y below 1 and 0 above.
func (g *values) base(v, y, a, zero, da value) value {
	inverse := func(of value) value { return g.product(y, g.quotient(da, of)) }
	n, constant := g.is(y)
	switch {
	case constant && n > 1:
		return g.product(v, inverse(g.sum(a, zero)))
	case constant:
		return g.product(g.sum(v, zero), inverse(g.function(opAbs, a)))
	}
	// (v + z)·exp(z·(1 − y)·∞) is v for z = 0, and for z = 1 the power of zero that is one less.
	at := g.function(opExp, g.product(g.with(opSubNumber, y, 1), g.with(opMulNumber, zero, -lowest)))
	return g.product(g.product(g.sum(v, zero), at), inverse(g.sum(a, zero)))
}
