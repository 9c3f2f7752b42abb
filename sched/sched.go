package sched

import (
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Problem is the machine, costs and rules that a policy is made for. It does not change during its life.
type Problem struct {
	Machine *machine.Machine
	// Cost answers copy times; task times come with each Ready.
	Cost machine.Cost
	Seed uint64
}

// Factory makes a policy.
type Factory func(Problem) Policy

// Policy places ready tasks. It may keep state between calls, and must place
// deterministically. Tasks it leaves out stay ready and are offered again.
type Policy interface {
	Place(v *Situation, out []Placement) []Placement
}

// Observer is the optional ability to learn from how placements turned out.
type Observer interface {
	Observe(o Outcome)
}

// Stealer is the optional ability of a policy to let devices take tasks that are
// queued on others. The engine then calls Steal for a device that has nothing left
// to issue, which returns the device to take from, or -1; and devices that use host
// memory begin long tasks in their turn, whichever of them they are queued on.
type Stealer interface {
	Steal(v *Situation, thief machine.DeviceID) machine.DeviceID
}

// Explainer is the optional ability to say why a task went where it went.
type Explainer interface {
	// Explain describes the choice for v.Tasks[i] with its numbers, as Place
	// would make it now if that task came first, without making it.
	Explain(v *Situation, i int) Explanation
}

// Placement puts v.Tasks[Task] on a device.
type Placement struct {
	Task   int32 // index into Situation.Tasks
	Device machine.DeviceID
	// Finish is the predicted end of the task on the device.
	Finish time.Duration
}

// Situation is the input of one placement round: the ready tasks and the state
// of every device at that time. It is valid during the call only.
type Situation struct {
	Now time.Duration
	// Tasks are the ready tasks in the order they should be considered.
	Tasks []Ready
	// Devices holds the state of every device of the machine.
	Devices []Device
	// Dirty lists devices whose FreeAt, Class, Accepts or Slow changed since
	// the last call, other than by this policy's own placements.
	Dirty []machine.DeviceID
	// Graphs has the graph of every run, by Ready.Run.
	Graphs []RunGraph
	// HostUsed is the number of bytes of host memory in use, the caller's own not counted.
	HostUsed int64
	// Classes is one more than the largest Device.Class. Devices of a class
	// cost the same for every task and have equal links.
	Classes int32
	// Crowds are devices that compute on the same cores and take more of them
	// than there are: what one is given delays the others. They do not change.
	Crowds []machine.Crowd
}

// RunGraph is the graph of a run: Flow.Succs are the successors of a task. Ranks are
// upward ranks of its tasks, the time from the start of each to the end of the graph, if
// the policy planned the run (Planner); else nil.
type RunGraph struct {
	Flow  *graph.Flow
	Ranks []time.Duration
}

// Ready is a task to place.
type Ready struct {
	Run  int32
	Task graph.TaskID
	// Kernel, Ops and Bytes say what it runs and how large it is, for policies that
	// learn.
	Kernel   *graph.Kernel
	Ops      float64
	Bytes    float64
	Priority int
	// InputsAt is the predicted end of the last predecessor.
	InputsAt time.Duration
	// Cost is its predicted time by device class, negative where it cannot run.
	Cost []time.Duration
	// CostID is a number that tasks have in common only if they have the same Cost, which does
	// not change; 0 if that is not known.
	CostID uint64
	// Width is the number of lanes that it takes, by device class; nil where it takes one of each.
	Width []uint8
	// Need is the memory its uses and workspace take of a device's own memory,
	// HostNeed what they take of host memory, where the caller's data is already.
	Need, HostNeed int64
	// Inputs lists the copies of what it reads; empty when every device
	// reaches them without a copy.
	Inputs []Input
	// Near is the device its last input is being made on, -1 when they are all
	// there: running behind it spares a hand-over between devices.
	Near machine.DeviceID
	// Hint is a preferred device or -1. Only, when not nil, lists the only
	// devices allowed, ascending.
	Hint machine.DeviceID
	Only []machine.DeviceID
}

// Input is one copy of one value a task reads. Values with several copies have
// several entries with the same Value number, next to each other.
type Input struct {
	Value int32
	Bytes int64
	// At is the device whose memory holds the copy, machine.Host for the host.
	At machine.DeviceID
}

// Device is the state of a device at the time of a Situation.
type Device struct {
	Class int32
	// Crowd is the number of its crowd in Situation.Crowds, from 1; 0 for none.
	Crowd int32
	// Accepts is false for a device that is lost, draining or failing.
	Accepts bool
	// HostMemory devices read and write host memory without copies.
	HostMemory bool
	// FreeAt is the predicted end of all work placed on the device. For a device in a crowd it is
	// the predicted end of as much of the crowd's work as takes all its cores. Place must update
	// it (Situation.Assign does) so that later tasks of the round see it.
	FreeAt time.Duration
	Queued int32 // tasks placed and not finished
	// Team is the number of its lanes that work on tasks together
	// (machine.Device.TeamSize), 0 where tasks run one after another.
	Team int32
	// CapBytes is the part of its memory that may be used, FreeBytes the part of CapBytes that is
	// free now: negative in a memory that shrank, everything on a HostMemory device, since host
	// memory is shared (Situation.Free).
	FreeBytes, CapBytes int64
	// Util is the part of it that others than this engine used when last sampled, 0 to
	// 1; Load is a moving average of all that was used.
	Util, Load float64
	// Slow is the factor by which the device is slower than its model, 1 normally.
	Slow float64
	// Score is the device's score, 0 to 100 (machine.Score).
	Score float64
}

// Outcome is the result of a placement.
type Outcome struct {
	Kernel     *graph.Kernel
	Ops, Bytes float64
	Device     machine.DeviceID
	Predicted  time.Duration // its class's cost times the device's Slow
	Took       time.Duration // execution alone
	Turnaround time.Duration // from ready to done
	Expected   time.Duration // Turnaround as predicted when placed, 0 if not known
	Failed     bool
}

// Explanation says why a task would go to a device.
type Explanation struct {
	Task   string
	Policy string
	Chosen machine.DeviceID // -1 when nothing fits
	Why    string           // one sentence with the numbers
	// Rows has a line for every device considered.
	Rows []ExplainRow
}

// ExplainRow is one device's numbers in an Explanation, counted from the
// Situation's Now.
type ExplainRow struct {
	Device   machine.DeviceID
	Out      bool          // it could not take the task; Note says why
	Starts   time.Duration // when it could start
	Transfer time.Duration
	Runs     time.Duration
	Finishes time.Duration
	Note     string // why it is out, or what else counted
}
