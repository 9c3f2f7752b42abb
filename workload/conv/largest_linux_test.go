package conv

import (
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
)

func TestLargest(t *testing.T) {
	small := Shape{C: 1, K: 1, H: 8, W: 8, R: 3, S: 3, Stride: 1, Pad: 1}
	many, wide := small, small
	many.N = maxNumbers / 64
	wide.N, wide.H, wide.W = maxImages, 256, 256
	for _, c := range []Config{{Shape: many, Split: Images}, {Shape: wide, Split: Rows}} {
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		p, q := c.Out()
		j := &job{c: c, cuts: []int{0, c.K}, groups: 1, w: make([]float32, c.K*c.C*c.R*c.S)}
		j.x, j.y = workloadtest.Hollow[float32](t, c.N*c.C*c.H*c.W), workloadtest.Hollow[float32](t, c.N*c.K*p*q)
		if j.from, j.to = byImage(c.C, c.H, c.W), byImage(c.K, p, q); c.Split == Rows {
			j.from, j.to = byRow(c.N, c.C, c.W, 0), byRow(c.N, c.K, q, 0)
		}
		workloadtest.Largest(t, j.declare())
	}
}
