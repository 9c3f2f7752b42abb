package infer

import "github.com/weft-run/weft/machine"

// Places returns the number of batches in flight on devices of a machine together, and how many of them
// run in parallel. Depth is the number for each device; see [Options].
//
// CPU: one core per batch, all cores in parallel. GPU: one batch runs, the others are queued to keep it busy
// while results are handed out; a batch of many requests takes little longer than one of a few.
func Places(m *machine.Machine, depth, devices int) (slots, parallel int) {
	chosen, side := 4, true
	for i := range m.Devices {
		d := &m.Devices[i]
		side = side && d.HostMemory
		chosen = min(chosen, d.ComputeUnits-1)
	}
	if chosen = max(chosen, 1); !side {
		chosen = 1
	}
	if depth == 0 {
		depth = chosen
	}
	if side {
		parallel = min(depth, chosen) * devices
	}
	return depth * devices, max(parallel, 1)
}
