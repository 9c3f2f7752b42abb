package autodiff

import "github.com/weft-run/weft/graph"

// kernel is the kernel of a pass.
func (p *program) kernel(i int, ops float64) *graph.Kernel {
	if p.passes[i].slots > fewSlots {
		return LargeKernel
	}
	return Kernel
}
