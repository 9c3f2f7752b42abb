package weft

import (
	"context"
	"time"

	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
)

// Progress is an account of a run under way: its tasks, copies and times so far, and an estimate of the rest.
type Progress struct {
	Run     int64 // its number, as in [Report]
	Tasks   int   // of the graph
	Done    int   // of these; fewer than before when results were lost with a device
	Running int   // given to devices and not ended
	Bytes   int64 // moved between memories for it, so far
	Elapsed time.Duration
	// Part is the part of the predicted work that is done, from 0 to 1.
	Part float64
	// Left is an estimate of the time that the run still takes: the predicted work that is left
	// at the speed of the work that is done, or while no task has ended, as predicted.
	// It is negative if it cannot be told: the run waits to begin.
	Left time.Duration
	// Ended tells the tasks that were done or failed since the call before, as events of
	// the kinds [EventTaskDone] and [EventTaskFailed], and Missed how many more there
	// were: up to 4096 are kept. Both are for the callback of WithProgress only.
	Ended  []Event
	Missed uint64
}

// progressEvery is the least time between two calls of a callback: 20 calls a second are
// enough for a display, and few enough for their cost not to matter.
const progressEvery = 50 * time.Millisecond

// progressKey is the key of the callback in a context of WithProgress.
type progressKey struct{}

// WithProgress returns a context that has fn told the progress of runs which are started with
// it: by [Runtime.Run], [Prepared.Run], [Apply], and by whatever is made of these, such as
// the calls of the workloads. fn is called while tasks end, at most 20 times a second, and for
// a last time before Run returns; Progress.Ended has every task in between. It has a
// goroutine of its own for each run and holds up no task, but Run waits for it to return.
// What runs of a [github.com/weft-run/weft/task.Scope] do tells it too, where the scope was made with
// the context; tasks and elements have a WithProgress of their own, in package task.
func WithProgress(ctx context.Context, fn func(Progress)) context.Context {
	need("WithProgress", ctx, fn != nil)
	return context.WithValue(ctx, progressKey{}, fn)
}

// follow has fn told the progress of a job that is about to be started. The function it returns
// is called when the job has ended, and returns after the last call of fn.
func (r *Runtime) follow(j *exec.Job, fn func(Progress)) (told func()) {
	f := r.x.Follow(j)
	t := teller{r: r, fn: fn}
	stop := often(f.Ready(), func() { t.tell(f) })
	return func() {
		f.Close()
		stop()
	}
}

// often calls tell when ready has an element, with a pause in between. The function it
// returns ends that, and returns after a last call.
func often(ready <-chan struct{}, tell func()) (stop func()) {
	over, returned := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(returned)
		for {
			select {
			case <-ready:
			case <-over:
				tell()
				return
			}
			tell()
			select {
			case <-time.After(progressEvery):
			case <-over:
			}
		}
	}()
	return func() {
		close(over)
		<-returned
	}
}

// teller tells a callback the progress of a run.
type teller struct {
	r   *Runtime
	fn  func(Progress)
	buf []engine.Notice
}

// tell takes what a feed has and calls the callback, unless there is nothing new.
func (t *teller) tell(f *exec.Feed) {
	ns, missed, _ := f.Take(t.buf[:0])
	if t.buf = ns; len(ns) == 0 {
		return
	}
	p := progressOf(&ns[len(ns)-1].Run)
	p.Missed = missed
	for i := range ns {
		if k := ns[i].Kind; k == engine.TaskDone || k == engine.TaskFailed {
			p.Ended = append(p.Ended, t.r.event(&ns[i]))
		}
	}
	clear(ns)
	t.fn(p)
}

// progressOf puts the engine's account of a run into the words of the library.
func progressOf(e *engine.Progress) Progress {
	p := Progress{Run: int64(e.ID), Tasks: e.Tasks, Done: e.Done, Running: e.InFlight, Bytes: e.Bytes, Left: -1}
	if e.Begun {
		p.Elapsed = e.At - e.Started
	}
	if e.Work > 0 {
		p.Part = float64(e.Work-e.Left) / float64(e.Work)
	}
	if left, ok := e.Remaining(); ok {
		p.Left = left
	}
	return p
}

// maxRuns is the greatest number of runs that Runs returns.
const maxRuns = 1000

// Runs returns the progress of the runs that have not ended, the oldest first, at most 1000.
// Those that wait for data others use are among them, with none of their tasks done.
func (r *Runtime) Runs() []Progress {
	var out []Progress
	for _, e := range r.must("Runs").x.Activity(maxRuns).Runs {
		out = append(out, progressOf(&e))
	}
	return out
}

// Running is a task that a device runs.
type Running struct {
	Device    string
	Run       int64         // its number, as in [Report]
	Task      string        // its name
	For       time.Duration // time since it began
	Predicted time.Duration // the duration predicted when it was placed
}

// Running returns the tasks that devices run now, device by device.
func (r *Runtime) Running() []Running {
	now := r.must("Running").x.Activity(0)
	return r.running(&now)
}

// running puts the engine's account of launches into the words of the library.
func (r *Runtime) running(now *exec.Activity) []Running {
	out := make([]Running, len(now.Launches))
	for i, l := range now.Launches {
		out[i] = Running{
			Device: r.x.Machine.DeviceName(l.Device), Run: int64(l.Run), Task: l.Graph.TaskName(l.Task),
			For: max(now.At-l.Since, 0), Predicted: l.Predicted,
		}
	}
	return out
}

// Progress returns the progress of the run; false if it has ended.
func (h *Handle) Progress() (Progress, bool) {
	if h == nil || h.job == nil {
		return Progress{}, false
	}
	e, ok := h.r.x.Progress(h.job)
	return progressOf(&e), ok
}
