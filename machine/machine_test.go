package machine

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weft-run/weft/graph"
)

func TestNamesParseBack(t *testing.T) {
	for i, want := range []string{"cpu", "discrete", "integrated", "virtual"} {
		if got, err := ParseKind(want); err != nil || got != Kind(i) || got.String() != want {
			t.Errorf("ParseKind(%q) = %v, %v", want, got, err)
		}
	}
	for i, want := range []string{"pcie", "pcie-switch", "nvlink", "host", "network"} {
		if got, err := ParseLinkKind(want); err != nil || got != LinkKind(i) || got.String() != want {
			t.Errorf("ParseLinkKind(%q) = %v, %v", want, got, err)
		}
	}
	for i, want := range []string{"launch", "compute", "memory", "link", "history"} {
		if got := Bound(i).String(); got != want {
			t.Errorf("bound %d is called %q, want %q", i, got, want)
		}
	}
	if _, err := ParseKind("gpu"); err == nil || !strings.Contains(err.Error(), "cpu, discrete, integrated, virtual") {
		t.Errorf("an unknown kind must list the known ones, got %v", err)
	}
	if got := Kind(9).String(); got != "unknown(9)" {
		t.Errorf("Kind(9) = %q", got)
	}
}

// pair is a small valid machine: a GPU, a CPU and the link between.
func pair() *Machine {
	return &Machine{
		Name:      "pair",
		Resources: []Resource{{Name: "bus", BPS: 1e9}},
		Devices: []Device{
			{Name: "cuda:0", Kind: Discrete, Backend: "cuda", MemBytes: 8e9, ComputeUnits: 2048},
			{Name: "cpu", Kind: CPU, Backend: "cpu", MemBytes: 16e9, HostMemory: true, ComputeUnits: 4, Resources: []string{"bus"}},
		},
		Links: []Link{{A: 0, B: Host, Kind: PCIe, BPS: 10e9, LatencyNS: 1000}},
	}
}

func TestValidate(t *testing.T) {
	if err := pair().Validate(); err != nil {
		t.Fatalf("the machine the cases below break is not valid itself: %v", err)
	}
	for name, breakIt := range map[string]func(*Machine){
		"no devices":       func(m *Machine) { m.Devices, m.Links = nil, nil },
		"same name":        func(m *Machine) { m.Devices[1].Name = "cuda:0" },
		"no name":          func(m *Machine) { m.Devices[0].Name = "" },
		"named host":       func(m *Machine) { m.Devices[0].Name = "host" },
		"comma in name":    func(m *Machine) { m.Devices[0].Name = "a,b" },
		"kind":             func(m *Machine) { m.Devices[0].Kind = 4 },
		"negative memory":  func(m *Machine) { m.Devices[0].MemBytes = -1 },
		"negative rate":    func(m *Machine) { m.Devices[0].Rates.Ops[2] = -1 },
		"infinite rate":    func(m *Machine) { m.Devices[0].Rates.MemoryBPS = math.Inf(1) },
		"launch":           func(m *Machine) { m.Devices[0].Rates.LaunchNS = math.NaN() },
		"power":            func(m *Machine) { m.Devices[0].PowerWatts = -1 },
		"device resource":  func(m *Machine) { m.Devices[1].Resources = []string{"none"} },
		"link resource":    func(m *Machine) { m.Links[0].Resources = []string{"none"} },
		"link to nowhere":  func(m *Machine) { m.Links[0].B = 7 },
		"link below host":  func(m *Machine) { m.Links[0].B = -2 },
		"link to itself":   func(m *Machine) { m.Links[0].B = 0 },
		"link rate":        func(m *Machine) { m.Links[0].BPS = 0 },
		"link latency":     func(m *Machine) { m.Links[0].LatencyNS = -1 },
		"link kind":        func(m *Machine) { m.Links[0].Kind = 5 },
		"resource twice":   func(m *Machine) { m.Resources = append(m.Resources, m.Resources[0]) },
		"resource no name": func(m *Machine) { m.Resources[0].Name = "" },
		"resource rate":    func(m *Machine) { m.Resources[0].BPS = -1 },
		"host memory":      func(m *Machine) { m.HostBytes = -1 },
		"host rate":        func(m *Machine) { m.HostBPS = math.NaN() },
	} {
		m := pair()
		breakIt(m)
		if err := m.Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: Validate = %v, want ErrInvalid", name, err)
		}
	}
}

func TestDeviceNames(t *testing.T) {
	m := pair()
	for id, name := range map[DeviceID]string{Host: "host", 0: "cuda:0", 1: "cpu"} {
		if got, ok := m.Lookup(name); !ok || got != id || m.DeviceName(id) != name {
			t.Errorf("Lookup(%q) = %d, %v; DeviceName(%d) = %q", name, got, ok, id, m.DeviceName(id))
		}
	}
	if _, ok := m.Lookup("cuda:1"); ok {
		t.Error("Lookup found a device that is not there")
	}
	if m.MemoryOf(0) != 0 || m.MemoryOf(1) != Host || m.MemoryOf(Host) != Host {
		t.Errorf("MemoryOf = %d %d %d, want 0, host, host", m.MemoryOf(0), m.MemoryOf(1), m.MemoryOf(Host))
	}
}

func TestScore(t *testing.T) {
	for _, c := range []struct {
		name string
		d    Device
		want float64
	}{
		{"full points", Device{Kind: Discrete, Backend: "cuda", MemBytes: 10e9, ComputeUnits: 2000}, 100},
		{"never above 100", Device{Kind: Discrete, Backend: "dx12", MemBytes: 80e9, ComputeUnits: 16896}, 100},
		{"8 GB, 1000 cores, vulkan", Device{Kind: Discrete, Backend: "vulkan", MemBytes: 8e9, ComputeUnits: 1000}, 40 + 18 + 16 + 10},
		{"integrated metal", Device{Kind: Integrated, Backend: "metal", MemBytes: 16e9, ComputeUnits: 1280}, 20 + 17 + 20 + 12.8},
		{"virtual opengl", Device{Kind: Virtual, Backend: "opengl"}, 12 + 10},
		{"6 cores of 16 lanes", Device{Kind: CPU, Backend: "cpu", MemBytes: 32e9, ComputeUnits: 6, SIMDLanes: 16}, 4 + 10 + 20 + 0.96},
		{"unknown CPU", Device{Kind: CPU}, 14},
	} {
		if got := Score(&c.d); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: score %v, want %v", c.name, got, c.want)
		}
	}
}

// Devices are compared by what was measured once that is known of all of them.
func TestMerits(t *testing.T) {
	gpu, cpu := Device{Kind: Discrete, Backend: "vulkan"}, Device{Kind: CPU, Backend: "cpu"}
	if m, measured := Merits([]Device{gpu, cpu}); measured || m[0] != Score(&gpu) || m[1] != Score(&cpu) {
		t.Errorf("not measured: %v, %v", m, measured)
	}
	cpu.Rates.Ops[graph.FP32], cpu.Rates.MemoryBPS = 4e9, 9e9
	if m, measured := Merits([]Device{gpu, cpu}); measured || m[1] != Score(&cpu) {
		t.Errorf("one measured: %v, %v", m, measured)
	}
	gpu.Rates.Ops[graph.FP32], gpu.Rates.MemoryBPS = 1e9, 4e9
	if m, measured := Merits([]Device{gpu, cpu}); !measured || m[0] != 2e9 || m[1] != 6e9 {
		t.Errorf("all measured: %v, %v", m, measured)
	}
}
