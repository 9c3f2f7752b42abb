//go:build lavapipe

package fold

import (
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/internal/backend/vulkan"
)

// These tests need Vulkan devices: .ci/run installs lavapipe and runs them.

// onVulkan opens the Vulkan devices alone.
func onVulkan(t *testing.T) *weft.Runtime {
	t.Helper()
	rt, err := weft.Open(t.Context(), weft.Options{
		Drivers: []driver.Driver{vulkan.New(vulkan.Options{MemBytes: 256 << 20})}, NoCalibrate: true, CacheDir: "off", Funcs: Funcs(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	return rt
}

// A Vulkan device goes where the reference goes, and sees what that sees.
func TestVulkanSteps(t *testing.T) {
	rt := onVulkan(t)
	testSteps(t, func(t *testing.T, r *Run) (before, after [][lanes]float64, seen [][seenCount][lanes]float64) {
		do(t, rt, r)
		return r.last, r.state, r.observed
	})
}
