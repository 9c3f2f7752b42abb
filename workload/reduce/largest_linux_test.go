package reduce

import (
	"math"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
)

func TestLargest(t *testing.T) {
	for i, op := range Operations() {
		c := Config{Op: op, N: math.MaxUint32}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		workloadtest.Largest(t, (&job{c: c, op: operations[i], x: workloadtest.Hollow[float32](t, c.N)}).declare())
	}
}
