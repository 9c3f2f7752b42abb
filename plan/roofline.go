package plan

import (
	"fmt"

	"github.com/weft-run/weft/internal/text"
)

// Roofline predicts from the data sheet alone: a job takes at least as long as its
// operations at the peak rate and as its bytes at the peak bandwidth. It is the predictor
// for GPUs that were never measured, and says so by a wide interval.
type Roofline struct {
	// Efficiency is the part of the peak that the median reaches, Worst that of the slow
	// end of the interval; 0 means 0.5 and 0.15. The fast end is the peak itself.
	Efficiency, Worst float64
}

// Predict returns the bound, widened. Parts of a job run on all GPUs, each a whole number
// of them; a job of one part uses one GPU.
func (r Roofline) Predict(need Need, g GPU, count int) Estimate {
	efficiency, worst := r.Efficiency, r.Worst
	if efficiency == 0 {
		efficiency = 0.5
	}
	if worst == 0 {
		worst = 0.15
	}
	share := 1.0 // of the work on the GPU that has most
	if need.Parts > 1 {
		share = float64((need.Parts+count-1)/count) / float64(need.Parts)
	}
	e := Estimate{Bottleneck: "memory", Why: "by the data sheet; this model was not measured"}
	if peak := float64(need.PeakBytes) * share; peak > float64(g.MemoryBytes) {
		e.Why = fmt.Sprintf("it needs %s of %s on each of %s", text.FormatSize(int64(peak)), text.FormatSize(g.MemoryBytes), text.Count(count, g.Name))
		return e
	}
	compute, memory := need.Flops*share/g.FP32, need.Bytes*share/g.MemoryBPS
	bound := max(compute, memory, 1e-6) // nothing ends before it is launched
	if compute > memory {
		e.Bottleneck = "compute"
	}
	e.Fits, e.Median, e.Low, e.High = true, bound/efficiency, bound, bound/worst
	return e
}
