package infer

import "github.com/weft-run/weft/machine"

// Places returns how many batches some devices of a machine have at a time together, and how many
// of these are computed side by side. Depth is how many each has; see [Options].
//
// Cores are side by side: a batch takes one of them. GPUs have batches of many requests done in
// little more time than those of one, so that theirs are filled, and further places keep a GPU busy
// while results are handed out.
func Places(m *machine.Machine, depth, devices int) (slots, parallel int) {
	chosen, side := 4, true
	for i := range m.Devices {
		d := &m.Devices[i]
		side = side && d.Backend == "cpu"
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
