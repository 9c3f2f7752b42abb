//go:build lavapipe

package main

import (
	"testing"

	"github.com/weft-run/weft"
)

// SPIR-V runs in a worker process, alone and beside the cores, and so does GLSL,
// which is compiled there.
func TestVulkan(t *testing.T) {
	for _, compile := range []bool{false, true} {
		check(t, "vulkan", compile)
		check(t, "cpu,vulkan", compile)
	}
}

// The shader is a form of a kernel for weft.Apply: its push constants are the number of
// elements and the rest of the parameters.
func TestApplyVulkan(t *testing.T) {
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "vulkan", NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	type by struct{ K float32 }
	k := &weft.Kernel[by]{Name: "saxpy", SPIRV: spirv, Group: 128, Elementwise: true}
	for _, n := range []int{1, 127, 100_003} {
		x, y := make([]float32, n), make([]float32, n)
		for i := range x {
			x[i], y[i] = float32(i%1000), 1
		}
		if _, err := weft.Apply(t.Context(), rt, k, by{2}, weft.In(x), weft.InOut(y)); err != nil {
			t.Fatal(err)
		}
		for i := range y {
			if want := 1 + 2*float32(i%1000); y[i] != want {
				t.Fatalf("element %d of %d is %v, want %v", i, n, y[i], want)
			}
		}
	}
}
