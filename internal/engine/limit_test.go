package engine

import (
	"testing"
	"time"

	"github.com/weft-run/weft/machine"
)

// A limit is at least Least, Times what was predicted for each launch that may share
// the device, and Unknown where nothing was measured or something may be compiled.
func TestLimits(t *testing.T) {
	const s = time.Second
	var l Limits
	l.defaults()
	for _, c := range []struct {
		predicted        time.Duration
		samples, sharers int
		compiles         bool
		want             time.Duration
	}{
		{time.Microsecond, 9, 1, false, 10 * s},
		{s / 2, 9, 1, false, 10 * s},
		{s, 9, 1, false, 20 * s},
		{s, 9, 4, false, 80 * s},
		{s, 0, 1, false, 120 * s},
		{s, 9, 1, true, 120 * s},
		{10 * s, 0, 1, false, 200 * s},
		{0, 0, 1, false, 120 * s},
	} {
		if got := l.of(c.predicted, c.samples, c.sharers, c.compiles); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}

// Launches share a device's lanes, and what several devices compute with.
func TestSharers(t *testing.T) {
	m := &machine.Machine{Devices: []machine.Device{
		{Name: "a", Lanes: 2},
		{Name: "b.0", Lanes: 2, Resources: []string{machine.HostMemory, "b"}},
		{Name: "b.1", Lanes: 3, Resources: []string{"b"}},
		{Name: "c", Resources: []string{machine.HostMemory}},
	}}
	for i, want := range []int{2, 5, 5, 1} {
		if got := sharers(m, machine.DeviceID(i)); got != want {
			t.Errorf("%s: got %d, want %d", m.Devices[i].Name, got, want)
		}
	}
}
