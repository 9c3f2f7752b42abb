package engine

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Notices tell watchers what happens; Progress tells how far a run is. Without a watcher or a
// request, nothing here is computed or kept.

// NoticeKind is the kind of a notice.
type NoticeKind uint8

const (
	RunBegan      NoticeKind = iota
	RunEnded                 // Err says how, nil for well
	TaskDone                 // an execution succeeded
	TaskFailed               // an execution failed; Err says how
	TaskRetried              // it is tried again after a pause
	TaskReplayed             // it runs again because its result was lost
	TaskMoved                // it was queued on From, and is on Device now
	DeviceChanged            // the state of a device; Change has both
	RuleActed                // a rule about the health of devices did what Rule says
	DeviceDrained            // a drain that was asked for is complete; Err says what could not be moved
	NoticeKinds   = iota
)

// Rebalanced is the Rule of a TaskMoved notice caused by rebalancing; stealing has another.
const Rebalanced = "rebalanced"

// Notice is one thing that happened, at the time of the step.
type Notice struct {
	Kind   NoticeKind
	At     time.Duration
	Device machine.DeviceID // machine.Host for none
	From   machine.DeviceID // TaskMoved
	Task   graph.TaskID     // graph.NoTask for none
	Graph  *graph.Graph     // of Task
	Run    Progress         // of the run of Task, or of the run itself; its ID is 0 for none
	Took   time.Duration    // TaskDone, TaskFailed
	Change StateChange      // DeviceChanged
	Rule   string           // RuleActed, TaskMoved: which rule, and what it did
	Err    error
}

// Progress is an account of a run under way: its tasks, copies and times so far, and the predicted rest.
type Progress struct {
	ID       RunID
	Tasks    int // of the graph
	Done     int // of these; fewer than before if results were lost
	InFlight int
	Bytes    int64 // copied of its values so far
	Begun    bool  // it was admitted; all below but At is 0 until then
	Started  time.Duration
	At       time.Duration // of this account
	Last     time.Duration // when a task of it last ended, Started if none has
	// Work is the predicted duration of all its tasks, each on the device where it is shortest,
	// Left that of the unfinished ones. A task that takes some lanes of a team counts for that
	// part of its duration.
	Work, Left time.Duration
	Lanes      int // tasks that healthy devices run at a time, a team counted as one
}

// priorPart is the part of a run's work at which the predicted and the measured speed weigh
// the same. The first tasks of a run that end are often not like the rest, so that little
// finished work says little about the speed.
const priorPart = 0.05

// Remaining estimates the time that the run still takes: the predicted work that is left at
// the speed measured so far, which is the speed predicted while little is done. If tasks
// take longer than that, it is the work that would be left if those in flight ended now,
// at the speed that makes. It returns false if the run has not begun or nothing can be told.
func (p *Progress) Remaining() (time.Duration, bool) {
	if !p.Begun || p.Work <= 0 {
		return 0, false
	}
	work, left := float64(p.Work), float64(p.Left)
	priorWork, priorTime := 0.0, 0.0
	if p.Lanes > 0 {
		priorWork = priorPart * work
		priorTime = priorWork / float64(p.Lanes)
	}
	speed := func(done float64, until time.Duration) float64 {
		return (done + priorWork) / (float64(until-p.Started) + priorTime)
	}
	measured := speed(work-left, p.Last)
	if !(measured > 0) || math.IsInf(measured, 1) {
		return 0, false
	}
	flying := min(work*float64(p.InFlight)/float64(max(p.Tasks, 1)), left)
	expected := left/measured - float64(p.At-p.Last)
	overdue := 0.0
	if now := speed(work-left+flying, p.At); now > 0 {
		overdue = (left - flying) / now
	}
	return time.Duration(max(expected, overdue, 0)), true
}

// tally is the predicted work of a run, kept up to date from when it is first asked for.
type tally struct {
	unit []time.Duration // predicted duration of a task, by shape; nil before the first request
	all  time.Duration   // invariant: the sum of unit over all tasks
	left time.Duration   // invariant: the sum of unit over tasks that are not done
	last time.Duration   // when a task last ended
}

// Watch has fn called with every notice from now on, within Step; nil ends that. The
// notice is valid during the call.
func (e *Engine) Watch(fn func(*Notice)) {
	e.watch = fn
	e.records = e.tr != nil || fn != nil
	if fn == nil {
		for _, r := range e.runs {
			if r != nil {
				r.work = tally{}
			}
		}
	}
}

// Progress returns the progress of a run; false if it has ended.
func (e *Engine) Progress(now time.Duration, id RunID) (Progress, bool) {
	s, ok := e.byID[id]
	if !ok {
		return Progress{}, false
	}
	p := e.progress(e.runs[s])
	p.At = max(now, e.now)
	return p, true
}

// Runs returns the progress of the oldest runs that have not ended, at most n of them; probes are
// left out.
func (e *Engine) Runs(now time.Duration, n int) []Progress {
	ids := slices.Sorted(maps.Keys(e.byID))
	ids = slices.DeleteFunc(ids, func(id RunID) bool { return e.runs[e.byID[id]].o.Probe })
	out := make([]Progress, 0, min(n, len(ids)))
	for _, id := range ids[:min(n, len(ids))] {
		p, _ := e.Progress(now, id)
		out = append(out, p)
	}
	return out
}

