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

// waiting adds the cost of steps within launches that run one after another. On a device with its own
// memory each step waits for all threads, which is assumed to cost as much as a launch.
func (e Estimate) waiting(n *Need, on *machine.Machine) Estimate {
	each := 0.0
	for i := range on.Devices {
		if d := &on.Devices[i]; !d.HostMemory {
			each = max(each, d.Rates.LaunchNS/1e9)
		}
	}
	more := n.Serial * each
	if more == 0 {
		return e
	}
	if more > e.Median {
		e.Bottleneck = "launch"
	}
	e.Median, e.Low, e.High = e.Median+more, e.Low+more/fewSteps, e.High+more*fewSteps
	e.Why += fmt.Sprintf("; %.3g steps that follow one another are taken for launches", n.Serial)
	return e
}

// fewSteps is the factor by which the assumed cost of such steps may be wrong, either way.
const fewSteps = 3
