// Package trace records what a run did and says where the time went: events
// with bounded memory, export for Perfetto, and an analysis that ends in a
// verdict with the gain each fix would bring. It is pure: the caller of Record
// supplies the times of an event.
//
//	Recorder ─► []Event ─┬─► Analyze ─► WriteAnalysis
//	                     ├─► WriteTimeline
//	                     └─► WriteChrome ─► file ─► ReadChrome ─► []Event
//
// The engine records; the simulator, the root package and the command read. Start at
// account.go: analysis and text stand on it.
package trace

import (
	"fmt"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Kind is the kind of an event.
type Kind uint8

const (
	// Exec is a task running on a device, from Start to End.
	Exec Kind = iota
	// Copy is a transfer, from From's memory to Device's.
	Copy
	// Changes of a device's state, at Start.
	Lost  // it is gone
	Back  // it works again
	Slow  // it runs slower or faster than before
	Drain // it takes no new work
	Fail  // it could not be brought back
	// What the engine did, at Start.
	Retry    // a task was put back after a failure
	Replay   // a task is run again because its result was lost
	Evict    // a value was moved out of a memory
	Commit   // a value was made durable
	Move     // a queued task was moved to another device
	RunBegin // a run began
	RunEnd   // a run ended
	// Missing says that a Recorder was full: the Bytes events before Start were
	// dropped. An analysis begins there.
	Missing
)

var kindNames = [...]string{"exec", "copy", "lost", "back", "slow", "drain", "fail",
	"retry", "replay", "evict", "commit", "move", "run-begin", "run-end", "missing"}

// String returns the kind's name as it stands in exported files.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("unknown(%d)", k)
}

// lasts reports whether events of the kind have a duration.
func (k Kind) lasts() bool { return k <= Copy }

// rare reports whether events of the kind are few and must outlive the many:
// without them an analysis would not know which devices it had.
func (k Kind) rare() bool { return rareKinds>>k&1 != 0 }

const rareKinds uint32 = 1<<Lost | 1<<Back | 1<<Slow | 1<<Drain | 1<<Fail | 1<<RunBegin | 1<<RunEnd

// Event is one thing that happened. It holds no pointers, so a million of them
// cost the garbage collector nothing.
type Event struct {
	Kind   Kind
	Failed bool  // Exec and Copy: it did not succeed
	Lane   uint8 // which of the device's queues
	Width  uint8 // Exec: the number of lanes of a team that it took; 0 stands for 1
	Device machine.DeviceID
	From   machine.DeviceID // Copy: where from
	Run    int32
	// Task is the task meant, -1 where none is; for a Copy, the task whose
	// input it brings.
	Task graph.TaskID
	// Ready is the time at which all predecessors were issued, Issued the time at
	// which the device was given the task. Start and End bound its execution.
	Ready, Issued, Start, End time.Duration
	// InputsAt is the time at which the last input had arrived, copies included;
	// for a Copy, the time at which its source was complete. It equals the End of
	// the event that brought it: the analysis finds causes by this where it is
	// given none.
	InputsAt  time.Duration
	Predicted time.Duration
	Bytes     int64
}

// lanes returns the number of lanes that an execution took.
func (e *Event) lanes() int { return max(int(e.Width), 1) }

// at is the time an event is sorted by.
func (e *Event) at() time.Duration {
	if e.Kind.lasts() {
		return e.End
	}
	return e.Start
}
