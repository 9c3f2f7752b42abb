//go:build gpu

package fold

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cuda"
	"github.com/weft-run/weft/workload"
)

// These tests need an NVIDIA GPU.

// onGPU opens one GPU.
func onGPU(t *testing.T) *weft.Runtime {
	t.Helper()
	return openOn(t, cuda.New(cuda.Options{Devices: []int{0}, Exact: true}))
}

// A GPU goes where the reference goes.
func TestCUDASteps(t *testing.T) {
	testStepsOn(t, onGPU(t))
}

// A replica has the same bytes on a GPU in every run, whichever replicas run beside it, and passes the
// check.
func TestCUDASameBytes(t *testing.T) {
	rt := onGPU(t)
	for _, name := range []string{"1CRN", "BPTI", "1UBI"} {
		run := func(replicas int) *Run {
			r, err := New(Config{Structure: name, Steps: 2000, Every: 500, Replicas: replicas, Seed: 3})
			if err != nil {
				t.Fatal(err)
			}
			do(t, rt, r)
			if err := r.Check(); err != nil {
				t.Error(err)
			}
			return r
		}
		many, again, few := run(20), run(20), run(8)
		for i, v := range many.state {
			if again.state[i] != v {
				t.Fatalf("%s: number %d of the state is %v, and again %v", name, i, v, again.state[i])
			}
		}
		for i, v := range few.state {
			if many.state[i] != v {
				t.Fatalf("%s: number %d of the state is %v, among others %v", name, i, v, many.state[i])
			}
		}
	}
}

// Mean Q and Rg of a GPU's replicas are those of the processors' within three standard errors, below
// the temperature at which the chain melts and above it.
func TestCUDAStatistics(t *testing.T) {
	gpu := onGPU(t)
	cpu, err := weft.Open(t.Context(), weft.Options{Devices: "cpu", NoCalibrate: true, CacheDir: "off", Funcs: Funcs()})
	if err != nil {
		t.Fatal(err)
	}
	defer cpu.Close()
	for _, temperature := range []float64{0.7, 1.1} {
		testMeans(t, Config{Steps: 400_000, Every: 1000, Replicas: 64, Low: temperature}, gpu, cpu, 3)
	}
}

var (
	ptxFile = flag.String("ptx", "", "PTX `file` that BenchmarkCUDA takes -entries from, in place of that in the binary")
	entries = flag.String("entries", "", "kernels for BenchmarkCUDA, by commas: name:threads of a block:replicas of a block")
)

// tried are the kernels of the flags, or those for short chains.
func tried(b *testing.B) []graph.Impl {
	b.Helper()
	if *entries == "" {
		return []graph.Impl{twoKernel.Impls[1], oneKernel.Impls[1]}
	}
	source := ptx
	if *ptxFile != "" {
		var err error
		if source, err = os.ReadFile(*ptxFile); err != nil {
			b.Fatal(err)
		}
	}
	var out []graph.Impl
	for entry := range strings.SplitSeq(*entries, ",") {
		var threads, replicas uint32
		name, sizes, _ := strings.Cut(entry, ":")
		if _, err := fmt.Sscanf(sizes, "%d:%d", &threads, &replicas); err != nil {
			b.Fatalf("-entries %s: %v", entry, err)
		}
		out = append(out, workload.PTX(source, name, threads, 1, replicas))
	}
	return out
}

// BenchmarkCUDA advances replicas of crambin by each of some kernels, and checks what they make.
func BenchmarkCUDA(b *testing.B) {
	impls, two := tried(b), twoKernel.Impls[1]
	defer func() { twoKernel.Impls[1] = two }()
	for _, impl := range impls {
		twoKernel.Impls[1] = impl
		for _, c := range []Config{{Replicas: 64, Steps: 100_000, Every: 10_000}, {Replicas: 1024, Steps: 100_000, Every: 10_000}, {Replicas: 1024, Steps: 50_000, Every: 1000}} {
			b.Run(fmt.Sprintf("%s/replicas=%d/frame=%d", impl.Entry, c.Replicas, c.Every), func(b *testing.B) { benchmarkCUDA(b, c) })
		}
	}
}

func benchmarkCUDA(b *testing.B, c Config) {
	rt, err := weft.Open(b.Context(), weft.Options{
		Drivers: []driver.Driver{cuda.New(cuda.Options{Devices: []int{0}, Exact: true})}, NoCalibrate: true, CacheDir: "off", Funcs: Funcs(),
	})
	if err != nil {
		b.Fatal(err)
	}
	defer rt.Close()
	for range b.N {
		c.Seed = 1
		r, err := New(c)
		if err != nil {
			b.Fatal(err)
		}
		do(b, rt, r)
		if err := r.Check(); err != nil {
			b.Error(err)
		}
		b.ReportMetric(r.Rate()/1e6, "Msteps/s")
		b.ReportMetric(0, "ns/op")
	}
}
