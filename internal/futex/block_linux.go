package futex

import _ "unsafe" // for go:linkname

// The Go runtime leaves a thread in a system call its processor, one of GOMAXPROCS, until its
// monitor takes that away: after 20 µs at best, and in a program that is quiet after 10 or 20 ms.
// Goroutines that are ready to run on that processor wait until then. When every processor is held
// by a sleeping thread, network events and timers wait too; on a machine of two cores two sleepers
// do that. Wait therefore tells the runtime before it sleeps, as the runtime's own sleepers do, and
// the processor is free at once.

//go:linkname enterBlocking runtime.entersyscallblock
func enterBlocking()

//go:linkname exitBlocking runtime.exitsyscall
func exitBlocking()
