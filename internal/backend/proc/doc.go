// Package proc runs a driver's devices in child processes, so that a fault of a device ends a child
// and not the program, and brings them back.
//
//	parent                          worker, one per device     keeper, one per driver
//	device ── commands (ring) ────► inner device               makes device memory,
//	   ▲ ◄─── completions (ring) ──     │                      launches nothing
//	   │      control (socket)          ▼
//	   └──── arena: host memory and the board of lanes, mapped by all
//
// A child is the program itself, started again: Main, called first in main, is where it turns into
// a worker or a keeper. Operations travel as records in shared memory, host memory as offsets into
// the arena, kernels once each. How far every lane is stands on a board that all processes read, so
// that devices wait for one another without the parent.
//
// Device memory is placed by the parent into slabs that the keeper makes, if the inner device can
// make them. A worker that takes another's place maps the same slabs, so that what was computed is
// still there.
//
// The package knows no backend and decides nothing about scheduling. It needs Linux; elsewhere
// opening it says so.
//
// # Children
//
// The child is the program started again. A worker runs one device; the keeper, one for each
// driver, finds devices and makes their memory. Children end with their socket, which a thread of
// theirs watches, and the kernel kills them with the parent. A standby or a keeper that ends is
// replaced: at once the first time, then after ever longer pauses. On closing, workers have 2 s to
// end, keepers 1 s; then they are killed.
//
// Readers of a ring poll for a while before they sleep on a futex. The parent trusts nothing that a
// child writes: shared memory is sealed against a change of its size, records and messages are
// copied before they are checked, and what a child prints is logged up to a limit. What is no valid
// record ends the worker, on either side. What workers write lies in the arena; what the parent
// writes for them lies in a sealed file that workers only read.
//
// # When a worker is lost
//
// A worker is watched by its beats from its start on, also as a standby. One that is stopped is
// killed after Options.Hang, one that does not answer a request after Options.Answer. A worker that
// dies, hangs or reports its device lost is killed and reaped first, since until then it may write
// to host memory. If it is slow to end, the memory it may write to is set aside instead of waiting.
// Where a device is only threads of its process (Traits.InProcess) the parent learns of the end
// from the word that the kernel clears when one of three threads ends, and a barrier on all cores
// (membarrier) then shows that no other thread runs (ending_linux.go).
//
// Then what was in flight ends. What the board says is complete is complete. If the device was lost
// to a kernel and only one launch ran, that launch fails with the kernel's name; if several ran,
// each runs alone the next time. Everything else is lost and goes elsewhere. The ladder of the
// engine calls Revive: a standby, which has memory mapped and page-locked already, a new worker, or
// everything anew. A standby takes over only when it has mapped all slabs.
//
// # Go kernels in workers
//
// With weft's Options.Isolate the CPU devices are here too: each is a worker that computes in
// memory of its own, to which data is copied. Its Go kernels are those that weft.Worker was given.
// A launch can be stopped: Stop travels to the worker, where Call.Stopped tells the kernel; a
// kernel that does not ask is ended with its worker. The private memory of a worker is limited
// (RLIMIT_DATA), and the guard (guard_linux.go) kills the worker with the newest large task when
// less than the reserve is left of the memory of the machine or its control group. rights_linux.go,
// filter_linux.go and files_linux.go have what children give up; docs/RATIONALE.md says why.
//
// # Files
//
// child_linux.go starts a child (spawn), asks it, kills it and waits for its end; revive_linux.go
// puts another worker in the place of a lost one (Revive) and keeps standbys. The rest, each with
// _linux.go:
//
//	device    Open, and the parent's view of a worker: attaching, submitting, closing
//	watch     completions while a worker runs, and the end of its operations when it is gone
//	transfer  copies, also from siblings
//	lane      operations in flight, and how their completions are read
//	memory    buffers in slabs
//	stage     copies of host memory outside the arena
//	registry  numbers for kernels
//	join      ranks of native collectives
//	tune      decisions about kernels that outlive a worker
//	rights    what a child closes and gives up
//	filter    which calls of the system it may make
//	files     which files a confined child may open
//	guard     memory that is to stay free
//	retry     repeated attempts to open a device
//	backoff   pauses before a child is replaced
//	talk      limits on what a child may log
//	worker    the child that runs a device
//	keeper    the child that makes device memory, and the parent's view of it
//	conn      messages on the control socket
//	ring      records in shared memory
//	wire      what those records mean
package proc
