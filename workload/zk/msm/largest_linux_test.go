package msm

import (
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"

	"github.com/weft-run/weft/internal/workloadtest"
)

func TestLargest(t *testing.T) {
	largest[bn254.G1Affine](t, "g1")
	largest[bn254.G2Affine](t, "g2")
}

func largest[P Point](t *testing.T, group string) {
	c := Config{Group: group, Size: MaxPoints}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	h := func(n int) []P { return workloadtest.Hollow[P](t, n) }
	j := &Job[P]{points: h(c.Size), scalars: workloadtest.Hollow[fr.Element](t, c.Size), sums: h(int(parts(int64(c.Size), Align(c.Size))))}
	workloadtest.Largest(t, j)
}
