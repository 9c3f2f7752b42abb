package protein_test

import (
	"math"
	"testing"

	"github.com/weft-run/weft/workload/protein"
)

// The memory of a conformation is what was worked out by hand, and a helix has the geometry
// of one.
func TestMemory(t *testing.T) {
	for residues, want := range map[int]float64{500: 9.1e6, 2000: 82e6, 2750: 147e6, 10_000: 1.7e9, 200_000: 658e9} {
		m := protein.MemoryOf(residues, 8.05*float64(residues))
		if got := float64(m.Total()); math.Abs(got/want-1) > 0.015 {
			t.Errorf("%d residues: %.4g, want %.4g", residues, got, want)
		}
	}
	if got := protein.MemoryOf(2750, 22128); got.Coordinates != 531072 || got.Phases != 121e6 || got.Contacts != 3025000 || got.Landscape != 22e6 {
		t.Errorf("4JSV: %+v", got)
	}
	if got := protein.ContactRows(2750, 7975); got != 4*2751+8*7975 {
		t.Errorf("contacts of 4JSV: %d bytes", got)
	}
	h := protein.Helix(40)
	for i := 1; i < h.Len(); i++ {
		a, b := h.Residues[i-1], h.Residues[i]
		if d := math.Hypot(math.Hypot(a.X-b.X, a.Y-b.Y), a.Z-b.Z); math.Abs(d-3.83) > 0.01 || b.Number != i+1 {
			t.Errorf("residues %d and %d are %v Å apart", i-1, i, d)
		}
	}
}
