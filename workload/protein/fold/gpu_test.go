//go:build gpu

package fold

import (
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cuda"
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

// BenchmarkCUDA advances many replicas of crambin with one and with two of them to a block.
func BenchmarkCUDA(b *testing.B) {
	two := twoKernel.Impls[1]
	defer func() { twoKernel.Impls[1] = two }()
	for _, impl := range []graph.Impl{two, oneKernel.Impls[1]} {
		twoKernel.Impls[1] = impl
		b.Run(impl.Entry, func(b *testing.B) {
			rt, err := weft.Open(b.Context(), weft.Options{
				Drivers: []driver.Driver{cuda.New(cuda.Options{Devices: []int{0}, Exact: true})}, NoCalibrate: true, CacheDir: "off", Funcs: Funcs(),
			})
			if err != nil {
				b.Fatal(err)
			}
			defer rt.Close()
			for range b.N {
				r, err := New(Config{Steps: 100_000, Every: 10_000, Replicas: 1024, Seed: 1})
				if err != nil {
					b.Fatal(err)
				}
				do(b, rt, r)
				b.ReportMetric(r.Rate(), "steps/s")
			}
		})
	}
}
