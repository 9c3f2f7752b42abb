package landscape

import (
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
)

func TestLargest(t *testing.T) {
	j := workloadtest.New[*job](t)(New(Config{Residues: MaxResidues}))
	workloadtest.Largest(t, j)
	workloadtest.Largest(t, j.Hosted())
}
