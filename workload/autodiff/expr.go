package autodiff

import (
	"math"
	"strconv"
	"strings"
)

// op is an operation of an expression, of a graph of values or of a program. Its numbers are the
// same in functions.h.
type op uint32

const (
	opNumber   op = iota // the number b
	opVariable           // the variable a
	opAdd
	opSub
	opMul
	opDiv
	opNeg
	opAbs
	opSign
	opSqrt
	opExp
	opLog
	opSin
	opCos
	opTan
	opAsin
	opAcos
	opAtan
	opSinh
	opCosh
	opTanh
	opAddNumber    // a + number b
	opSubNumber    // number b - a
	opMulNumber    // a · number b
	opDivNumber    // number b / a
	opMulAdd       // a · b + c, rounded twice
	opMulAddNumber // a · number b + c, rounded twice
	opValue        // value b is a
	opDerivative   // derivative b is a
	opPow          // of expressions alone
)

// functions holds the functions of expressions by name.
var functions = map[string]op{
	"abs": opAbs, "sqrt": opSqrt, "exp": opExp, "log": opLog, "sin": opSin, "cos": opCos, "tan": opTan,
	"asin": opAsin, "acos": opAcos, "atan": opAtan, "sinh": opSinh, "cosh": opCosh, "tanh": opTanh,
}

// names are the functions' names, by operation.
var names = func() map[op]string {
	out := make(map[op]string)
	for name, o := range functions {
		out[o] = name
	}
	return out
}()

// Expr is an expression of numbers and variables. Its values do not change: one may be a part
// of several others, and is then computed once. The zero value is no expression.
type Expr struct{ n *node }

type node struct {
	op     op
	a, b   *node
	number float64
	name   string // of a variable
	depth  int
}

// unary and binary are expressions of others, which may be none.
func unary(o op, a Expr) Expr {
	if a.n == nil {
		return a
	}
	return Expr{&node{op: o, a: a.n, depth: a.n.depth + 1}}
}

func binary(o op, a, b Expr) Expr {
	if a.n == nil || b.n == nil {
		return Expr{}
	}
	return Expr{&node{op: o, a: a.n, b: b.n, depth: max(a.n.depth, b.n.depth) + 1}}
}

// Number is a number.
func Number(v float64) Expr { return Expr{&node{number: v}} }

// Variable is the variable of a name.
func Variable(name string) Expr { return Expr{&node{op: opVariable, name: name}} }

// Add is a + b.
func (a Expr) Add(b Expr) Expr { return binary(opAdd, a, b) }

// Sub is a − b.
func (a Expr) Sub(b Expr) Expr { return binary(opSub, a, b) }

// Mul is a · b.
func (a Expr) Mul(b Expr) Expr { return binary(opMul, a, b) }

// Div is a ÷ b.
func (a Expr) Div(b Expr) Expr { return binary(opDiv, a, b) }

// Pow is a to the power of b: a product if b is an integer with |b| ≤ 1024, a product of roots if
// 2b is such an integer, and otherwise exp(b·log a), which has no value for a negative a.
func (a Expr) Pow(b Expr) Expr { return binary(opPow, a, b) }

// Neg is −a.
func (a Expr) Neg() Expr {
	if a.n != nil && a.n.op == opNumber {
		return Number(-a.n.number)
	}
	return unary(opNeg, a)
}

// Abs is |a|, with derivative 0 at 0.
func Abs(a Expr) Expr { return unary(opAbs, a) }

// Sqrt is the root of a.
func Sqrt(a Expr) Expr { return unary(opSqrt, a) }

// Exp is e to the power of a.
func Exp(a Expr) Expr { return unary(opExp, a) }

// Log is the natural logarithm of a.
func Log(a Expr) Expr { return unary(opLog, a) }

// Sin is the sine of a.
func Sin(a Expr) Expr { return unary(opSin, a) }

// Cos is the cosine of a.
func Cos(a Expr) Expr { return unary(opCos, a) }

// Tan is the tangent of a.
func Tan(a Expr) Expr { return unary(opTan, a) }

// Asin is the angle from −π/2 to π/2 with sine a.
func Asin(a Expr) Expr { return unary(opAsin, a) }

// Acos is the angle from 0 to π with cosine a.
func Acos(a Expr) Expr { return unary(opAcos, a) }

// Atan is the angle from −π/2 to π/2 with tangent a.
func Atan(a Expr) Expr { return unary(opAtan, a) }

// Sinh is the hyperbolic sine of a.
func Sinh(a Expr) Expr { return unary(opSinh, a) }

// Cosh is the hyperbolic cosine of a.
func Cosh(a Expr) Expr { return unary(opCosh, a) }

// Tanh is the hyperbolic tangent of a.
func Tanh(a Expr) Expr { return unary(opTanh, a) }

// Sum adds expressions up in pairs, so that each is in few sums.
func Sum(terms ...Expr) Expr {
	switch len(terms) {
	case 0:
		return Number(0)
	case 1:
		return terms[0]
	}
	half := len(terms) / 2
	return Sum(terms[:half]...).Add(Sum(terms[half:]...))
}

// maxText is the largest length of a written expression in bytes. An expression that repeats its
// parts could otherwise be too long to write.
const maxText = 1 << 20

// Binding strengths of operators. An operand needs no brackets if its operator binds at least as
// strongly as the one around it.
const (
	bindSum = iota + 1
	bindProduct
	bindSign
	bindPower
	bindAtom
)

// String writes the expression as Parse reads it. Beyond 2²⁰ bytes it is cut off.
func (a Expr) String() string {
	if a.n == nil {
		return "nothing"
	}
	var b strings.Builder
	a.n.write(&b, 0)
	if b.Len() > maxText {
		return b.String()[:maxText] + " …"
	}
	return b.String()
}

// write writes a node, in brackets if it binds less than around it.
func (n *node) write(b *strings.Builder, around int) {
	if b.Len() > maxText {
		return
	}
	bind := n.binds()
	if bind < around {
		b.WriteByte('(')
		defer b.WriteByte(')')
	}
	infix := func(left int, sign string, right int) {
		n.a.write(b, left)
		b.WriteString(sign)
		n.b.write(b, right)
	}
	switch n.op {
	case opNumber:
		b.WriteString(strconv.FormatFloat(n.number, 'g', -1, 64))
	case opVariable:
		b.WriteString(n.name)
	case opAdd:
		infix(bindSum, " + ", bindProduct)
	case opSub:
		infix(bindSum, " - ", bindProduct)
	case opMul:
		infix(bindProduct, "*", bindSign)
	case opDiv:
		infix(bindProduct, "/", bindSign)
	case opPow:
		infix(bindAtom, "^", bindSign)
	case opNeg:
		b.WriteByte('-')
		n.a.write(b, bindSign)
	default:
		b.WriteString(names[n.op])
		b.WriteByte('(')
		n.a.write(b, 0)
		b.WriteByte(')')
	}
}

// binds says how strongly a node's operator binds.
func (n *node) binds() int {
	switch n.op {
	case opAdd, opSub:
		return bindSum
	case opMul, opDiv:
		return bindProduct
	case opNeg:
		return bindSign
	case opPow:
		return bindPower
	case opNumber:
		if math.Signbit(n.number) {
			return bindSign
		}
	}
	return bindAtom
}
