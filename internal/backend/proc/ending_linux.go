package proc

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

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

// showEnd has the reader of a ring see the end of this process early, from when the channel is
// closed. Where the system cannot do what it takes, the reader learns of it from the socket.
func (r *ring) showEnd() <-chan struct{} {
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		if membarrier(barrierRegister) != nil {
			return
		}
		var ready sync.WaitGroup
		ready.Add(sentinels)
		for range sentinels {
			go func() {
				runtime.LockOSThread()
				futex.ClearAtEnd(&r.h.awake)
				ready.Done()
				for {
					_, _ = unix.Poll(nil, -1) // until the process ends
				}
			}()
		}
		ready.Wait()
	}()
	return shown
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
// ended, and how it ends. Its threads were told to end before the first of them did, and end when
// they next enter or leave the kernel: those that run on a core are interrupted. A thread inside of a
// system call may go on there for a moment, and write to the memory that the call was given. That
// is the worker's own, or such as abort holds until the process is gone: of what others see,
// launches are given nothing, and copies know where they write to. A worker that ended by itself
// is not judged before it is known how.
func (d *device) harmless(w *child) (ending, bool) {
	if !d.origin.found.InProcess || !w.alive() {
		return ending{}, false
	}
	e := w.ending()
	return e, e.killed() && membarrier(barrierGlobal) == nil
}

// ending is the state of a process that has ended or is ending.
type ending struct {
	over   bool // it has, and everything it said was read
	known  bool // status is known
	status syscall.WaitStatus
}

func (e ending) killed() bool {
	return e.known && e.status.Signaled() && e.status.Signal() == syscall.SIGKILL
}

// String says it in the words of os.ProcessState.
func (e ending) String() string {
	switch {
	case !e.known:
		return "ended in an unknown way"
	case e.status.Signaled():
		return "signal: " + e.status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", e.status.ExitStatus())
}

// ending returns how the child has ended or is about to, so far as that is known.
func (c *child) ending() ending {
	e := ending{over: !c.alive()}
	select {
	case <-c.reaped:
	default:
		var there bool
		if e.status, there = statusOf(c.pid()); there {
			e.known = e.status != 0
			return e
		}
		select { // it has just been waited for
		case <-c.reaped:
		case <-time.After(lostWait):
			return e
		}
	}
	if state := c.cmd.ProcessState; state != nil { // nil if another has waited for it
		e.status, e.known = state.Sys().(syscall.WaitStatus)
	}
	return e
}

// isStopped reports whether a process is stopped by a signal; one that a debugger stopped is not.
func isStopped(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && isStoppedIn(text)
}

// isStoppedIn reports whether a stat file of /proc says so of a process or thread.
func isStoppedIn(stat []byte) bool {
	return bytes.HasPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" T"))
}

// statusOf returns the status that the parent of a process will wait for, 0 while there is none or
// where the system does not say, and whether the process is there.
func statusOf(pid int) (_ syscall.WaitStatus, there bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	// It is the last of the fields.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) == 0 {
		return 0, true
	}
	status, err := strconv.ParseUint(string(fields[len(fields)-1]), 10, 32)
	if err != nil {
		return 0, true
	}
	return syscall.WaitStatus(status), true
}
