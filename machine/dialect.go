package machine

import "github.com/weft-run/weft/graph"

// dialects lists what each backend can run. "fake" and unknown backends run
// nothing but abstract kernels and Go functions.
var dialects = map[string][]graph.Dialect{
	"cpu":    {graph.Go},
	"cuda":   {graph.PTX, graph.CUDAC, graph.Library},
	"vulkan": {graph.SPIRV, graph.GLSL},
	"fake":   {graph.Go, graph.PTX, graph.CUDAC, graph.SPIRV, graph.GLSL, graph.Library},
}

// CanRun reports whether a kernel has an implementation for the device; library
// routines are none for one that must be exact. An abstract kernel, which only
// simulations have, runs anywhere.
func (d *Device) CanRun(k *graph.Kernel) bool {
	for i := range k.Impls {
		if k.Impls[i].Dialect == graph.Abstract {
			return true
		}
		for _, can := range dialects[d.Backend] {
			if k.Impls[i].Dialect == can && !(d.Exact && can == graph.Library) {
				return true
			}
		}
	}
	return false
}
