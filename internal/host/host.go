// Package host reads what the operating system lets this process have.
package host

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/weft-run/weft/internal/text"
)

// Limits are what the operating system lets this process have. Zero is no limit, or
// an unknown one.
type Limits struct {
	Cores     float64 // seconds of CPU time per second, by a quota
	Memory    int64   // bytes in all
	Available int64   // bytes that can still be allocated
	Space     int64   // bytes of address space, by ulimit -v
	SpaceLeft int64   // bytes of these that are not taken
	Data      int64   // bytes of memory of its own that can be written, by ulimit -d
	DataLeft  int64   // bytes of these that are not taken
	Locked    int64   // bytes that can be locked into memory; -1 is no limit
	HugePages string  // transparent huge pages: always, madvise or never
	Load      string  // mean number of processes ready to run over 1, 5 and 15 minutes
}

// Processor is processor time used since the machine started.
type Processor struct {
	All, Own time.Duration // by all processes; by this one and its children
}

// Others returns how many cores processes other than this one and its children used, in
// the mean, since an earlier reading that long ago.
func (p Processor) Others(before Processor, ago time.Duration) float64 {
	if ago <= 0 {
		return 0
	}
	return max(float64((p.All-before.All)-(p.Own-before.Own))/float64(ago), 0)
}

// ErrMemory is wrapped by the errors of Enough.
var ErrMemory = errors.New("not enough memory")

// memoryError says how much memory is missing.
type memoryError struct{ text string }

func (e *memoryError) Error() string { return e.text }
func (e *memoryError) Unwrap() error { return ErrMemory }

// Enough returns an error if the work called what needs more bytes than are
// available. It is asked before anything is allocated, since Linux grants more memory
// than there is and kills the process when it uses it.
func Enough(what string, need int64) error {
	have := Read().Available
	if have > 0 && need > have { // garbage counts as used until it is given back
		debug.FreeOSMemory()
		have = Read().Available
	}
	if have > 0 && need > have {
		return &memoryError{fmt.Sprintf("%s needs %s of memory and %s are available; make it smaller", what, text.SI(float64(need), "B"), text.SI(float64(have), "B"))}
	}
	return nil
}

// Fits returns an error if the work called what needs more bytes than there are for this process, however much of
// them is in use now.
func Fits(what string, need int64) error {
	if all := Read().Memory; all > 0 && need > all {
		return &memoryError{fmt.Sprintf("%s needs %s of memory and this machine has %s; make it smaller", what, text.SI(float64(need), "B"), text.SI(float64(all), "B"))}
	}
	return nil
}

// leastSpace and leastData are what a process must have left of its address space and of its memory in bytes to begin with:
// threads take some 8 MB each, and the heap grows by 64 MB at a time, of which the first is there.
const (
	leastSpace = 256 << 20
	leastData  = 128 << 20
)

// Room returns an error if a limit of the process leaves too little memory to work in. A Go program
// cannot go on where memory or a thread is refused later: its runtime ends it. Under such a limit, Room has it
// leave out the stacks of all goroutines then.
func Room() error {
	l := Read()
	if l.Space > 0 || l.Data > 0 {
		debug.SetTraceback("none")
	}
	return room(l)
}

func room(l Limits) error {
	for _, own := range []struct {
		most, left, least int64
		of, flag          string
	}{{l.Space, l.SpaceLeft, leastSpace, "address space", "-v"}, {l.Data, l.DataLeft, leastData, "memory of its own", "-d"}} {
		if own.most > 0 && own.left < own.least {
			return &memoryError{fmt.Sprintf("this process may have %s of %s, and %s of them are left, of which weft needs %s; raise the limit by ulimit %s",
				text.SI(float64(own.most), "B"), own.of, text.SI(float64(own.left), "B"), text.SI(float64(own.least), "B"), own.flag)}
		}
	}
	return nil
}

// Platform names the compiler and the platform that this program was built with and
// for.
func Platform() string {
	return fmt.Sprintf("%s on %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
