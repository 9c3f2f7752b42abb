// Package chaos runs devices in worker processes and strikes the workers, to see what becomes of
// the work: faults are real, by signals and by what is written to a worker's memory.
//
// GPUs are in workers in any program. Cores and scripted devices, which a program has in its own
// process, are put into workers here, so that they can be struck as a GPU's can. A program that
// uses this package calls proc.Main with Makers first in main.
//
// A rig is a runtime whose devices, cores or scripted ones, are each in a worker. A strike harms
// one of the workers from outside: SIGKILL, SIGSTOP for good or in turn with SIGCONT, or noise
// written to its rings. A trial opens a rig for some rounds of a job, strikes as a seed decides,
// checks every result, closes the rig and counts what is left. A bout of a trial lasts from opening
// devices to closing them. What happens in it is its plan, a function of the seed and the number of
// the bout alone: a live trial carries it out by signals, limits of memory and scripts, and
// Trial.Simulate as faults of the simulator, on devices described as a rig has them. Nothing in the
// engine knows of strikes: it learns of a fault only by what that does to a device.
package chaos
