package product

import (
	"testing"

	"github.com/weft-run/weft/internal/panel"
	"github.com/weft-run/weft/internal/workloadtest"
)

func TestLargest(t *testing.T) {
	c := Config{M: maxSide, K: maxSide, N: maxSide}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	h := func() []float32 { return workloadtest.Hollow[float32](t, maxSide*maxSide) }
	j := &Job{n: Numbers{Config: c, A: h(), B: h(), C: h()}, kind: New(Kind{Name: "test", Unit: "op"}, panel.SumProduct()[0]), width: maxSide}
	workloadtest.Largest(t, j.declare())
	j.panels = workloadtest.Hollow[float32](t, panel.Start(maxSide, maxSide, panel.Count(maxSide, maxSide)))
	workloadtest.Largest(t, j.Hosted())
}
