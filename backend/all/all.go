// Package all lists the drivers a program gets by default. A backend joins
// weft by a line here and by nothing else; what a driver does is its own affair.
package all

import (
	"github.com/weft-run/weft/backend/cpu"
	"github.com/weft-run/weft/backend/cuda"
	"github.com/weft-run/weft/driver"
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
}

// Drivers returns the drivers, none of them opened, in the order in which
// their devices are numbered.
func Drivers(o Options) []driver.Driver {
	return []driver.Driver{
		cpu.New(cpu.Options{Parts: o.Parts["cpu"], Pin: o.Pin, Funcs: o.Funcs}),
		cuda.New(cuda.Options{}),
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
