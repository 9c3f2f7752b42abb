package plan

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// What no catalogue says of a GPU. A Model prints what it used of these with its estimates.
const (
	// assumedLaunch is the time to start a kernel in nanoseconds, as in the machine files of
	// data-centre GPUs.
	assumedLaunch = 7e3 // ns
	// assumedHostBPS is the bandwidth of a copy within host memory.
	assumedHostBPS = 60e9
	peerLatency    = 3e3 // ns, of NVLink
	hostLatency    = 10e3
)

// pcieBPS is the practical rate of a link of 16 lanes in bytes per second, by generation: 80
// to 85 % of its nominal rate, as in the machine files.
var pcieBPS = map[string]float64{"gen3": 12.5e9, "gen4": 25e9, "gen5": 54e9, "gen6": 108e9}

// hostLaunch and deviceLaunch are the seconds that weft itself adds to the driver's time for a launch.
// They come from recorded runs of workloads with hundreds of short launches.
const (
	hostLaunch   = 5e-6
	deviceLaunch = 20e-6
)

// unitShare is the rate of a unit relative to fp32 by compute capability: results per clock
// of a multiprocessor, from the table of arithmetic throughput in NVIDIA's CUDA C++
// Programming Guide. Catalogues leave these rates out.
var unitShare = map[string]struct{ fp64, int32 float64 }{
	"6.0": {1. / 2, 1}, "6.1": {1. / 32, 1}, "7.0": {1. / 2, 1}, "7.5": {1. / 32, 1}, "8.0": {1. / 2, 1}, "8.6": {1. / 64, 1. / 2},
	"8.9": {1. / 64, 1. / 2}, "9.0": {1. / 2, 1. / 2}, "10.0": {1. / 2, 1. / 2}, "10.3": {1. / 64, 1. / 2}, "12.0": {1. / 64, 1},
}

// MachineOf returns a machine of count equal GPUs of a catalogue, as a machine file would
// describe it: each has its own link to the host, and GPUs with NVLink reach one another by
// it. notes lists the assumptions made where the catalogue has no value.
func MachineOf(g GPU, count int) (m *machine.Machine, notes []string) {
	d := machine.Device{
		Model: g.Name, Kind: machine.Discrete, Backend: "vulkan", MemBytes: g.MemoryBytes,
		Rates: machine.Rates{MemoryBPS: g.MemoryBPS, LaunchNS: assumedLaunch},
	}
	if g.Vendor == "nvidia" || g.Vendor == "" {
		d.Backend, d.Arch = "cuda", "sm_"+strings.ReplaceAll(g.Capability, ".", "")
		if major, _, _ := strings.Cut(g.Capability, "."); len(major) > 1 || major >= "9" {
			d.Cluster = 16
		}
	}
	d.Rates.Ops[graph.FP32], d.Rates.Ops[graph.TF32], d.Rates.Ops[graph.FP16] = g.FP32, g.TF32, g.FP16
	if share, ok := unitShare[g.Capability]; ok {
		d.Rates.Ops[graph.FP64], d.Rates.Ops[graph.Int32] = g.FP32*share.fp64, g.FP32*share.int32
	} else {
		notes = append(notes, "fp64 at half and int32 at the full rate of fp32")
	}
	notes = append(notes, fmt.Sprintf("%g µs a launch", assumedLaunch/1e3))
	link, ok := pcieBPS[g.PCIe]
	if !ok {
		link = pcieBPS["gen4"]
		notes = append(notes, "PCIe gen4 x16")
	}
	m = &machine.Machine{Name: fmt.Sprintf("%dx %s", count, g.Name), HostBPS: assumedHostBPS}
	for i := range count {
		d.Name = "gpu:" + strconv.Itoa(i)
		m.Devices = append(m.Devices, d)
		id := machine.DeviceID(i)
		m.Links = append(m.Links, machine.Link{A: id, B: machine.Host, Kind: machine.PCIe, BPS: link, LatencyNS: hostLatency})
		if g.LinkBPS == 0 || count == 1 {
			continue
		}
		port := "nvlink:" + strconv.Itoa(i)
		m.Resources = append(m.Resources, machine.Resource{Name: port, BPS: g.LinkBPS})
		for j := range i {
			m.Links = append(m.Links, machine.Link{
				A: machine.DeviceID(j), B: id, Kind: machine.NVLink, BPS: g.LinkBPS / 2, LatencyNS: peerLatency,
				Resources: []string{"nvlink:" + strconv.Itoa(j), port},
			})
		}
	}
	return m, notes
}

// parts holds the components of a job's time by the rates of a machine, in seconds.
type parts struct{ launch, compute, memory, link float64 }

// partsOf divides a need by the rates of a machine's devices together. Devices that use
// host memory need no copies.
func partsOf(n *Need, m *machine.Machine) parts {
	var ops, bps, link float64
	inHost := false
	var p parts
	for i := range m.Devices {
		d := &m.Devices[i]
		ops += d.Rates.For(n.Unit)
		bps += d.Rates.MemoryBPS
		// Each device starts its part of the kernels.
		launch := d.Rates.LaunchNS/1e9 + deviceLaunch
		if d.HostMemory {
			launch = d.Rates.LaunchNS/1e9 + hostLaunch
		}
		p.launch += launch * n.Launches / float64(len(m.Devices)*len(m.Devices))
		inHost = inHost || d.HostMemory
		_, path, _ := m.Path(machine.Host, machine.DeviceID(i))
		link += path
	}
	p.compute = n.Flops / ops
	if bps > 0 {
		p.memory = n.Bytes / bps
	}
	if link > 0 && !inHost {
		p.link = (n.Upload + n.Download) / link
	}
	return p
}

// total returns the roofline: the longer of arithmetic and memory traffic, plus launches and
// copies.
func (p parts) total() float64 { return p.launch + p.link + max(p.compute, p.memory) }

// bottleneck names the largest part.
func (p parts) bottleneck() string {
	name, most := "launch", p.launch
	for _, x := range []struct {
		name string
		s    float64
	}{{"link", p.link}, {"memory", p.memory}, {"compute", p.compute}} {
		if x.s > most {
			name, most = x.name, x.s
		}
	}
	return name
}

// scaled predicts the time on another machine of a job that took seconds here. Its launches
// and copies cost what they cost there; the ratio of the rest, arithmetic or memory traffic,
// to the roofline stays the same.
func scaled(seconds float64, here, there parts) float64 {
	roof := max(here.compute, here.memory)
	if roof == 0 {
		return seconds * there.total() / max(here.total(), 1e-12)
	}
	// Launches and copies may overlap computation: at least a tenth of the time is taken
	// to be work.
	work := max(seconds-here.launch-here.link, seconds/10)
	return there.launch + there.link + work/roof*max(there.compute, there.memory)
}
