//go:build lavapipe || gpu

package msm

import (
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/sched"
)

// compared compares sums of some points, or one of them, with multiples of each point.
func compared[P Point](t *testing.T, rt *weft.Runtime, n, bits, multiples int, only string) {
	t.Helper()
	for name, c := range cases[P](n) {
		if only != "" && name != only {
			continue
		}
		var b graph.Builder
		s := Sum[P]{N: n, window: bits, Multiples: multiples}
		s.Points = b.Data(graph.Data{Name: "points", Bytes: pointBytes[P]() * int64(n*multiples), Input: true})
		s.Scalars = b.Data(graph.Data{Name: "scalars", Bytes: scalarBytes * int64(n), Input: true})
		s.Sums = b.Data(graph.Data{Name: "sums", Bytes: SumsBytes[P](n), Output: true})
		ranges := []sched.Range{{Lo: 0, Hi: int64(n)}}
		if at := max(64, Align(n)); n > 100 {
			ranges = []sched.Range{{Lo: 0, Hi: at}, {Lo: at, Hi: int64(n)}}
		}
		if err := s.Add(&b, ranges); err != nil {
			t.Fatal(err)
		}
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		sums := make([]P, SumsBytes[P](n)/pointBytes[P]())
		if _, err := rt.Run(t.Context(), g, weft.Bind("points", table(t.Context(), c.points, multiples)), weft.Bind("scalars", c.scalars), weft.Bind("sums", sums)); err != nil {
			t.Fatal(err)
		}
		if got, want := Total(sums), Reference(c.points, c.scalars); got != want {
			t.Errorf("%s of %d points of %s with windows of %d, %d multiples: %v, want %v", name, n, group[P](), bits, multiples, got, want)
		}
	}
}
