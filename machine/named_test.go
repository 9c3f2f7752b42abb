package machine

import (
	"reflect"
	"slices"
	"testing"

	"github.com/weft-run/weft/graph"
)

func named(t testing.TB, name string) *Machine {
	t.Helper()
	m, ok := Named(name)
	if !ok {
		t.Fatalf("no machine %q", name)
	}
	return m
}

func TestNamed(t *testing.T) {
	want := []string{"16xh100", "2xcpu", "2xh100", "3x5070", "4x5070-ring", "4xh100", "8x5070-hier", "8xh100", "8xh100-server", "h200", "mixed", "rtx4060"}
	if got := Names(); !slices.Equal(got, want) {
		t.Fatalf("Names() = %v, want %v", got, want)
	}
	for _, name := range want {
		m := named(t, name)
		if m.Name != name {
			t.Errorf("%s calls itself %q", name, m.Name)
		}
		if err := m.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		again, err := Decode(Encode(m))
		if err != nil || !reflect.DeepEqual(m, again) {
			t.Errorf("%s does not survive Encode and Decode: %v", name, err)
		}
		for i := range m.Devices {
			d := &m.Devices[i]
			if d.Rates.Ops[graph.FP32] == 0 || d.Rates.MemoryBPS == 0 || d.Rates.LaunchNS == 0 || d.MemBytes == 0 || d.Arch == "" {
				t.Errorf("%s: %s lacks a rate, memory or architecture", name, d.Name)
			}
			for j := range m.Devices {
				if _, bps, _ := m.Path(DeviceID(i), DeviceID(j)); bps == 0 {
					t.Errorf("%s: no path from %s to %s", name, d.Name, m.Devices[j].Name)
				}
			}
		}
	}
	if _, ok := Named("../machines/mixed"); ok {
		t.Error("Named found a file by path")
	}
}

// The numbers people will look for, from the catalogue.
func TestNamedNumbers(t *testing.T) {
	for _, c := range []struct {
		machine         string
		devices         int
		device          DeviceID
		memory          int64
		cores           int
		fp32, bandwidth float64
		host            int64
	}{
		{"3x5070", 3, 2, 8e9, 5120, 25e12, 448e9, 128e9},
		{"4x5070-ring", 5, 0, 8e9, 5120, 25e12, 448e9, 256e9},
		{"4x5070-ring", 5, 4, 256e9, 40, 5.888e12, 358.4e9, 256e9},
		{"8x5070-hier", 8, 7, 8e9, 5120, 25e12, 448e9, 256e9},
		{"h200", 2, 0, 144.1e9, 16896, 60.4e12, 4120e9, 256e9},
		{"h200", 2, 1, 256e9, 16, 1.94e12, 163.4e9, 256e9},
		{"rtx4060", 2, 0, 8e9, 3072, 15.11e12, 272e9, 32e9},
		{"rtx4060", 2, 1, 32e9, 6, 1.92e12, 89.6e9, 32e9},
		{"2xh100", 2, 1, 80e9, 16896, 67e12, 3350e9, 468 << 30},
		{"8xh100", 8, 7, 80e9, 16896, 67e12, 3350e9, 1872 << 30},
		{"8xh100-server", 9, 7, 80e9, 16896, 67e12, 3350e9, 2e12},
		{"8xh100-server", 9, 8, 2e12, 96, 14.13e12, 614.4e9, 2e12},
		{"16xh100", 16, 15, 80e9, 16896, 67e12, 3350e9, 1872 << 30},
		{"mixed", 3, 0, 24e9, 16384, 82.6e12, 1008e9, 64e9},
		{"mixed", 3, 2, 64e9, 16, 2.3e12, 89.6e9, 64e9},
		{"2xcpu", 2, 1, 16e9, 4, 400e9, 30e9, 32e9},
	} {
		m := named(t, c.machine)
		d := &m.Devices[c.device]
		if len(m.Devices) != c.devices || d.MemBytes != c.memory || d.ComputeUnits != c.cores ||
			d.Rates.Ops[graph.FP32] != c.fp32 || d.Rates.MemoryBPS != c.bandwidth || m.HostBytes != c.host {
			t.Errorf("%s, device %d of %d: %+v, host %d", c.machine, c.device, len(m.Devices), d, m.HostBytes)
		}
	}
	h := named(t, "8xh100").Devices[0].Rates
	if h.Ops[graph.TF32] != 494.5e12 || h.Ops[graph.FP16] != 989.5e12 {
		t.Errorf("H100 tensor rates %v", h.Ops)
	}
	if n := len(named(t, "8xh100").Links); n != 8+28 {
		t.Errorf("8xh100 has %d links, want 8 to the host and 28 between", n)
	}
	if n := len(named(t, "16xh100").Links); n != 16+2*28+64 {
		t.Errorf("16xh100 has %d links, want 16 to the host, 28 in each node and 64 between", n)
	}
}

// What a machine draws, and what it has beside devices.
func TestNamedEquipment(t *testing.T) {
	for _, c := range []struct {
		machine string
		watts   float64
		whole   bool
		budget  float64
		storage []Storage
		network []Adapter
	}{
		{"3x5070", 3*200 + 200, true, 1000, nil, nil},
		{"4x5070-ring", 4*200 + 270 + 200, true, 0,
			[]Storage{{Name: "nvme", Model: "NVMe SSDs as RAID 0"}}, []Adapter{{"ib", "InfiniBand, 100 Gbit/s", 100e9 / 8}}},
		{"rtx4060", 115 + 65 + 100, true, 0,
			[]Storage{{Name: "nvme", Model: "NVMe SSD"}}, []Adapter{{"eth", "Gigabit Ethernet", 1e9 / 8}}},
		{"8xh100-server", 8 * 700, false, 0,
			[]Storage{{Name: "nvme", Model: "NVMe SSDs", Bytes: 24e12}}, []Adapter{{"net", "eight adapters of 400 Gbit/s", 3.2e12 / 8}}},
		{"8xh100", 10200, true, 0,
			[]Storage{{Name: "ssd", Model: "16 local SSDs of 375 GB", Bytes: 6e12}}, []Adapter{{"net", "1 Tbit/s", 1e12 / 8}}},
		{"2xcpu", 0, false, 0, nil, nil},
	} {
		m := named(t, c.machine)
		watts, whole := m.Watts()
		if watts != c.watts || whole != c.whole || m.BudgetWatts != c.budget {
			t.Errorf("%s draws %v W, whole %t, of %v; want %v, %t, %v", c.machine, watts, whole, m.BudgetWatts, c.watts, c.whole, c.budget)
		}
		if !slices.Equal(m.Storage, c.storage) || !slices.Equal(m.Network, c.network) {
			t.Errorf("%s: storage %+v, network %+v", c.machine, m.Storage, m.Network)
		}
	}
}
