package protein_test

import (
	"math"
	"testing"

	"github.com/weft-run/weft/workload/protein"
)

// A helix has the geometry of one.
func TestHelix(t *testing.T) {
	h := protein.Helix(40)
	for i := 1; i < h.Len(); i++ {
		a, b := h.Residues[i-1], h.Residues[i]
		if d := math.Hypot(math.Hypot(a.X-b.X, a.Y-b.Y), a.Z-b.Z); math.Abs(d-3.83) > 0.01 || b.Number != i+1 {
			t.Errorf("residues %d and %d are %v Å apart", i-1, i, d)
		}
	}
}
