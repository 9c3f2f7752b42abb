package autodiff

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
)

// The limits that errors name are taken, and what is beyond them is not.
func TestDimensions(t *testing.T) {
	for _, c := range []struct {
		problem     string
		least, most int
	}{{Rosenbrock, 2, maxVariables}, {Helmholtz, 1, maxComponents}} {
		for _, dims := range []int{c.least, c.most} {
			if err := (Config{Problem: c.problem, Dims: dims, Count: 1}).Validate(); err != nil {
				t.Error(err)
			}
		}
		for _, dims := range []int{c.least - 1, c.most + 1, -1} {
			if dims == 0 { // stands for the default
				continue
			}
			if err := (Config{Problem: c.problem, Dims: dims, Count: 1}).Validate(); err == nil {
				t.Errorf("%s of %d dimensions is taken", c.problem, dims)
			}
		}
	}
}

// Every variable of every point is drawn, between the bounds.
func TestPointsDrawn(t *testing.T) {
	for _, count := range []int{1, 2, 3, 4, 5, 7, 64} {
		j := workloadtest.New[*job](t)(New(Config{Problem: Expression, Expr: "x+y+z", Count: count, Low: 3, High: 5}))
		seen := map[float64]bool{}
		for _, x := range j.points {
			if x < 3 || x > 5 || seen[x] {
				t.Errorf("%d points have the number %v, which is no new one from 3 to 5", count, x)
			}
			seen[x] = true
		}
		if len(seen) != 3*count {
			t.Errorf("%d points have %d numbers", count, len(seen))
		}
	}
}

// The summary has the sum of values and the norm of derivatives, of what is finite, and says what is not.
func TestSummaryOfKnown(t *testing.T) {
	for expr, want := range map[string]string{
		"3*x-4*y":     "sum -2 of values, norm 7.07106781 of derivatives",
		"5*x;12*x":    "sum 34 of values, norm 18.3847763 of derivatives",
		"2+1/(x-1)+y": "sum 0 of values, norm 1.41421356 of derivatives; not finite at 2 points, the first of which is",
	} {
		j := workloadtest.New[*job](t)(New(Config{Problem: Expression, Expr: expr, Count: 2, Low: 1, High: 1}))
		workloadtest.Run(t, workloadtest.Open(t, 1, Funcs()), j)
		if err := j.Check(); err != nil {
			t.Error(err)
		}
		if got := j.Summary(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", expr, got, want)
		}
	}
}

// Numbers in generated source are those of the expression, bit by bit.
func TestGeneratedNumbers(t *testing.T) {
	for _, x := range []float64{0.1, 2.5, 1e-300, math.Pi, 1 << 40} {
		f, err := (Config{Problem: Expression, Expr: fmt.Sprintf("exp(a*%v)+%v*a", x, x), Count: 1}).function()
		if err != nil {
			t.Fatal(err)
		}
		p, err := f.program(1)
		if err != nil {
			t.Fatal(err)
		}
		bits := math.Float64bits(x)
		if text, want := p.passes[0].statements(), fmt.Sprintf("N(0x%08xu, 0x%08xu)", bits>>32, bits&math.MaxUint32); !strings.Contains(text, want) {
			t.Errorf("%v: no %s in\n%s", x, want, text)
		}
	}
}

// Logarithms of subnormal numbers have all digits.
func TestLogarithm(t *testing.T) {
	for _, e := range []int{-1074, -1060, -1023, -1022, -1021, -1, 0, 1023} {
		if got, want := logarithm(math.Ldexp(1, e)), float64(e)*math.Ln2; math.Abs(got-want) > 0x1p-52*math.Abs(want) {
			t.Errorf("log of 2^%d is %v, want %v", e, got, want)
		}
	}
	if got, want := logarithm(3*0x1p-1074), math.Log(3)-1074*math.Ln2; math.Abs(got-want) > 1e-12 {
		t.Errorf("log of 3·2^-1074 is %v, want %v", got, want)
	}
}

// What the check holds to be the sizes of a function's first and second derivative are those by differences; of the arc
// tangent's second it takes more. The imaginary part is the step times the first.
func TestFunctionBends(t *testing.T) {
	const h = 1e-4
	for name, o := range functions {
		for _, x := range []float64{0.3, -0.3, 0.7, 1.2, -1.4, 2.5} {
			low, v, high := compute(o, x-h), compute(o, x), compute(o, x+h)
			first, second := (high-low)/(2*h), (high-2*v+low)/(h*h)
			if math.IsNaN(first) || o == opAbs {
				continue
			}
			im, p, q := function(o, complex(x, step), v)
			if o == opAtan {
				q /= 1 + x*x
			}
			near := func(got, want float64) bool { return math.Abs(got-want) <= 1e-5*(1+math.Abs(want)) }
			if !near(im/step, first) || !near(math.Abs(p), math.Abs(first)) || !near(q, math.Abs(second)) {
				t.Errorf("%s(%v): derivatives %v, of sizes %v and %v, want %v and %v", name, x, im/step, p, q, first, second)
			}
		}
	}
}

// Powers that are computed as products, up to the largest exponent, pass a check that expects their rounding.
func TestPowersRounded(t *testing.T) {
	for _, expr := range []string{"x^511.5", "x^-511.5", "x^400.5", "x^1024", "x^-1023", "x^512.5", "x^1025"} {
		j := workloadtest.New[*job](t)(New(Config{Problem: Expression, Expr: expr, Count: 1000, Low: 1, High: 1.001}))
		direct(t, j)
		if err := j.Check(); err != nil || j.unseen != 0 {
			t.Errorf("%s: %v, unseen %v", expr, err, j.unseen)
		}
	}
}

// A result agrees with the one wanted within the bound for its rounding. One that is huge may have overflowed, with its sign.
func TestAgree(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		got, want, within float64
		agree, lost       bool
	}{
		{1, 1.25, 0.25, true, false}, {1, 1.25, 0.24, false, false}, {nan, 1, 0.25, false, false}, {inf, 1, 0.25, false, false},
		{7, 1, inf, true, true}, {7, 1, nan, true, true}, {nan, nan, 1, true, false}, {inf, nan, 1, true, false}, {1, nan, 1, false, false},
		{1e305, 1e306, 1, true, false}, {-1e305, -1e306, 1, true, false}, {-1e305, 1e306, 1, false, false}, {1e305, -1e306, 1, false, false},
		{inf, 1e306, 1, true, false}, {1e300, 1e306, 1, false, false},
	} {
		lost := 0
		if got := agree(c.got, c.want, c.within, &lost); got != c.agree || lost != 0 != c.lost {
			t.Errorf("%v for %v ± %v: %v, with %d not judged", c.got, c.want, c.within, got, lost)
		}
	}
}

// A product that is joined with a sum is predicted to cost what both do apart.
func TestPriceJoined(t *testing.T) {
	for joined, parts := range map[op][2]op{opMulAdd: {opMul, opAdd}, opMulAddNumber: {opMulNumber, opAdd}} {
		if got, want := price(joined), price(parts[0])+price(parts[1]); got != want {
			t.Errorf("operation %d costs %v, and its parts %v", joined, got, want)
		}
	}
}
