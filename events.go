package weft

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/task"
)

// EventKind names what happened; each kind says below which fields of an [Event] it sets.
type EventKind uint8

// What events tell. The first ones are notices of the engine.
const (
	EventRunBegan     = EventKind(engine.RunBegan)
	EventRunEnded     = EventKind(engine.RunEnded)      // Err says how, nil for well
	EventTaskDone     = EventKind(engine.TaskDone)      // Took is its duration
	EventTaskFailed   = EventKind(engine.TaskFailed)    // one execution of it, for which Err is the reason
	EventTaskRetried  = EventKind(engine.TaskRetried)   // it is tried again after a pause
	EventTaskReplayed = EventKind(engine.TaskReplayed)  // it runs again, because its result was lost with a device
	EventTaskMoved    = EventKind(engine.TaskMoved)     // queued on From, it is on To now: stolen, begun in turn or rebalanced
	EventDevice       = EventKind(engine.DeviceChanged) // the device was From and is To: healthy, suspect, draining, lost, broken or spare; Err says why
	EventRule         = EventKind(engine.RuleActed)     // a rule about the health of devices did What
	// EventDrained says that a device which was to be drained or swapped out holds no work, nor
	// data that is nowhere else, or that Err says of what could not be copied.
	EventDrained = EventKind(engine.DeviceDrained)
	// EventMissed says that the reader was too slow: Missed events before the next one
	// are not told.
	EventMissed = EventKind(engine.NoticeKinds)
)

var eventNames = [...]string{"run began", "run ended", "task done", "task failed", "task retried", "task replayed", "task moved", "device", "rule", "drained", "missed"}

// String returns the kind's name.
func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("unknown(%d)", k)
}

// Event is one thing that happened in a runtime. Fields that do not belong to its kind are
// empty.
type Event struct {
	Kind   EventKind
	At     time.Duration // since the runtime was opened
	Run    int64         // its number, as in [Report]; 0 for none
	Task   string        // its name; "" for none
	Device string        // its name; "" for none
	From   string        // a device or a state; see the kinds
	To     string
	Took   time.Duration
	What   string // of a rule: what it did
	Missed uint64 // events that are not told
	Err    error
}

// String writes the event as a line.
func (e Event) String() string {
	var b strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	switch e.Kind {
	case EventMissed:
		add("%d events are not told: the reader was too slow", e.Missed)
	case EventDevice:
		add("device %s was %s and is %s", e.Device, e.From, e.To)
	case EventDrained:
		add("device %s is drained", e.Device)
	case EventRule:
		add("rule: %s %s", e.Device, e.What)
	case EventRunBegan, EventRunEnded:
		add("run %d %s", e.Run, strings.TrimPrefix(e.Kind.String(), "run "))
	default:
		add("run %d: %q %s", e.Run, e.Task, strings.TrimPrefix(e.Kind.String(), "task "))
		switch {
		case e.Kind == EventTaskMoved:
			add(" from %s to %s, %s", e.From, e.To, e.What)
		case e.Device != "":
			add(" on %s", e.Device)
		}
		if e.Took > 0 {
			add(" in %v", e.Took)
		}
	}
	if e.Err != nil {
		add(": %s", strings.ReplaceAll(e.Err.Error(), "\n", "; "))
	}
	return b.String()
}

// Events returns what happens from the call on: events of the kinds given, or all. Range
// over it once; the events end with the loop, with ctx and with the runtime.
//
// Up to 4096 events wait for the reader. One that is slower loses the oldest, and is told
// how many by an event of kind [EventMissed]; it never holds up what runs.
func (r *Runtime) Events(ctx context.Context, kinds ...EventKind) iter.Seq[Event] {
	need("Events", ctx, true)
	f := r.must("Events").x.Subscribe(noticesOf(kinds))
	stop := context.AfterFunc(ctx, f.Close)
	return func(yield func(Event) bool) {
		defer f.Close()
		defer stop()
		var buf []engine.Notice
		for ctx.Err() == nil {
			ns, missed, ok := f.Take(buf[:0])
			if missed > 0 && !yield(Event{Kind: EventMissed, Missed: missed}) || !ok {
				return
			}
			for i := range ns {
				if !yield(r.event(&ns[i])) {
					return
				}
			}
			clear(ns)
			if buf = ns; len(ns) > 0 {
				continue
			}
			task.Block(ctx, func() {
				select {
				case <-f.Ready():
				case <-ctx.Done():
				}
			})
		}
	}
}

// noticesOf returns the set of the engine's notices that kinds of events stand for.
func noticesOf(kinds []EventKind) (set uint32) {
	for _, k := range kinds {
		if k < EventMissed {
			set |= exec.Kinds(engine.NoticeKind(k))
		}
	}
	if len(kinds) == 0 {
		return exec.AllKinds
	}
	return set
}

// event makes an event of a notice.
func (r *Runtime) event(n *engine.Notice) Event {
	e := Event{Kind: EventKind(n.Kind), At: n.At, Run: int64(n.Run.ID), Took: n.Took, What: n.Rule, Err: n.Err}
	if n.Task != graph.NoTask {
		e.Task = n.Graph.TaskName(n.Task)
	}
	if n.Device != machine.Host {
		e.Device = r.x.Machine.DeviceName(n.Device)
	}
	switch n.Kind {
	case engine.TaskMoved:
		e.From, e.To = r.names[n.From], e.Device
	case engine.DeviceChanged:
		e.From, e.To = n.Change.From.String(), n.Change.To.String()
	}
	return e
}
