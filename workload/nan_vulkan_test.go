//go:build lavapipe

package workload_test

import (
	"math"
	"slices"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/vulkan"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/conv"
	"github.com/weft-run/weft/workload/fisher"
	"github.com/weft-run/weft/workload/fusion"
	"github.com/weft-run/weft/workload/gemm"
	"github.com/weft-run/weft/workload/reduce"
	"github.com/weft-run/weft/workload/reservoir"
	"github.com/weft-run/weft/workload/tropical"
)

// What jobs of workloads have beyond what all have.
type (
	product interface {
		workload.Job
		Operands() (a, b []float32)
		Result() []float32
	}
	fisherJob interface {
		workload.Job
		Operands() (points, theta []float32)
		Result() []float64
	}
	records interface {
		workload.Job
		Records() []float32
		Result() []float32
	}
	elements interface {
		workload.Job
		Elements() []float32
		Result() float32
	}
	states interface {
		workload.Job
		Inputs() []float32
		States() []float32
	}
)

// holed is a job with NaNs among its inputs, and its results.
type holed struct {
	workload.Job
	result func() []float64
	nans   bool // some results are NaNs, too
}

// holedJobs make a NaN of every 97th input, one kind of input after the other.
func holedJobs(t *testing.T) (out []holed) {
	nan := float32(math.NaN())
	holes := func(xs []float32) {
		for i := min(5, len(xs)-1); i < len(xs); i += 97 {
			xs[i] = nan
		}
	}
	wide := func(result func() []float32) func() []float64 {
		return func() (out []float64) {
			for _, v := range result() {
				out = append(out, float64(v))
			}
			return out
		}
	}
	for side := range 2 {
		g := workloadtest.New[product](t)(gemm.New(gemm.Config{M: 21, K: 97, N: 45, Seed: 1}))
		a, b := g.Operands()
		holes([][]float32{a[:500], b[:500]}[side])
		out = append(out, holed{g, wide(g.Result), true})
		tr := workloadtest.New[product](t)(tropical.New(tropical.Config{M: 21, K: 97, N: 45, Seed: 1}))
		a, b = tr.Operands()
		holes([][]float32{a, b}[side])
		out = append(out, holed{tr, wide(tr.Result), false})
		c := workloadtest.New[product](t)(conv.New(conv.Config{Shape: conv.Shape{N: 2, C: 3, H: 17, W: 18, K: 5, R: 3, S: 3, Stride: 1, Pad: 1}, Seed: 1}))
		a, b = c.Operands()
		holes([][]float32{a[:900], b[:60]}[side])
		out = append(out, holed{c, wide(c.Result), true})
		fi := workloadtest.New[fisherJob](t)(fisher.New(fisher.Config{Points: 103, Features: 7, Seed: 1}))
		points, theta := fi.Operands()
		holes([][]float32{points[:40], theta}[side])
		out = append(out, holed{fi, fi.Result, true})
		fu := workloadtest.New[records](t)(fusion.New(fusion.Config{Records: 203, Bind: side > 0, Seed: 1}))
		holes(fu.Records())
		out = append(out, holed{fu, wide(fu.Result), true})
	}
	for _, op := range reduce.Operations() {
		r := workloadtest.New[elements](t)(reduce.New(reduce.Config{Op: op, N: 9000, Seed: 1}))
		holes(r.Elements())
		out = append(out, holed{r, func() []float64 { return []float64{float64(r.Result())} }, true})
	}
	for _, batch := range []int{37, 44} { // one by one, and in fours
		p := reservoir.Defaults()
		p.Size, p.Inputs = 203, 17
		r := workloadtest.New[states](t)(reservoir.NewJob(reservoir.Config{Params: p, Batch: batch, Steps: 2}))
		holes(r.Inputs()[:300])
		out = append(out, holed{r, wide(r.States), true})
	}
	return out
}

// What is not a number on a CPU is none on Vulkan, and nothing else is.
func TestVulkanNaN(t *testing.T) {
	var results [2][]holed
	for i, d := range []driver.Driver{cpu.New(cpu.Options{Funcs: funcs()}), vulkan.New(vulkan.Options{Devices: []int{0}, MemBytes: 256 << 20})} {
		rt, err := weft.Open(t.Context(), weft.Options{NoCalibrate: true, CacheDir: "off", Drivers: []driver.Driver{d}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { rt.Close() })
		results[i] = holedJobs(t)
		for _, j := range results[i] {
			workloadtest.Run(t, rt, j.Job)
		}
	}
	for k, j := range results[0] {
		cpus, shaders := j.result(), results[1][k].result()
		count := 0
		for i, v := range cpus {
			if math.IsNaN(v) {
				count++
			}
			if math.IsNaN(v) != math.IsNaN(shaders[i]) {
				t.Errorf("%s: result %d is %v on a CPU, %v on Vulkan", j.Name(), i, v, shaders[i])
				break
			}
		}
		if j.nans != (count > 0) || count == len(cpus) && count > 100 {
			t.Errorf("%s: %d of %d results are NaNs", j.Name(), count, len(cpus))
		}
	}
	if !slices.ContainsFunc(results[0], func(j holed) bool { return j.nans }) {
		t.Error("nothing was compared")
	}
}
