package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// randomMachine makes a machine of one or two CPU devices, which share host
// memory, and one to four GPUs with small memories, some of them linked, also by
// a network. Some share a bus or cores, on which a fourth GPU computes as well.
func randomMachine(r *rand.Rand) *machine.Machine {
	m := &machine.Machine{Name: "random", HostBPS: 1e10}
	rates := func(factor float64) machine.Rates {
		return machine.Rates{
			Ops:       [graph.NumUnits]float64{graph.FP32: factor * (1e9 + r.Float64()*9e9)},
			MemoryBPS: factor * (1e9 + r.Float64()*9e9), LaunchNS: float64(r.IntN(10000)),
		}
	}
	for i := range 1 + r.IntN(2) {
		d := machine.Device{
			Name: fmt.Sprintf("cpu:%d", i), Kind: machine.CPU, Backend: "cpu", HostMemory: true,
			ComputeUnits: 4, SIMDLanes: 8, Lanes: 1 + r.IntN(4), Rates: rates(0.2),
		}
		d.Team = d.Lanes > 2 // two lanes are streams
		switch r.IntN(3) {
		case 0:
			d.Resources = []string{"bus"}
		case 1:
			d.Resources = []string{machine.HostCores}
		}
		m.Devices = append(m.Devices, d)
	}
	m.Resources = []machine.Resource{{Name: "bus"}, {Name: "switch", BPS: 1e9}, {Name: machine.HostCores, Cores: 6}}
	cpus, gpus := len(m.Devices), 1+r.IntN(4)
	same := rates(1)
	for i := range gpus {
		d := machine.Device{
			Name: fmt.Sprintf("cuda:%d", i), Kind: machine.Discrete, Backend: "cuda", Arch: "sm_90",
			ComputeUnits: 1024, Lanes: r.IntN(3), Rates: same,
			MemBytes: int64(4*randomNeed) << r.IntN(5),
		}
		if r.IntN(2) == 0 {
			d.Rates = rates(1)
		}
		if i == 3 {
			d.ComputeUnits, d.Resources = 6, []string{machine.HostCores}
		}
		id := machine.DeviceID(len(m.Devices))
		m.Devices = append(m.Devices, d)
		up := machine.Link{A: machine.Host, B: id, Kind: machine.PCIe, BPS: 1e9, LatencyNS: float64(r.IntN(5000))}
		if r.IntN(2) == 0 {
			up.Kind, up.Resources = machine.PCIeSwitch, []string{"switch"}
		}
		m.Links = append(m.Links, up)
		for k := cpus; k < int(id); k++ {
			switch r.IntN(6) {
			case 0, 1:
				m.Links = append(m.Links, machine.Link{A: machine.DeviceID(k), B: id, Kind: machine.NVLink, BPS: 1e10, LatencyNS: 1000})
			case 2:
				m.Links = append(m.Links, machine.Link{A: machine.DeviceID(k), B: id, Kind: machine.Network, BPS: 3e9, LatencyNS: 5000})
			}
		}
	}
	return m
}

// randomGraph makes a graph.
func randomGraph(r *rand.Rand, o randomOptions) *graph.Graph {
	if o.Tasks == 0 {
		o.Tasks = 1 + r.IntN(60)
	}
	var b graph.Builder
	randomTasks(r, &b, o)
	g, err := b.Build()
	if err != nil {
		panic(fmt.Sprintf("sim: a random graph is wrong: %v", err))
	}
	return g
}

// randomFaults makes a script for about the first span of time that always
// leaves one device of each backend, and so at least two, untouched by loss.
func randomFaults(r *rand.Rand, m *machine.Machine, span time.Duration) Faults {
	safe := make(map[string]machine.DeviceID)
	for i := range m.Devices {
		b := m.Devices[i].Backend
		if _, ok := safe[b]; !ok || r.IntN(2) == 0 {
			safe[b] = machine.DeviceID(i)
		}
	}
	var risky []machine.DeviceID
	for i := range m.Devices {
		if id := machine.DeviceID(i); safe[m.Devices[i].Backend] != id {
			risky = append(risky, id)
		}
	}
	var out Faults
	for range r.IntN(8) {
		f := Fault{At: time.Duration(r.Int64N(int64(span))), Device: machine.DeviceID(r.IntN(len(m.Devices)))}
		again := Fault{At: f.At + time.Duration(r.Int64N(int64(span))), Device: f.Device}
		kinds := []FaultKind{Slow, FailNext, FailTask, FailCopy, Refuse, Sense}
		if m.Devices[f.Device].MemBytes > 0 {
			kinds = append(kinds, Shrink)
		}
		if slices.Contains(risky, f.Device) {
			kinds = append(kinds, Lose, Lose, Hang, Drain, Break)
			if m.Devices[f.Device].MemBytes > 0 {
				kinds = append(kinds, Exhaust)
			}
		}
		f.Kind = kinds[r.IntN(len(kinds))]
		switch f.Kind {
		case Slow:
			f.Factor, f.Silent = 1+r.Float64()*4, r.IntN(2) == 0
			again.Kind, again.Factor = Slow, 1
		case Shrink:
			f.Bytes = max(m.Devices[f.Device].MemBytes/2, 4*randomNeed)
			again.Kind, again.Bytes = Shrink, m.Devices[f.Device].MemBytes
		case FailTask:
			f.Device, f.Task, f.Times = 0, fmt.Sprintf("t%d", r.IntN(20)), 1+r.IntN(2)
		case Sense:
			f.Sample = unknownSample
			f.Sample.TempC, f.Sample.Util = float64(40+r.IntN(60)), r.Float64()
			again.Kind, again.Sample = Sense, Sample{Util: 0.5, MemUsed: 0.5, TempC: 50, PowerW: -1, MemErrors: -1}
		case Lose:
			f.Keep = r.IntN(3) == 0
			again.Kind = Back
		case Drain:
			again.Kind = Undrain
		case Break:
			var links []machine.Link
			for _, l := range m.Links {
				if l.A == f.Device || l.B == f.Device {
					links = append(links, l)
				}
			}
			if len(links) == 0 {
				continue
			}
			l := links[r.IntN(len(links))]
			f.Device, f.Other = l.A, l.B
			again = Fault{At: again.At, Kind: Mend, Device: l.A, Other: l.B}
		}
		out = append(out, f)
		if again.Kind != 0 && (f.Kind == Sense || f.Kind == Drain || r.IntN(2) == 0) {
			out = append(out, again)
		}
	}
	out.sort()
	return out
}
