//go:build lavapipe

package ntt

import (
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/vulkan"
)

func TestVulkanPasses(t *testing.T) {
	rt, err := weft.Open(t.Context(), weft.Options{
		NoCalibrate: true, CacheDir: "off",
		Drivers: []driver.Driver{vulkan.New(vulkan.Options{MemBytes: 256 << 20})},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	testPasses(t, rt)
}
