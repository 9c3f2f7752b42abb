package engine

import (
	"fmt"
	"strings"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// noDevice is ErrNoDevice for a task, with the reason as far as it lies in the kernels of
// the task and in what it asks for.
func (e *Engine) noDevice(t *graph.Task) error {
	for i := range t.Steps {
		if why := e.m.Unable(t.Steps[i].Kernel); why != "" {
			return fmt.Errorf("%w: %s", ErrNoDevice, why)
		}
	}
	able, allowed := false, false
	for d := range e.m.Devices {
		all := true
		for i := range t.Steps {
			all = all && e.m.Devices[d].CanRun(t.Steps[i].Kernel)
		}
		able = able || all
		allowed = allowed || all && e.allowed(t, machine.DeviceID(d))
	}
	switch {
	case !able:
		return fmt.Errorf("%w: each of its kernels runs on some device, and all of them on none", ErrNoDevice)
	case !allowed:
		return fmt.Errorf("%w: it may only run on %s", ErrNoDevice, strings.Join(t.On.Only, ", "))
	}
	return ErrNoDevice
}
