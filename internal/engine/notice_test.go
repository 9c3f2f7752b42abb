package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// chains builds n chains of length tasks each; the i-th task of a chain has i+1 million
// operations, and every result is needed to the end.
func chains(t *testing.T, n, length int) *graph.Graph {
	t.Helper()
	var b graph.Builder
	for c := range n {
		at := graph.DataID(-1)
		for i := range length {
			to := b.Data(graph.Data{Name: fmt.Sprintf("d%d.%d", c, i), Bytes: 1000, Output: i == length-1})
			uses := []graph.Use{{Data: to, Access: graph.Write}}
			if at >= 0 {
				uses = append(uses, graph.Use{Data: at, Access: graph.Read})
			}
			b.Add(graph.Task{Name: fmt.Sprintf("t%d.%d", c, i), Steps: []graph.Step{{Kernel: abstract}}, Uses: uses,
				Work: graph.Work{Ops: float64(i+1) * 1e6}})
			at = to
		}
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// watched collects the notices of a rig.
func watched(r *rig) *[]engine.Notice {
	var all []engine.Notice
	r.e.Watch(func(n *engine.Notice) { all = append(all, *n) })
	return &all
}

// kinds counts notices by kind.
func kinds(ns []engine.Notice) (out [engine.NoticeKinds]int) {
	for i := range ns {
		out[ns[i].Kind]++
	}
	return out
}

// Those who watch are told every task that ends, is tried again or runs again, and every
// change of a device, each once; the work that is left reaches zero.
func TestNotices(t *testing.T) {
	r := newRig(t, gpus(2, 1<<30), engine.Options{})
	ns := watched(r)
	g := chains(t, 4, 6)
	r.fail["t1.2"] = 1
	id := r.submit(g, engine.RunOptions{})
	r.until("twelve tasks ended", func() bool { return len(r.ran) >= 12 })
	r.lose(0, false)
	rep := r.mustRun(id)
	got := kinds(*ns)
	want := map[engine.NoticeKind]int{
		engine.RunBegan: 1, engine.RunEnded: 1, engine.TaskDone: rep.Executed, engine.TaskFailed: 1,
		engine.TaskRetried: rep.Retries, engine.TaskReplayed: rep.Replays, engine.TaskMoved: rep.Moves,
	}
	for k, n := range want {
		if got[k] != n {
			t.Errorf("%d notices of kind %d, want %d", got[k], k, n)
		}
	}
	if rep.Replays == 0 {
		t.Error("nothing was replayed, so that the test shows nothing")
	}
	var changes []string
	for _, n := range *ns {
		if n.Kind == engine.DeviceChanged {
			changes = append(changes, fmt.Sprintf("%d %v>%v", n.Device, n.Change.From, n.Change.To))
			if n.Change.To == engine.Lost && !errors.Is(n.Err, engine.ErrDeviceLost) {
				t.Errorf("the loss is told with %v", n.Err)
			}
		}
	}
	if len(changes) == 0 || changes[0] != "0 healthy>lost" {
		t.Errorf("changes %q", changes)
	}
	last := (*ns)[slices.IndexFunc(*ns, func(n engine.Notice) bool { return n.Kind == engine.RunEnded })]
	if p := last.Run; p.Done != 24 || p.Tasks != 24 || p.Left != 0 || p.Work <= 0 {
		t.Errorf("at the end %+v", p)
	}
}

// The end of a drain is told once, when the device has ended its tasks and what only its
// memory held is elsewhere; a drain that is called off has no end.
func TestDrainedIsTold(t *testing.T) {
	r := newRig(t, gpus(2, 1<<30), engine.Options{})
	ns := watched(r)
	id := r.submit(chain(t, 3, 5, graph.Versioned), engine.RunOptions{})
	r.starts("c1")
	dev := machine.DeviceID(0)
	if r.launchedOn("gpu:1") > 0 {
		dev = 1
	}
	drained := func() int { return kinds(*ns)[engine.DeviceDrained] }
	r.step(engine.Event{Kind: engine.Drain, Device: dev})
	equal(t, "ends of a drain told while a task runs", drained(), 0)
	r.step(engine.Event{Kind: engine.Undrain, Device: dev})
	equal(t, "ends of a drain told that was called off", drained(), 0)
	answered := -1
	r.step(engine.Event{Kind: engine.Drain, Device: dev, Answer: func(error) { answered = drained() }})
	r.mustRun(id)
	r.until("the end of the drain", func() bool { return drained() > 0 })
	equal(t, "ends told", drained(), 1)
	equal(t, "ends told when the caller was answered", answered, 0)
	last := (*ns)[slices.IndexFunc(*ns, func(n engine.Notice) bool { return n.Kind == engine.DeviceDrained })]
	if last.Device != dev || last.Err != nil {
		t.Errorf("told of device %d, %v; want %d", last.Device, last.Err, dev)
	}
}

// The work that is left, which is kept by each notice, is what a new count of the tasks
// finds, also when results are lost and tasks fail.
func TestTally(t *testing.T) {
	r := newRig(t, gpus(2, 1<<30), engine.Options{})
	ns := watched(r)
	g := chains(t, 4, 6)
	r.fail["t2.3"] = 2
	id := r.submit(g, engine.RunOptions{})
	seen := 0
	r.step()
	for r.advance() {
		kept, ok := r.e.Progress(r.now, id)
		if !ok {
			break
		}
		r.e.Watch(nil) // forgets what was kept
		if counted, _ := r.e.Progress(r.now, id); counted != kept {
			t.Fatalf("kept %+v, counted %+v", kept, counted)
		}
		r.e.Watch(func(n *engine.Notice) { *ns = append(*ns, *n) })
		r.e.Progress(r.now, id) // is kept from here on
		if seen++; seen == 20 {
			r.lose(1, false)
		}
	}
	if kinds(*ns)[engine.TaskReplayed] == 0 || r.ended[id].Err != nil {
		t.Errorf("%v notices in %d steps, %v", kinds(*ns), seen, r.ended[id].Err)
	}
}

// Who asks again and again how far a run is, without watching, is told what a new count
// finds, and the count is made once.
func TestTallyOfPolls(t *testing.T) {
	cost := &counting{Cost: machine.NewRoofline(gpus(2, 1<<30))}
	r := newRig(t, gpus(2, 1<<30), engine.Options{Cost: cost})
	r.fail["t2.3"] = 2
	id := r.submit(chains(t, 4, 6), engine.RunOptions{})
	seen := 0
	r.step()
	for r.advance() {
		kept, ok := r.e.Progress(r.now, id)
		if !ok {
			break
		}
		asked := cost.asked
		if again, _ := r.e.Progress(r.now, id); again != kept || cost.asked != asked {
			t.Fatalf("asked again, %+v after %+v, with %d predictions", again, kept, cost.asked-asked)
		}
		r.e.Watch(nil) // forgets what was kept
		if counted, _ := r.e.Progress(r.now, id); counted != kept {
			t.Fatalf("kept %+v, counted %+v", kept, counted)
		}
		if seen++; seen == 20 {
			r.lose(1, false)
		}
	}
	if err := r.ended[id].Err; err != nil || seen < 20 {
		t.Errorf("%d steps, %v", seen, err)
	}
}

// counting is a cost model that counts predictions of tasks.
type counting struct {
	machine.Cost
	asked int
}

func (c *counting) Task(t *graph.Task, on machine.DeviceID) machine.Estimate {
	c.asked++
	return c.Cost.Task(t, on)
}

// The time left is the work left at the speed so far, less what has passed since.
func TestRemaining(t *testing.T) {
	for _, c := range []struct {
		p    engine.Progress
		want time.Duration
		ok   bool
	}{
		{engine.Progress{Work: 10 * ms, Left: 10 * ms}, 0, false},
		{engine.Progress{Begun: true}, 0, false},
		{engine.Progress{Begun: true, Work: 10 * ms, Left: 10 * ms, Lanes: 2}, 5 * ms, true},
		{engine.Progress{Begun: true, Work: 10 * ms, Left: 10 * ms}, 0, false},
		{engine.Progress{Begun: true, Work: 10 * ms, Left: 8 * ms, Tasks: 5, InFlight: 2, Lanes: 2, Started: ms, Last: 2 * ms, At: 3 * ms}, 3 * ms, true},
		{engine.Progress{Begun: true, Work: 10 * ms, Left: 8 * ms, Lanes: 2, Started: ms, Last: 2 * ms, At: 90 * ms}, 285600 * time.Microsecond, true}, // overdue
		{engine.Progress{Begun: true, Work: 10 * ms, Left: 4 * ms, Tasks: 5, InFlight: 2, Lanes: 2, Last: 3 * ms, At: 90 * ms}, 0, true},
		// What ended first, at ten times the speed that was predicted, hardly counts.
		{engine.Progress{Begun: true, Work: 1000 * ms, Left: 999 * ms, Lanes: 1, Last: ms / 10, At: ms / 10}, 981370588, true},
		{engine.Progress{Begun: true, Work: 10 * ms, Left: 5 * ms, Last: 5 * ms, At: 5 * ms}, 5 * ms, true}, // no device is healthy
	} {
		if got, ok := c.p.Remaining(); (got-c.want).Abs() > time.Microsecond || ok != c.ok {
			t.Errorf("%+v: %v, %v, want %v, %v", c.p, got, ok, c.want, c.ok)
		}
	}
}

// Rules about the health of devices say what they do.
func TestRuleNotices(t *testing.T) {
	var rulings []engine.Ruling
	r := newRig(t, gpus(2, 1<<30), engine.Options{Ruled: func(x engine.Ruling) { rulings = append(rulings, x) }})
	ns := watched(r)
	for i := range 4 {
		r.sample(1, engine.Sample{Util: 1, MemUsed: -1, TempC: 99, PowerW: -1, MemErrors: -1, Faults: -1})
		if len(rulings) != 1 || !rulings[0].Acts || rulings[0].Device != 1 {
			t.Errorf("after %d samples over a limit: %+v", i+1, rulings)
		}
	}
	var rules []string
	for _, n := range *ns {
		if n.Kind == engine.RuleActed {
			rules = append(rules, n.Rule)
		}
	}
	if len(rules) != 2 || rules[0] != "taken to be 2 times slower than its model" {
		t.Errorf("rules %q", rules)
	}
}

// A notice counts what it tells of: the n-th task that is done is the n-th of the run.
func TestNoticeCounts(t *testing.T) {
	r := newRig(t, gpus(2, 1<<30), engine.Options{})
	ns := watched(r)
	r.mustRun(r.submit(chains(t, 3, 4), engine.RunOptions{}))
	n, left := 0, time.Duration(0)
	for _, x := range *ns {
		if x.Kind != engine.TaskDone {
			continue
		}
		if n++; x.Run.Done != n || x.Run.InFlight < 0 || n > 1 && x.Run.Left >= left || x.Took <= 0 {
			t.Errorf("the %d. task that is done is told as %+v", n, x)
		}
		left = x.Run.Left
	}
	equal(t, "tasks told", n, 12)
}
