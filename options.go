package weft

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/all"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// ErrOptions is wrapped by every error about options: those of Validate, Set and
// LoadOptions.
var ErrOptions = errors.New("bad option")

// Options configure Open. The zero value uses every device found, with the
// defaults named. All fields but the last few are also keys, which flags and
// configuration files share: see Keys, Set and LoadOptions.
type Options struct {
	// Devices selects devices: a backend ("cpu", "cuda"), one device of it
	// ("cuda:1"), or a list joined by commas; empty means everything found. A
	// slash divides each device named before it into several: "cpu/4" is the
	// cores, which are one device, as four with cores of their own, "cuda:0/4"
	// one GPU served by four workers. A name that nothing here has is an error.
	Devices string
	// MaxDevices is the largest number of devices to use; 0 uses all. The best are
	// kept: the fastest, if the cache has measurements of all that are found, else
	// those with the highest score.
	MaxDevices int
	// Spares are devices, by name and joined by commas ("cuda:1"), that are opened and stand
	// by: they take no work until another device is lost, or Swap or Undrain puts them into
	// service. MaxDevices does not count them.
	Spares string
	// Policy names what places tasks (sched.Default), Partitioner what cuts work
	// (sched.DefaultPartitioner). PlaceBy and CutBy bring the caller's own.
	Policy      string
	Partitioner string
	// PolicyBetween and PolicyWithin are how the policy "hierarchical" chooses a group of close
	// devices, and a device of the group: "finish" (the default), "leastloaded", "capacity" or
	// "roundrobin" (see sched.Hierarchical). They are for that policy alone.
	PolicyBetween string
	PolicyWithin  string
	// Concurrent limits tasks in flight over all devices; 0 means no limit.
	Concurrent int
	// Streams is the number of kernels that each device runs at a time, up to 255; 0 leaves it to
	// the device. NVIDIA GPUs take up to 6, others up to 16.
	Streams int
	// TaskTimeout bounds each execution of a task: what runs longer is ended with
	// its device, which comes back, and the task is tried again; but a Go kernel in this process
	// goes on, and its task fails for good if it reads anything, which the kernel may yet write. With 0 the bound is
	// automatic on devices in worker processes: 20 times what was predicted, for each
	// launch that may share the device, at least 10 s, and 2 minutes while nothing
	// was measured or a kernel may be compiled; Go kernels in this process have
	// none. -1 means no bound anywhere. A task may name its own (graph.Task.Timeout).
	TaskTimeout time.Duration
	// HangTimeout ends a worker process that gives no sign of life for this long (10 s). The worker is
	// replaced, and its tasks run again on other devices. This finds processes that are stopped or hang in a
	// driver; a kernel that never returns is ended by TaskTimeout.
	HangTimeout time.Duration
	// SyncTimeout bounds the wait for data in Get and for devices in Close; 0
	// means no bound.
	SyncTimeout time.Duration
	// CancelWait is the time that a run may take to end after it was cancelled (2 s), or
	// its context ended. After half of that, worker processes that run something of
	// it are killed and started again; after all of it, the run ends without what
	// still runs. That is a Go kernel that does not ask [Call.Stopped]: where it may
	// use memory bound to the run, the error wraps ErrHeld and says which kernel.
	CancelWait time.Duration
	// CloseWait is the time that Close may take (5 s). With either, -1 means no time.
	CloseWait time.Duration
	// Retries is the number of times that a task may fail before its run does (3); -1 means
	// not at all. A Go kernel that has failed may have written what its task only reads (see
	// [Func]). It is therefore tried again only if its task reads nothing, or if what that reads was
	// compared before and after: with Checksums, where Verify checks the task, and where the task or
	// [RunOptions] have Retries above 0 of their own, which Retries here do not stand for. That takes
	// as long as reading it twice. What a gang reads is never compared. What no device can run is tried once.
	Retries int
	// PoolBytes is the size of the host memory that is kept for reuse (256 MiB); -1 keeps
	// none.
	PoolBytes int64
	// HostBytes limits the host memory weft itself takes for data; memory that
	// the program binds or puts is the program's and not counted. Data that a
	// device with memory of its own updates needs its size once here, to be
	// brought home safely. A run begins when what it may take at most fits beside what
	// the runs in progress may take; runs that do not fit wait in the order in which they were
	// submitted, and none that needs memory overtakes another. A run that may take more
	// than the limit begins when no other that needs memory is in progress, and only then can
	// fail with ErrOutOfMemory. 0 means no limit.
	HostBytes int64
	// RebalanceThreshold is the least difference in utilisation between two
	// devices that moves queued tasks (0.3), RebalanceInterval the least time
	// between two such moves (1 s; -1 for no least time).
	RebalanceThreshold float64
	RebalanceInterval  time.Duration
	// HealthInterval is the time between samples of the condition of devices (100 ms);
	// -1 means never.
	HealthInterval time.Duration
	// MemoryMargin is the part of a device's memory that is to stay free (0.05),
	// MaxTemperature how hot it may be in °C (85), PowerBudget and TotalPower what one device,
	// and all together, may draw in watts (0: no budget), MaxUtilisation the part of a device
	// that other programs may use (0: all). They hold where a device reports the figure. Beyond
	// one of them a device is taken for twice as slow, and gets no work if that lasts for
	// three samples, until it is clearly below; of several, the total power has the one drained
	// that draws the most. The last device that takes work is never drained.
	MemoryMargin   float64
	MaxTemperature float64
	PowerBudget    float64
	TotalPower     float64
	MaxUtilisation float64
	// MaxFailures is the number of executions in a row that may fail on a device (3): at the next the
	// device is taken for lost. MaxLosses is the number of times that a device may be lost while a task runs
	// (2): at the next loss the task is taken for the cause. -1 stands for none of either.
	MaxFailures int
	MaxLosses   int
	// Ladder is how a lost device is brought back: a list of standby, restart, reopen and names
	// of Rungs, each with how long it may take ("standby:2s, reopen:30s"; 5 s). When all have
	// failed the device is broken, and they are tried again after a pause, unless the last
	// is fail, which leaves it at that until Recover. Empty means standby, restart and reopen,
	// "off" none.
	Ladder string
	// ProbeInterval is the time between probes of a device: by a small kernel with a known answer,
	// which takes some 50 µs. A device whose probe fails, gives something else or is late is
	// suspect: it gets no work until three probes in a row were good, and is taken for lost
	// after three bad ones. With 0 only devices that have come back are probed, before they
	// get work, and those where tasks fail in a row; -1 means never.
	ProbeInterval time.Duration
	// NoFaultTolerance makes a lost device fail the runs it was part of. Its
	// key is fault_tolerance, with the opposite sense.
	NoFaultTolerance bool
	// Exact asks for the same bits on any number of devices: only devices of
	// one backend are used, the best as for MaxDevices, and no vendor's library
	// routines.
	Exact bool
	// Checksums has data in host memory checked: what the program binds or puts, and what
	// devices write there, gets a checksum, which is compared when a device or the program
	// has read the data. A run fails with ErrChecksum if data that it read had changed by itself, or if
	// a Go kernel wrote data that its task only reads; Get fails if data had changed by itself. Devices then
	// exchange data by way of host memory. It costs about 0.1 ms for each MiB that is written or read.
	Checksums bool
	// Verify has results checked: one task in this many (1: every task) is executed on two
	// devices, and its readers wait until the results were compared. When they differ, another
	// device decides, or the task's Go functions in this process, but with Isolate. The right result is used;
	// the device with the wrong one is drained, and named by Report.Wrong, events and the log. What it computed
	// for tasks that were not picked stays as it is. The run
	// fails where results differ and nothing can decide. Where no second device is left that can execute a task,
	// as when all but one are drained, the task is executed once, its result is used as it is, and
	// Report.Unverified counts it: a run's results are sure only with 1 and where Report.Unverified is 0.
	// Which tasks are picked is a hash of their number and of
	// the number of the run. It needs two devices. Those of one kind must give the same
	// bytes; for others see graph.Data.Tolerance. Gangs are not checked. What a
	// checked task only reads is summed once, and before and after each execution by a Go kernel. 0 checks nothing.
	Verify int
	// Validation has drivers check how they are used, where they can, and logs
	// what they find; it is slow. Vulkan has a layer for it, which must be there.
	Validation bool
	// Pin ties the threads of CPU devices to their cores.
	Pin bool
	// Realtime has the threads of CPU devices and of the runtime's loop go before all ordinary
	// threads of the machine (SCHED_FIFO). Open errs where that is not permitted. Kernels
	// that take every core then leave nothing for other programs.
	Realtime bool
	// Trace is the number of events of what ran where to keep; 0 keeps none. Its
	// key is trace_events.
	Trace int
	// NoCalibrate opens devices without measuring them, which takes up to a
	// second when nothing is known about them. Its key is calibrate, with the
	// opposite sense.
	NoCalibrate bool
	// CacheDir is the folder for measurements that are kept between runs: empty for a folder
	// in the user's cache directory, where there is a home directory, "off" for nowhere.
	CacheDir string
	// Standby keeps a second worker process warm for each device that is in one, which
	// takes over at once after a fault.
	Standby bool
	// Isolate has CPU devices run in worker processes, as GPUs do (Linux): a Go kernel that
	// overflows its stack, calls os.Exit, crashes or never returns costs a worker, which is
	// replaced, and not the program. Its task is tried again, and after MaxLosses its run
	// fails with a [Quarantine] that tells what happened each time. Worker is given the
	// kernels. Data is copied to workers and back. What [Go] and [Map] run stays in
	// this process. Of the environment a worker keeps PATH, HOME, TMPDIR, LANG and the like, Go's variables
	// and those that begin with WEFT_. What it prints goes to Log.
	Isolate bool
	// Confine, which needs Isolate, has these workers keep only the system calls that computing takes: they cannot
	// start programs and processes, make sockets and pipes, signal, trace or schedule other
	// processes, take memory that WorkerBytes does not limit, and make or change files; Open errs
	// where the system cannot do that. Where the kernel has Landlock (Linux 5.13), they read no
	// files but those of programs and libraries, and cannot look into other processes by /proc:
	// what a kernel needs is data of its task. Where it has not, this process leaves no core file and is closed to
	// debuggers, so that they cannot read its memory.
	Confine bool
	// WorkerBytes is the memory that each of these workers may take, half of it for data of
	// tasks (half of what the machine or its control group has), 64 MiB at least. A kernel that
	// allocates more ends its worker. It needs Isolate.
	WorkerBytes int64
	// MemoryReserve is the part of the machine's memory, or of its control group's, that is to stay
	// free (5 %); -1 means that nobody watches. When less is left, the worker of these
	// that has the newest large task is ended, before the system ends the program. The
	// task is tried again, as after other losses. Where other programs hold the memory
	// nothing is ended, and the log says so. It needs Isolate.
	MemoryReserve int64
	// WorkerCommand starts worker processes, for programs whose main does not
	// call Worker: a command whose main does, and its arguments.
	WorkerCommand string
	// Socket lets processes of the same user watch the runtime, as weft top does: "on"
	// makes a socket called by the process in the user's runtime folder, a path with a
	// slash names the socket, in a folder that only the user can enter. Empty or "off"
	// makes none.
	Socket string

	// Checkpoint says where [Runtime.Steps] and [Runtime.RunStages] keep what they have
	// computed, so that it outlives the process. Without a folder they keep nothing.
	Checkpoint Checkpoint
	// Funcs are the Go kernels the program brings, by name. Those of a workload are what its
	// function Funcs returns; workload.Funcs puts those of several together.
	Funcs map[string]Func
	// Rungs are rungs of the recovery ladder that the program brings, by the names that Ladder
	// has for them.
	Rungs map[string]Rung
	// PlaceBy, when set, makes the policy that places tasks, in place of the one that
	// Policy names. The runtime's loop calls it, so it must not block. What it does
	// wrong is logged once, and the default policy places the tasks concerned (see
	// sched.Guard). Predictions make policies of their own from it.
	PlaceBy sched.Factory
	// CutBy, when set, cuts work in place of the partitioner that Partitioner names.
	// It may be called by several goroutines at a time.
	CutBy sched.Partitioner
	// Drivers replaces the drivers that would be used.
	Drivers []driver.Driver
	// Log receives warnings, and what is opened; nil discards them. Its handler must not use
	// the runtime, which waits for it.
	Log *slog.Logger
	// Explain, when set, is told why each task went where it went, one task
	// at a time and before the run it belongs to is known to have ended. It has
	// a goroutine of its own and may look at the runtime, but must not wait for
	// a run, nor for Close.
	Explain func(sched.Explanation)
}

// selection is what Devices says; only backends there are may be named.
func (o *Options) selection() (machine.Selection, error) {
	sel, err := machine.ParseSelection(o.Devices)
	if err != nil {
		return sel, err
	}
	names := all.Names()
	if o.Drivers != nil {
		names = nil
		for _, d := range o.Drivers {
			names = append(names, d.Name())
		}
	}
	for _, b := range sel.Backends() {
		if !slices.Contains(names, b) {
			return sel, fmt.Errorf("no backend %q; there is %s", b, strings.Join(names, ", "))
		}
	}
	return sel, nil
}
