package weft_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/task"
)

// scripted opens devices that follow a script, with the kernel inc.
func scripted(t *testing.T, script string, o weft.Options) (*weft.Runtime, *fake.Driver) {
	t.Helper()
	f, err := fake.Parse(script)
	if err != nil {
		t.Fatal(err)
	}
	if f.Funcs = o.Funcs; f.Funcs == nil {
		f.Funcs = map[string]weft.Func{"inc": func(c *weft.Call, lo, hi int) { c.Args[0][0]++ }}
	}
	d, err := fake.New(f)
	if err != nil {
		t.Fatal(err)
	}
	o.Drivers, o.NoCalibrate, o.CacheDir = []driver.Driver{d}, true, "off"
	rt, err := weft.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	return rt, d
}

// paused returns kernels of which the first call closes began and ends once release is closed.
func paused() (funcs map[string]weft.Func, began, release chan struct{}) {
	began, release = make(chan struct{}), make(chan struct{})
	var once sync.Once
	return map[string]weft.Func{"inc": func(c *weft.Call, lo, hi int) {
		once.Do(func() { close(began); <-release })
		c.Args[0][0]++
	}}, began, release
}

// eventsUntil reads events up to the first of a kind, which ends the stream.
func eventsUntil(t *testing.T, rt *weft.Runtime, kind weft.EventKind, act func()) (out []weft.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	events := rt.Events(ctx)
	act()
	for e := range events {
		if out = append(out, e); e.Kind == kind {
			return out
		}
	}
	t.Fatalf("no event of kind %v among %v", kind, out)
	return nil
}

// A run tells its beginning, each task with its device, and its end, in this order; a
// failure is told with its reason and that it is tried again.
func TestEvents(t *testing.T) {
	rt, _ := scripted(t, "devices 2; on 0 fail kernel inc times 1", weft.Options{})
	mem := make([]byte, 4)
	var rep *weft.Report
	got := eventsUntil(t, rt, weft.EventRunEnded, func() {
		var err error
		if rep, err = rt.Run(t.Context(), incs(t, 4, 3), weft.Bind("x", mem)); err != nil {
			t.Fatal(err)
		}
	})
	count := make(map[weft.EventKind]int)
	at := time.Duration(0)
	for _, e := range got {
		count[e.Kind]++
		if e.At < at {
			t.Errorf("%v is told after what came later", e)
		}
		at = e.At
		if e.Kind == weft.EventTaskDone && (e.Run != rep.Run || e.Task == "" || !strings.HasPrefix(e.Device, "fake:")) {
			t.Errorf("incomplete: %+v", e)
		}
		if e.Kind == weft.EventTaskFailed && e.Err == nil {
			t.Errorf("no reason: %+v", e)
		}
	}
	if got[0].Kind != weft.EventRunBegan || count[weft.EventTaskDone] != 12 || count[weft.EventTaskFailed] != 1 || count[weft.EventTaskRetried] != 1 {
		t.Errorf("%v", got)
	}
}

// A device that is lost and comes back is told, with the cause and what was done about it.
func TestEventsOfDevices(t *testing.T) {
	rt, d := scripted(t, "devices 2; revive standby fails", weft.Options{})
	var states []string
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	events := rt.Events(ctx, weft.EventDevice, weft.EventRule)
	if err := d.Play("on 1 lose"); err != nil {
		t.Fatal(err)
	}
	rules := 0
	for e := range events {
		if e.Kind == weft.EventRule {
			rules++
			continue
		}
		if states = append(states, e.Device+" "+e.To); e.To == "lost" && e.Err == nil {
			t.Errorf("no cause: %v", e)
		}
		if e.To == "healthy" {
			break
		}
	}
	if !slices.Equal(states, []string{"fake:1 lost", "fake:1 suspect", "fake:1 healthy"}) || rules < 2 {
		t.Errorf("%q, %d rules", states, rules)
	}
}

// A reader that does not read holds up nothing, keeps a bounded number of events, and is
// told how many it missed.
func TestEventsMissed(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2", Funcs: incFuncs})
	const tasks = 20_000
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	events := rt.Events(ctx, weft.EventTaskDone, weft.EventRunEnded)
	if _, err := rt.Run(ctx, small(t, tasks), weft.Bind("x", make([]int64, 16)), weft.Bind("y", make([]int64, 16))); err != nil {
		t.Fatal(err)
	}
	var missed, told uint64
	for e := range events {
		if e.Kind == weft.EventRunEnded {
			break
		}
		if told++; e.Kind == weft.EventMissed {
			told--
			missed += e.Missed
		}
	}
	if missed+told != tasks || told != 4095 {
		t.Errorf("%d told and %d missed of %d", told, missed, tasks)
	}
}

// Events end with their context and with the runtime.
func TestEventsEnd(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu"})
	ctx, cancel := context.WithCancel(t.Context())
	events := rt.Events(ctx)
	cancel()
	for e := range events {
		t.Errorf("%v after the end of the context", e)
	}
	events = rt.Events(t.Context())
	if err := rt.Close(); err != nil {
		t.Fatal(err)
	}
	for e := range events {
		t.Errorf("%v after Close", e)
	}
	for e := range rt.Events(t.Context()) {
		t.Errorf("%v of a closed runtime", e)
	}
}

