package autodiff

import (
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
)

func TestLargest(t *testing.T) {
	for _, c := range []Config{{Problem: Rosenbrock, Dims: 2, Count: maxNumbers / 2}, {Problem: Rosenbrock, Dims: maxVariables, Count: maxNumbers / maxVariables}, {Problem: Helmholtz, Dims: maxComponents, Count: maxNumbers / (maxComponents + 1)}} {
		f, err := c.function()
		if err != nil {
			t.Fatal(err)
		}
		c.Count = maxNumbers / len(f.variables)
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		p, err := f.program(c.withDefaults().Directions)
		if err != nil {
			t.Fatal(err)
		}
		h := func(n int) []float64 { return workloadtest.Hollow[float64](t, n) }
		j := &job{name: c.Problem, f: f, p: p, count: c.Count, directions: units(len(f.variables)), points: h(c.Count * len(f.variables))}
		j.values, j.derivatives = h(c.Count*p.outputs), h(c.Count*p.outputs*p.columns)
		for _, generate := range []bool{false, true} {
			j.kernelsFor(generate)
			workloadtest.Largest(t, j.declare())
		}
	}
}
