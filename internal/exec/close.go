package exec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
)

// ErrHeld says that a call which cannot be ended still uses the memory it was given: a
// Go kernel that does not ask Call.Stopped. That memory must be left alone.
var ErrHeld = errors.New("memory is still in use")

const (
	// cancelWait is the longest time that a cancelled run takes to end: 2 s is longer than
	// most tasks, and short enough that the program does not seem to hang.
	cancelWait = 2 * time.Second
	// closeWait is the longest time that Close takes. It covers the 2 s that a worker has to
	// end before it is killed, and the 1 s of its keeper.
	closeWait = 5 * time.Second
	// settleWait is the longest time that closing waits for requests to devices that are under way (for
	// their condition, or to revive them), and after that for what they decided about kernels.
	settleWait = time.Second
)

// patience is the time that cancelling and closing may take, and what closing waits for.
type patience struct {
	cancelWait, killWait, closeWait time.Duration

	waits sync.Mutex
	held  map[engine.RunID]leftBehind
	open  []string // devices being closed
}

// leftBehind is a run that was reported as ended while some of its calls still ran.
type leftBehind struct {
	what []string // calls that use its memory
	free func()   // Job.Free
}

func newPatience(c *Config) patience {
	wait := func(d, def time.Duration) time.Duration {
		if d == 0 {
			return def
		}
		return max(d, 0)
	}
	cancel := wait(c.CancelWait, cancelWait)
	return patience{held: make(map[engine.RunID]leftBehind), cancelWait: cancel, killWait: wait(c.KillWait, cancel/2), closeWait: wait(c.CloseWait, closeWait)}
}

// cancel ends a job's run early. What it has in flight is asked to end, ended with its
// process after a while, and left behind after the time given.
func (l *loop) cancel(j *Job, wait time.Duration) {
	id := j.id
	l.evs = append(l.evs, engine.Event{Kind: engine.Cancel, Run: id})
	l.runOver(id)
	later := func(after time.Duration, fn func(l *loop)) {
		time.AfterFunc(after, func() {
			l.x.do(func(l *loop) {
				if l.runs[id] == j {
					fn(l)
				}
			})
		})
	}
	later(min(l.x.killWait, wait/2), func(l *loop) { l.evs = append(l.evs, engine.Event{Kind: engine.GiveUp, Run: id}) })
	later(wait, func(l *loop) { l.overdue = append(l.overdue, j) })
}

// leaveBehind ends the jobs that were cancelled and are overdue, although operations of
// them are in flight. The engine keeps what those use until they are complete.
func (l *loop) leaveBehind() {
	for _, j := range l.overdue {
		id := j.id
		if id == 0 {
			continue // it ended meanwhile
		}
		held, err := l.engine.Holding(id)
		what := l.describe(held)
		if len(what) > 0 {
			err = fmt.Errorf("%w; %w: %s", err, ErrHeld, strings.Join(what, ", "))
			l.log.Warn("a cancelled run does not end", "err", err)
		}
		l.x.waits.Lock()
		l.x.held[id] = leftBehind{what, j.Free}
		l.x.waits.Unlock()
		delete(l.runs, id)
		if !j.probe {
			l.counts.Cancelled++
		}
		j.id = 0
		j.Done(nil, err)
	}
	l.overdue = l.overdue[:0]
}

// caughtUp takes in that a run which was left behind has ended.
func (l *loop) caughtUp(id engine.RunID) {
	l.x.waits.Lock()
	free := l.x.held[id].free
	delete(l.x.held, id)
	l.x.waits.Unlock()
	if free != nil {
		free()
	}
}

