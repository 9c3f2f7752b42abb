//go:build lavapipe

package zk_test

import (
	"testing"

	"github.com/weft-run/weft/internal/backend/vulkan"
	"github.com/weft-run/weft/internal/workloadtest"
)

// Kernels are right on one Vulkan device, one workload to a subtest.
func TestVulkanKernels(t *testing.T) {
	all.GivenShaders(t)
	all.On(t, vulkan.New(vulkan.Options{Devices: []int{0}, MemBytes: 256 << 20}))
}

// Every workload is right on Vulkan devices, alone, together and with the cores.
func TestVulkan(t *testing.T) { all.OnVulkan(t) }

// Calls are right on one Vulkan device.
func TestVulkanCalls(t *testing.T) {
	rt := workloadtest.Exact(t, vulkan.New(vulkan.Options{Devices: []int{0}, MemBytes: 256 << 20}))
	defer rt.Close()
	testCalls(t, rt)
}
