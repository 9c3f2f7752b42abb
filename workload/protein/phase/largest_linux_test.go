package phase

import (
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload/protein"
)

func TestLargest(t *testing.T) {
	c := Config{Residues: maxResidues, Time: maxTime}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	s := protein.Helix(maxResidues)
	workloadtest.Largest(t, &job{
		c: c, structure: s, stride: (maxResidues + lanes - 1) / lanes * lanes, beads: s.Coordinates(), kinds: make([]uint32, maxResidues),
		states: workloadtest.Hollow[complex128](t, maxResidues*maxResidues),
	})
}
