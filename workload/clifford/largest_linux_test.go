package clifford

import (
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
)

func TestLargest(t *testing.T) {
	for _, op := range operations {
		for _, c := range []Config{{Op: op, P: 1}, {Op: op, P: 3}, {Op: op, P: 3, Q: 3}} {
			a := algebras[c.P][c.Q]
			c.Count = maxCount / a.Size()
			if err := c.Validate(); err != nil {
				t.Fatal(err)
			}
			h := func() []float32 { return workloadtest.Hollow[float32](t, maxCount) }
			j := &job{c: c, a: a, x: h(), out: h(), entries: a.entries}
			switch op {
			case Product:
				j.y = h()
			case Rotor:
				j.turnBy(make([]float64, a.Size()))
			}
			workloadtest.Largest(t, j.declare())
		}
	}
}
