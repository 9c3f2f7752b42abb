package autodiff

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrExpr is wrapped by errors of Parse and Compile.
var ErrExpr = errors.New("bad expression")

// Limits of expressions.
const (
	maxNesting   = 1000    // of brackets, signs and powers within one another
	maxNodes     = 1 << 15 // operations, numbers and variables
	maxVariables = 1024
	maxOutputs   = 256
)

// Parse reads expressions, with semicolons between them, as in
//
//	sin(x*y) + exp(z); -2*x^2/pi
//
// It accepts numbers, variables, + - * / ^ with brackets, pi, and the functions abs, sqrt,
// exp, log (natural), sin, cos, tan, asin, acos, atan, sinh, cosh and tanh. ^ binds more
// strongly than a sign before it, and to the right. The variables of the function are the
// given ones, or else all of the expressions by name, x2 before x10. An error names the column
// of the mistake and wraps [ErrExpr].
func Parse(text string, variables ...string) (*Function, error) {
	variables, exprs, err := parse(text, variables)
	if err != nil {
		return nil, err
	}
	return Compile(variables, exprs...)
}

// parse is Parse without the function.
func parse(text string, variables []string) ([]string, []Expr, error) {
	p := parser{text: text}
	exprs, err := p.all()
	if err != nil {
		return nil, nil, err
	}
	if len(variables) == 0 {
		variables = slices.SortedFunc(maps.Keys(p.seen), byName)
	} else {
		for name, at := range p.seen {
			if !slices.Contains(variables, name) {
				return nil, nil, p.fail(at, "%q is not among the variables %s", name, strings.Join(variables, ", "))
			}
		}
	}
	return variables, exprs, nil
}

// byName orders names by their letters and then by the number behind these.
func byName(a, b string) int {
	cut := func(s string) (string, string) {
		stem := strings.TrimRight(s, "0123456789")
		return stem, s[len(stem):]
	}
	x, i := cut(a)
	y, j := cut(b)
	return cmp.Or(strings.Compare(x, y), cmp.Compare(len(i), len(j)), strings.Compare(i, j))
}

// parser reads a text from at on.
type parser struct {
	text    string
	at      int
	nesting int
	nodes   int
	seen    map[string]int // variables, and where they were first
}

// fail is an error at a byte of the text.
func (p *parser) fail(at int, format string, args ...any) error {
	return fmt.Errorf("autodiff: column %d: %s: %w", utf8.RuneCountInString(p.text[:at])+1, fmt.Sprintf(format, args...), ErrExpr)
}

// next skips blanks and returns the character that follows, 0 at the end.
func (p *parser) next() byte {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
	if p.at == len(p.text) {
		return 0
	}
	return p.text[p.at]
}

