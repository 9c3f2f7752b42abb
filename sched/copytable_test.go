package sched

import (
	"testing"

	"github.com/weft-run/weft/machine"
)

// Pairs of devices that only a network joins are far from one another, and no others are.
func TestWaysFar(t *testing.T) {
	m, ok := machine.Named("16xh100")
	if !ok {
		t.Fatal("no such machine")
	}
	w, far := newCopyTable(m, machine.NewRoofline(m)), m.Far()
	if len(far) == 0 {
		t.Fatal("no device is far from another")
	}
	for a := range w.n {
		for b := range w.n {
			pair := [2]machine.DeviceID{machine.DeviceID(a) - 1, machine.DeviceID(b) - 1}
			if got := w.far[a*w.n+b]; got != far[pair] {
				t.Errorf("%s to %s: far is %v", m.DeviceName(pair[0]), m.DeviceName(pair[1]), got)
			}
		}
	}
}
