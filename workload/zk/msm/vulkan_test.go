//go:build lavapipe

package msm

import (
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bn254"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/vulkan"
	"github.com/weft-run/weft/sched"
)

// The shaders add up what gnark-crypto does, on as many devices as there are.
func TestVulkan(t *testing.T) {
	rt, err := weft.Open(t.Context(), weft.Options{
		NoCalibrate: true, CacheDir: "off",
		Drivers: []driver.Driver{vulkan.New(vulkan.Options{MemBytes: 256 << 20})},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	shaded[bn254.G1Affine](t, rt, 300, 4, "")
	for _, n := range []int{1, 2, 3, 5, 513, 1024} {
		shaded[bn254.G1Affine](t, rt, n, 0, "sum")
	}
	shaded[bn254.G1Affine](t, rt, 100, 9, "sum")
	for _, name := range []string{"sum", "scalars r-1", "equal points and scalars", "opposites"} {
		shaded[bn254.G2Affine](t, rt, 65, 0, name)
	}
	shaded[bn254.G2Affine](t, rt, 257, 0, "sum")
}

// shaded compares sums of some points, or one of them.
func shaded[P Point](t *testing.T, rt *weft.Runtime, n, bits int, only string) {
	t.Helper()
	for name, c := range cases[P](n) {
		if only != "" && name != only {
			continue
		}
		var b graph.Builder
		s := Sum[P]{N: n, window: bits}
		s.Points = b.Data(graph.Data{Name: "points", Bytes: pointBytes[P]() * int64(n), Input: true})
		s.Scalars = b.Data(graph.Data{Name: "scalars", Bytes: scalarBytes * int64(n), Input: true})
		s.Sums = b.Data(graph.Data{Name: "sums", Bytes: SumsBytes[P](n), Output: true})
		ranges := []sched.Range{{Lo: 0, Hi: int64(n)}}
		if n > 100 {
			ranges = []sched.Range{{Lo: 0, Hi: 64}, {Lo: 64, Hi: int64(n)}}
		}
		if err := s.Add(&b, ranges); err != nil {
			t.Fatal(err)
		}
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		sums := make([]P, SumsBytes[P](n)/pointBytes[P]())
		if _, err := rt.Run(t.Context(), g, weft.Bind("points", c.points), weft.Bind("scalars", c.scalars), weft.Bind("sums", sums)); err != nil {
			t.Fatal(err)
		}
		if got, want := Total(sums), Reference(c.points, c.scalars); got != want {
			t.Errorf("%s of %d points of %s with windows of %d: %v, want %v", name, n, group[P](), bits, got, want)
		}
	}
}
