package futex

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

// ClearAtEnd has the kernel make a word 0 when the calling thread ends, and wake one who sleeps on
// it. It is the first thing that the kernel does to end a thread, before it takes the memory of
// the process apart and closes its files; it does not for the last thread of a process. The caller
// is locked to its thread, and the word stays where it is.
func ClearAtEnd(word *atomic.Uint32) {
	// set_tid_address always succeeds.
	_, _, _ = syscall.RawSyscall(syscall.SYS_SET_TID_ADDRESS, uintptr(unsafe.Pointer(word)), 0, 0)
}
