package landscape

import (
	"context"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
)

// Of returns the landscape of a caller's native structure, computed on the devices of a
// runtime that was opened with [Funcs] among its kernels. The structure is x, y and z of
// each bead in angstrom, as [protein.Structure] has them. The energy at [i*Angles+k] of
// the result is that after turning the beads behind i+1 by k of [Angles] steps; there are
// as many rows as beads less two. Coordinates that are no chain, or not finite, are an error that wraps
// [protein.ErrStructure], and more than 20,000 beads one that wraps [workload.ErrConfig].
func Of(ctx context.Context, rt *weft.Runtime, native []float64) ([]float64, error) {
	j, err := newJob(native, "of a caller's structure")
	if err != nil {
		return nil, err
	}
	if _, err := workload.Call(ctx, rt, j, "landscape"); err != nil {
		return nil, err
	}
	return j.energies, nil
}

// newJob makes the job of a structure with a name.
func newJob(native []float64, name string) (*job, error) {
	if err := short(len(native)/3, name); err != nil {
		return nil, err
	}
	model, err := NewModel(native)
	if err != nil {
		return nil, err
	}
	j := &job{
		name: name, parts: 1, model: model, energy: model.Energy(native), turns: turnTable(),
		energies: make([]float64, rowCount(model.Beads())*Angles),
	}
	return j.declare(), nil
}
