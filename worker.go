package weft

import (
	"github.com/weft-run/weft/backend/all"
	"github.com/weft-run/weft/backend/proc"
	"github.com/weft-run/weft/machine"
)

// Worker is the first line of main, and of TestMain, in programs that use GPUs. GPU
// drivers run in worker processes, which are this program started again: in such a
// process Worker does the work and never returns. In the program itself it returns
// at once.
//
// Where main does not call it, Options.WorkerCommand names a program that does.
func Worker() { proc.Main(all.Makers()) }

// split says how many workers serve a device that was found: as many as the
// selector that names it asks for, none when no selector does.
func split(sel []selector) func(machine.Device) int {
	return func(d machine.Device) int {
		n := 0
		for _, s := range sel {
			if s.matches(&d) {
				n = max(n, s.parts, 1)
			}
		}
		if len(sel) == 0 {
			n = 1
		}
		return n
	}
}
