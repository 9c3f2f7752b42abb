package autodiff

import "math"

// value is a node of a graph by its index, or none.
type value int32

// none is a derivative that is zero wherever it is taken.
const none value = -1

// entry is a node of a graph: an operation on values before it. Numbers are stored as their bits, so
// that equal entries are equal map keys.
type entry struct {
	op      op
	a, b, c value
	number  uint64
}

// values is a graph of values without duplicates: the same operation on the same values is the same
// value. An operation on numbers alone is computed here, and one that changes nothing is left
// out; x + 0 and 0 − x are kept, since zeros have signs.
type values struct {
	list  []entry
	at    map[entry]value
	roots []bool // whether a root is a factor, of the first of list
}

func newValues() *values { return &values{at: make(map[entry]value)} }

func (g *values) add(e entry) value {
	if v, ok := g.at[e]; ok {
		return v
	}
	v := value(len(g.list))
	g.list, g.at[e] = append(g.list, e), v
	return v
}

func (g *values) number(x float64) value {
	return g.add(entry{op: opNumber, a: none, b: none, c: none, number: math.Float64bits(x)})
}

func (g *values) variable(i int) value {
	return g.add(entry{op: opVariable, a: value(i), b: none, c: none})
}

// is says whether a value is a number, and which.
func (g *values) is(v value) (x float64, ok bool) {
	e := &g.list[v]
	return math.Float64frombits(e.number), e.op == opNumber
}

func (g *values) binary(o op, a, b value) value { return g.add(entry{op: o, a: a, b: b, c: none}) }

// with is an operation on a value and a number.
func (g *values) with(o op, a value, x float64) value {
	return g.add(entry{op: o, a: a, b: none, c: none, number: math.Float64bits(x)})
}

func (g *values) sum(a, b value) value {
	x, left := g.is(a)
	y, right := g.is(b)
	switch {
	case left && right:
		return g.number(x + y)
	case left:
		return g.sum(b, a)
	case right:
		return g.with(opAddNumber, a, y)
	}
	return g.binary(opAdd, min(a, b), max(a, b))
}

func (g *values) difference(a, b value) value {
	if y, right := g.is(b); right {
		return g.sum(a, g.number(-y))
	}
	if x, left := g.is(a); left {
		return g.with(opSubNumber, b, x)
	}
	return g.binary(opSub, a, b)
}

func (g *values) negative(a value) value {
	if x, ok := g.is(a); ok {
		return g.number(-x)
	}
	if e := g.list[a]; e.op == opNeg {
		return e.a
	}
	return g.binary(opNeg, a, none)
}

func (g *values) product(a, b value) value {
	x, left := g.is(a)
	y, right := g.is(b)
	switch {
	case left && right:
		return g.number(x * y)
	case left:
		return g.product(b, a)
	case right && y == 1:
		return a
	case right && y == -1:
		return g.negative(a)
	case right:
		return g.with(opMulNumber, a, y)
	}
	return g.binary(opMul, min(a, b), max(a, b))
}

func (g *values) quotient(a, b value) value {
	x, left := g.is(a)
	y, right := g.is(b)
	switch {
	case left && right:
		return g.number(x / y)
	case right && math.Abs(y) >= 0x1p-500 && math.Abs(y) <= 0x1p500 && frac(y) == 0.5:
		return g.product(a, g.number(1/y)) // exact
	case left:
		return g.with(opDivNumber, b, x)
	}
	return g.binary(opDiv, a, b)
}

// frac is the fraction of a number, which is a half for powers of two.
func frac(y float64) float64 {
	f, _ := math.Frexp(math.Abs(y))
	return f
}

// function is a function of a value.
func (g *values) function(o op, a value) value {
	if x, ok := g.is(a); ok {
		return g.number(compute(o, x))
	}
	return g.binary(o, a, none)
}

// compute is a function of a number.
func compute(o op, x float64) float64 {
	switch o {
	case opAbs:
		return math.Abs(x)
	case opSign:
		return sign(x)
	case opSqrt:
		return math.Sqrt(x)
	case opExp:
		return math.Exp(x)
	case opLog:
		return logarithm(x)
	case opSin:
		return math.Sin(x)
	case opCos:
		return math.Cos(x)
	case opTan:
		// math.Tan is off by up to 15 units in the last place for |x| below 1e-7, and near poles.
		s, c := math.Sincos(x)
		return s / c
	case opAsin:
		return math.Asin(x)
	case opAcos:
		return math.Acos(x)
	case opAtan:
		return math.Atan(x)
	case opSinh:
		if math.Abs(x) > hyperbolic {
			return math.Copysign(half(x), x)
		}
		return math.Sinh(x)
	case opCosh:
		if math.Abs(x) > hyperbolic {
			return half(x)
		}
		return math.Cosh(x)
	}
	return math.Tanh(x)
}

// hyperbolic is the argument above which exp(x) may overflow although sinh and cosh do not.
const hyperbolic = 700

// half is exp(|x|)/2.
func half(x float64) float64 {
	e := math.Exp(math.Abs(x) / 2)
	return e / 2 * e
}

// logarithm is math.Log, which on some machines is wrong for subnormal numbers, below 2⁻¹⁰²².
func logarithm(x float64) float64 {
	if x > 0 && x < 0x1p-1022 {
		return math.Log(x*0x1p54) - 54*math.Ln2
	}
	return math.Log(x)
}

// sign is −1, 0 or 1, and NaN for NaN.
func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return x
}

// maxPower is the largest integer exponent whose power is computed as a product.
const maxPower = 1024

// power is a to the power of b.
func (g *values) power(a, b value) value {
	if y, ok := g.is(b); ok {
		switch {
		case y == math.Trunc(y) && math.Abs(y) <= maxPower:
			return g.integer(a, int(y))
		case 2*y == math.Trunc(2*y) && math.Abs(y) <= maxPower/2:
			return g.integer(g.function(opSqrt, a), int(2*y))
		}
	}
	return g.function(opExp, g.product(b, g.function(opLog, a)))
}

func (g *values) integer(a value, n int) value {
	switch {
	case n < 0:
		return g.integer(g.quotient(g.number(1), a), -n) // 1/aⁿ would be squared in the derivative, which may underflow
	case n == 0:
		return g.number(1)
	case n == 1:
		return a
	case n%2 == 0:
		half := g.integer(a, n/2)
		return g.product(half, half)
	}
	return g.product(a, g.integer(a, n-1))
}

// express returns the value of an expression, whose nodes are met once each.
func (g *values) express(n *node, index map[string]int, done map[*node]value) value {
	if v, ok := done[n]; ok {
		return v
	}
	var a, b value
	if n.a != nil {
		a = g.express(n.a, index, done)
	}
	if n.b != nil {
		b = g.express(n.b, index, done)
	}
	var v value
	switch n.op {
	case opNumber:
		v = g.number(n.number)
	case opVariable:
		v = g.variable(index[n.name])
	case opAdd:
		v = g.sum(a, b)
	case opSub:
		v = g.difference(a, b)
	case opMul:
		v = g.product(a, b)
	case opDiv:
		v = g.quotient(a, b)
	case opPow:
		v = g.power(a, b)
	case opNeg:
		v = g.negative(a)
	default:
		v = g.function(n.op, a)
	}
	done[n] = v
	return v
}
