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
		j := workloadtest.New[*Job](t)(New(Config{Problem: Expression, Expr: "x+y+z", Count: count, Low: 3, High: 5}))
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
		j := workloadtest.New[*Job](t)(New(Config{Problem: Expression, Expr: expr, Count: 2, Low: 1, High: 1}))
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
