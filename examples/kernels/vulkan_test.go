//go:build lavapipe

package main

import "testing"

// SPIR-V runs in a worker process, alone and beside the cores, and so does GLSL,
// which is compiled there.
func TestVulkan(t *testing.T) {
	for _, compile := range []bool{false, true} {
		check(t, "vulkan", compile)
		check(t, "cpu,vulkan", compile)
	}
}
