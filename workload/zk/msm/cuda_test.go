//go:build gpu

package msm

import (
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bn254"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/cuda"
)

// These tests need an NVIDIA GPU.

// A GPU adds up what gnark-crypto does: all sizes around powers of two, and scalars and points where
// a kernel may go wrong.
func TestCUDA(t *testing.T) {
	rt, err := weft.Open(t.Context(), weft.Options{
		NoCalibrate: true, CacheDir: "off",
		Drivers: []driver.Driver{cuda.New(cuda.Options{Devices: []int{0}, Exact: true})},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for _, n := range sizesTo(20) {
		compared[bn254.G1Affine](t, rt, n, 0, 1, "sum")
	}
	for _, n := range []int{1, 2, 3, 5, 600, 4097} {
		compared[bn254.G1Affine](t, rt, n, 0, 1, "")
	}
	for _, name := range []string{"scalars r-1", "equal points and scalars", "opposites", "points at infinity"} {
		compared[bn254.G1Affine](t, rt, 1<<17+1, 0, 1, name)
	}
	for bits := 4; bits <= 16; bits++ {
		compared[bn254.G1Affine](t, rt, 3000, bits, 1, "opposites")
		for k := 2; k <= mostMultiples; k *= 2 {
			compared[bn254.G1Affine](t, rt, 1000+bits, bits, k, "opposites")
		}
	}
	for _, n := range sizesTo(12) {
		compared[bn254.G2Affine](t, rt, n, 0, 1, "sum")
	}
	compared[bn254.G2Affine](t, rt, 300, 0, 1, "")
	compared[bn254.G2Affine](t, rt, 300, 0, 8, "")
	compared[bn254.G1Affine](t, rt, 1<<15+1, 0, mostMultiples, "")
	compared[bn254.G2Affine](t, rt, 1<<14+1, 0, 1, "opposites")
}

// sizesTo are small sizes, and those around powers of two up to 2^log.
func sizesTo(log int) (out []int) {
	out = []int{1, 2, 3, 5}
	for k := 3; k <= log; k++ {
		out = append(out, 1<<k-1, 1<<k, 1<<k+1)
	}
	return out
}
