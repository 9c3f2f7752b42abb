package proc

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft/internal/futex"
)

// A killed process ends thread by thread. Then the kernel takes its memory apart, which takes
// longer than all else, closes its files and tells the parent. A worker's end is therefore learned
// of from the first threads that end (see futex.ClearAtEnd), and what was in flight is given to
// others as soon as no thread can run any more, before the process is gone.

// sentinels is the number of threads whose end is told: on a busy machine some are ended
// milliseconds after others.
const sentinels = 3

// showEnd has the reader of a ring see the end of this process early, from a moment on. Where the
// system cannot do what it takes, the reader learns of it from the socket.
func (r *ring) showEnd() {
	go func() {
		if membarrier(barrierRegister) != nil { // it takes some milliseconds
			return
		}
		for range sentinels {
			go func() {
				runtime.LockOSThread()
				futex.ClearAtEnd(&r.h.awake)
				for {
					_, _ = unix.Poll(nil, -1) // until the process ends
				}
			}()
		}
	}()
}

// Commands of membarrier(2): the first interrupts all processes that have given the second, on
// all cores where they run.
const (
	barrierGlobal   = 1 << 1
	barrierRegister = 1 << 2
)

func membarrier(command uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, command, 0, 0); errno != 0 {
		return fmt.Errorf("proc: membarrier: %w", errno)
	}
	return nil
}

// harmless reports whether nothing of a worker can run any more although its process has not
// ended. Its threads were told to end before the first of them did, and end when they next enter
// the kernel: those that run on a core are interrupted. A worker that ended by itself is not
// judged before it is known how.
func (d *device) harmless(w *child) bool {
	return d.origin.found.InProcess && killed(w.pid()) && membarrier(barrierGlobal) == nil
}

// killedText is what the state of a process says that was ended by SIGKILL.
var killedText = "signal: " + syscall.SIGKILL.String()

// killed reports whether a child that was not waited for yet is being ended by SIGKILL. It does
// not where the system does not say.
func killed(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The status that a parent will wait for is the last of the fields.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) == 0 {
		return false
	}
	status, err := strconv.ParseUint(string(fields[len(fields)-1]), 10, 32)
	how := syscall.WaitStatus(status)
	return err == nil && how.Signaled() && how.Signal() == syscall.SIGKILL
}
