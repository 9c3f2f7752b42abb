package infer

import (
	"testing"

	"github.com/weft-run/weft/machine"
)

// Cores have a batch each but for one core, side by side; devices of other kinds have one, and
// compute one at a time however many they have.
func TestPlaces(t *testing.T) {
	device := func(backend string, units int) (d machine.Device) {
		d.Backend, d.HostMemory, d.ComputeUnits = backend, backend == "cpu", units
		return d
	}
	for _, c := range []struct {
		devices                []machine.Device
		depth, slots, parallel int
	}{
		{[]machine.Device{device("cpu", 1)}, 0, 1, 1},
		{[]machine.Device{device("cpu", 2)}, 0, 1, 1},
		{[]machine.Device{device("cpu", 2)}, 4, 4, 1},
		{[]machine.Device{device("cpu", 4)}, 0, 3, 3},
		{[]machine.Device{device("cpu", 4)}, 2, 2, 2},
		{[]machine.Device{device("cpu", 64)}, 0, 4, 4},
		{[]machine.Device{device("cpu", 64)}, 8, 8, 4},
		{[]machine.Device{device("cpu", 3), device("cpu", 64)}, 0, 4, 4},
		{[]machine.Device{device("cuda", 132)}, 0, 1, 1},
		{[]machine.Device{device("cuda", 132)}, 4, 4, 1},
		{[]machine.Device{device("cpu", 64), device("cuda", 132)}, 0, 2, 1},
		{[]machine.Device{device("cpu", 64), device("cuda", 132), device("cuda", 132)}, 4, 12, 1},
	} {
		slots, parallel := Places(&machine.Machine{Devices: c.devices}, c.depth, len(c.devices))
		if slots != c.slots || parallel != c.parallel {
			t.Errorf("%d devices of depth %d have %d batches at a time, %d side by side; want %d and %d", len(c.devices), c.depth, slots, parallel, c.slots, c.parallel)
		}
	}
}
