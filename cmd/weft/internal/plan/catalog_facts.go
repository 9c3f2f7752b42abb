package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// memories are the sizes, in gigabytes, that models are made with. Public catalogues
// confuse them, as an H200 with the 80 GB of an H100.
var memories = []struct {
	model string // the first word of the name
	gb    []float64
}{
	{"B300", []float64{270, 288}},
	{"B200", []float64{180, 192}},
	{"GH200", []float64{96, 144}},
	{"H200", []float64{141}},
	{"H100", []float64{80, 94, 96}},
	{"A100", []float64{40, 80}},
	{"V100", []float64{16, 32}},
	{"L40S", []float64{48}},
	{"L40", []float64{48}},
	{"L4", []float64{24}},
	{"T4", []float64{16}},
	{"MI300X", []float64{192}},
}

// modules are models that come on boards of 4 or 8, so that machines have only some
// numbers of them. A catalogue that says 12 counted something else.
var modules = []string{"B300", "B200", "H200", "H100", "A100", "V100", "MI300X", "MI350X"}

var moduleCounts = []int{1, 2, 4, 8, 16}

// model is the part of a name that stands before its form and memory.
func model(gpu string) string {
	m, _, _ := strings.Cut(gpu, "-")
	return m
}

// wrong says what cannot be true of a GPU, "" if nothing is known against it.
func (g GPU) wrong() string {
	gb := float64(g.MemoryBytes) / 1e9
	for _, m := range memories {
		if m.model == model(g.Name) && !slices.ContainsFunc(m.gb, func(x float64) bool { return math.Abs(x-gb) < 0.5 }) {
			return fmt.Sprintf("memory_gb: there is no %s with %g GB; expected %s", m.model, gb, among(m.gb))
		}
	}
	if g.FP32 > 0 && g.MemoryBPS > 0 && (g.FP32/g.MemoryBPS < 1 || g.FP32/g.MemoryBPS > 1000) {
		return fmt.Sprintf("fp32_tflops %g with mem_bw_gbps %g: one of them has the wrong unit; GPUs have 1 to 1000 operations for each byte", g.FP32/1e12, g.MemoryBPS/1e9)
	}
	if g.FP16 > 0 && g.FP16 < g.TF32 {
		return fmt.Sprintf("fp16_tflops_dense %g is below tf32_tflops_dense %g; expected at least that", g.FP16/1e12, g.TF32/1e12)
	}
	return ""
}

// wrong says what cannot be true of an instance, "" if nothing is known against it. perGPU
// is the price of one GPU as the file has it, 0 for none.
func (n Instance) wrong(perGPU float64) string {
	if slices.Contains(modules, model(n.GPU)) && !slices.Contains(moduleCounts, n.GPUs) {
		return fmt.Sprintf("gpu_count: no machine has %d %s; expected %s", n.GPUs, n.GPU, among(moduleCounts))
	}
	if n.Spot > n.OnDemand {
		return fmt.Sprintf("usd_per_hour_spot_min %g is above usd_per_hour_ondemand %g; expected less", n.Spot, n.OnDemand)
	}
	if want := n.OnDemand / float64(n.GPUs); perGPU > 0 && math.Abs(perGPU-want) > 0.01*want {
		return fmt.Sprintf("usd_per_gpu_hour %g is not usd_per_hour_ondemand / gpu_count = %.4g", perGPU, want)
	}
	return ""
}

// among writes numbers one of which is expected.
func among[T int | float64](list []T) string {
	var b strings.Builder
	for i, x := range list {
		switch {
		case i > 0 && i == len(list)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		fmt.Fprint(&b, x)
	}
	return b.String()
}

// stale reports whether a price is older than some days at a time.
func (n Instance) stale(at time.Time, days float64) bool {
	return at.Sub(n.PriceDate).Hours() > 24*days
}
