package autodiff

import (
	"math"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
)

// The vectors of instructions do what the Go loops do.
func TestWide(t *testing.T) {
	j := workloadtest.New[*job](t)(New(Config{Problem: Expression, Count: 777, Low: -2, High: 2,
		Expr: "x/y - 3/x + sqrt(x) + x*y*z - 2*x + (1-z)^2 + 4*y; (x-y)*(y-z) + x*z; -(x+y)"}))
	was := wide
	defer func() { wide = was }()
	direct(t, j)
	values, derivatives := append([]float64(nil), j.values...), append([]float64(nil), j.derivatives...)
	clear(j.values)
	clear(j.derivatives)
	wide = false
	direct(t, j)
	again := append(j.values, j.derivatives...)
	for i, v := range append(values, derivatives...) {
		if w := again[i]; math.Float64bits(v) != math.Float64bits(w) && !(math.IsNaN(v) && math.IsNaN(w)) {
			t.Fatalf("number %d is %v in vectors and %v in Go", i, v, w)
		}
	}
}
