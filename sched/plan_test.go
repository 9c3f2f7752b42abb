package sched

import (
	"slices"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

var planKernel = &graph.Kernel{Name: "k", Impls: []graph.Impl{{Dialect: graph.Abstract}}}

// chainBeside is a chain of tasks that update data, added after independent ones, all of
// ops operations.
func chainBeside(tb testing.TB, chain, bulk int, ops float64, bytes int64) *graph.Flow {
	var b graph.Builder
	work := graph.Task{Steps: []graph.Step{{Kernel: planKernel}}, Work: graph.Work{Ops: ops}}
	for range bulk {
		b.Add(work)
	}
	x := b.Data(graph.Data{Bytes: bytes, Input: true})
	work.Uses = []graph.Use{{Data: x, Access: graph.ReadWrite}}
	for range chain {
		b.Add(work)
	}
	g, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	flows[g.Flow()] = g
	return g.Flow()
}

var flows = make(map[*graph.Flow]*graph.Graph)

// runOf is a run of a graph on idle devices.
func runOf(m *machine.Machine, f *graph.Flow) *Run {
	run := &Run{Flow: f, Depth: 64, Ahead: 2 * time.Millisecond}
	cost := machine.NewRoofline(m)
	classes := m.Classes()
	for i := range m.Devices {
		run.Devices = append(run.Devices, Device{
			Class: classes[i], Accepts: true, HostMemory: m.Devices[i].HostMemory, Slow: 1,
			FreeBytes: m.Devices[i].MemBytes, CapBytes: m.Devices[i].MemBytes,
		})
	}
	for _, t := range f.ShapeTask {
		costs := make([]time.Duration, slices.Max(classes)+1)
		for d, c := range classes {
			costs[c] = cost.Task(flows[f].Task(t), machine.DeviceID(d)).Median
		}
		run.Costs = append(run.Costs, costs)
	}
	run.At = make([]machine.DeviceID, f.NumInitial)
	for i := range run.At {
		run.At[i] = machine.Host
	}
	return run
}

func planning(name string) (*machine.Machine, *finish) {
	m, _ := machine.Named(name)
	return m, newFinish(Problem{Machine: m, Cost: machine.NewRoofline(m)}).(*finish)
}

// TestPlanKeepsChainsGoing: a chain as long as all the rest takes begins at once and has
// a device to itself, though 800 tasks were there before it. Ranks fall along it.
func TestPlanKeepsChainsGoing(t *testing.T) {
	m, p := planning("8xh100")
	const chain, bulk = 100, 700
	f := chainBeside(t, chain, bulk, 67e9, 1<<10)
	run := runOf(m, f)
	got := p.Plan(run)
	if len(got.Turns) != chain+bulk || len(got.Ranks) != chain+bulk {
		t.Fatalf("turns for %d and ranks for %d of %d tasks", len(got.Turns), len(got.Ranks), chain+bulk)
	}
	if sorted := slices.Sorted(slices.Values(got.Turns)); sorted[0] != 0 || sorted[len(sorted)-1] != chain+bulk-1 || len(slices.Compact(sorted)) != chain+bulk {
		t.Error("turns are no order")
	}
	for k := range chain - 1 {
		a, b := bulk+k, bulk+k+1
		if got.Turns[a] > got.Turns[b] || got.Ranks[a] <= got.Ranks[b] {
			t.Fatalf("chain task %d: turn %d and rank %v, the next: turn %d and rank %v", k, got.Turns[a], got.Ranks[a], got.Turns[b], got.Ranks[b])
		}
		if on := p.plans.byRun[0].on; on[a] != on[b] {
			t.Fatalf("chain task %d on device %d, the next on %d", k, on[a], on[b])
		}
	}
	// A task takes 1.007 ms.
	if took := p.plans.byRun[0].took; took > 104*time.Millisecond {
		t.Errorf("planned to take %v, where 101 ms are possible", took)
	}
	v := &Situation{Devices: run.Devices, Classes: 1, Tasks: []Ready{{Task: bulk, Cost: run.Costs[0], Near: -1, Hint: -1}}}
	if e := p.Explain(v, 0); e.Chosen != p.plans.byRun[0].on[bulk] {
		t.Errorf("chose %d: %s", e.Chosen, e.Why)
	}
	p.Forget(0)
	if p.plans.told(&v.Tasks[0]) >= 0 || p.plans.active != 0 {
		t.Error("the plan outlives its run")
	}
}

// TestPlanOnlyWherePays: no plan is made for graphs that take no longer than planning
// does, that are placed well as they come, or that do not fit into memory.
func TestPlanOnlyWherePays(t *testing.T) {
	m, _ := machine.Named("8xh100")
	for _, c := range []struct {
		name        string
		chain, bulk int
		ops         float64
		bytes       int64
		plans       bool
	}{
		{"a chain of long tasks beside others", 50, 400, 67e9, 1 << 10, true},
		{"short tasks", 50, 400, 67e7, 1 << 10, false},
		{"a single task", 1, 0, 67e9, 1 << 10, false},
		{"independent tasks", 0, 800, 67e9, 1 << 10, false},
		{"data larger than the memory of a device", 50, 400, 67e9, 81e9, false},
		{"too many tasks", 50, maxPlanned, 67e9, 1 << 10, false},
	} {
		p := newFinish(Problem{Machine: m, Cost: machine.NewRoofline(m)}).(*finish)
		if got := p.Plan(runOf(m, chainBeside(t, c.chain, c.bulk, c.ops, c.bytes))); (got.Turns != nil) != c.plans {
			t.Errorf("%s: planned %v, want %v", c.name, got.Turns != nil, c.plans)
		}
	}
}

// TestPlanAgain: a graph that comes again has the plan it had, unless costs or devices
// changed.
func TestPlanAgain(t *testing.T) {
	m, p := planning("8xh100")
	f := chainBeside(t, 50, 400, 67e9, 1<<10)
	again := func(change func(run *Run)) bool {
		run := runOf(m, f)
		change(run)
		var before *schedule
		if len(p.plans.known) > 0 {
			before = p.plans.known[0]
		}
		p.Plan(run)
		p.Forget(0)
		return before != nil && p.plans.known[0] == before
	}
	if again(func(*Run) {}) {
		t.Error("the first plan was there before")
	}
	if !again(func(*Run) {}) || !again(func(run *Run) { run.Costs[0][0] = run.Costs[0][0] * 20 / 19 }) {
		t.Error("the same graph is planned anew")
	}
	for name, change := range map[string]func(run *Run){
		"another cost":      func(run *Run) { run.Costs[0][0] *= 2 },
		"a device less":     func(run *Run) { run.Devices[3].Accepts = false },
		"a slower device":   func(run *Run) { run.Devices[3].Slow = 2 },
		"data that is near": func(run *Run) { run.At[0] = 3 },
	} {
		if again(change) {
			t.Errorf("the plan stays the same with %s", name)
		}
		again(func(*Run) {})
	}
	for range 3 * keptPlans {
		p.Plan(runOf(m, chainBeside(t, 50, 400, 67e9, 1<<10)))
		p.Forget(0)
	}
	if len(p.plans.known) > keptPlans {
		t.Errorf("%d plans are kept", len(p.plans.known))
	}
}

// TestPlanAgainWhereSomeCannot: a class of devices that cannot run a shape does not make
// a plan unfit.
func TestPlanAgainWhereSomeCannot(t *testing.T) {
	m, p := planning("8xh100")
	f := chainBeside(t, 50, 400, 67e9, 1<<10)
	var first *schedule
	for range 2 {
		run := runOf(m, f)
		run.Costs[0] = append(slices.Clone(run.Costs[0]), -1)
		if p.Plan(run).Turns == nil {
			t.Fatal("there is no plan: the test needs one")
		}
		p.Forget(0)
		if first == nil {
			first = p.plans.known[0]
		}
	}
	if p.plans.known[0] != first {
		t.Error("the same graph is planned anew")
	}
}

// TestNoPlanAgain: that placing tasks as they come is good enough is found out once.
func TestNoPlanAgain(t *testing.T) {
	m, p := planning("8xh100")
	f := chainBeside(t, 2, 800, 67e9, 1<<10)
	for range 2 {
		if got := p.Plan(runOf(m, f)); got.Turns != nil {
			t.Fatalf("there is a plan of %d turns: the test needs a graph without", len(got.Turns))
		}
	}
	if len(p.plans.known) != 1 || !p.plans.known[0].none {
		t.Errorf("%d answers are kept", len(p.plans.known))
	}
}

// TestPlanDropped: when a device is not any more what a plan supposes, tasks are placed
// as they come; and nothing is stolen from a device as long as that will be done in time.
func TestPlanDropped(t *testing.T) {
	m, p := planning("8xh100")
	const bulk = 400
	run := runOf(m, chainBeside(t, 50, bulk, 67e9, 1<<10))
	p.Plan(run)
	v := &Situation{Devices: run.Devices, Classes: 1, Tasks: []Ready{{Task: bulk, Cost: run.Costs[0], Near: -1, Hint: -1}}}
	p.Place(v, nil)
	v.Devices[2].Queued, v.Devices[2].FreeAt = 9, 30*time.Millisecond
	if from := p.Steal(v, 5); from >= 0 {
		t.Errorf("device %d is stolen from, which is in time", from)
	}
	v.Devices[2].FreeAt = time.Second
	if from := p.Steal(v, 5); from != 2 {
		t.Errorf("device %d is stolen from, want 2, which is late", from)
	}
	on := p.plans.told(&v.Tasks[0])
	if on < 0 {
		t.Fatal("no plan")
	}
	v.Devices[on].Accepts = false
	v.Dirty = []machine.DeviceID{on}
	if out := p.Place(v, nil); len(out) != 1 || out[0].Device == on {
		t.Errorf("placed %v, with device %d gone", out, on)
	}
	if p.plans.active != 0 {
		t.Error("the plan is still there")
	}
	p.Forget(0)
	if p.plans.active != 0 {
		t.Error("forgotten twice")
	}
}

// BenchmarkPlan is the planning of a graph, all rules, for a task.
func BenchmarkPlan(b *testing.B) {
	for _, name := range []string{"2xh100", "8xh100"} {
		b.Run(name, func(b *testing.B) {
			m, p := planning(name)
			f := chainBeside(b, 200, 100*len(m.Devices), 67e9, 1<<20)
			run := runOf(m, f)
			n := len(f.Rows) - 1
			for range b.N {
				p.plans.known = nil
				if p.Plan(run).Turns == nil {
					b.Fatal("no plan")
				}
				p.Forget(0)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/task")
		})
	}
}
