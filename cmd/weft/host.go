package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/weft-run/weft/internal/terminal"
)

// limits are what the operating system lets this process have; zero is no limit,
// or none that is known.
type limits struct {
	cores     float64 // CPU time per time, by a quota
	memory    int64   // bytes in all
	available int64   // bytes that can still be had
	locked    int64   // bytes that can be locked into memory; -1 is no limit
	huge      string  // transparent huge pages: always, madvise or never
	load      string  // processes that wanted to run, over 1, 5 and 15 minutes
}

// enough reports work that needs more memory than there is, before any of it is
// taken: an operating system hands memory out gladly and ends the process later.
func enough(what string, need int64) error {
	have := hostLimits().available
	if have > 0 && need > have { // what was used before may only look used
		debug.FreeOSMemory()
		have = hostLimits().available
	}
	if have > 0 && need > have {
		return fmt.Errorf("%s needs %s of memory and %s are available; make it smaller", what, terminal.SI(float64(need), "B"), terminal.SI(float64(have), "B"))
	}
	return nil
}

// platform names what this program was built by and for.
func platform() string {
	return fmt.Sprintf("%s on %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
