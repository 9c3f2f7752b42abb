package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// dialectsOf returns the dialects that all kernels of a graph have code in, in the order of the first
// kernel. It is nil if no kernel has code, as in simulations, or if they have no dialect in common.
func dialectsOf(g *graph.Graph) (out []graph.Dialect) {
	seen := make(map[*graph.Kernel]bool)
	for id := range graph.TaskID(g.NumTasks()) {
		for _, s := range g.Task(id).Steps {
			if seen[s.Kernel] {
				continue
			}
			seen[s.Kernel] = true
			var has []graph.Dialect
			for i := range s.Kernel.Impls {
				if d := s.Kernel.Impls[i].Dialect; d != graph.Abstract && !slices.Contains(has, d) {
					has = append(has, d)
				}
			}
			switch {
			case len(has) == 0:
			case out == nil:
				out = has
			default:
				out = slices.DeleteFunc(out, func(d graph.Dialect) bool { return !slices.Contains(has, d) })
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// noCode begins the reason why a job cannot run on a machine that has no device for its kernels.
const noCode = "it has code in "

// able returns the machine without devices that the job has no code for, or says why none is left.
func able(n *Need, on *machine.Machine) (*machine.Machine, string) {
	if n.Dialects == nil {
		return on, ""
	}
	code := &graph.Kernel{Name: n.Name}
	var names []string
	for _, d := range n.Dialects {
		code.Impls = append(code.Impls, graph.Impl{Dialect: d})
		names = append(names, string(d))
	}
	out := *on
	out.Devices, out.Links = nil, nil
	at := map[machine.DeviceID]machine.DeviceID{machine.Host: machine.Host}
	for i := range on.Devices {
		if on.Devices[i].CanRun(code) {
			at[machine.DeviceID(i)] = machine.DeviceID(len(out.Devices))
			out.Devices = append(out.Devices, on.Devices[i])
		}
	}
	switch len(out.Devices) {
	case len(on.Devices):
		return on, ""
	case 0:
		return nil, noCode + strings.Join(names, ", ") + ", which no device there runs"
	}
	for _, l := range on.Links {
		a, ok := at[l.A]
		b, too := at[l.B]
		if ok && too {
			l.A, l.B = a, b
			out.Links = append(out.Links, l)
		}
	}
	return &out, ""
}

const (
	// stepSeconds is the time of a step within a launch, whatever it computes, on a device with its own
	// memory: all threads of a sequence wait for one another several times. Measured on an H200 with 64
	// replicas of the 46 beads of 1CRN: 11.75 million steps a second, which is 5.4 µs a step with 0.1 µs of
	// arithmetic.
	stepSeconds = 5.3e-6
	// unitRate is the fp32 rate of the part of a GPU that runs a sequence, a multiprocessor: an
	// H100 has 67 TFLOP/s with 132 of them.
	unitRate = 0.5e12
)

// ownMemory returns the devices that have their own memory.
func ownMemory(on *machine.Machine) (out []*machine.Device) {
	for i := range on.Devices {
		if d := &on.Devices[i]; !d.HostMemory {
			out = append(out, d)
		}
	}
	return out
}

// waiting adds the cost of steps within launches that run one after another on devices with their own
// memory: stepSeconds each, and what one multiprocessor takes longer for its chain than all of them
// would.
func (e Estimate) waiting(n *Need, on *machine.Machine) Estimate {
	own := ownMemory(on)
	if n.Serial == 0 || own == nil {
		return e
	}
	d, all, more := own[0], 0., n.Serial*stepSeconds
	for _, d := range own {
		all += d.Rates.For(n.Unit)
	}
	if fp32 := d.Rates.For(graph.FP32); n.Chains > 0 && fp32 > unitRate {
		unit := d.Rates.For(n.Unit) * unitRate / fp32
		more += max(n.Flops/n.Chains/unit-n.Flops/all, 0) * offOf(on).usual
	}
	if more > e.Median {
		e.Bottleneck = "steps"
	}
	off := stepsOff
	if d.Arch == "sm_90" {
		off = stepsOffMeasured
	}
	e.Median, e.Low, e.High = e.Median+more, e.Low+more/off, e.High+more*off
	e.Why += fmt.Sprintf("; %.3g steps follow one another, each of %.1f µs in addition to its arithmetic, as measured on an H200", n.Serial, 1e6*stepSeconds)
	return e
}

// stepsOff is the factor by which the cost of steps may be wrong, either way, and stepsOffMeasured that on
// GPUs of the architecture that was measured, with other chains.
const (
	stepsOff         = 3.
	stepsOffMeasured = 2.
)
