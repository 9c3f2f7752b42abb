// Package all lists the drivers a program gets by default. A backend joins weft by a row
// of backends.
package all

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"

	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/internal/arena"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/cuda"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/internal/backend/vulkan"
	"github.com/weft-run/weft/machine"
)

// Options are what the drivers need to know of the program.
type Options struct {
	// Select says which devices are used and into how many each is divided. A backend
	// that it does not name is not even looked for: opening a GPU takes time.
	Select machine.Selection
	// CacheDir is a folder for what drivers compile; empty keeps nothing.
	CacheDir string
	// Validate has drivers check how they are used, where they can.
	Validate bool
	// Pin ties the threads of CPU devices to their cores, Realtime has them go before others.
	Pin, Realtime bool
	// Streams is the number of kernels that a device runs at a time. With 0 the device
	// decides.
	Streams int
	// Funcs are the Go kernels the program brings, by name.
	Funcs map[string]driver.Func
	// Late has those that it brings later.
	Late func(name string) driver.Func
	// Memory is host memory to share with worker processes. Without it GPUs run
	// in this process, and a fault of one is the end of them all.
	Memory *arena.Arena
	// NoWorkers leaves out what would run in worker processes.
	NoWorkers bool
	// Standby keeps a second worker warm for each GPU.
	Standby bool
	// WorkerCommand starts workers, when the program itself cannot be one.
	WorkerCommand []string
}

// backends are all there are, in the order in which their devices are numbered.
var backends = []backend{
	{name: "cpu", open: func(o Options) driver.Driver {
		return cpu.New(cpu.Options{Parts: o.Select.Parts(cpu.Whole()), Pin: o.Pin, Realtime: o.Realtime, Funcs: o.Funcs, Late: o.Late})
	}},
	inWorkers("cuda", cuda.New, func(o Options) cuda.Options { return cuda.Options{Lanes: o.Streams, CacheDir: o.CacheDir} },
		func(o *cuda.Options, n int) { o.Devices = []int{n} }, seesNVIDIA),
	// Asked for by name, Vulkan also has the GPUs that another backend has.
	inWorkers("vulkan", vulkan.New, func(o Options) vulkan.Options {
		return vulkan.Options{NoDoubles: o.Select.All(), Lanes: o.Streams, CacheDir: o.CacheDir, Validate: o.Validate}
	}, func(o *vulkan.Options, n int) { o.Devices = []int{n} }, vulkan.SeesGPU),
}

// backend is a row of the list. maker and seen are nil for one whose devices are part
// of the program's own process.
type backend struct {
	name  string
	open  func(Options) driver.Driver
	maker proc.Maker
	seen  func() bool // whether the machine seems to have such devices
}

// inWorkers returns a backend whose devices run in worker processes, where there can be
// any. A worker gets the options as JSON, limited by only to its device.
func inWorkers[T any](name string, open func(T) driver.Driver, config func(Options) T, only func(o *T, n int), seen func() bool) backend {
	return backend{
		name: name,
		open: func(o Options) driver.Driver {
			if o.Memory == nil {
				return open(config(o))
			}
			b, err := json.Marshal(config(o))
			if err != nil {
				panic(err) // options are numbers and names
			}
			return proc.New(proc.Options{
				Driver: name, Config: b, Memory: o.Memory, Parts: func(d machine.Device) int { return o.Select.Parts(&d) }, Standby: o.Standby, Command: o.WorkerCommand,
			})
		},
		maker: func(config []byte, device int) (driver.Driver, error) {
			var o T
			if err := json.Unmarshal(config, &o); err != nil {
				return nil, fmt.Errorf("%s: options of a worker: %w", name, err)
			}
			if device >= 0 {
				only(&o, device)
			}
			return open(o), nil
		},
		seen: seen,
	}
}

// seesNVIDIA reports whether NVIDIA's kernel module is loaded.
func seesNVIDIA() bool {
	_, err := os.Stat("/dev/nvidiactl")
	return err == nil
}

// Drivers returns the drivers asked for, none of them opened, in the order in which
// their devices are numbered.
func Drivers(o Options) (list []driver.Driver) {
	for _, b := range backends {
		if (b.maker == nil || !o.NoWorkers) && (o.Select.All() || o.Select.Names(b.name)) {
			list = append(list, b.open(o))
		}
	}
	return list
}

// Workers reports whether this machine seems to have devices that run in worker
// processes and are asked for: a look that costs nothing, so that others pay for
// none of it.
func (o *Options) Workers() bool {
	if runtime.GOOS != "linux" {
		return false
	}
	// A backend that is asked for by name is opened in any case: a GPU need not have a file in
	// /dev, as within WSL, nor be one at all, as for Vulkan.
	return slices.ContainsFunc(backends, func(b backend) bool {
		return b.maker != nil && (o.Select.Names(b.name) || o.Select.All() && b.seen())
	})
}

// Makers are the drivers that run in worker processes.
func Makers() map[string]proc.Maker {
	out := make(map[string]proc.Maker)
	for _, b := range backends {
		if b.maker != nil {
			out[b.name] = b.maker
		}
	}
	return out
}

// Names returns the names of the drivers, which are what device names begin with.
func Names() (out []string) {
	for _, b := range backends {
		out = append(out, b.name)
	}
	return out
}
