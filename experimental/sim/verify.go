package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/verify"
	"github.com/weft-run/weft/machine"
)

// Results that are checked, as the root package has them checked: tasks that are picked run on a
// device of their own, which executes each as a run of one task on one device after another until
// verify.Case has decided. A wrong result is a mark on the run it belongs to; two wrong ones never
// agree.

// verifyLanes is the number of tasks that are checked at a time.
const verifyLanes = 16

// verifier checks results in a simulation; nil checks none.
type verifier struct {
	device machine.DeviceID
	every  int
	outer  map[engine.RunID]*checkedRun
	inner  map[engine.RunID]*checkedTask // executions in progress
	tasks  []*checkedTask                // in the order they began
}

// checkedRun is a run of which tasks are checked.
type checkedRun struct {
	run    engine.RunID
	result int          // of loop.runs
	graph  *graph.Graph // before tasks were rewritten
}

// checkedTask is a task that is being checked.
type checkedTask struct {
	of    *checkedRun
	task  graph.TaskID
	slot  int32  // of the launch that waits for it
	nth   uint64 // serial number of that
	at    verify.Case
	wrong []bool             // by execution
	on    []machine.DeviceID // likewise
	run   engine.RunID       // the execution in progress
	only  []machine.DeviceID // where that may be
	waits bool               // for a device that is coming back
	ended bool               // the launch has ended
}

// withVerifier adds the device that checks to a machine.
func withVerifier(m *machine.Machine) *machine.Machine {
	out := *m
	out.Devices = append(slices.Clone(m.Devices), machine.Device{
		Name: string(verify.Dialect), Backend: string(verify.Dialect), Dialects: []graph.Dialect{verify.Dialect}, Apart: true,
		Kind: machine.CPU, HostMemory: true, Lanes: verifyLanes,
	})
	return &out
}

// pick rewrites the graph of a run.
func (l *loop) pick(g *graph.Graph, run int) *graph.Graph {
	if l.verify == nil {
		return g
	}
	var picked []graph.TaskID
	for i := range g.NumTasks() {
		if id := graph.TaskID(i); verify.Pick(l.c.Seed, int64(run), id, l.verify.every) && verify.Checkable(g.Task(id)) {
			picked = append(picked, id)
		}
	}
	if len(picked) == 0 {
		return g
	}
	return verify.Rewrite(g, picked, func(graph.TaskID) []byte { return nil })
}

// checkResults advances the verification of tasks: tasks that began, and tasks whose execution
// cannot go on.
func (l *loop) checkResults(now time.Duration) {
	v := l.verify
	if v == nil {
		return
	}
	for _, t := range l.hw.asked {
		o := &l.hw.ops[t.slot]
		if o.serial != t.serial || v.outer[o.run] == nil {
			continue
		}
		k := &checkedTask{of: v.outer[o.run], task: o.task, slot: t.slot, nth: t.serial}
		v.tasks = append(v.tasks, k)
		l.goOn(now, k)
	}
	l.hw.asked = l.hw.asked[:0]
	for i := range l.done { // Apply has seen what they came to
		l.executed(now, v.inner[l.done[i].Run], &l.done[i])
	}
	l.done = l.done[:0]
	v.tasks = slices.DeleteFunc(v.tasks, func(k *checkedTask) bool { return k.ended })
	for _, k := range v.tasks {
		gone := l.gone(k)
		if k.waits {
			if k.ended = gone; !gone {
				l.goOn(now, k)
			}
			continue
		}
		if gone || len(k.only) > 0 && !slices.ContainsFunc(k.only, l.takesWork) && !l.inFlight(now, k.run) {
			k.ended = gone
			l.tell = append(l.tell, engine.Event{Kind: engine.Cancel, Run: k.run})
			k.only = nil // once
		}
	}
}

// gone reports whether the launch that waits for a task has ended without it.
func (l *loop) gone(k *checkedTask) bool { return l.hw.ops[k.slot].serial != k.nth }

// inFlight reports whether the task of an execution was given to a device: one that is drained
// or suspect finishes it.
func (l *loop) inFlight(now time.Duration, run engine.RunID) bool {
	p, ok := l.engine.Progress(now, run)
	return !ok || p.InFlight+p.Done > 0
}

func (l *loop) takesWork(d machine.DeviceID) bool { return l.engine.Status(d).State == engine.Healthy }

