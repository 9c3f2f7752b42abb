package plan

import (
	"strings"
	"testing"

	"github.com/weft-run/weft/machine"
)

// What a local option says of memory and batch follows from the devices, and its power from
// their description or from what is assumed.
func TestHereOf(t *testing.T) {
	gpu := func(name string, gb, watts float64) machine.Device {
		return machine.Device{Name: name, Model: "NVIDIA L4", Kind: machine.Discrete, MemBytes: int64(gb * 1e9), PowerWatts: watts}
	}
	cpu := machine.Device{Name: "cpu", Model: "CPU", Kind: machine.CPU, HostMemory: true}
	e := Estimate{Median: 100, Low: 90, High: 120, Fits: true}
	for _, c := range []struct {
		name    string
		devices []machine.Device
		host    float64
		peak    int64
		parts   int
		watts   float64
		power   string
		memory  string
		batch   int
	}{
		{"known power", []machine.Device{gpu("cuda:0", 24, 72), cpu}, 150, 5e9, 10, 222, "72 W stated of cuda:0, 150 W stated of the host", "each device has the parts", 4},
		{"unknown power", []machine.Device{gpu("cuda:0", 24, 0)}, 0, 5e9, 3, 400, "300 W gpu-power for cuda:0, 100 W host-power", "all of it on one device", 3},
		{"cores alone", []machine.Device{cpu}, 0, 5e9, 1, 100, "100 W host-power", "in host memory", 1},
		{"split", []machine.Device{gpu("cuda:0", 24, 72), gpu("cuda:1", 24, 72)}, 100, 30e9, 9, 244, "72 W stated of cuda:1", "split among 2 devices", 1},
		{"spilled", []machine.Device{gpu("cuda:0", 24, 72)}, 100, 34e9, 9, 172, "", "wait in host memory and are moved", 1},
	} {
		m := &machine.Machine{Name: "m", HostBytes: 64e9, HostWatts: c.host, Devices: c.devices}
		h := HereOf(m, e, Shipped(), DefaultAssumptions())
		if h.Watts != c.watts || !strings.Contains(h.Power, c.power) {
			t.Errorf("%s: %v W: %s", c.name, h.Watts, h.Power)
		}
		r := job()
		r.Here, r.Rent = []Here{h}, false
		r.Need.PeakBytes, r.Need.Parts = c.peak, c.parts
		d := mustDecide(t, r, Shipped())
		o := d.Best
		if !strings.Contains(o.Memory, c.memory) || o.Batch != c.batch || o.Optimisation == "" || len(d.Power) != 1 || !strings.Contains(d.Power[0], h.Power) {
			t.Errorf("%s: memory %q, batch %d, %q, power %q", c.name, o.Memory, o.Batch, o.Optimisation, d.Power)
		}
		if once := c.parts == 1; strings.Contains(o.Optimisation, "run once") != once {
			t.Errorf("%s: %q", c.name, o.Optimisation)
		}
	}
}
