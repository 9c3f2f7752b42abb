//go:build gpu

package workload_test

import (
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cuda"
)

// These tests need an NVIDIA GPU.

var ptxFile = flag.String("ptx", "", "take kernels from this PTX `file` in place of those of the same names in the binary")

// Every workload's kernels are right on one GPU, one workload to a subtest; where there are
// two kernels for a step, each of them; and those that are not exact.
func TestCUDAKernels(t *testing.T) {
	dense := denseJobs(t)
	kernels := kernelsIn(t, graph.PTX, dense...)
	if *ptxFile != "" {
		source, err := os.ReadFile(*ptxFile)
		if err != nil {
			t.Fatal(err)
		}
		replaceKernels(t, kernels, source)
	}
	all := make([][]graph.Impl, len(kernels))
	most := 0
	isPTX := func(i graph.Impl) bool { return i.Dialect == graph.PTX }
	for i, k := range kernels {
		all[i] = k.Impls
		n := 0
		for _, impl := range k.Impls {
			if isPTX(impl) {
				n++
			}
		}
		most = max(most, n)
	}
	for variant := range most {
		for i, k := range kernels {
			var ptx []graph.Impl
			for _, impl := range all[i] {
				if isPTX(impl) {
					ptx = append(ptx, impl)
				}
			}
			rest := slices.DeleteFunc(slices.Clone(all[i]), isPTX)
			k.Impls = append(rest, ptx[variant%len(ptx)])
		}
		testKernels(t, cuda.New(cuda.Options{Devices: []int{0}, Exact: true}))
	}
	for i, k := range kernels {
		k.Impls = all[i]
	}
	t.Run("reservoir", func(t *testing.T) { testDense(t, dense) })
}

// Every call is right on one GPU.
func TestCUDACalls(t *testing.T) {
	rt := openExact(t, cuda.New(cuda.Options{Devices: []int{0}, Exact: true}))
	defer rt.Close()
	testCalls(t, rt)
}

// replaceKernels takes PTX for the kernels it has entries of.
func replaceKernels(t *testing.T, kernels []*graph.Kernel, source []byte) {
	t.Helper()
	there := readPTX(source)
	replaced := 0
	for _, k := range kernels {
		for i := range k.Impls {
			if impl := &k.Impls[i]; impl.Dialect == graph.PTX && there[impl.Entry].threads > 0 {
				impl.Source = source
				replaced++
			}
		}
	}
	if replaced == 0 {
		t.Fatal("no kernel has an entry of the file")
	}
}

// The kernel of probes computes on a GPU what the host does.
func TestCUDAProbe(t *testing.T) { testProbe(t, cuda.New(cuda.Options{})) }
