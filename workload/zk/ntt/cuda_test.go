//go:build gpu

package ntt

import (
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/cuda"
	"github.com/weft-run/weft/internal/workloadtest"
)

// These tests need an NVIDIA GPU.

// A GPU transforms as gnark-crypto does, in one pass or several, whole and in parts, in all sizes.
func TestCUDA(t *testing.T) {
	rt, err := weft.Open(t.Context(), weft.Options{
		NoCalibrate: true, CacheDir: "off", Funcs: Funcs(),
		Drivers: []driver.Driver{cuda.New(cuda.Options{Devices: []int{0}, Exact: true})},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	testPasses(t, rt)
	for log := 0; log <= 22; log++ {
		for i := range 4 {
			j := workloadtest.New[*job](t)(New(Config{Transform: Transform{Inverse: i&1 != 0, Coset: i&2 != 0}, Log: log, Seed: 3}))
			workloadtest.Run(t, rt, j)
			if err := j.Check(); err != nil {
				t.Error(err)
			}
		}
	}
}
