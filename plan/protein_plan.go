package plan

import (
	"github.com/weft-run/weft/machine"
)

// PlanProtein predicts a protein on a machine from recorded runs, and places its memory: all
// replicas divided among the devices, with a window of one where they do not fit at once.
func PlanProtein(p Protein, on *machine.Machine, recordings []*Recording) (*ProteinPlan, error) {
	land, landWork, err := p.Landscape()
	if err != nil {
		return nil, err
	}
	dyn, dynWork, err := p.Dynamics()
	if err != nil {
		return nil, err
	}
	m := Learn(recordings, map[string]Work{land.Name: landWork, dyn.Name: dynWork})
	out := &ProteinPlan{
		Protein: p, Bytes: int64(p.Replicas) * p.Conformation(), Accuracy: p.Accuracy(),
		Landscape: m.OnMachine(land, on), Dynamics: m.OnMachine(dyn, on),
	}
	for _, e := range []Estimate{out.Landscape, out.Dynamics} {
		if !e.Fits {
			out.Why = e.Why
			return out, nil
		}
	}
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

// Seconds is how long landscape and dynamics take, one after the other.
func (p *ProteinPlan) Seconds() (median, low, high float64) {
	a, b := &p.Landscape, &p.Dynamics
	return a.Median + b.Median, a.Low + b.Low, a.High + b.High
}
