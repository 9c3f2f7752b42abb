//go:build gpu

package workload_test

import (
	"testing"

	"github.com/weft-run/weft/internal/backend/cuda"
	"github.com/weft-run/weft/internal/workloadtest"
)

// These tests need an NVIDIA GPU.

// Every workload's kernels are right on one GPU, also those that are not exact.
func TestCUDAKernels(t *testing.T) {
	dense := denseJobs(t)
	all.OnCUDA(t, dense...)
	t.Run("reservoir", func(t *testing.T) { testDense(t, dense) })
}

// Every call is right on one GPU.
func TestCUDACalls(t *testing.T) {
	rt := workloadtest.Exact(t, cuda.New(cuda.Options{Devices: []int{0}, Exact: true}))
	defer rt.Close()
	testCalls(t, rt)
}

// The kernel of probes computes on a GPU what the host does.
func TestCUDAProbe(t *testing.T) { testProbe(t, cuda.New(cuda.Options{})) }
