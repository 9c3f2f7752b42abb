//go:build lavapipe

package msm

import (
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bn254"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/internal/backend/vulkan"
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
	compared[bn254.G1Affine](t, rt, 300, 4, 1, "")
	for _, n := range []int{1, 2, 3, 5, 513, 1024} {
		compared[bn254.G1Affine](t, rt, n, 0, 1, "sum")
	}
	compared[bn254.G1Affine](t, rt, 100, 9, 1, "sum")
	compared[bn254.G1Affine](t, rt, 120, 0, 16, "opposites")
	compared[bn254.G1Affine](t, rt, 60, 5, 4, "sum")
	for _, name := range []string{"sum", "scalars r-1", "equal points and scalars", "opposites"} {
		compared[bn254.G2Affine](t, rt, 65, 0, 1, name)
	}
	compared[bn254.G2Affine](t, rt, 257, 0, 1, "sum")
}
