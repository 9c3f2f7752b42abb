// Package all lists the drivers a program gets by default. A backend joins weft by a line
// in Drivers, and in Makers if it runs in worker processes.
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
	// Pin ties the threads of CPU devices to their cores.
	Pin bool
	// Funcs are the Go kernels the program brings, by name.
	Funcs map[string]driver.Func
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

// Drivers returns the drivers, none of them opened, in the order in which
// their devices are numbered.
func Drivers(o Options) []driver.Driver {
	list := []driver.Driver{cpu.New(cpu.Options{Parts: o.Select.Parts(cpu.Whole()), Pin: o.Pin, Funcs: o.Funcs})}
	if !o.NoWorkers {
		list = append(list,
			gpu(o, "cuda", cuda.Options{}, cuda.New),
			// Asked for by name, Vulkan also has the GPUs that another backend has.
			gpu(o, "vulkan", vulkan.Options{NoDoubles: o.Select.All(), CacheDir: o.CacheDir, Validate: o.Validate}, vulkan.New))
	}
	return slices.DeleteFunc(list, func(d driver.Driver) bool { return !o.Select.All() && !o.Select.Names(d.Name()) })
}

// gpu is a driver of GPUs, in workers where there can be any.
func gpu[T any](o Options, name string, config T, open func(T) driver.Driver) driver.Driver {
	if o.Memory == nil {
		return open(config)
	}
	b, err := json.Marshal(config)
	if err != nil {
		panic(err) // options are numbers and names
	}
	return proc.New(proc.Options{
		Driver: name, Config: b, Memory: o.Memory, Split: func(d machine.Device) int { return o.Select.Parts(&d) }, Standby: o.Standby, Command: o.WorkerCommand,
	})
}

// Workers reports whether this machine seems to have devices that run in worker
// processes and are asked for: a look that costs nothing, so that others pay for
// none of it.
func (o *Options) Workers() bool {
	if runtime.GOOS != "linux" {
		return false
	}
	// What is asked for is looked for in earnest: a GPU need not have a file in
	// /dev, as within WSL, nor be one at all, as for Vulkan.
	for _, name := range []string{"cuda", "vulkan"} {
		if o.Select.Names(name) {
			return true
		}
	}
	if !o.Select.All() {
		return false
	}
	_, err := os.Stat("/dev/nvidiactl")
	return err == nil || vulkan.SeesGPU()
}

// Makers are the drivers that run in worker processes.
func Makers() map[string]proc.Maker {
	return map[string]proc.Maker{
		"cuda":   maker("cuda", cuda.New, func(o *cuda.Options, n int) { o.Devices = []int{n} }),
		"vulkan": maker("vulkan", vulkan.New, func(o *vulkan.Options, n int) { o.Devices = []int{n} }),
	}
}

func maker[T any](name string, open func(T) driver.Driver, only func(o *T, n int)) proc.Maker {
	return func(config []byte, device int) (driver.Driver, error) {
		var o T
		if err := json.Unmarshal(config, &o); err != nil {
			return nil, fmt.Errorf("%s: options of a worker: %w", name, err)
		}
		if device >= 0 {
			only(&o, device)
		}
		return open(o), nil
	}
}

// Names returns the names of the drivers, which are what device names begin with.
func Names() []string {
	var out []string
	for _, d := range Drivers(Options{}) {
		out = append(out, d.Name())
	}
	return out
}
