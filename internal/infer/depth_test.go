package infer

import (
	"testing"

	"github.com/weft-run/weft"
)

// Cores have a batch each but for one core; devices of other kinds have one.
func TestDepth(t *testing.T) {
	device := func(backend string, units int) (d weft.Device) {
		d.Backend, d.ComputeUnits = backend, units
		return d
	}
	for _, c := range []struct {
		devices []weft.Device
		want    int
	}{
		{[]weft.Device{device("cpu", 1)}, 1},
		{[]weft.Device{device("cpu", 2)}, 1},
		{[]weft.Device{device("cpu", 4)}, 3},
		{[]weft.Device{device("cpu", 64)}, 4},
		{[]weft.Device{device("cpu", 3), device("cpu", 64)}, 2},
		{[]weft.Device{device("cpu", 64), device("cuda", 132)}, 1},
	} {
		if got := depth(c.devices); got != c.want {
			t.Errorf("%d devices have %d batches each at a time, want %d", len(c.devices), got, c.want)
		}
	}
}
