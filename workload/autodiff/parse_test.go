package autodiff

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/workloadtest"
)

// direct runs a job's program without a runtime.
func direct(t testing.TB, j *job) {
	t.Helper()
	for i, s := range j.Whole().Steps {
		c := &weft.Call{Params: s.Params, Launch: graph.Grid(j.count)}
		c.Args = [][]byte{workloadtest.Bytes(j.points), workloadtest.Bytes(j.p.code), workloadtest.Bytes(j.p.numbers), workloadtest.Bytes(j.values), workloadtest.Bytes(j.derivatives)}
		if kernels[0].Func(c, 0, math.MaxInt); c.Err() != nil {
			t.Fatalf("pass %d: %v", i, c.Err())
		}
	}
}

// jobAt is a job for a function at points.
func jobAt(t testing.TB, f *Function, points ...float64) *job {
	t.Helper()
	p, err := f.program(MaxDirections)
	if err != nil {
		t.Fatal(err)
	}
	return newJob(f, p, units(len(f.variables)), points)
}

func TestParse(t *testing.T) {
	const x, y = 1.25, 0.5
	for text, want := range map[string]float64{
		"x + y*2":               2.25,
		"x-y-1":                 -0.25,
		"x/y/2":                 1.25,
		"-x^2":                  -1.5625,
		"(-x)^2":                1.5625,
		"2^3^2 + x*y*0":         512,
		"2^-1*x + y*0":          0.625,
		"--x + +y":              1.75,
		"3*-x + y":              -3.25,
		"x*1e-1 + .5e1*y - 3.":  -0.375,
		"sin(pi/6)*x*y":         0.3125,
		"sqrt(abs(-4))*x + 0*y": 2.5,
		"log(exp(x))+y":         1.75,
		" tanh ( x ) * cosh(x) - sinh(x) + y*\n2": 1,
		"4^0.5*x*y":             1.25,
		"x^0*y":                 0.5,
		"x^-2/y":                1.28,
		"y^2.5 + x*0":           math.Pow(0.5, 2.5),
		"x^pi + y*0":            math.Pow(1.25, math.Pi),
		"acos(y) + asin(y) + x": math.Pi/2 + 1.25,
		"atan(tan(x))*2*y":      1.25,
	} {
		f, err := Parse(text, "x", "y")
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		j := jobAt(t, f, x, y)
		direct(t, j)
		if err := j.Check(); err != nil || math.Abs(j.values[0]-want) > 1e-14*math.Abs(want) {
			t.Errorf("%q, which is %v, is %v, want %v: %v", text, f, j.values[0], want, err)
		}
	}
	f, err := Parse("x10 + a*x2; b")
	if err != nil || !slices.Equal(f.Variables(), []string{"a", "b", "x2", "x10"}) || f.Outputs() != 2 {
		t.Errorf("%v, %v", f.Variables(), err)
	}
}

// An error names the column and is one line.
func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "column 1: the end where a number",
		"   ":                            "column 4: the end",
		"x +":                            "column 4: the end where a number",
		"x + * y":                        "column 5: \"*\" where a number",
		"2x":                             "column 2: \"x\" where an operator",
		"x y":                            "column 3: \"y\" where an operator",
		"(x + y":                         "column 1: this bracket is not closed",
		"x + sin(y; z":                   "column 8: this bracket is not closed",
		"(x y)":                          "column 4: \"y\" where an operator or a closing bracket",
		"x)":                             "column 2: this bracket closes none",
		"sin x":                          "column 5: sin takes its argument in brackets",
		"sinus(x)":                       "column 1: there is no function \"sinus\"; there are abs, acos,",
		"x(2)":                           "column 1: there is no function \"x\"",
		"1e999*x":                        "column 1: 1e999 is too large",
		"1e*x":                           "column 1: \"1e\" is no number",
		"x + .":                          "column 5: \".\" is no number",
		"x = 2":                          "column 3: \"=\" where an operator",
		"ω + 2ω":                         "column 6: \"ω\" where an operator",
		"x;":                             "column 3: the end",
		"x; y; \x00":                     "column 7: \"\\x00\" where a number",
		"x + \xff":                       "column 5: \"\ufffd\" where a number",
		"1 + 2":                          "no variable",
		"x, y":                           "column 2: \",\"",
		strings.Repeat("(", 1_000_000):   "column 1001: brackets, signs and powers are within one another more than 1000 deep",
		strings.Repeat("-", 1_000_000):   "column 1001: brackets",
		strings.Repeat("x^", 5000) + "x": "column 2001: brackets",
		strings.Repeat("sin(", 5000):     "column 4001: brackets",
		strings.Repeat("x+", 100_000):    "too long: they may have 32768",
		strings.Repeat("9", 400) + "*x":  "column 1: 9999999999999999999999999999999999999999… is too large",
		strings.Repeat("x;", 300) + "x":  "there may be 256 expressions",
	} {
		f, err := Parse(text)
		if !errors.Is(err, ErrExpr) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 250 {
			t.Errorf("%.30q: %v, %v, want %q", text, f, err, want)
		}
	}
	if _, err := Parse("x + q", "x"); !errors.Is(err, ErrExpr) || !strings.Contains(err.Error(), `column 5: "q" is not among the variables x`) {
		t.Error(err)
	}
}

