//go:build lavapipe

package main

import (
	"math"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/model"
	"github.com/weft-run/weft/workload/conv"
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

// The graph beside this example has the same results by its shader as by the Go function.
func TestVulkanBlur(t *testing.T) {
	m, err := model.Load(model.Dir("../blur"), "blur.json", model.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	image := make([]float32, 2*24*32)
	for i := range image {
		image[i] = float32(i*i%101) / 100
	}
	results := make(map[string][]float32)
	for _, devices := range []string{"cpu", "vulkan"} {
		rt, err := weft.Open(t.Context(), weft.Options{Devices: devices, NoCalibrate: true, CacheDir: "off", Funcs: conv.Funcs()})
		if err != nil {
			t.Fatal(err)
		}
		defer rt.Close()
		p, err := m.Prepare(rt)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Release()
		for range 2 { // the second has the weights on the device
			smooth := make([]float32, len(image))
			if _, err := p.Run(t.Context(), model.Bind("image", image), model.Bind("smooth", smooth)); err != nil {
				t.Fatalf("%s: %v", devices, err)
			}
			results[devices] = smooth
		}
	}
	for i, want := range results["cpu"] {
		if got := results["vulkan"][i]; math.Abs(float64(got-want)) > 1e-5 {
			t.Fatalf("pixel %d is %v by the shader and %v by the Go function", i, got, want)
		}
	}
}
