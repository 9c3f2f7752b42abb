//go:build lavapipe

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/vulkan"
)

// pushed are the push constants of testdata/field.comp: those that [weft.Apply] puts in front,
// and params.
type pushed struct {
	n uint32 // elements
	params
}

// params are the parameters of testdata/field.comp.
type params struct {
	Op uint32 // an index of ops
}

// The includes for GLSL compute what gnark-crypto does.
func TestVulkan(t *testing.T) {
	rt, err := weft.Open(t.Context(), weft.Options{
		NoCalibrate: true, CacheDir: "off",
		Drivers: []driver.Driver{vulkan.New(vulkan.Options{MemBytes: 256 << 20})},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for _, f := range fields {
		source, err := os.ReadFile(filepath.Join("testdata", f.Lower()+".spv"))
		if err != nil {
			t.Fatal(err)
		}
		var a, b []element
		all := f.samples(30)
		for _, x := range all {
			for _, y := range all {
				a, b = append(a, x), append(b, y)
			}
		}
		k := &weft.Kernel[params]{Name: f.Lower(), SPIRV: source, Group: 64, Elementwise: true}
		for i, op := range ops {
			c := make([]element, len(a))
			if _, err := weft.Apply(t.Context(), rt, k, params{uint32(i)}, weft.In(a), weft.In(b), weft.Out(c)); err != nil {
				t.Fatal(err)
			}
			for j, got := range c {
				if want := f.expected(op, a[j], b[j]); got != want {
					t.Fatalf("%s: %s of %x and %x is %x, want %x", f.Name, op, a[j], b[j], got, want)
				}
			}
		}
	}
}
