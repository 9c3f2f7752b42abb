package chaos

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/backend/all"
	"github.com/weft-run/weft/machine"
)

// OpenAny opens the devices that o.Devices names, each in a worker of its own: GPUs, as cuda:0/2,
// as any program has them, and others by Open. Workers of GPUs have nothing of w.
func OpenAny(ctx context.Context, o weft.Options, w Workers) (*Rig, error) {
	switch gpus, err := onlyGPUs(o.Devices); {
	case err != nil:
		return nil, err
	case !gpus:
		return Open(ctx, o, w)
	case w != Workers{}:
		return nil, fmt.Errorf("%w %q: the memory of a worker and its script are chosen for cpu and fake devices alone; write cpu/2 or fake/2", ErrDevices, o.Devices)
	}
	o.Ladder = cmp.Or(o.Ladder, ladder)
	rt, err := weft.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Rig{Runtime: rt}, nil
}

// onlyGPUs reports whether a selection names devices that are in worker processes in any program,
// and none other.
func onlyGPUs(devices string) (bool, error) {
	sel, err := machine.ParseSelection(devices)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrDevices, err)
	}
	names := sel.Backends()
	for _, name := range names {
		if name == cores || name == scripted || !slices.Contains(all.Names(), name) {
			return false, nil
		}
	}
	return len(names) > 0, nil
}
