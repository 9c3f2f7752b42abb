package plan

import (
	"fmt"
	"slices"

	"github.com/weft-run/weft/machine"
)

// PlanProtein predicts the jobs of a protein on a machine from recorded runs, and places its memory:
// replicas are divided among the devices that run the jobs. Where they do not all fit, a device
// holds a window of one replica. Trials are runs of the jobs on that machine.
func PlanProtein(p Protein, on *machine.Machine, recordings []*Recording, trials ...Point) (*ProteinPlan, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	works := make(map[string]Work)
	for _, j := range p.Jobs {
		works[j.Need.Name] = j.Work
	}
	m := Learn(recordings, works).Tried(on, trials)
	whole := on
	out := &ProteinPlan{Protein: p, Class: p.ProteinClass(), Bytes: int64(p.Replicas) * p.Conformation(), Accuracy: p.Accuracy()}
	for _, j := range p.Jobs {
		e := m.OnMachine(j.Need, whole)
		out.Estimates = append(out.Estimates, e)
		if !e.Fits {
			out.Why = j.Need.Name + ": " + e.Why
			return out, nil
		}
		on, _ = able(&j.Need, on)
	}
	if !slices.ContainsFunc(on.Devices, func(d machine.Device) bool { return !d.HostMemory }) { // all devices use host memory
		if out.Fits = on.HostBytes == 0 || out.Bytes <= on.HostBytes; !out.Fits {
			out.Why = fmt.Sprintf("its replicas need %s of host memory and there are %s", sizeText(out.Bytes), sizeText(on.HostBytes))
		}
		return out, nil
	}
	var err error
	out.Layout, err = Distribute([]Array{
		{Name: "replicas", Bytes: out.Bytes, Role: State, Access: InOrder, Spread: Split, Grain: p.Conformation(), Window: p.Conformation(), Priority: 1},
		{Name: "native structure", Bytes: 24 * int64(p.Residues), Role: Input, Spread: Replicated, Priority: 2},
		{Name: "energies", Bytes: 8 * int64(p.Replicas), Role: Result, Spread: Replicated, Priority: 2},
	}, on, Room{})
	if err != nil {
		out.Why = err.Error()
		return out, nil
	}
	out.Fits = true
	return out, nil
}

// Seconds returns the time that all jobs take, one after the other, in seconds.
func (p *ProteinPlan) Seconds() (median, low, high float64) {
	for _, e := range p.Estimates {
		median, low, high = median+e.Median, low+e.Low, high+e.High
	}
	return median, low, high
}