// goOn does what comes next for a task.
func (l *loop) goOn(now time.Duration, k *checkedTask) {
	t := k.of.graph.Task(k.task)
	anyTwo := func(_, _ machine.DeviceID) bool { return true }
	w := verify.World{Comparable: anyTwo, Alike: func(a, b machine.DeviceID) bool {
		return verify.Alike(t, &l.c.Machine.Devices[a], &l.c.Machine.Devices[b])
	}}
	for d := range l.verify.device {
		m := &l.c.Machine.Devices[d]
		if !engine.Allows(t, m) || slices.ContainsFunc(t.Steps, func(s graph.Step) bool { return !m.CanRun(s.Kernel) }) {
			continue
		}
		switch l.engine.Status(d).State {
		case engine.Healthy:
			w.Able = append(w.Able, d)
		case engine.Lost, engine.Suspect:
			w.Coming = append(w.Coming, d)
		}
	}
	k.waits = false
	r := &l.runs[k.of.result]
	switch next := k.at.Next(w); next.Do {
	case verify.Execute:
		l.execute(now, k, next.Only)
		return
	case verify.Await:
		k.waits = true
		return
	case verify.Settle:
		r.Verified++
		r.Spoilt = r.Spoilt || k.wrong[next.Right]
		for _, i := range next.Wrong {
			r.Wrong++
			l.tell = append(l.tell, engine.Event{Kind: engine.Drain, Device: k.on[i], Err: fmt.Errorf("%w: %q", ErrWrong, t.Name)})
		}
		l.hw.complete(k.slot, engine.OK, nil)
	case verify.Pass:
		r.Unverified++
		r.Spoilt = r.Spoilt || k.wrong[next.Right]
		l.hw.complete(k.slot, engine.OK, nil)
	default:
		l.hw.complete(k.slot, engine.Failed, ErrWrong)
	}
	k.ended, l.stepNow = true, true
	l.hw.settle()
}

// ErrWrong is the error of a device whose results are wrong, and of a task of which no two
// results agree.
var ErrWrong = errors.New("results of a task differ")

// execute submits a run of the task.
func (l *loop) execute(now time.Duration, k *checkedTask, only []machine.DeviceID) {
	var names []string
	for _, d := range only {
		names = append(names, l.c.Machine.Devices[d].Name)
	}
	g, err := verify.Alone(k.of.graph, k.task, names)
	if err != nil {
		l.hw.violation("a task alone makes no graph: %v", err)
		return
	}
	k.run, k.only = l.engine.Submit(now, g, engine.RunOptions{Of: k.of.run, OfTask: k.task}), only
	l.hw.Begin(k.run, g, nil)
	l.verify.inner[k.run] = k
	l.stepNow = true
}

// executed takes in the end of an execution.
func (l *loop) executed(now time.Duration, k *checkedTask, a *engine.Action) {
	delete(l.verify.inner, a.Run)
	wrong := l.hw.wrong[a.Run]
	delete(l.hw.wrong, a.Run)
	if k.ended = k.ended || l.gone(k); k.ended {
		return
	}
	if a.Err != nil && !errors.Is(a.Err, engine.ErrCancelled) && len(k.on) > 0 {
		k.at.Failed(k.only...)
		l.goOn(now, k)
		return
	}
	if a.Err != nil && !errors.Is(a.Err, engine.ErrCancelled) {
		k.ended, l.stepNow = true, true
		l.hw.complete(k.slot, engine.Failed, a.Err)
		l.hw.settle()
		return
	}
	ran := -1
	for d := range a.Report.Devices {
		if a.Report.Devices[d].Tasks > 0 {
			if ran >= 0 {
				ran = -1
				break
			}
			ran = d
		}
	}
	if a.Err == nil && ran >= 0 {
		agrees := make([]bool, len(k.on))
		for i := range agrees {
			agrees[i] = !wrong && !k.wrong[i]
		}
		k.on, k.wrong = append(k.on, machine.DeviceID(ran)), append(k.wrong, wrong)
		k.at.Ran(machine.DeviceID(ran), agrees)
	}
	l.goOn(now, k)
}

// corrupts decides whether a launch that ends well has a wrong result, and marks its run.
func (h *hardware) corrupts(o *op) {
	if int(o.device) >= len(h.corrupt) || h.corrupt[o.device] == 0 {
		return
	}
	u := float64(mix(mix(h.seed, o.serial), uint64(o.device))>>11) / (1 << 53)
	if u < h.corrupt[o.device] {
		h.wrong[o.run] = true
	} else if t := o.graph; t.NumTasks() == 1 {
		delete(h.wrong, o.run) // it is executed again
	}
}
