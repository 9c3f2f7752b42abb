package plan

import (
	"fmt"

	"github.com/weft-run/weft/internal/text"
)

// sheet predicts from the data sheet alone: the operations at the peak rate and the bytes
// at the peak bandwidth are the fast end of a wide interval.
type sheet struct{}

// Predict returns the bound, widened. Parts of a job run on all GPUs, each a whole number
// of them; a job of one part uses one GPU.
func (sheet) Predict(need Need, g GPU, count int) Estimate {
	const efficiency, worst = 0.5, 0.15 // of the peak, in the median and at the slow end
	share := 1.0                        // of the work on the GPU that has most
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
