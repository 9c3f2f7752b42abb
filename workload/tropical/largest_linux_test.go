package tropical

import (
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
)

func TestLargest(t *testing.T) {
	for _, c := range []Training{{Inputs: 64, Hidden: 32, Outputs: 8, Batch: maxBatch, Steps: 20, Shards: maxShards}, {Inputs: maxUnits, Hidden: maxUnits, Outputs: maxUnits, Batch: maxBatch, Steps: 2}} {
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		c = c.withDefaults()
		n, h := c.shape().params(), func(n int) []float32 { return workloadtest.Hollow[float32](t, n) }
		workloadtest.Largest(t, &trainJob{c: c, initial: h(n), final: h(n), x: h(c.Batch * c.Inputs), target: h(c.Batch * c.Outputs)})
	}
}
