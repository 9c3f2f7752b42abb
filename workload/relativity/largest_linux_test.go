package relativity

import (
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
)

func TestLargest(t *testing.T) {
	h := func(n int) []float64 { return workloadtest.Hollow[float64](t, n) }
	of := func(c Config) Config {
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		return c.withDefaults()
	}
	const n = maxCount
	for _, c := range []Config{{Problem: Orbits, Count: n}, {Problem: Orbits, Count: n, Tolerance: 1e-9, Steps: maxSteps}} {
		workloadtest.Largest(t, (&orbitJob{c: of(c), in: h(orbitIn * n), out: h(orbitOut * n)}).declare())
	}
	workloadtest.Largest(t, (&lightJob{c: of(Config{Problem: Light, Count: n, Steps: maxSteps / rayTurns}), in: h(n), out: h(rayOut * n)}).declare())
	workloadtest.Largest(t, (&boostJob{c: of(Config{Problem: Boosts, Count: n}), x: h(4 * n), y: h(4 * n), v: h(3 * n), out: h(4 * n), products: h(n)}).declare())
	for _, c := range []Config{{Count: maxBodies, Steps: maxStates / maxBodies}, {Count: maxStates / maxBodySteps, Steps: maxBodySteps}} {
		c.Problem = Bodies
		f := func(n int) []float32 { return workloadtest.Hollow[float32](t, n) }
		workloadtest.Largest(t, &bodyJob{c: of(c), mass: f(c.Count), startAt: f(3 * c.Count), startV: f(3 * c.Count), at: f(3 * c.Count * c.Steps), v: f(3 * c.Count * c.Steps)})
	}
}
