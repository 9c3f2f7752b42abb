package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// reversed is a policy that puts every task on the first device and plans to begin with
// the last.
type reversed struct {
	planned, forgotten []int32
	work               sched.Run
	ranks              []time.Duration // of tasks as they are offered
	succs              int
}

func (p *reversed) Place(v *sched.Situation, out []sched.Placement) []sched.Placement {
	for i := range v.Tasks {
		t := &v.Tasks[i]
		g := &v.Graphs[t.Run]
		if g.Ranks != nil {
			p.ranks = append(p.ranks, g.Ranks[t.Task])
		}
		p.succs += len(g.Flow.Succs(t.Task))
		out = append(out, sched.Placement{Task: int32(i), Finish: v.Assign(i, 0, 0, t.Cost[0])})
	}
	return out
}

func (p *reversed) Plan(w *sched.Run) (plan sched.Plan) {
	p.planned, p.work = append(p.planned, w.ID), *w
	n := len(w.Flow.Rows) - 1
	for t := range n {
		plan.Turns = append(plan.Turns, int32(n-1-t))
		plan.Ranks = append(plan.Ranks, time.Duration(t+1))
	}
	return plan
}

func (p *reversed) Forget(run int32) { p.forgotten = append(p.forgotten, run) }

// TestTurns: tasks of a run that was planned are issued in the turns they were given,
// ranks and successors are shown with them, and the plan ends with its run.
func TestTurns(t *testing.T) {
	m, _ := machine.Named("2xcpu")
	var b graph.Builder
	const n = 5
	x := b.Data(graph.Data{Bytes: 64, Input: true})
	for range n - 1 {
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: abstract}}, Uses: []graph.Use{{Data: x, Access: graph.Read}}})
	}
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: abstract}}, After: []graph.TaskID{0}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	p := &reversed{}
	e := engine.New(engine.Options{Machine: m, Cost: machine.NewRoofline(m), Policy: func(sched.Problem) sched.Policy { return p }})
	var now time.Duration
	for round := range int32(2) {
		var order []graph.TaskID
		e.Submit(now, g, engine.RunOptions{})
		for evs, ended := []engine.Event(nil), false; !ended; {
			now += 1000
			acts := e.Step(now, evs, nil)
			evs = nil
			for i := range acts {
				switch a := &acts[i]; a.Kind {
				case engine.Launch:
					order = append(order, a.Task)
					evs = append(evs, engine.Event{Kind: engine.OpDone, Op: a.Op, Start: now, End: now})
				case engine.Done:
					ended = true
				}
			}
			if !ended && len(evs) == 0 {
				t.Fatal("the engine stopped")
			}
		}
		if want := []graph.TaskID{3, 2, 1, 0, 4}; !slices.Equal(order, want) {
			t.Errorf("issued %v, want %v", order, want)
		}
		if len(p.planned) != int(round)+1 || !slices.Equal(p.planned, p.forgotten) {
			t.Errorf("planned %v, forgotten %v", p.planned, p.forgotten)
		}
	}
	if w := &p.work; len(w.Costs) != len(g.Flow().ShapeTask) || len(w.At) != 1 || w.At[0] != machine.Host || len(w.Devices) != 2 {
		t.Errorf("planned by %+v", w)
	}
	if want := []time.Duration{1, 2, 3, 4, 5}; !slices.Equal(p.ranks[:n], want) || p.succs != 2 {
		t.Errorf("ranks %v, want %v; %d successors in two runs, want 2", p.ranks[:n], want, p.succs)
	}
}

// TestTurnsOnlyWhereFree: runs that are bound by something are not planned.
func TestTurnsOnlyWhereFree(t *testing.T) {
	task := graph.Task{Steps: []graph.Step{{Kernel: abstract}}}
	for _, c := range []struct {
		name   string
		change func(task *graph.Task, o *engine.RunOptions)
		before int // runs that are there
		plans  int
	}{
		{"a run of two tasks", func(*graph.Task, *engine.RunOptions) {}, 0, 1},
		{"one beside another", func(*graph.Task, *engine.RunOptions) {}, 1, 0},
		{"priorities", func(t *graph.Task, _ *engine.RunOptions) { t.Priority = 1 }, 0, 0},
		{"constraints", func(t *graph.Task, _ *engine.RunOptions) { t.On.Only = []string{"cpu:1"} }, 0, 0},
		{"a gang", func(t *graph.Task, _ *engine.RunOptions) { t.Gang = 2 }, 0, 0},
		{"a limit", func(_ *graph.Task, o *engine.RunOptions) { o.Concurrent = 1 }, 0, 0},
	} {
		m, _ := machine.Named("2xcpu")
		p := &reversed{}
		e := engine.New(engine.Options{Machine: m, Cost: machine.NewRoofline(m), Policy: func(sched.Problem) sched.Policy { return p }})
		var o engine.RunOptions
		other := task
		c.change(&other, &o)
		var b graph.Builder
		b.Add(task)
		b.Add(other)
		g, err := b.Build()
		if err != nil {
			t.Fatal(c.name, err)
		}
		for range c.before {
			e.Submit(0, g, engine.RunOptions{Concurrent: 9})
		}
		e.Submit(0, g, o)
		e.Step(0, nil, nil)
		if len(p.planned) != c.plans {
			t.Errorf("%s: planned %d times, want %d", c.name, len(p.planned), c.plans)
		}
	}
}

// A run is not planned while a memory is away: where its data is may come back, or not.
func TestNoTurnsWhileAMemoryIsAway(t *testing.T) {
	p := &reversed{}
	r := newRig(t, gpus(2, 10*mb), engine.Options{Policy: func(sched.Problem) sched.Policy { return p }})
	ref := r.e.NewData("w", mb, graph.Versioned)
	for _, c := range []struct {
		what  string
		do    func()
		plans int
	}{
		{"both memories are there", func() { r.step() }, 1},
		{"one is away", func() { r.lose(1, true) }, 0},
		{"it is back", func() { r.back(1, true) }, 1},
		{"it is lost", func() { r.lose(1, false) }, 1},
	} {
		c.do()
		before := len(p.planned)
		r.mustRun(r.submit(sliced(t, 2, graph.Read), bound(ref)))
		equal(t, "plans while "+c.what, len(p.planned)-before, c.plans)
	}
}

// The run that is left alone on the only device is issued ahead at once, and not when its
// long task ends.
func TestLastRunIssuesAhead(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{})
	r.submit(independent(t, 3, 10), engine.RunOptions{})
	other := r.submit(independent(t, 3, 10), engine.RunOptions{})
	r.step()
	equal(t, "launches with another run", len(r.launched), 1)
	r.step(engine.Event{Kind: engine.Cancel, Run: other})
	equal(t, "launches without it", len(r.launched), 2)
}
