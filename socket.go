package weft

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
	"github.com/weft-run/weft/internal/monitor"
)

const (
	// shownRuns is the greatest number of runs that are shown, shownEvents that of events
	// in a frame: no terminal shows more.
	shownRuns   = 64
	shownEvents = 64
)

// listen makes the socket that Options.Socket asks for.
func (r *Runtime) listen() (err error) {
	path := r.o.Socket
	switch path {
	case "", off:
		return nil
	case "on":
		path = ""
	}
	if r.socket, err = monitor.Serve(path, func() monitor.Source { return r.newSocketSource() }, r.o.Log); err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	r.o.Log.Info("weft top can watch", "socket", r.socket.Path())
	return nil
}

// socketSource is what one client of the socket is shown of the runtime.
type socketSource struct {
	r    *Runtime
	feed *exec.Feed
	buf  []engine.Notice
}

func (r *Runtime) newSocketSource() *socketSource {
	// Tasks that end well are too many to be read; they show in the progress of runs.
	return &socketSource{r: r, feed: r.x.Subscribe(exec.AllKinds &^ exec.Kinds(engine.TaskDone))}
}

// Close ends the subscription of the client.
func (v *socketSource) Close() { v.feed.Close() }

// Frame returns what the runtime does now, with the events since the last call.
func (v *socketSource) Frame() *monitor.Frame {
	m, now := v.r.Metrics(), v.r.x.Activity(shownRuns)
	f := &monitor.Frame{PID: os.Getpid(), Program: strings.Join(os.Args, " "), Uptime: m.Uptime.Seconds(), Totals: totals(&m)}
	for i := range m.Devices {
		d := &m.Devices[i]
		f.Devices = append(f.Devices, monitor.Device{Name: d.Name, State: d.State, Values: figures(d)})
	}
	for i := range now.Runs {
		p := progressOf(&now.Runs[i])
		f.Runs = append(f.Runs, monitor.Run{
			Run: p.Run, Tasks: p.Tasks, Done: p.Done, Running: p.Running, Bytes: p.Bytes,
			Elapsed: p.Elapsed.Seconds(), Part: p.Part, Left: p.Left.Seconds(),
		})
	}
	f.MoreRun = now.Counts.Submitted - now.Counts.Completed - now.Counts.Failed - now.Counts.Cancelled - int64(len(f.Runs))
	for _, t := range v.r.running(&now) {
		f.Tasks = append(f.Tasks, monitor.Task{Device: t.Device, Run: t.Run, Task: t.Task, For: t.For.Seconds(), Predicted: t.Predicted.Seconds()})
	}
	v.buf, f.Missed, _ = v.feed.Take(v.buf[:0])
	told := slices.DeleteFunc(v.buf, func(n engine.Notice) bool { // stealing is routine, and would hide the rest
		return n.Kind == engine.TaskMoved && n.Rule != engine.Rebalanced
	})
	all := len(told)
	told = told[max(all-shownEvents, 0):]
	f.Missed += uint64(all - len(told))
	for i := range told {
		e := v.r.event(&told[i])
		f.Events = append(f.Events, monitor.Event{At: e.At.Seconds(), Kind: e.Kind.String(), Text: e.String()})
	}
	clear(v.buf)
	return f
}

// totals are the figures of the runtime.
func totals(m *Metrics) []monitor.Value {
	return []monitor.Value{
		{Name: "runs", V: float64(m.Runs.Submitted)},
		{Name: "done", V: float64(m.Runs.Completed)},
		{Name: "failed", V: float64(m.Runs.Failed)},
		{Name: "cancelled", V: float64(m.Runs.Cancelled)},
		{Name: "retries", V: float64(m.Retries)},
		{Name: "losses", V: float64(m.Losses)},
		{Name: "copies", V: float64(m.Copies)},
		{Name: "moved", Unit: "B", V: float64(m.CopyBytes)},
	}
}

// figures are those of a device that are shown, each in a column of its own; one that is
// not known is negative.
func figures(d *DeviceMetrics) []monitor.Value {
	return []monitor.Value{
		{Name: "util", Unit: "%", V: 100 * d.Util, Of: 100},
		{Name: "tasks", V: float64(d.Tasks)},
		{Name: "queue", V: float64(d.Queued)},
		{Name: "memory", Unit: "B", V: float64(d.MemUsed), Of: float64(d.MemBytes)},
		{Name: "temp", Unit: "°C", V: d.Health.TempC},
		{Name: "power", Unit: "W", V: d.Health.PowerW},
		{Name: "busy", Unit: "s", V: d.Busy.Seconds()},
		{Name: "losses", V: float64(d.Losses)},
	}
}