// describe names what of a run still uses the caller's memory, or will. Members of a gang,
// and launches of a run with resident data, are not told to end: they run when it is their
// turn.
func (l *loop) describe(held []engine.Held) []string {
	var out []string
	for _, h := range held {
		if !h.Lent || h.Task != graph.NoTask && !h.Begun && h.Stopped {
			continue
		}
		what, on := "a copy of its data has not ended", ""
		if h.Device >= 0 {
			on = " on " + l.x.Machine.Devices[h.Device].Name
		}
		if h.Task != graph.NoTask {
			kernels := kernelNames(h.Graph.Task(h.Task))
			for i, name := range kernels {
				kernels[i] = fmt.Sprintf("%q", name)
			}
			has := "returned"
			if !h.Begun {
				has = "begun"
			}
			what = fmt.Sprintf("kernel %s of task %q has not %s", strings.Join(kernels, ", "), h.Graph.TaskName(h.Task), has)
		}
		if s := what + on; !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// kernelNames returns the names of a task's kernels, each once.
func kernelNames(t *graph.Task) []string {
	var names []string
	for _, s := range t.Steps {
		if s.Kernel != nil && !slices.Contains(names, s.Kernel.Name) {
			names = append(names, s.Kernel.Name)
		}
	}
	return names
}

// Ended is closed when everything that Close ends has ended.
func (x *Executor) Ended() <-chan struct{} { return x.ended }

// Close cancels all runs, waits for operations in flight, and closes the devices. If ctx or
// Config.CloseWait ends first, Close returns an error and closing goes on.
func (x *Executor) Close(ctx context.Context) error {
	late := time.NewTimer(x.closeWait)
	defer late.Stop()
	x.do(func(l *loop) {
		if l.closing {
			return
		}
		l.closing = true
		l.toClose()
		for _, j := range l.runs {
			l.cancel(j, min(x.cancelWait, x.closeWait/2))
		}
	})
	select {
	case <-x.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late.C:
		return x.unclosed()
	}
}

// unclosed says what Close did not wait for any longer.
func (x *Executor) unclosed() error {
	x.waits.Lock()
	defer x.waits.Unlock()
	open := ""
	if len(x.open) > 0 {
		open = "; not closed: " + strings.Join(x.open, ", ")
	}
	var held []string
	for _, id := range slices.Sorted(maps.Keys(x.held)) {
		held = append(held, x.held[id].what...)
	}
	if len(held) > 0 {
		return fmt.Errorf("%w: %s%s", ErrHeld, strings.Join(held, ", "), open)
	}
	return fmt.Errorf("%w after %v%s", engine.ErrTimeout, x.closeWait, open)
}

// deviceName names a device for who waits until it is closed.
func (l *loop) deviceName(d *dev) string {
	if d == l.host {
		return "copies in host memory"
	}
	return d.Info().Name
}

// toClose returns the devices that are to be closed, and notes their names for unclosed. Those that are being
// closed already, because they cannot be brought back, are left out: their closing may hang.
func (l *loop) toClose() []*dev {
	open := slices.DeleteFunc(append(slices.Clone(l.devs), l.host), func(d *dev) bool { return d.closed })
	l.x.waits.Lock()
	defer l.x.waits.Unlock()
	l.x.open = l.x.open[:0]
	for _, d := range open {
		l.x.open = append(l.x.open, l.deviceName(d))
	}
	return open
}

// shut closes the devices, after the last run. Callers are answered meanwhile: a
// device that runs a Go kernel is closed when that returns.
func (l *loop) shut() {
	close(l.x.shutting)
	for ref, waiting := range l.fetches {
		for _, f := range waiting {
			f.answer <- ErrClosed
		}
		delete(l.fetches, ref)
	}
	l.x.remember()
	var attempts []<-chan struct{}
	for _, d := range l.devs {
		attempts = append(attempts, d.revived)
		if d.calloff != nil {
			d.calloff()
		}
	}
	open := l.toClose()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		l.end(open, attempts)
	}()
	for {
		select {
		case fn := <-l.x.calls:
			fn(l)
		case <-closed:
			return
		}
	}
}

// end closes all devices in parallel. First it waits, at most settleWait each time, for
// samplers and attempts to bring devices back to end, and for devices to report their
// decisions about kernels. It has a goroutine of its own.
func (l *loop) end(open []*dev, attempts []<-chan struct{}) {
	x := l.x
	close(l.unwatched)
	late := time.After(settleWait)
	wait := func(ended <-chan struct{}) {
		select {
		case <-ended:
		case <-late:
			late = time.After(0) // for those after it
		}
	}
	sampled := make(chan struct{})
	go func() {
		l.watchers.Wait()
		close(sampled)
	}()
	wait(sampled)
	for _, ended := range attempts {
		if ended != nil {
			wait(ended)
		}
	}
	defer x.keepTuning(l.devs, time.After(settleWait)).Wait() // requests that were late end when their device is closed
	var wg sync.WaitGroup
	for _, d := range open {
		wg.Go(func() {
			name := l.deviceName(d)
			if err := d.Close(); err != nil {
				l.log.Warn("closing device", "device", name, "err", err)
			}
			x.waits.Lock()
			x.open = slices.DeleteFunc(x.open, func(s string) bool { return s == name })
			x.waits.Unlock()
		})
	}
	wg.Wait()
}
