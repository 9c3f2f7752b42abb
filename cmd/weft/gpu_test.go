//go:build linux && !race && (stub || cgo)

package main

// Runs on GPUs, on a stand-in for NVIDIA's libraries. Worker processes take the race
// detector long.

import (
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/backend/cuda/cudatest"
)

// withGPUs makes worker processes find the stand-in.
func withGPUs(t *testing.T) {
	t.Helper()
	dir, err := cudatest.Libraries()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LD_LIBRARY_PATH", dir)
}

// A workload runs on a GPU, on several workers of it and beside the CPU; what the
// stand-in has of its kernels is a library's routine.
func TestGPURun(t *testing.T) {
	withGPUs(t)
	for _, devices := range []string{"cuda:0", "cuda:0/2", "cuda:0/4", "cuda:0,cpu"} {
		out := works(t, "run", "gemm", "--size", "40", "--devices", devices, "--repeat", "2", "--calibrate=false")
		if !strings.Contains(out, "agrees with an independent reference") {
			t.Errorf("%s: %s", devices, out)
		}
	}
}
