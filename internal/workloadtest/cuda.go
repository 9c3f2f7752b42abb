//go:build gpu

package workloadtest

import (
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cuda"
	"github.com/weft-run/weft/workload"
)

var ptxFile = flag.String("ptx", "", "take kernels from this PTX `file` in place of those of the same names in the binary")

// OnCUDA runs every sample on one GPU, one workload to a subtest; where there are two kernels for a step, each of
// them. Flag -ptx puts kernels of a file in the place of the same ones of the samples and of further jobs.
func (s Samples) OnCUDA(t *testing.T, more ...workload.Job) {
	t.Helper()
	kernels := s.Kernels(t, graph.PTX, more...)
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
		s.On(t, cuda.New(cuda.Options{Devices: []int{0}, Exact: true}))
	}
	for i, k := range kernels {
		k.Impls = all[i]
	}
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
