package workload

import (
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// Ranges are read back as they were, in their order, and those that are not all items, each
// once, are refused.
func TestRanges(t *testing.T) {
	in := []sched.Range{{Lo: 5, Hi: 9}, {Lo: 0, Hi: 5}, {Lo: 9, Hi: 9}, {Lo: 9, Hi: 10}}
	if out, err := parseRanges(formatRanges(in), 10); err != nil || !slices.Equal(in, out) {
		t.Errorf("%v, %v", out, err)
	}
	for text, want := range map[string]string{
		"": "end at 0", "0-9": "end at 9", "0-11": "no range", "-1-5 5-10": "no range", "0-5 6-10": "item 5", "0-6 5-10": "item 5",
		"5-0": "no range", "x": "no range", "0-5 5-99999999999999999999": "no range",
	} {
		if out, err := parseRanges(text, 10); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", text, out, err, want)
		}
	}
}

// A job is placed by what was measured when it was begun; where the devices are the same, by all else as it is now.
func TestMachineOf(t *testing.T) {
	device := func(name string, rate float64) machine.Device {
		d := machine.Device{Name: name, Kind: machine.CPU, Backend: "cpu", ComputeUnits: 2, HostMemory: true}
		d.Rates.MemoryBPS = rate
		return d
	}
	then := &machine.Machine{Name: "m", Devices: []machine.Device{device("cpu:0", 1e9), device("cpu:1", 2e9)}, HostBPS: 3e9}
	now := &machine.Machine{Name: "m", Devices: []machine.Device{device("cpu:0", 7e9), device("cpu:1", 7e9)}, HostBPS: 7e9}
	now.Devices[0].Driver, now.Devices[0].Joins = "a driver", "nccl"
	m, err := machineOf(formatMachine(then), now)
	if err != nil {
		t.Fatal(err)
	}
	if d := m.Devices[0]; d.Rates.MemoryBPS != 1e9 || m.Devices[1].Rates.MemoryBPS != 2e9 || m.HostBPS != 3e9 || d.Driver != "a driver" || d.Joins != "nccl" {
		t.Errorf("the same devices: %+v", m)
	}
	if now.Devices[0].Rates.MemoryBPS != 7e9 {
		t.Error("the machine that is there was changed")
	}
	now.Devices = now.Devices[:1]
	if m, err = machineOf(formatMachine(then), now); err != nil || len(m.Devices) != 2 || m.Devices[1].Rates.MemoryBPS != 2e9 {
		t.Errorf("other devices: %+v, %v", m, err)
	}
	if _, err := machineOf("{", now); err == nil {
		t.Error("a machine that cannot be read is no error")
	}
}
