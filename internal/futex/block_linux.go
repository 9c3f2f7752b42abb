package futex

import _ "unsafe" // for go:linkname

// The Go runtime leaves a thread in a system call its processor, one of GOMAXPROCS, until its
// monitor takes that away: after 20 µs at best, and in a program that is quiet after 10 or 20 ms.
// Goroutines that became ready on the processor wait until then, and where all processors are
// taken like this, nobody looks after the network and timers either. A few sleepers are enough for
// that on a machine of two cores. Wait therefore tells the runtime beforehand that it blocks, in
// the way that the runtime's own sleepers do.

//go:linkname enterBlocking runtime.entersyscallblock
func enterBlocking()

//go:linkname exitBlocking runtime.exitsyscall
func exitBlocking()
