package product

import (
	"testing"

	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/workload"
)

// Few rows are dealt out by columns, many devices with memory of their own share blocks, and
// no block has more columns than a task takes.
func TestWidth(t *testing.T) {
	cores := machine.Device{Kind: machine.CPU, HostMemory: true, ComputeUnits: 8}
	gpu := machine.Device{Kind: machine.Discrete}
	for _, c := range []struct {
		on    []machine.Device
		m, n  int
		split workload.Split
		width int
		whole bool
	}{
		{[]machine.Device{cores}, 1000, 1000, "", 1000, false},
		{[]machine.Device{cores}, 511, 20_000, "", 640, true},
		{[]machine.Device{cores}, 512, 20_000, "", 20_000, false},
		{[]machine.Device{cores}, 8, 8, "", 8, false},
		{[]machine.Device{cores}, 8, 20, workload.Columns, 20, false}, // one block is all there is
		{[]machine.Device{cores}, 8, 65, workload.Blocks, 64, false},
		{[]machine.Device{gpu}, 1000, 100_000, "", 1 << 16, false},
		{[]machine.Device{gpu, cores}, 1, 8192, "", 8192, false}, // one launch is best for a GPU
		{[]machine.Device{gpu, cores}, 1, 8192, workload.Columns, 2048, true},
		{[]machine.Device{gpu, gpu}, 1, 1500, "", 512, true},
		{[]machine.Device{gpu, gpu, gpu}, 8192, 8192, "", 8192, false},
		{[]machine.Device{gpu, gpu, gpu, gpu}, 8192, 8192, "", 4096, false},
		{[]machine.Device{gpu, gpu, gpu, gpu}, 8192, 8192, workload.Rows, 8192, false},
	} {
		width, whole, err := width(&machine.Machine{Devices: c.on}, Config{M: c.m, K: 10, N: c.n}, c.split)
		if width != c.width || whole != c.whole || err != nil {
			t.Errorf("%d × %d by %q on %d devices: %d columns, whole %v, %v; want %d, %v", c.m, c.n, c.split, len(c.on), width, whole, err, c.width, c.whole)
		}
	}
}
