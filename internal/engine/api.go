package engine

import (
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// RunID names a submitted graph. IDs are never reused.
type RunID int64

// DataRef names resident data, which outlives runs.
type DataRef int32

// Inst names an instance: a buffer in one memory that holds an interval of one
// data handle. Numbers are reused after Free.
type Inst int32

// NoInst marks the absence of an instance.
const NoInst Inst = -1

// Lane is an in-order queue of operations. Lane 0 copies within host memory;
// every device has compute lanes, one lane for copies into its memory and one
// for copies out of it (see Engine.Lanes). A copy between devices is on the lane
// of the one it goes to, or over a network of the one it comes from.
type Lane int32

// Op names an operation: the Seq-th given to a lane, from 1. Operations of a
// lane start and complete in order.
type Op struct {
	Lane Lane
	Seq  uint32
}

// LaneInfo describes a lane.
type LaneInfo struct {
	Device machine.DeviceID // machine.Host for lane 0
	Kind   LaneKind
	Index  int // among the device's compute lanes
}

// LaneKind is the kind of operations of a lane.
type LaneKind uint8

const (
	Compute LaneKind = iota
	CopyIn
	CopyOut
)

// ActionKind is the kind of an order to the loop. Home, Alloc and Free take effect at
// once and in order; Copy and Launch are operations that complete later.
type ActionKind uint8

const (
	// Home introduces a host instance for a run's input or output data, or for
	// resident data. The instance is the caller's own memory.
	Home ActionKind = iota
	// Alloc makes an instance of Bytes in the memory of Device.
	Alloc
	// Free ends an instance. No operation in flight uses it.
	Free
	// Copy moves Bytes from Src+SrcOff to Dst+DstOff after Waits.
	Copy
	// Launch runs a task (or one rank of a gang) after Waits.
	Launch
	// Drop says that the engine has given up on Device (hung, failing) and does not
	// wait for its operations in flight. The loop must end them and complete
	// operations that wait for them with DepFailed.
	Drop
	// Recover asks the loop to bring Device back by Rung of the ladder. The answer
	// is an event DeviceBack or RecoverFailed; no answer within HealthRules.RungTimeout
	// counts as RecoverFailed.
	Recover
	// Probe asks the loop to probe Device: to submit a run with RunOptions.Probe there. The
	// answer is an event Probed.
	Probe
	// Done ends a run: Err is nil or says what failed and which tasks did not
	// finish. Report holds the run's account.
	Done
	// Stop says that the result of a launch in flight, Op on Device, is not needed,
	// because its run has failed. The launch completes like any other, early if the
	// device can end it.
	Stop
)

// Arg is a buffer a launch gets, in the order of the task's uses; a workspace
// comes last.
type Arg struct {
	Inst   Inst
	Offset int64
	Bytes  int64
}

// Action is one thing for the loop to do. Waits and Args are valid until the
// next Step.
type Action struct {
	Kind ActionKind
	Gang bool  // Launch: of a gang
	Rank int16 // Launch: which member of a gang; Recover: which rung of the ladder, from 0
	Rung Rung  // Recover
	Op   Op    // Copy, Launch, Stop
	// Device whose memory (Home, Alloc, Free), lane (Launch, Stop), destination
	// (Copy) or fate (Drop, Recover, Probe) this is about; machine.Host for the host.
	Device machine.DeviceID
	From   machine.DeviceID // Copy: whose memory Src is in
	Task   graph.TaskID     // Launch
	Data   graph.DataID     // Home: the run's data
	Ref    DataRef          // Home: resident data, when Run is 0
	Run    RunID            // Home, Launch, Done
	Graph  *graph.Graph     // Launch
	Inst   Inst             // Home, Alloc, Free
	// Secret: of Copy and Launch, other memory that the device takes for it is to be overwritten
	// afterwards; of Free, the content of Inst.
	Secret bool
	// Compare: of Launch, what the task only reads is to be compared before and after.
	Compare bool
	Bytes   int64 // Home, Alloc, Copy
	Src     Inst  // Copy
	Dst     Inst
	SrcOff  int64
	DstOff  int64
	Waits   []Op
	Args    []Arg
	Err     error   // Done
	Report  *Report // Done
}

// EventKind is the kind of an event that the loop reports to the engine.
type EventKind uint8

const (
	// OpDone completes an operation. There is exactly one for each operation of a device that is
	// not lost or dropped, in lane order.
	OpDone EventKind = iota
	// DeviceLost: nothing in flight on the device will complete and what its
	// memory held is gone, unless Kept says that a keeper holds it.
	DeviceLost
	// DeviceBack: the device works again, with empty memory unless Kept. Copies in
	// flight from or to memory that is gone fail.
	DeviceBack
	// DeviceQuiet: every operation given to a device before it was dropped has ended
	// and touches host memory no more. DeviceBack implies it.
	DeviceQuiet
	// RecoverFailed: the rung of the ladder last asked for did not help.
	RecoverFailed
	// Probed: the probe of Device that was asked for has ended, well or with Err.
	Probed
	// Telemetry carries a sample of the device's condition.
	Telemetry
	// Capacity sets the device's memory capacity to Bytes.
	Capacity
	// Slowed says the device now runs Factor times slower than its model.
	Slowed
	// Cancel ends a run early.
	Cancel
	// HotSwap drains Device and moves its state and work to Spare, another device, which accepts work
	// from then on. It is complete when Device is drained.
	HotSwap
	// Drain stops new work on Device and moves what only its memory has to host memory
	// once it is idle; it is complete then. With Err, that is what the device did wrong. Undrain lets work in again, also on a spare.
	Drain
	Undrain
	// Revive starts the ladder of a broken device at once. It is complete when the device
	// is back.
	Revive
	// GiveUp: the operations of a run that has failed or was cancelled are not waited
	// for. Devices in processes of their own that run one of them are dropped.
	GiveUp
	// Detached: Op, the oldest launch of its lane, has left the lane and runs on by
	// itself; its OpDone follows when it ends. No operation given to the lane after
	// it begins. See Blocks.
	Detached
)

// Status is the result of an operation.
type Status uint8

const (
	OK Status = iota
	// Failed: the operation itself failed; Err says how.
	Failed
	// DepFailed: an operation it waited for failed, so it never started.
	DepFailed
	// OutOfMemory: the device could not provide memory that its capacity promises.
	OutOfMemory
	// Refused: the task's kernel is to blame. It is not counted against the device.
	Refused
	// Unfit: the task's kernel cannot run there, however often it is tried, nor on devices of the
	// same class. It is not counted against the device.
	Unfit
	// Spoilt: the task's kernel failed, and what the task reads may have changed, so that it
	// must not be tried again.
	Spoilt
)

// Event is one thing that happened.
type Event struct {
	Kind   EventKind
	Status Status // OpDone
	Kept   bool   // DeviceLost, DeviceBack
	// Blamed says of a lost device that a launch which failed before caused the
	// loss: the ladder starts from its first rung, and no task that was running is
	// implicated. The engine believes it once for each launch that failed there;
	// otherwise a device that always claims it would be brought back without end.
	Blamed bool
	Never  bool // RecoverFailed: no rung can bring the device back
	Op     Op
	Device machine.DeviceID
	Spare  machine.DeviceID // HotSwap
	Run    RunID            // Cancel, GiveUp
	Bytes  int64            // Capacity
	Factor float64          // Slowed
	Start  time.Duration    // OpDone: when it began and ended
	End    time.Duration
	Err    error
	Sample *Sample // Telemetry
	// Answer, if set, is called once: with nil when the event is complete, or with why it
	// cannot be. HotSwap, Drain, Undrain, Revive and Telemetry only.
	Answer func(error)
}

// Sample is a device's condition at one time; negative fields are not known.
type Sample struct {
	Util         float64 // 0 to 1
	Own          float64 // the part of Util that is the engine's own work; never negative
	MemUsed      float64 // fraction of memory
	MemBytes     int64   // of memory in all
	TempC        float64
	PowerW       float64
	ClockMHz     float64
	MemErrors    int64 // uncorrectable, since boot
	Faults       int64 // of the device itself, since it opened; negative where that is not known
	Unresponsive bool
	// Asked says that a caller wanted to know, besides the samples at an interval. What counts
	// samples or averages over them leaves it out.
	Asked bool
}

// Binding ties a graph's data to resident data.
type Binding struct {
	Data graph.DataID
	Ref  DataRef
}
