// Package verify decides about results that are checked: which tasks are executed twice, by which
// devices, whether two results agree, and which device is wrong when they do not. It is pure: the
// root package and sim carry out what it decides.
//
//	Pick ─► Rewrite: each task picked becomes one of the device "verify", with the same uses
//	              │
//	              ▼ that task, in host memory
//	        Case.Next ─► Execute on one device, then on another ─► Case.Ran ─┐
//	              ▲                                                          │
//	              └──────────────── until two agree ◄────────────────────────┘
//	              ▼
//	        Settle: the result that two agree on, and the devices that had another
//
// # The steps
//
// Pick. A hash of the numbers of the run and of the task picks one task in N, so that the same
// calls pick the same tasks. A device that is wrong in w tasks of a run is seen in that run with
// probability 1 − (1 − 1/N)ʷ. Gangs, tasks without results, and tasks that write what another of
// their uses reads are not picked.
//
// Rewrite. A picked task keeps its uses and gets a kernel that only the device "verify" runs, in
// the program's own process. The engine therefore brings what the task uses to host memory as it
// was, and readers wait for the task as for any other. "verify" is a patient device of the engine:
// its tasks wait for other runs, and their successors are issued when they have ended.
//
// Execute. The task is executed as a run of its own on any device, then on another device, of the
// same kind if there is one, with the options of its run (timeout, retries, priority, weight).
//
// Compare. Devices of one kind (backend and architecture; model for Vulkan; no vendor's routine)
// must give the same bytes. Devices of different kinds are compared by graph.Data.Tolerance: the
// same bytes, or numbers within a part of the largest magnitude. Without a tolerance they are not
// compared.
//
// Decide. Two executions on different devices that agree are right. While no two agree, another
// device executes the task, and when there is none, the Go functions of its kernels in the
// program's process, unless Options.Isolate forbids that. A result that no other agrees with is not
// used while a comparable device is suspect, or lost and being brought back: of three devices, two
// may be lost when the third is wrong. If nothing decides, the run fails with a trace.WrongResult.
// If an execution after the first fails and no device is left, the first result is used and the
// task counts as not verified.
//
// Replace and drain. The right result is copied to where readers find it. A device with another
// result is drained for that error and stays out of service until Runtime.Undrain. A spare takes
// its place; a standby process does not, since it would use the same hardware.
//
// The host is trusted: comparisons, copies and the last decision are made there.
//
// Files: verify.go (picking and rewriting), case.go (decisions), compare.go.
package verify
