// Package all lists the drivers a program gets by default. A backend joins
// weft by a line here and by nothing else; what a driver does is its own affair.
package all

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"

	"github.com/weft-run/weft/backend/cpu"
	"github.com/weft-run/weft/backend/cuda"
	"github.com/weft-run/weft/backend/proc"
	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/internal/arena"
	"github.com/weft-run/weft/machine"
)

// Options are what the drivers need to know of the program.
type Options struct {
	// Parts says into how many devices a backend splits what it finds, by the
	// backend's name; what is not named stays whole.
	Parts map[string]int
	// Pin ties the threads of CPU devices to their cores.
	Pin bool
	// Funcs are the Go kernels the program brings, by name.
	Funcs map[string]cpu.Func
	// Memory is host memory to share with worker processes. Without it GPUs run
	// in this process, and a fault of one is the end of them all.
	Memory *arena.Arena
	// Split says how many workers serve a GPU; nil means one each.
	Split func(machine.Device) int
	// Standby keeps a second worker warm for each GPU.
	Standby bool
	// WorkerCommand starts workers, when the program itself cannot be one.
	WorkerCommand []string
}

// Drivers returns the drivers, none of them opened, in the order in which
// their devices are numbered.
func Drivers(o Options) []driver.Driver {
	return []driver.Driver{
		cpu.New(cpu.Options{Parts: o.Parts["cpu"], Pin: o.Pin, Funcs: o.Funcs}),
		gpu(o),
	}
}

// gpu is the driver of NVIDIA GPUs, in workers where there can be any.
func gpu(o Options) driver.Driver {
	if o.Memory == nil {
		return cuda.New(cuda.Options{})
	}
	return proc.New(proc.Options{
		Driver: "cuda", Memory: o.Memory, Split: o.Split, Standby: o.Standby, Command: o.WorkerCommand,
	})
}

// Workers reports whether this machine seems to have devices that run in worker
// processes: a look that costs nothing, so that others pay for none of it.
func Workers() bool {
	if runtime.GOOS != "linux" {
		return false
	}
	_, err := os.Stat("/dev/nvidiactl")
	return err == nil
}

// Makers are the drivers that run in worker processes.
func Makers() map[string]proc.Maker {
	return map[string]proc.Maker{
		"cuda": func(config []byte, device int) (driver.Driver, error) {
			var o cuda.Options
			if len(config) > 0 {
				if err := json.Unmarshal(config, &o); err != nil {
					return nil, fmt.Errorf("cuda: options of a worker: %w", err)
				}
			}
			if device >= 0 {
				o.Devices = []int{device}
			}
			return cuda.New(o), nil
		},
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
