package merkle

import (
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
)

func TestLargest(t *testing.T) {
	leaves := workloadtest.Hollow[byte](t, maxLeaves*Size)
	for _, c := range []Config{{Leaves: leaves}, {Leaves: leaves, Mode: Dup}, {Leaves: leaves, Hashed: true}} {
		workloadtest.Largest(t, workloadtest.New[*job](t)(New(c)))
	}
}
