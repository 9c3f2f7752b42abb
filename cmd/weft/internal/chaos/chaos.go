package chaos

import (
	"errors"
	"math"
	"strings"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/arena"
	"github.com/weft-run/weft/internal/backend/all"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/backend/proc"
)

// Makers returns the drivers that run in worker processes: those of every program, and scripted
// devices. funcs returns the Go kernels for cores and scripted devices.
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
	memory *arena.Arena // nil where the runtime has it
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
