// Package all lists the drivers a program gets by default. A backend joins weft by a row
// of backends.
package all

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"

	"github.com/weft-run/weft/experimental/driver"
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
	// Validation has drivers check how they are used, where they can.
	Validation bool
	cpu.Threads
	// Workers are those of GPUs, and of CPU devices with Isolate. Without their memory GPUs run
	// in this process, and a fault of one is the end of them all.
	proc.Workers
	// Streams is the number of kernels that a device runs at a time. With 0 the device
	// decides.
	Streams int
	// Funcs are the Go kernels the program brings, by name.
	Funcs map[string]driver.Func
	// Late has those that it brings later.
	Late func(name string) driver.Func
	// Isolate has CPU devices run in worker processes too. Late is not asked then.
	Isolate bool
	// NoWorkers leaves out what would run in worker processes.
	NoWorkers bool
	// MemBytes limits the memory of each device in a worker before it is divided; 0 leaves it all.
	MemBytes int64
}

// backends are all there are, in the order in which their devices are numbered.
var backends = []backend{
	{name: "cpu", open: openCPU, apart: func(o *Options) bool { return o.Isolate }},
	inWorkers("cuda", []string{"CUDA_", "NVIDIA_VISIBLE_", "NVIDIA_DRIVER_", "NCCL_", "__NV", "__GL"}, cuda.New, func(o Options) cuda.Options { return cuda.Options{Streams: o.Streams, CacheDir: o.CacheDir} },
		func(o *cuda.Options, n int) { o.Devices = []int{n} }, seesNVIDIA),
	// Asked for by name, Vulkan also has the GPUs that another backend has.
	inWorkers("vulkan", []string{"VK_", "NVIDIA_VISIBLE_", "NVIDIA_DRIVER_", "__NV", "__GL", "__EGL", "MESA", "LIBGL_", "DRI_", "GALLIUM_", "LP_", "RADV_", "AMD_DEBUG=", "AMD_VULKAN_ICD=", "ANV_", "INTEL_DEBUG=", "NVK_", "TU_", "DISPLAY=", "WAYLAND_"}, vulkan.New, func(o Options) vulkan.Options {
		return vulkan.Options{NoDoubles: o.Select.All(), Streams: o.Streams, CacheDir: o.CacheDir, Validation: o.Validation}
	}, func(o *vulkan.Options, n int) { o.Devices = []int{n} }, vulkan.SeesGPU),
}

// backend is a row of the list.
type backend struct {
	name  string
	open  func(Options) driver.Driver
	apart func(*Options) bool // whether its devices run in worker processes, if there are any
	maker proc.Maker          // nil for cores: see Makers
}

// Cores describes, as JSON, the CPU devices of the program, of which a worker runs one.
type Cores struct {
	Parts, Cores int
	MemBytes     int64
	cpu.Threads
	Funcs []string // names of Go kernels that the worker must have
}

// Config is the text for proc.Options.Config.
func (c Cores) Config() []byte {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // numbers and names
	}
	return b
}

// openCPU returns the driver of the cores, in this process or in workers.
func openCPU(o Options) driver.Driver {
	parts := o.Select.Parts(cpu.Whole())
	if !o.Isolate || o.Memory == nil {
		return cpu.New(cpu.Options{Parts: parts, Threads: o.Threads, Funcs: o.Funcs, Late: o.Late})
	}
	// Half of what a worker may take is for buffers, the rest for what its kernels allocate.
	c := Cores{Parts: parts, MemBytes: o.WorkerBytes / 2, Threads: o.Threads, Funcs: slices.Sorted(maps.Keys(o.Funcs))}
	return proc.New(proc.Options{
		Driver: "cpu", Config: c.Config(), Workers: o.Workers, Env: []string{},
	})
}

// coreMaker returns the maker of CPU devices that have the Go kernels of funcs.
func coreMaker(funcs func() map[string]driver.Func) proc.Maker {
	return func(config []byte, _ int) (driver.Driver, error) {
		var c Cores
		if err := json.Unmarshal(config, &c); err != nil {
			return nil, fmt.Errorf("cpu: options of a worker: %w", err)
		}
		known := funcs()
		for _, name := range c.Funcs {
			if known[name] == nil {
				return nil, fmt.Errorf("cpu: %w in worker processes: %q; give weft.Worker the functions too, as in weft.Worker(funcs)", driver.ErrNoFunc, name)
			}
		}
		return cpu.New(cpu.Options{Parts: c.Parts, Cores: c.Cores, MemBytes: c.MemBytes, Threads: c.Threads, Funcs: known}), nil
	}
}

// inWorkers returns a backend whose devices run in worker processes, where there can be
// any. A worker gets the options as JSON, limited by only to its device, and of the
// environment what begins as env says. seen reports whether the machine seems to have such
// devices.
func inWorkers[T any](name string, env []string, open func(T) driver.Driver, config func(Options) T, only func(o *T, n int), seen func() bool) backend {
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
			w := o.Workers // what kernels may do and take is for Go kernels alone
			w.Confine, w.WorkerBytes, w.MemoryReserve = false, 0, 0
			return proc.New(proc.Options{
				Driver: name, Config: b, Workers: w, Parts: func(d machine.Device) int { return o.Select.Parts(&d) }, Env: env, MemBytes: o.MemBytes,
			})
		},
		// A backend that is asked for by name is opened in any case: a GPU need not have a file in
		// /dev, as within WSL, nor be one at all, as for Vulkan.
		apart: func(o *Options) bool { return o.Select.Names(name) || seen() },
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
		if (b.maker == nil && !o.Isolate || !o.NoWorkers) && (o.Select.All() || o.Select.Names(b.name)) {
			list = append(list, b.open(o))
		}
	}
	return list
}

// Apart reports whether this machine seems to have devices that run in worker
// processes and are asked for: a look that costs nothing, so that others pay for
// none of it.
func (o *Options) Apart() bool {
	if runtime.GOOS != "linux" {
		return false
	}
	return slices.ContainsFunc(backends, func(b backend) bool {
		return (o.Select.Names(b.name) || o.Select.All()) && b.apart(o)
	})
}

// Makers are the drivers that can run in worker processes. funcs returns the Go kernels
// that CPU devices have there.
func Makers(funcs func() map[string]driver.Func) map[string]proc.Maker {
	out := make(map[string]proc.Maker)
	for _, b := range backends {
		out[b.name] = b.maker
		if b.maker == nil {
			out[b.name] = coreMaker(funcs)
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
