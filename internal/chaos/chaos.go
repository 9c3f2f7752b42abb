// Package chaos runs devices in worker processes and strikes the workers, to see what becomes
// of the work: faults are real, by signals and by what is written to a worker's memory.
//
// Cores and scripted devices, which a program has in its own process, are put into workers
// here, so that they can be struck as a GPU's worker can. A program that uses this package
// calls proc.Main with Makers first in main.
package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/internal/arena"
	"github.com/weft-run/weft/internal/backend/all"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/machine"
)

// The backends whose devices Open puts into workers.
const (
	cores    = "cpu"
	scripted = "fake"
)

// Makers returns the drivers that run in worker processes: those of every program, and scripted
// devices. funcs returns the Go kernels that cores and scripted devices run.
func Makers(funcs func() map[string]driver.Func) map[string]proc.Maker {
	out := all.Makers(funcs)
	out[scripted] = func(config []byte, _ int) (driver.Driver, error) {
		o, err := fake.Parse(string(config))
		if err != nil {
			return nil, err
		}
		o.Funcs = funcs()
		return fake.New(o)
	}
	return out
}

// Workers says how the workers of a rig are run.
type Workers struct {
	// MemBytes limits the memory of each device; 0 means no limit but the device's.
	MemBytes int64
	// Script is followed by the first workers of scripted devices (see fake.Script), and Again by
	// those in their place, each of which counts its operations from 1.
	Script, Again string
}

// Rig is a runtime whose devices are all in worker processes.
type Rig struct {
	*weft.Runtime
	memory *arena.Arena // nil for GPUs, which have their own
}

// ladder brings a worker back as often as it is struck: a device that is lost again within
// seconds would else be given up after three times.
var ladder = strings.TrimSuffix(strings.Repeat("restart:1m,", 16), ",")

var (
	// ErrDevices is wrapped by errors about Options.Devices.
	ErrDevices = errors.New("bad devices")
	// ErrSimulate says that a job cannot be simulated.
	ErrSimulate = errors.New("it cannot be simulated")
)

// Open opens the devices that o.Devices names, each in a worker of its own: cpu/3 is three
// cores, fake/3 three scripted devices. Nothing is measured and nothing is kept.
func Open(ctx context.Context, o weft.Options, w Workers) (_ *Rig, err error) {
	counts, err := count(o.Devices)
	if err != nil {
		return nil, err
	}
	r := &Rig{}
	if r.memory, err = arena.Open(0); err != nil {
		return nil, err
	}
	o.Drivers = nil
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		config, again := all.Cores{Parts: counts[name], Cores: counts[name]}.Config(), []byte(nil)
		if name == scripted {
			config = fmt.Appendf(nil, "devices %d\n%s", counts[name], w.Script)
			again = fmt.Appendf(nil, "devices %d\n%s", counts[name], w.Again)
		}
		o.Drivers = append(o.Drivers, proc.New(proc.Options{
			Driver: name, Config: config, Again: again, Memory: r.memory, Hang: o.HangTimeout, MemBytes: w.MemBytes,
			Standby: o.Standby, Command: strings.Fields(o.WorkerCommand),
		}))
	}
	o.Devices, o.NoCalibrate, o.CacheDir = "", true, "off"
	o.Ladder = cmp.Or(o.Ladder, ladder)
	if r.Runtime, err = weft.Open(ctx, o); err != nil {
		_ = r.memory.Close()
		return nil, err
	}
	return r, nil
}

// count returns how many devices of each backend a list names.
func count(devices string) (map[string]int, error) {
	sel, err := machine.ParseSelection(devices)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDevices, err)
	}
	counts := make(map[string]int)
	for _, name := range sel.Backends() {
		if name != cores && name != scripted {
			return nil, fmt.Errorf("%w %q: only cpu and fake devices run in workers that are struck; write cpu/2 or fake/2", ErrDevices, devices)
		}
		counts[name] = sel.Parts(&machine.Device{Name: name + ":0", Backend: name})
		if counts[name] == 0 {
			return nil, fmt.Errorf("%w %q: write how many there are to be, as in %s/2", ErrDevices, devices, name)
		}
	}
	if len(counts) == 0 {
		return nil, fmt.Errorf("%w: none are named; write cpu/2 or fake/2", ErrDevices)
	}
	return counts, nil
}

// Opened returns when the runtime was opened by the clock of this process, which its events
// count from, as exactly as one of many questions tells.
func (r *Rig) Opened() (opened time.Time) {
	least := time.Duration(math.MaxInt64)
	for range 200 {
		asked := time.Now()
		up := r.Metrics().Uptime
		if took := time.Since(asked); took < least {
			least, opened = took, asked.Add(took/2-up)
		}
	}
	return opened
}

// Close closes the runtime and gives up the memory its workers shared, once nothing uses that any
// more: that may be after Close has returned with an error.
func (r *Rig) Close() error {
	err := r.Runtime.Close()
	switch {
	case r.memory == nil:
		return err
	case err == nil:
		return r.memory.Close()
	}
	go func() {
		<-r.Done()
		_ = r.memory.Close() // that something was late is told
	}()
	return err
}