// Launches returns the launches that devices run, lane by lane.
func (e *Engine) Launches() (out []Running) {
	for i := range e.devs {
		for l := e.devs[i].lanes[0]; l < e.devs[i].lanes[1]; l++ {
			if o, ok := e.running(l); ok {
				out = append(out, o)
			}
		}
	}
	return out
}

// progress returns the progress of a run.
func (e *Engine) progress(r *run) Progress {
	p := Progress{ID: r.id, Tasks: r.report.Tasks, InFlight: r.flight, Bytes: r.report.CopyBytes, At: e.now}
	if !r.begun {
		return p
	}
	w := e.tallied(r)
	p.Begun, p.Done, p.Started, p.Last = true, p.Tasks-r.left, r.report.Started, max(w.last, r.report.Started)
	p.Work, p.Left = w.all, w.left
	for i := range e.devs {
		if d := &e.devs[i]; d.state == Healthy && d.team > 0 {
			p.Lanes++
		} else if d.state == Healthy {
			p.Lanes += int(d.lanes[1] - d.lanes[0])
		}
	}
	return p
}

// tallied returns the tally of a run that has begun, counted anew if it was not kept.
func (e *Engine) tallied(r *run) *tally {
	w := &r.work
	if w.unit != nil {
		return w
	}
	w.unit = make([]time.Duration, len(r.shapes), len(r.shapes)+1) // not nil, even if there are none
	for i := range w.unit {
		w.unit[i] = e.least(r.g.Task(r.f.ShapeTask[i]))
	}
	for gt := range r.g.NumTasks() {
		u := w.unit[r.f.Rows[gt].Shape]
		w.all += u
		if t := &e.tasks.at[r.task(graph.TaskID(gt))]; t.where != done {
			w.left += u
		} else {
			w.last = max(w.last, time.Duration(t.eft))
		}
	}
	return w
}

// least predicts a task on the device where it takes least, at least a nanosecond.
func (e *Engine) least(t *graph.Task) time.Duration {
	least := time.Duration(0)
	for d := range e.m.Devices {
		can := true
		for i := range t.Steps {
			can = can && e.m.Devices[d].CanRun(t.Steps[i].Kernel)
		}
		if !can {
			continue
		}
		c := e.cost.Task(t, machine.DeviceID(d)).Median
		if c = e.situation.Devices[d].Takes(int32(e.m.Devices[d].Width(t)), c); least == 0 || c < least {
			least = max(c, 1)
		}
	}
	return max(least, 1)
}

// executed records the end of an execution in the trace and the tally of its run, and tells
// those who watch. It is called before the task is taken for done.
func (e *Engine) executed(op Op, rec *opRec, r *run, st Status, err error, start, end time.Duration) {
	if r.o.Probe {
		return
	}
	ok, gt := st == OK, graph.TaskID(rec.task-r.tbase)
	if e.tr != nil {
		e.recordExec(op, rec, r, &e.tasks.at[rec.task], ok, start, end)
	}
	if e.watch == nil && r.work.unit == nil {
		return
	}
	w := e.tallied(r)
	if ok {
		w.left -= w.unit[r.f.Rows[gt].Shape]
		w.last = max(w.last, end)
	} else if st == DepFailed {
		return // what it waited for failed, or its device was lost, and that was told
	}
	if e.watch == nil {
		return
	}
	n := Notice{Kind: TaskDone, Device: e.lanes[op.Lane].info.Device, Task: gt, Took: end - start}
	if !ok {
		n.Kind, n.Err = TaskFailed, err
	}
	n.Run = e.progress(r)
	n.Run.InFlight--
	if ok {
		n.Run.Done++
	}
	e.send(&n, r)
}

// tell sends a notice about a task of a run, or with graph.NoTask about the run.
func (e *Engine) tell(k NoticeKind, r *run, gt graph.TaskID, dev machine.DeviceID, err error) {
	if e.watch != nil && !r.o.Probe {
		e.send(&Notice{Kind: k, Device: dev, Task: gt, Run: e.progress(r), Err: err}, r)
	}
}

// tellMove sends the notice that a rule moved a queued task.
func (e *Engine) tellMove(rule string, r *run, gt graph.TaskID, from, to machine.DeviceID) {
	if e.watch != nil {
		e.send(&Notice{Kind: TaskMoved, Device: to, From: from, Task: gt, Rule: rule, Run: e.progress(r)}, r)
	}
}

// tellRule sends the notice that a rule about a device's health acted.
func (e *Engine) tellRule(dev machine.DeviceID, rule string) {
	if e.watch != nil {
		e.send(&Notice{Kind: RuleActed, Device: dev, Task: graph.NoTask, Rule: rule}, nil)
	}
}

// tellDrained sends the notice that a device is drained; err says what stayed there.
func (e *Engine) tellDrained(dev machine.DeviceID, err error) {
	if e.watch != nil {
		e.send(&Notice{Kind: DeviceDrained, Device: dev, Task: graph.NoTask, Err: err}, nil)
	}
}

func (e *Engine) send(n *Notice, r *run) {
	n.At = e.now
	if r != nil {
		n.Graph = r.g
	}
	e.watch(n)
}
