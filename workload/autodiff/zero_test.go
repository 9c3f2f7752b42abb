package autodiff_test

import (
	"math"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload/autodiff"
)

// near reports whether a number is another to 13 digits. What is not a number is only itself, as are infinities.
func near(got, want float64) bool {
	return got == want || math.IsNaN(got) && math.IsNaN(want) || math.Abs(got-want) <= 1e-13*math.Abs(want)
}

// Products of roots and powers have the derivative that they have at zero, of both signs, where the rules of products
// and of functions have 0·∞, and that of the rules elsewhere. A gradient is by x and then y.
func TestDerivativesAtZero(t *testing.T) {
	root, pow := math.Sqrt, math.Pow
	type slopes = func(x, y float64) (dx, dy float64)
	for text, want := range map[string]slopes{
		"x^1.5":               func(x, _ float64) (dx, dy float64) { return 1.5 * root(x), 0 },
		"x^2.5":               func(x, _ float64) (dx, dy float64) { return 2.5 * x * root(x), 0 },
		"x^7.5":               func(x, _ float64) (dx, dy float64) { return 7.5 * pow(x, 6.5), 0 },
		"x^40.5":              func(x, _ float64) (dx, dy float64) { return 40.5 * pow(x, 39.5), 0 },
		"x*sqrt(x)":           func(x, _ float64) (dx, dy float64) { return 1.5 * root(x), 0 },
		"sqrt(x)*x":           func(x, _ float64) (dx, dy float64) { return 1.5 * root(x), 0 },
		"x^2*sqrt(x)":         func(x, _ float64) (dx, dy float64) { return 2.5 * x * root(x), 0 },
		"sqrt(x)*sqrt(x)":     func(x, _ float64) (dx, dy float64) { return 1 + 0*root(x), 0 },
		"-3*x^1.5":            func(x, _ float64) (dx, dy float64) { return -4.5 * root(x), 0 },
		"(-x)*sqrt(x)":        func(x, _ float64) (dx, dy float64) { return -1.5 * root(x), 0 },
		"sqrt(x)*(y*x)":       func(x, y float64) (dx, dy float64) { return 1.5 * root(x) * y, x * root(x) },
		"(sqrt(x)*y)*x":       func(x, y float64) (dx, dy float64) { return 1.5 * root(x) * y, x * root(x) },
		"(sqrt(x)*exp(y))*x":  func(x, y float64) (dx, dy float64) { return 1.5 * root(x) * math.Exp(y), x * root(x) * math.Exp(y) },
		"sqrt(x*y)*x*y":       func(x, y float64) (dx, dy float64) { return 1.5 * root(x*y) * y, 1.5 * root(x*y) * x },
		"sqrt(x)*x*sqrt(y)*y": func(x, y float64) (dx, dy float64) { return 1.5 * root(x) * y * root(y), 1.5 * root(y) * x * root(x) },
		"(x^1.5*2)*(y^2.5*3)": func(x, y float64) (dx, dy float64) { return 9 * root(x) * pow(y, 2.5), 15 * pow(x, 1.5) * pow(y, 1.5) },
		"sqrt(3*x)*x":         func(x, _ float64) (dx, dy float64) { return 1.5 * root(3*x), 0 },
		"sqrt(-2*x)*(4*x)":    func(x, _ float64) (dx, dy float64) { return 6 * root(-2*x), 0 },
		"x^1.5 + x*y":         func(x, y float64) (dx, dy float64) { return 1.5*root(x) + y, x },
		"x^0.5":               func(x, _ float64) (dx, dy float64) { return 0.5 / root(x), 0 },
		"(x^2)^1.5":           func(x, _ float64) (dx, dy float64) { return 3 * x * math.Abs(x), 0 },
		"abs(x)^1.5":          func(x, _ float64) (dx, dy float64) { return math.Copysign(1.5*root(math.Abs(x)), x), 0 },
		"x^2.3":               func(x, _ float64) (dx, dy float64) { return 2.3 * pow(root(x), 2.6), 0 },
		"x^1.0625":            func(x, _ float64) (dx, dy float64) { return 1.0625 * pow(root(x), 0.125), 0 },
		"x^0.25":              func(x, _ float64) (dx, dy float64) { return 0.25 / pow(math.Abs(root(x)), 1.5), 0 },
		"exp(2.25*log(x))":    func(x, _ float64) (dx, dy float64) { return 2.25 * pow(root(x), 2.5), 0 },
		"2^x":                 func(x, _ float64) (dx, dy float64) { return pow(2, x) * math.Ln2, 0 },
		"y*x^2.3":             func(x, y float64) (dx, dy float64) { return y * 2.3 * pow(root(x), 2.6), pow(root(x), 4.6) },
		"(x*y)^2.3": func(x, y float64) (dx, dy float64) {
			return 2.3 * pow(root(x*y), 2.6) * y, 2.3 * pow(root(x*y), 2.6) * x
		},
		"x^y": func(x, y float64) (dx, dy float64) {
			if math.IsNaN(root(x)) || x == 0 && y == 0 {
				return math.NaN(), math.NaN()
			}
			dx, dy = y*pow(math.Abs(x), y-1), pow(math.Abs(x), y)*math.Log(math.Abs(x))
			if x == 0 && y > 0 {
				dy = 0
			}
			return dx, dy
		},
	} {
		f, err := autodiff.Parse(text, "x", "y")
		if err != nil {
			t.Fatal(err)
		}
		var points []float64
		for _, x := range []float64{0, math.Copysign(0, -1), 1, 0.3, 17, 1e-10, -1} {
			for _, y := range []float64{2.5, 1, 0.5, 3, -1.5, 0} {
				points = append(points, x, y)
			}
		}
		rt := workloadtest.Open(t, 1, autodiff.Funcs())
		_, gradients, err := autodiff.Gradient(t.Context(), rt, f, points)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(points); i += 2 {
			x, y := points[i], points[i+1]
			dx, dy := want(x, y)
			if got := gradients[i : i+2]; !near(got[0], dx) || !near(got[1], dy) {
				t.Errorf("%s at x = %v, y = %v: %v, want %v and %v", text, x, y, got, dx, dy)
			}
		}
	}
}