// An event is one line, whatever its error is.
func TestEventText(t *testing.T) {
	for _, c := range []struct {
		e    weft.Event
		want string
	}{
		{weft.Event{Kind: weft.EventTaskDone, Run: 3, Task: "a", Device: "cpu", Took: time.Second}, `run 3: "a" done on cpu in 1s`},
		{weft.Event{Kind: weft.EventTaskMoved, Run: 3, Task: "a", Device: "b", From: "a", To: "b", What: "stolen"}, `run 3: "a" moved from a to b, stolen`},
		{weft.Event{Kind: weft.EventRunEnded, Run: 3, Err: errors.Join(errors.New("x"), errors.New("y"))}, "run 3 ended: x; y"},
		{weft.Event{Kind: weft.EventDevice, Device: "cpu", From: "healthy", To: "lost"}, "device cpu was healthy and is lost"},
		{weft.Event{Kind: weft.EventMissed, Missed: 5}, "5 events are not told: the reader was too slow"},
		{weft.Event{Kind: weft.EventDrained, Device: "cpu"}, "device cpu is drained"},
		{weft.Event{Kind: weft.EventRule, Device: "cpu", What: "is slow"}, "rule: cpu is slow"},
	} {
		if got := c.e.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// The callback is told of every task, and of the end before Run returns; nothing it is
// told goes back.
func TestProgress(t *testing.T) {
	rt, _ := scripted(t, "devices 2; take 2ms launches", weft.Options{})
	var all []weft.Progress
	tasks := make(map[string]int)
	ctx := weft.WithProgress(t.Context(), func(p weft.Progress) {
		all = append(all, p)
		for _, e := range p.Ended {
			tasks[e.Task]++
		}
	})
	rep, err := rt.Run(ctx, incs(t, 4, 25), weft.Bind("x", make([]byte, 4)))
	if err != nil {
		t.Fatal(err)
	}
	last := all[len(all)-1]
	if last.Run != rep.Run || last.Done != 100 || last.Tasks != 100 || last.Part != 1 || last.Left != 0 || last.Bytes != rep.CopyBytes || last.Running != 0 {
		t.Errorf("at the end %+v", last)
	}
	if len(tasks) != 100 {
		t.Errorf("%d tasks were told of", len(tasks))
	}
	for i, p := range all[1:] {
		if before := all[i]; p.Done < before.Done || p.Elapsed < before.Elapsed || p.Part < before.Part {
			t.Errorf("%+v after %+v", p, before)
		}
	}
	if runs := rt.Runs(); len(runs) != 0 {
		t.Errorf("runs in progress: %+v", runs)
	}
}

// A run that could not begin tells nothing, and one that fails tells how far it came.
func TestProgressOfFailure(t *testing.T) {
	rt, _ := scripted(t, "fail kernel inc", weft.Options{Retries: -1})
	var last *weft.Progress
	ctx := weft.WithProgress(t.Context(), func(p weft.Progress) { last = &p })
	if _, err := rt.Run(ctx, incs(t, 1, 4), weft.Bind("x", make([]byte, 5))); err == nil || last != nil {
		t.Errorf("%v, told %v", err, last)
	}
	if _, err := rt.Run(ctx, incs(t, 1, 4), weft.Bind("x", make([]byte, 1))); err == nil || last == nil || last.Done >= 4 || last.Tasks != 4 {
		t.Errorf("%v, told %+v", err, last)
	}
}

// A run that was submitted is asked how far it is.
func TestHandleProgress(t *testing.T) {
	funcs, began, release := paused()
	rt := open(t, weft.Options{Devices: "cpu", Funcs: funcs})
	h := rt.Submit(incs(t, 1, 4), nil, weft.Bind("x", make([]byte, 1)))
	<-began
	if p, ok := h.Progress(); !ok || p.Tasks != 4 || p.Done != 0 || p.Running == 0 || p.Left < 0 {
		t.Errorf("%+v, %v", p, ok)
	}
	close(release)
	if _, err := h.Wait(); err != nil {
		t.Error(err)
	}
	if p, ok := h.Progress(); ok {
		t.Errorf("after its end %+v", p)
	}
}

// Runs at the same time are told apart.
func TestProgressApart(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2", Funcs: incFuncs})
	type end struct {
		rep  *weft.Report
		runs map[int64]int // tasks told, by run
		err  error
	}
	ends := make(chan end)
	for range 4 {
		go func() {
			e := end{runs: make(map[int64]int)}
			ctx := weft.WithProgress(context.Background(), func(p weft.Progress) {
				for _, x := range p.Ended {
					e.runs[x.Run]++
				}
			})
			e.rep, e.err = rt.Run(ctx, small(t, 500), weft.Bind("x", make([]int64, 16)), weft.Bind("y", make([]int64, 16)))
			ends <- e
		}()
	}
	for range 4 {
		if e := <-ends; e.err != nil || len(e.runs) != 1 || e.runs[e.rep.Run] != 500 {
			t.Errorf("told of %v, %v", e.runs, e.err)
		}
	}
}

// Runs in a scope tell the callback of package weft that is around it, and not the one of package task,
// which is told of tasks.
func TestProgressThroughScopes(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu", Funcs: incFuncs})
	var runs, ended atomic.Int64
	var last task.Progress
	ctx := weft.WithProgress(t.Context(), func(p weft.Progress) {
		ended.Add(int64(len(p.Ended)))
		if p.Done == p.Tasks {
			runs.Add(1)
		}
	})
	ctx = task.WithProgress(ctx, func(p task.Progress) { last = p })
	err := task.Scope(ctx, func(ctx context.Context) error {
		for range 3 {
			task.Do(ctx, func(ctx context.Context) error {
				return task.Scope(ctx, func(ctx context.Context) error {
					_, err := rt.Run(ctx, small(t, 4), weft.Bind("x", make([]int64, 16)), weft.Bind("y", make([]int64, 16)))
					return err
				})
			})
		}
		return nil
	})
	if err != nil || ended.Load() != 12 || runs.Load() < 3 || last.Tasks != 3 || last.Done != 3 {
		t.Errorf("%v: %d tasks of runs told, %d runs at their end; of the scope %+v", err, ended.Load(), runs.Load(), last)
	}
}