func TestCompileRejects(t *testing.T) {
	x := Variable("x")
	deep := x
	for range 100_000 {
		deep = deep.Mul(deep)
	}
	tower := x
	for i := range 400 { // many values that are all needed at the end
		tower = tower.Add(Sin(Number(float64(i)).Add(x)).Mul(Cos(tower)))
	}
	wide := x
	for i := range 20_000 {
		wide = wide.Add(Number(float64(i)))
		if i%1000 == 0 {
			wide = Sum(wide, Sin(wide))
		}
	}
	var many []string
	for i := range 2000 {
		many = append(many, fmt.Sprint("x", i))
	}
	for want, f := range map[string]func() (*Function, error){
		"no variable":      func() (*Function, error) { return Compile(nil, Number(2)) },
		"0 expressions":    func() (*Function, error) { return Compile([]string{"x"}) },
		"the zero Expr":    func() (*Function, error) { return Compile([]string{"x"}, x.Add(Expr{})) },
		"there twice":      func() (*Function, error) { return Compile([]string{"x", "x"}, x) },
		`"y" is not among`: func() (*Function, error) { return Compile([]string{"x"}, Variable("y")) },
		"must be finite":   func() (*Function, error) { return Compile([]string{"x"}, x.Add(Number(math.Inf(1)))) },
		"be finite":        func() (*Function, error) { return Compile([]string{"x"}, x.Add(Number(math.NaN()))) },
		"deep":             func() (*Function, error) { return Compile([]string{"x"}, deep) },
		"may have 32768":   func() (*Function, error) { return Compile([]string{"x"}, wide) },
		"2000 variables":   func() (*Function, error) { return Compile(many, Variable("x1")) },
	} {
		if _, err := f(); !errors.Is(err, ErrExpr) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := Compile([]string{"x"}, tower); err != nil {
		t.Error(err)
	}
	if s := deep.String(); len(s) < maxText || len(s) > maxText+10 || (Expr{}).String() != "nothing" {
		t.Errorf("%d bytes for an expression without end", len(s))
	}
}

// same compares two trees.
func same(a, b *node) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.op == b.op && a.name == b.name && math.Float64bits(a.number) == math.Float64bits(b.number) && same(a.a, b.a) && same(a.b, b.b)
}

// checkParsed sees that what a function prints is the function, and that its values and
// derivatives at some points are those of its tree.
func checkParsed(t *testing.T, f *Function) {
	t.Helper()
	text := f.String()
	again, err := Parse(text, f.variables...)
	if err != nil {
		t.Fatalf("%q does not parse: %v", text, err)
	}
	for i, e := range f.exprs {
		if !same(e.n, again.exprs[i].n) {
			t.Fatalf("%q is another expression: %q", text, again.exprs[i])
		}
	}
	r := rand.New(rand.NewPCG(1, uint64(len(text))))
	points := make([]float64, 5*len(f.variables))
	for i := range points {
		points[i] = []float64{0, 1, r.Float64(), 3 * r.NormFloat64(), -2}[i/len(f.variables)]
	}
	j := jobAt(t, f, points...)
	direct(t, j)
	if err := j.Check(); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"sin(x*y)+exp(z)", "-x^2; x--y", "((x))^(1/3)", "2^-x^2*pi/y", "abs(x)-tanh(1e-3*x)", "x^-3+y^0.5", "log(x)/sqrt(y-x)",
		"asin(x)*acos(y)+atan(x*y)", "1e300*x*1e300", "x/(y-y)", "x^1024", "tan(x)^y", "0*log(x)", "cosh(x)/sinh(x)",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 2000 {
			return
		}
		p, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrExpr) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		checkParsed(t, p)
	})
}

// Random expressions have the values and derivatives of their trees.
func TestRandomExpressions(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var all []op
	for _, o := range functions {
		all = append(all, o)
	}
	slices.Sort(all)
	var draw func(depth int) Expr
	draw = func(depth int) Expr {
		switch k := r.IntN(12); {
		case depth == 0 || k == 0:
			if r.IntN(3) == 0 {
				return Number([]float64{0, 1, -2, 0.5, 3, r.NormFloat64()}[r.IntN(6)])
			}
			return Variable([]string{"x", "y", "z"}[r.IntN(3)])
		case k < 8:
			return binary([]op{opAdd, opSub, opMul, opDiv, opMul, opPow}[r.IntN(6)], draw(depth-1), draw(depth-1))
		case k == 8:
			return draw(depth - 1).Neg()
		}
		return unary(all[r.IntN(len(all))], draw(depth-1))
	}
	for range 1500 {
		f, err := Compile([]string{"x", "y", "z"}, draw(5), draw(4))
		if err != nil {
			t.Fatal(err)
		}
		checkParsed(t, f)
	}
}
