package futex

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Operations on words that other processes map as well: not the private kind.
const (
	opWait = 0
	opWake = 1
)

// Wait sleeps until Wake is called for the word, until d has passed, or not at
// all when the word does not hold old. It may also return for no reason, so
// callers look again at what they wait for.
//
//go:nosplit
//go:norace
func Wait(word *atomic.Uint32, old uint32, d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	enterBlocking()
	// Nothing grows the stack here. What the call returns says why it woke, and callers look
	// themselves.
	_, _, _ = syscall.RawSyscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(word)), opWait, uintptr(old), uintptr(unsafe.Pointer(&ts)), 0, 0)
	exitBlocking()
}

// Wake wakes every thread that sleeps on the word.
func Wake(word *atomic.Uint32) {
	_, _, _ = syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(word)), opWake, 1<<30, 0, 0, 0)
}

// Clock is the time of the machine's monotonic clock, which all its processes
// read alike.
func Clock() time.Duration {
	var ts syscall.Timespec
	// clock_gettime cannot fail for CLOCK_MONOTONIC, which is clock 1.
	_, _, _ = syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}
