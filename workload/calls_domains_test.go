package workload_test

import (
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/enumerative"
)

// testEnumerative counts lines, of which formulas are known.
func testEnumerative(t *testing.T, rt *weft.Runtime) {
	for n, want := range map[int]string{4: "27", 5: "2875", 6: "698005"} {
		got, err := enumerative.Of(t.Context(), rt, enumerative.Config{Problem: enumerative.Hypersurface, K: 2, N: n})
		if err != nil || got.String() != want {
			t.Errorf("lines in dimension %d: %v, %v, want %s", n-1, got, err, want)
		}
	}
	for _, c := range []struct{ k, n int }{{3, 6}, {5, 15}} {
		got, err := enumerative.Of(t.Context(), rt, enumerative.Config{Problem: enumerative.Degree, K: c.k, N: c.n})
		if err != nil || got.Cmp(enumerative.DegreeOf(c.k, c.n)) != 0 {
			t.Errorf("degree of Gr(%d,%d): %v, %v", c.k, c.n, got, err)
		}
	}
}
