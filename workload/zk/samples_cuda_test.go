//go:build gpu

package zk_test

import (
	"testing"

	"github.com/weft-run/weft/internal/backend/cuda"
	"github.com/weft-run/weft/internal/workloadtest"
)

// Kernels are right on one GPU, one workload to a subtest.
func TestCUDAKernels(t *testing.T) { all.OnCUDA(t) }

// Calls are right on one GPU.
func TestCUDACalls(t *testing.T) {
	rt := workloadtest.Exact(t, cuda.New(cuda.Options{Devices: []int{0}, Exact: true}))
	defer rt.Close()
	testCalls(t, rt)
}
