package autodiff

import "math"

// derive adds the derivatives of the first n values along a direction to the graph, by forward
// mode: values come after those they are made of, and their derivatives likewise. seeds are the
// derivatives of variables. A derivative that no variable with a seed reaches is none, and costs
// nothing.
func (g *values) derive(n int, seeds []float64) []value {
	d := make([]value, n)
	for v := range n {
		d[v] = g.rule(value(v), d, seeds)
	}
	return d
}

// rule is the derivative of one value.
func (g *values) rule(v value, d []value, seeds []float64) value {
	e := g.list[v]
	if e.op == opVariable {
		if seed := seeds[e.a]; seed != 0 {
			return g.number(seed)
		}
		return none
	}
	da, db := none, none
	if e.a != none {
		da = d[e.a]
	}
	if e.b != none {
		db = d[e.b]
	}
	if da == none && db == none {
		return none
	}
	number := math.Float64frombits(e.number)
	switch e.op {
	case opAdd:
		return g.both(da, db)
	case opSub:
		switch {
		case da == none:
			return g.negative(db)
		case db == none:
			return da
		}
		return g.difference(da, db)
	case opMul:
		if p, ok := g.rooted(v, d); ok {
			return p
		}
		if e.a == e.b {
			return g.product(g.with(opMulNumber, e.a, 2), da)
		}
		return g.both(g.times(e.b, da), g.times(e.a, db))
	case opDiv:
		switch {
		case da == none:
			return g.inverse(v, e.b, db)
		case db == none:
			return g.quotient(da, e.b)
		}
		return g.quotient(g.difference(da, g.product(v, db)), e.b)
	case opDivNumber:
		return g.inverse(v, e.a, da)
	case opAddNumber:
		return da
	case opSubNumber, opNeg:
		return g.negative(da)
	case opMulNumber:
		return g.product(da, g.number(number))
	case opExp:
		if p, ok := g.powered(v, d); ok {
			return p
		}
	}
	return g.product(g.slope(e.op, v, e.a), da)
}

// inverse is the derivative of v, a number divided by b: −v·b′·(1/b). It does not compute v/b, which
// can underflow where the result does not.
func (g *values) inverse(v, b, db value) value {
	return g.product(g.product(g.negative(v), db), g.quotient(g.number(1), b))
}

// both returns the sum of two derivatives, either of which may be none; times returns a product.
func (g *values) both(a, b value) value {
	switch {
	case a == none:
		return b
	case b == none:
		return a
	}
	return g.sum(a, b)
}

func (g *values) times(a, d value) value {
	if d == none {
		return none
	}
	return g.product(a, d)
}

// slope is the derivative of a function, whose value at a is v.
func (g *values) slope(o op, v, a value) value {
	one := g.number(1)
	square := func(x value) value { return g.product(x, x) }
	switch o {
	case opAbs:
		return g.function(opSign, a)
	case opSign:
		return g.number(0)
	case opSqrt:
		return g.quotient(g.number(0.5), v)
	case opExp:
		return v
	case opLog:
		return g.quotient(one, a)
	case opSin:
		return g.function(opCos, a)
	case opCos:
		return g.negative(g.function(opSin, a))
	case opTan:
		return g.sum(square(v), one)
	case opAsin, opAcos: // unlike 1 − a², (1 − a)(1 + a) does not cancel near |a| = 1
		root := g.function(opSqrt, g.product(g.difference(one, a), g.sum(one, a)))
		if o == opAcos {
			return g.quotient(g.number(-1), root)
		}
		return g.quotient(one, root)
	case opAtan:
		return g.quotient(one, g.sum(square(a), one))
	case opSinh:
		return g.function(opCosh, a)
	case opCosh:
		return g.function(opSinh, a)
	}
	return g.quotient(one, square(g.function(opCosh, a))) // of tanh: 1 − v² would cancel where |v| is near 1
}
