package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Random machines, graphs and faults for property tests: small, and made to
// meet one another in awkward ways. The same source gives the same things.

// randomNeed bounds the bytes that a random task uses of a device's memory, old
// versions of what it updates included; every random device has at least four
// times as much.
const randomNeed = 16 << 10

// randomUses is how many uses a random task has at most. The sizes of random data
// and their slices are multiples of randomUnit bytes.
const randomUses, randomUnit = 4, 64

// RandomMachine makes a machine of one or two CPU devices, which share host
// memory, and one to four GPUs with small memories, some of them linked, also by
// a network. Some share a bus or cores, on which a fourth GPU computes as well.
func RandomMachine(r *rand.Rand) *machine.Machine {
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
			ComputeUnits: 4, SIMDLanes: 8, Lanes: 1 + r.IntN(2), Rates: rates(0.2),
		}
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

// RandomOptions says what a random graph may hold besides slices, updates,
// reductions, order without data, workspaces and priorities.
type RandomOptions struct {
	Tasks int // 0 means a random number up to 60
	Data  int // 0 means a random number up to 9
	// Gangs allows tasks that need two devices, Constraints tasks that only
	// run on "cpu" or "cuda", Volatile data that faults may lose for good.
	Gangs, Constraints, Volatile bool
}

// RandomGraph makes a graph.
func RandomGraph(r *rand.Rand, o RandomOptions) *graph.Graph {
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

// randomTasks adds data and tasks to b.
func randomTasks(r *rand.Rand, b *graph.Builder, o RandomOptions) {
	var data []graph.Data
	handles := 2 + r.IntN(8)
	if o.Data > 0 {
		handles = o.Data
	}
	for i := range handles {
		d := randomData(r, i, o)
		id := b.Data(d)
		data = append(data, d)
		if !d.Input {
			// Written whole once, so that anything may read any of it.
			b.Add(graph.Task{
				Name: fmt.Sprintf("make %s", d.Name), Steps: []graph.Step{{Kernel: kernel, Launch: oneBlock}},
				Uses: []graph.Use{{Data: id, Access: graph.Write}}, Work: graph.Work{Bytes: float64(d.Bytes)},
			})
		}
	}
	for i := range o.Tasks {
		b.Add(randomTask(r, i, data, o))
	}
}

// randomData makes data number i.
func randomData(r *rand.Rand, i int, o RandomOptions) graph.Data {
	d := graph.Data{
		Name:  fmt.Sprintf("d%d", i),
		Bytes: randomUnit * int64(1+r.IntN(randomNeed/randomUnit/2/randomUses)),
		Input: r.IntN(2) == 0, Output: r.IntN(2) == 0,
		Durability: graph.Durability(r.IntN(2)),
	}
	if o.Volatile && r.IntN(4) == 0 {
		d.Durability = graph.Volatile
	}
	if r.IntN(3) == 0 {
		d.Combine = combine
	}
	return d
}

// randomTask makes task number i, which uses some of the data.
func randomTask(r *rand.Rand, i int, data []graph.Data, o RandomOptions) graph.Task {
	t := graph.Task{
		Name: fmt.Sprintf("t%d", i),
		Work: graph.Work{Ops: float64(r.IntN(1e6)), Bytes: float64(r.IntN(1e5))},
	}
	for range 1 + r.IntN(2) {
		t.Steps = append(t.Steps, graph.Step{Kernel: kernel, Launch: oneBlock, Params: []byte{byte(r.IntN(4))}})
	}
	if o.Gangs && r.IntN(10) == 0 {
		t.Gang = 2
	}
	for _, d := range r.Perm(len(data))[:min(1+r.IntN(randomUses), len(data))] {
		u := graph.Use{Data: graph.DataID(d), Access: graph.Access(r.IntN(3)), Bytes: data[d].Bytes}
		if data[d].Combine != nil && r.IntN(3) == 0 {
			u.Access = graph.Reduce
		}
		if r.IntN(2) == 0 { // a slice
			n := data[d].Bytes / randomUnit
			lo := r.Int64N(n)
			u.Offset, u.Bytes = lo*randomUnit, (1+r.Int64N(n-lo))*randomUnit
		}
		if t.Gang > 1 {
			u.Rank = int16(r.IntN(t.Gang))
		}
		t.Uses = append(t.Uses, u)
	}
	if r.IntN(8) == 0 {
		t.Workspace = int64(1 + r.IntN(randomNeed/4))
	}
	if r.IntN(4) == 0 {
		t.Priority = r.IntN(5) - 2
	}
	if i > 0 && r.IntN(8) == 0 {
		t.After = append(t.After, graph.TaskID(r.IntN(i)))
	}
	if o.Constraints {
		switch r.IntN(10) {
		case 0:
			t.On.Only = []string{"cpu"}
		case 1:
			t.On.Only = []string{"cuda"}
		case 2:
			t.On.Hint = "cuda:0"
		}
	}
	if t.Gang > 1 {
		t.On.Only = nil // one of each kind survives any random faults
	}
	return t
}

// RandomFaults makes a script for about the first span of time that always
// leaves one device of each backend, and so at least two, untouched by loss.
func RandomFaults(r *rand.Rand, m *machine.Machine, span time.Duration) Faults {
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
