package machine

import (
	"math"

	"github.com/weft-run/weft/graph"
)

// Speed is the measured speed of a device, as one figure to compare devices
// by: the geometric mean of its fp32 operations and its bytes of memory a second.
// It is 0 where either is not known.
func Speed(d *Device) float64 { return math.Sqrt(d.Rates.Ops[graph.FP32] * d.Rates.MemoryBPS) }

// Merits rates devices against one another: by Speed where that is known of all of
// them, and by Score otherwise.
func Merits(devs []Device) (merits []float64, measured bool) {
	merits, measured = make([]float64, len(devs)), true
	for i := range devs {
		merits[i] = Speed(&devs[i])
		measured = measured && merits[i] > 0
	}
	if !measured {
		for i := range devs {
			merits[i] = Score(&devs[i])
		}
	}
	return merits, measured
}

// Score rates a device from 0 to 100 by what it says about itself: 40 % kind,
// 20 % backend, 20 % memory, 20 % compute units. It is for people and for the
// first partition of work; measured rates replace it as soon as there are any.
func Score(d *Device) float64 {
	kind := [...]float64{CPU: 10, Discrete: 100, Integrated: 50, Virtual: 30}[d.Kind]
	backend := 50.0
	switch d.Backend {
	case "cuda", "dx12":
		backend = 100
	case "vulkan":
		backend = 90
	case "metal":
		backend = 85
	}
	memory := math.Min(100, float64(d.MemBytes)/1e9*10)
	units := d.ComputeUnits
	if d.Kind == CPU {
		units *= max(d.SIMDLanes, 1)
	}
	// Divided at the end so that full points make exactly 100.
	return (40*kind + 20*backend + 20*memory + 20*math.Min(100, float64(units)/20)) / 100
}
