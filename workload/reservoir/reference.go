package reservoir

import (
	"math"

	"github.com/weft-run/weft/workload/philox"
)

// Reference returns the next state of one pattern in float64, straight from the
// formula. It is what the kernels are compared with.
func (w *Weights) Reference(x, u []float64, pattern uint64, step uint32) []float64 {
	noise := philox.Source{Seed: w.Seed, Stream: streamNoise}
	next := make([]float64, w.Size)
	w.Recurrent.multiply(next, x)
	driven := make([]float64, w.Size)
	w.Input.multiply(driven, u)
	for i := range next {
		nu := w.Noise * philox.Symmetric(noise.Uint32(pattern, step, uint32(i)))
		next[i] = (1-w.Leak)*x[i] + w.Leak*math.Tanh(driven[i]+next[i]+float64(w.Bias[i])+nu)
	}
	return next
}
