package bytevm

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Trait is a set of things a trial can be made of.
type Trait uint32

const (
	Gangs            Trait = 1 << iota // tasks over two devices
	Constraints                        // tasks for one backend only
	Volatile                           // data that may be lost for good
	Wide                               // many handles
	Tight                              // devices that hold little more than one task
	HostAmple                          // a limit on host memory that all data fits in
	HostScarce                         // one that only the largest task is sure to fit in
	Cancels                            // runs cancelled under way
	Losses                             // devices lost, with or without their memory
	Failures                           // launches that fail or are refused
	Cuts                               // copies that fail
	Exhaustion                         // devices that have less memory than they said
	Hangs                              // launches that never end
	Residents                          // data that outlives runs, shared by them
	VolatileHeld                       // some of it volatile
	Late                               // completions that are told late
	Limits                             // limits on tasks in flight
	FewRetries                         // tasks, runs and engines with few retries
	ManyRetries                        // more than 255
	Swaps                              // devices replaced by spares
	Weights                            // runs of different weight and priority
	NoFaultTolerance                   // fault tolerance off
	Poison                             // tasks that never succeed
	Condition                          // telemetry, drains, changes of speed and capacity
	Wrap                               // lanes whose numbers pass 2³²
	Reuse                              // the caller writes to its memory once a run has ended
	Processes                          // GPUs in processes of their own, which are killed for runs given up
	Detaches                           // launches that leave their lanes, so that other runs go on
	lastTrait        = iota
)

// All is every trait.
const All Trait = 1<<lastTrait - 1

var traitNames = [lastTrait]string{
	"gangs", "constraints", "volatile", "wide", "tight", "host-ample", "host-scarce", "cancels", "losses",
	"failures", "cuts", "exhaustion", "hangs", "residents", "volatile-held", "late", "limits", "few-retries",
	"many-retries", "swaps", "weights", "no-recovery", "poison", "condition", "wrap", "reuse", "processes", "detaches",
}

func (t Trait) has(x Trait) bool { return t&x != 0 }

func (t Trait) String() string {
	var names []string
	for i, n := range traitNames {
		if t.has(1 << i) {
			names = append(names, n)
		}
	}
	return strings.Join(names, ",")
}

// ParseTraits reads what String writes; "-name" takes one away from all.
func ParseTraits(s string) (t Trait, err error) {
	for i, name := range strings.Split(s, ",") {
		bare, without := strings.CutPrefix(name, "-")
		if i == 0 && without || name == "all" {
			t = All
		}
		k := 0
		for k < len(traitNames) && traitNames[k] != bare {
			k++
		}
		switch {
		case name == "all" || name == "":
		case k == len(traitNames):
			return 0, fmt.Errorf("no trait %q; there are %v", name, All)
		case without:
			t &^= 1 << k
		default:
			t |= 1 << k
		}
	}
	return t, nil
}

// odds is one in how many trials has a trait. What makes errors legitimate, and so
// hides what other traits would show, is rarer.
var odds = [lastTrait]int{
	3, 3, 6, 3, 3, 6, 8, 3, 2, 3, 3, 4, 3, 3, 6, 2, 4, 4, 12, 4, 3, 16, 8, 3, 6, 2, 3, 3,
}

func drawTraits(r *rand.Rand) (t Trait) {
	for i, n := range odds {
		if r.IntN(n) == 0 {
			t |= 1 << i
		}
	}
	return t
}

// safeEach is how many devices of each backend nothing bad happens to: gangs need
// two, and a task for one backend only needs one.
const safeEach = 2

// drawMachine makes two or three CPU devices, which share host memory, and up to
// four GPUs, some of them linked, also by a network. need is what the largest task
// takes and total what all data takes twice.
func drawMachine(r *rand.Rand, t Trait, need, total int64) (m *machine.Machine, spares []machine.DeviceID) {
	m = &machine.Machine{Name: "bytevm", HostBPS: 1e9 + r.Float64()*1e10}
	rates := func() machine.Rates {
		return machine.Rates{
			Ops:       [graph.NumUnits]float64{graph.FP32: 1e8 + r.Float64()*9e9},
			MemoryBPS: 1e9 + r.Float64()*1e10, LaunchNS: float64(r.IntN(5000)),
		}
	}
	for i := range safeEach + r.IntN(2) {
		m.Devices = append(m.Devices, machine.Device{
			Name: fmt.Sprintf("cpu:%d", i), Kind: machine.CPU, Backend: "cpu", HostMemory: true,
			ComputeUnits: 4, SIMDLanes: 4, Lanes: 1 + r.IntN(4), Rates: rates(),
		})
		d := &m.Devices[len(m.Devices)-1]
		d.Team = d.Lanes > 2 // two lanes are streams
	}
	gpus, swaps := r.IntN(5), 0
	if t.has(Gangs|Constraints) || r.IntN(2) == 0 {
		gpus = max(gpus, safeEach)
	}
	if t.has(Swaps) {
		gpus = max(gpus, safeEach+1)
		swaps = 1 + r.IntN(2)
	}
	first, same := len(m.Devices), rates()
	for i := range gpus + swaps {
		id := machine.DeviceID(len(m.Devices))
		d := machine.Device{
			Name: fmt.Sprintf("cuda:%d", i), Kind: machine.Discrete, Backend: "cuda", Arch: "sm_90",
			ComputeUnits: 100, Lanes: 1 + r.IntN(2), Rates: same, MemBytes: need * int64(2+r.IntN(8)),
		}
		if t.has(Tight) {
			d.MemBytes = need + r.Int64N(2)*r.Int64N(need/2+1)
		}
		if r.IntN(2) == 0 {
			d.Rates = rates()
		}
		if i >= gpus {
			spares = append(spares, id)
		}
		m.Devices = append(m.Devices, d)
		m.Links = append(m.Links, machine.Link{A: machine.Host, B: id, Kind: machine.PCIe, BPS: 1e8 + r.Float64()*1e10, LatencyNS: float64(r.IntN(9000))})
		for k := first; k < int(id); k++ {
			switch r.IntN(5) {
			case 0, 1:
				m.Links = append(m.Links, machine.Link{A: machine.DeviceID(k), B: id, Kind: machine.NVLink, BPS: 1e10, LatencyNS: 100})
			case 2:
				m.Links = append(m.Links, machine.Link{A: machine.DeviceID(k), B: id, Kind: machine.Network, BPS: 2e9, LatencyNS: 3000})
			}
		}
	}
	switch {
	case t.has(HostScarce):
		m.HostBytes = need + r.Int64N(6*need)
	case t.has(HostAmple):
		m.HostBytes = ampleVersions*total + need
	}
	return m, spares
}

// ampleVersions is how often all data of all runs fits in a limit on host memory
// that must not be felt: old versions stay for as long as something on a device
// would be computed again from them.
const ampleVersions = 24
