//go:build lavapipe

package msm

import (
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bn254"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
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
	for n, name := range map[int]string{1: "nothing but infinity", 2: "opposites that cancel", 3: "points at infinity", 5: "opposites", 31: "scalars 0", 33: "scalars r-1", 127: "points at infinity", 129: "opposites"} {
		compared[bn254.G1Affine](t, rt, n, 0, 1, name)
	}
}

// On a device whose memory is too small for a table of multiples, and for the work of all points at once, a sum is
// made in parts.
func TestVulkanLittleMemory(t *testing.T) {
	const n, little = 700, 1 << 20
	rt, err := weft.Open(t.Context(), weft.Options{
		NoCalibrate: true, CacheDir: "off", Funcs: Funcs(),
		Drivers: []driver.Driver{vulkan.New(vulkan.Options{MemBytes: little})},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	c := cases[bn254.G1Affine](n)["opposites"]
	if _, workspace := gpuSteps[bn254.G1Affine](n, parts(n, Align(n)), windowBits[bn254.G1Affine](n, 1), 1); workspace <= little {
		t.Fatalf("the work takes %d bytes, and the device has %d", workspace, little)
	}
	want := Reference(c.points, c.scalars)
	if got, err := G1(t.Context(), rt, c.points, c.scalars); err != nil || got != want {
		t.Errorf("the sum is %v, want %v: %v", got, want, err)
	}
	b, err := Put(rt, c.points)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	if b.Multiples() != 1 {
		t.Errorf("there are %d multiples of each point in %d bytes", b.Multiples(), little)
	}
	if got, err := b.Sum(t.Context(), c.scalars); err != nil || got != want {
		t.Errorf("the sum of resident points is %v, want %v: %v", got, want, err)
	}
}
