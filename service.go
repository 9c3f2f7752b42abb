package weft

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/task"
)

// ErrDevice is wrapped by errors of Drain, Undrain, Swap, Probe and Recover about the devices
// they name.
var ErrDevice = errors.New("bad device")

// ErrLastDevice is wrapped by the error of Drain for the only device that takes work.
var ErrLastDevice = engine.ErrLastDevice

// Drain takes a device, by its name, out of service while runs go on: it gets no new work,
// finishes what it has, and what only its memory holds is copied to host memory. Drain returns
// when the device holds no work, nor data that is nowhere else, which an event of kind
// [EventDrained] tells too. It stays out of service until
// Undrain, also after a loss. ctx ends the wait and not the drain.
//
// The last device that takes work is refused (ErrLastDevice). Data that cannot be copied is
// an error, and a loss of the device is one; what only it held is then computed again. Tasks
// that no other device can run wait until the device is back in service. A spare that is
// drained does not stand by any more. A Go kernel of the runtime cannot wait for it: with [Call.Context]
// the error wraps [ErrDeadlock], and nothing is drained.
func (r *Runtime) Drain(ctx context.Context, device string) error {
	need("Drain", ctx, true)
	return r.about("drain", device, func(id machine.DeviceID) error {
		if err := r.outside(ctx); err != nil {
			return err
		}
		return block(ctx, func() error { return r.x.Drain(ctx, id) })
	})
}

// Undrain puts a device back into service that was drained or swapped out, which calls off a
// Drain or Swap that still waits; and a spare, which then works beside the others. A device
// that is lost takes work once it is back. For one in service it does nothing.
func (r *Runtime) Undrain(device string) error {
	return r.about("undrain", device, func(id machine.DeviceID) error { return r.x.Undrain(context.Background(), id) })
}

// Swap puts one device in another's place while runs go on: new work goes to the second at
// once, the first finishes what it has and hands over what only its memory holds, to the
// second if that has room and to host memory else. It returns when the first holds nothing, as
// Drain does. The second may be a spare, drained or in service already. ctx ends the wait and
// not the swap. In a Go kernel of the runtime it is refused as Drain is.
func (r *Runtime) Swap(ctx context.Context, from, to string) error {
	need("Swap", ctx, true)
	return r.about("swap", from, func(id machine.DeviceID) error {
		other, err := r.find(to)
		if err != nil {
			return err
		}
		if other == id {
			return fmt.Errorf("%w: it cannot take its own place; name another, as a spare", ErrDevice)
		}
		if err := r.outside(ctx); err != nil {
			return err
		}
		return block(ctx, func() error { return r.x.Swap(ctx, id, other) })
	})
}

// outside errs if ctx is that of a Go kernel which the runtime runs, for which a device would wait.
func (r *Runtime) outside(ctx context.Context) error {
	if !r.x.Launched(ctx) {
		return nil
	}
	return fmt.Errorf("%w: devices end their work first, and a kernel of the runtime would wait for itself; do it where no kernel waits for it", ErrDeadlock)
}

// Probe samples the condition of a device now, instead of at the next interval, and returns
// it. Rules that count samples, as those about temperature, leave it out. A device that does
// not answer is an error when ctx ends.
func (r *Runtime) Probe(ctx context.Context, device string) (m DeviceMetrics, err error) {
	need("Probe", ctx, true)
	err = r.about("probe", device, func(id machine.DeviceID) error {
		if err := block(ctx, func() error { return r.x.Probe(ctx, id) }); err != nil {
			return err
		}
		m = r.Metrics().Devices[id]
		return nil
	})
	return m, err
}

// Recover has a device that is lost or broken brought back now, by the rungs of the recovery
// ladder, and returns when it is back, or with why that cannot be done. Weft does the same by
// itself after a loss, and again after a pause when all rungs have failed. For a suspect device
// it waits until its probes have cleared it, or until it was given up and is back from that; that it
// is drained meanwhile is an error. For a device that is healthy or drained it does nothing. ctx ends
// the wait and not the attempt.
func (r *Runtime) Recover(ctx context.Context, device string) error {
	need("Recover", ctx, true)
	return r.about("recover", device, func(id machine.DeviceID) error {
		return block(ctx, func() error { return r.x.Recover(ctx, id) })
	})
}

// block calls wait as task.Block does, and returns its error.
func block(ctx context.Context, wait func() error) (err error) {
	task.Block(ctx, func() { err = wait() })
	return err
}

// about calls fn with a device and says in its error what was asked.
func (r *Runtime) about(what, device string, fn func(machine.DeviceID) error) error {
	id, err := r.find(device)
	if err == nil {
		err = fn(id)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, device, err)
	}
	return nil
}

// find returns the open device of a name.
func (r *Runtime) find(name string) (machine.DeviceID, error) {
	if r == nil {
		return 0, errNoRuntime
	}
	if i := slices.Index(r.names, name); i >= 0 {
		return machine.DeviceID(i), nil
	}
	return 0, fmt.Errorf("%w: %w", ErrDevice, text.Unknown("device", name, r.names))
}

// stands says which of the devices found stand by as spares. keep says which are used: of
// these, one at least must work.
func (o *Options) stands(found []machine.Device, keep []bool) ([]bool, error) {
	spare := make([]bool, len(found))
	var names []string
	for i := range found {
		if keep[i] {
			names = append(names, found[i].Name)
		}
	}
	list := listed(o.Spares)
	for _, name := range list {
		i := slices.IndexFunc(found, func(d machine.Device) bool { return d.Name == name })
		if i < 0 || !keep[i] {
			return nil, fmt.Errorf("%w: spares: %w", ErrOptions, text.Unknown("device", name, names))
		}
		spare[i] = true
	}
	if len(list) > 0 && len(list) == len(names) {
		return nil, fmt.Errorf("%w: spares: every device is one; leave out the one that is to work", ErrOptions)
	}
	return spare, nil
}

// listed returns the items of a list joined by commas, without spaces around them.
func listed(list string) (out []string) {
	if strings.TrimSpace(list) == "" {
		return nil
	}
	for item := range strings.SplitSeq(list, ",") {
		out = append(out, strings.TrimSpace(item))
	}
	return out
}

// checkNames errs unless a list has names of devices, each once.
func checkNames(list string) error {
	var seen []string
	for _, name := range listed(list) {
		if backend, index, ok := strings.Cut(name, ":"); !ok || backend == "" || index == "" || strings.ContainsAny(name, "/ ") {
			return fmt.Errorf("%q is not the name of a device; write a list as in cuda:1, cpu:0", name)
		}
		if slices.Contains(seen, name) {
			return fmt.Errorf("%q is there twice", name)
		}
		seen = append(seen, name)
	}
	return nil
}
