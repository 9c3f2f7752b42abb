// Package exec runs the engine on real devices in real time. One goroutine owns the engine: it
// collects completions from devices, requests from callers and timers, calls Step, and performs the
// actions. Everything else reaches the engine through it.
//
//	callers ──► requests ──┐
//	devices ──► completions ├──► Step ──► actions ──► device batches
//	timers  ───────────────┘
//
// # Operations
//
// Each device gets a batch at the end of a step. A copy from one device to another goes out in its
// turn, after everything that was decided before it for either device. The loop never waits for a
// child process: an operation that needs an answer first, as when device memory has to be made or
// mapped, goes by a courier, a goroutine, with all later operations of that device.
//
// A run that is cancelled starts nothing more. Stop names its launches in flight; a kernel in Go
// ends when it asks Call.Stopped. After half of Config.CancelWait (2 s) workers that run its
// operations are killed, and after all of it the run is reported as ended even if a Go kernel that
// does not ask still runs. The error names that kernel if it may use the caller's memory
// (close.go). Close returns after 5 s at the latest with the names of what is left.
//
// # What is known about devices
//
// Open measures devices before the engine takes over, by the kernels of internal/probe through the
// driver contract: arithmetic by unit on all devices at once, memory bandwidth alone and together
// with devices that share it, links, and the reply time of an idle device. Devices that are alike
// get the same figures, so that they stay one class. From then on a machine.History learns from
// every task, and from copies that had their path to themselves. Both are kept in the cache
// directory, in files keyed by everything that changes a device's speed. A measurement that
// scatters is used and not kept; a device that has become twice or half as fast is measured again
// at the next start.
//
// # Health
//
// watch.go samples the condition of each device; one that reports its condition has a goroutine
// that asks it. Probes go the way of any run (probe.go). What devices in the caller's process run
// is looked at every 100 ms at least; a call in host memory that has run for a minute is logged
// once, with its kernel. A device is revived off the loop by the rungs that the engine asks for
// (recover.go).
//
// # Checksums
//
// With Config.Checksums the loop keeps a CRC32C of each 64 KiB of host memory that the caller
// brought or an operation wrote, and compares when an operation that reads it has ended and before
// a caller reads resident data (sums.go). A run that read changed data is cancelled and ends with
// ErrChecksum; if the data is resident, so do all runs in progress. Links between devices are left
// out then, so that data goes through host memory.
//
// A launch in Go that changed what its task only reads fails: with ErrChecksum where checksums are
// on, with driver.ErrSpoilt otherwise. Neither is tried again. A kernel that a device can never run
// (driver.ErrUnfit) excludes the devices of that class for tasks of its shape. A kernel that did
// not start for another reason (driver.ErrKernel) is tried again.
//
// # Watchers
//
// A Feed is the place of one reader in a ring of 4096 notices. Feeds of the same kinds share a
// ring; a run that is followed has its own. The loop publishes once a step and never waits: if a
// ring is full, the oldest notice is dropped and readers behind it count that. The last reader of a
// notice clears it. Names of tasks and devices are made by the reader.
package exec
