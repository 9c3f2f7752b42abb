//go:build lavapipe

package main

import "testing"

// The GLSL is compiled and runs in a worker process, alone and beside the cores.
func TestVulkan(t *testing.T) {
	check(t, "vulkan")
	check(t, "cpu,vulkan")
}
