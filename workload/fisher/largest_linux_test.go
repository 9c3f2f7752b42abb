package fisher

import (
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
)

func TestLargest(t *testing.T) {
	for _, c := range []Config{{Points: maxPoints, Features: 64}, {Points: 1 << 20, Features: maxFeatures, Shards: 8, Blocks: maxShards}} {
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		c = c.withDefaults()
		workloadtest.Largest(t, &job{c: c, x: workloadtest.Hollow[float32](t, c.Points*c.Features), theta: make([]float32, c.Features), f: workloadtest.Hollow[float64](t, c.Features*c.Features)})
	}
	for _, dim := range []int{1, maxDim} {
		c := DivergenceConfig{Function: Entropy, Dim: dim, Pairs: maxNumbers / dim}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		h := func(n int) []float64 { return workloadtest.Hollow[float64](t, n) }
		workloadtest.Largest(t, (&divergenceJob{c: c, p: h(maxNumbers), q: h(maxNumbers), out: h(c.Pairs)}).declare())
	}
}