// found names what follows, for errors.
func (p *parser) found() string {
	if p.next() == 0 && p.at == len(p.text) {
		return "the end"
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return strconv.Quote(string(r))
}

func (p *parser) all() (out []Expr, err error) {
	p.seen = make(map[string]int)
	for {
		e, err := p.sum()
		if err != nil {
			return nil, err
		}
		out = append(out, e)
		switch c := p.next(); {
		case c == ';' && len(out) == maxOutputs:
			return nil, p.fail(p.at, "there may be %d expressions", maxOutputs)
		case c == ';':
			p.at++
		case c == 0 && p.at == len(p.text):
			return out, nil
		case c == ')':
			return nil, p.fail(p.at, "this bracket closes none")
		default:
			return nil, p.fail(p.at, "%s where an operator should be, as +, - or *", p.found())
		}
	}
}

// add counts a node.
func (p *parser) add(at int, e Expr) (Expr, error) {
	if p.nodes++; p.nodes > maxNodes {
		return e, p.fail(at, "the expressions are too long: they may have %d numbers, variables and operations", maxNodes)
	}
	return e, nil
}

// chain reads operands with operators between them, from the left.
func (p *parser) chain(operand func() (Expr, error), operators map[byte]op) (Expr, error) {
	a, err := operand()
	for err == nil {
		o, ok := operators[p.next()]
		if !ok {
			return a, nil
		}
		at := p.at
		p.at++
		var b Expr
		if b, err = operand(); err == nil {
			a, err = p.add(at, binary(o, a, b))
		}
	}
	return a, err
}

var sums, products = map[byte]op{'+': opAdd, '-': opSub}, map[byte]op{'*': opMul, '/': opDiv}

func (p *parser) sum() (Expr, error)     { return p.chain(p.product, sums) }
func (p *parser) product() (Expr, error) { return p.chain(p.signed, products) }

// signed reads a power, with signs before it.
func (p *parser) signed() (Expr, error) {
	if p.nesting++; p.nesting > maxNesting {
		return Expr{}, p.fail(p.at, "brackets, signs and powers are within one another more than %d deep", maxNesting)
	}
	defer func() { p.nesting-- }()
	at := p.at
	switch p.next() {
	case '+':
		p.at++
		return p.signed()
	case '-':
		p.at++
		a, err := p.signed()
		if err != nil {
			return a, err
		}
		return p.add(at, a.Neg())
	}
	a, err := p.atom()
	if err != nil || p.next() != '^' {
		return a, err
	}
	at = p.at
	p.at++
	b, err := p.signed()
	if err != nil {
		return b, err
	}
	return p.add(at, a.Pow(b))
}

// atom reads a number, a name with or without brackets, or brackets.
func (p *parser) atom() (Expr, error) {
	c := p.next()
	at := p.at
	switch {
	case c == '(':
		p.at++
		e, err := p.sum()
		if err != nil {
			return e, err
		}
		return e, p.close(at)
	case c >= '0' && c <= '9' || c == '.':
		return p.number()
	}
	name := p.name()
	switch o, ok := functions[name]; {
	case name == "":
		return Expr{}, p.fail(p.at, "%s where a number, a variable or a bracket should be", p.found())
	case ok:
		if p.next() != '(' {
			return Expr{}, p.fail(p.at, "%s takes its argument in brackets, as %s(x)", name, name)
		}
		open := p.at
		p.at++
		a, err := p.sum()
		if err == nil {
			err = p.close(open)
		}
		if err != nil {
			return a, err
		}
		return p.add(at, unary(o, a))
	case p.next() == '(':
		return Expr{}, p.fail(at, "there is no function %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(functions)), ", "))
	case name == "pi":
		return p.add(at, Number(math.Pi))
	}
	if _, ok := p.seen[name]; !ok {
		p.seen[name] = at
	}
	return p.add(at, Variable(name))
}

// close reads the end of a bracket that begins at a place.
func (p *parser) close(open int) error {
	if p.next() == ')' {
		p.at++
		return nil
	}
	if p.next() == 0 && p.at == len(p.text) || p.next() == ';' {
		return p.fail(open, "this bracket is not closed")
	}
	return p.fail(p.at, "%s where an operator or a closing bracket should be", p.found())
}

// name reads a name: letters, digits and underscores, beginning with no digit.
func (p *parser) name() string {
	end := p.at
	for end < len(p.text) {
		r, size := utf8.DecodeRuneInString(p.text[end:])
		if r != '_' && !unicode.IsLetter(r) && (end == p.at || r < '0' || r > '9') {
			break
		}
		end += size
	}
	name := p.text[p.at:end]
	p.at = end
	return name
}

// number reads a decimal number.
func (p *parser) number() (Expr, error) {
	start := p.at
	digits := func() {
		for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
			p.at++
		}
	}
	digits()
	if p.at < len(p.text) && p.text[p.at] == '.' {
		p.at++
		digits()
	}
	if p.at < len(p.text) && (p.text[p.at] == 'e' || p.text[p.at] == 'E') {
		p.at++
		if p.at < len(p.text) && (p.text[p.at] == '+' || p.text[p.at] == '-') {
			p.at++
		}
		digits()
	}
	v, err := strconv.ParseFloat(p.text[start:p.at], 64)
	switch {
	case math.IsInf(v, 0):
		return Expr{}, p.fail(start, "%s is too large for a float64", short(p.text[start:p.at]))
	case err != nil:
		return Expr{}, p.fail(start, "%q is no number", short(p.text[start:p.at]))
	}
	return p.add(start, Number(v))
}

// short shortens a text for an error: a million digits would not help its reader.
func short(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}
