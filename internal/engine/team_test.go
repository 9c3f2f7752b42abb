package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// team is a machine of one device of n cores that work together.
func team(n int) *machine.Machine {
	m := cpus(1)
	m.Devices[0].ComputeUnits, m.Devices[0].Lanes, m.Devices[0].Team = n, n, true
	return m
}

// grid is a job with items. Its time is with as many cores as it has items.
func grid(name string, millis float64, items uint32, cores int, uses ...graph.Use) graph.Task {
	t := job(name, millis*float64(min(int(items), cores))/float64(cores), uses...)
	t.Steps = []graph.Step{{Kernel: anywhere, Launch: graph.Launch{Grid: [3]uint32{items, 1, 1}}}}
	return t
}

// alone adds a task that shares nothing with others.
func alone(b *graph.Builder, t graph.Task) {
	t.Uses = []graph.Use{writes(b.Data(graph.Data{Name: "of " + t.Name, Bytes: 8}))}
	b.Add(t)
}

// running lists the tasks that run.
func (r *rig) running() (out []string) {
	for _, o := range r.ops {
		if name, _, launch := strings.Cut(o.what, "@"); launch && o.started {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// lane returns the lane of a task in flight.
func (r *rig) lane(task string) engine.Lane {
	r.t.Helper()
	for _, o := range r.ops {
		if strings.HasPrefix(o.what, task+"@") {
			return o.a.Op.Lane
		}
	}
	r.t.Fatalf("%s is not in flight", task)
	return 0
}

// Tasks of one item use every core, and those with a grid run in turn with all of them.
// The device is predicted, and reported, to be busy for as long as all of its cores are.
func TestTeam(t *testing.T) {
	for _, c := range []struct {
		items  uint32
		most   int           // tasks at a time
		takes  time.Duration // for twelve
		policy string
	}{{1, 4, 15 * ms, ""}, {2, 2, 30 * ms, ""}, {4, 1, 60 * ms, ""}, {100, 1, 60 * ms, ""}, {3, 2, 30 * ms, ""}} {
		tr := trace.NewRecorder(0)
		r := newRig(t, team(4), engine.Options{Trace: tr})
		id := r.submit(build(t, func(b *graph.Builder) {
			for i := range 12 {
				alone(b, grid(fmt.Sprint("t", i), 5, c.items, 4))
			}
		}), engine.RunOptions{})
		r.step()
		most := 0
		for _, ended := r.ended[id]; !ended; _, ended = r.ended[id] {
			most = max(most, len(r.running()))
			if !r.advance() {
				t.Fatal("it stopped")
			}
		}
		rep := r.mustRun(id)
		what := fmt.Sprintf("%d items: ", c.items)
		equal(t, what+"tasks at a time", most, c.most)
		equal(t, what+"time", rep.Elapsed(), c.takes)
		equal(t, what+"busy", rep.Devices[0].Busy, 12*5*ms*time.Duration(min(c.items, 4))/4)
		use := trace.Analyze(r.m, tr.Events(), nil).Devices[0]
		equal(t, what+"time of lanes by the trace", use.LaneTime, min(4*rep.Devices[0].Busy, 4*rep.Elapsed()))
	}
}

// A task of one item begins beside one with a grid, and the other way round.
func TestTeamMixed(t *testing.T) {
	r := newRig(t, team(2), engine.Options{})
	one := func(name string) engine.RunID {
		id := r.submit(build(t, func(b *graph.Builder) { alone(b, grid(name, 50, 8, 2)) }), engine.RunOptions{})
		r.step()
		return id
	}
	wide := one("wide0")
	equalLists(t, "alone", r.running(), []string{"wide0"})
	small := r.submit(build(t, func(b *graph.Builder) {
		for i := range 3 {
			alone(b, grid(fmt.Sprint("small", i), 5, 1, 2))
		}
	}), engine.RunOptions{})
	r.step()
	equalLists(t, "beside it", r.running(), []string{"small0", "wide0"})
	if err := r.finish(small); err != nil {
		t.Fatal(err)
	}
	equalLists(t, "after the small ones", r.running(), []string{"wide0"})
	if err := r.finish(wide); err != nil {
		t.Fatal(err)
	}
	small = r.submit(independent(t, 1, 20), engine.RunOptions{})
	r.step()
	wide = one("wide1")
	equalLists(t, "the other way round", r.running(), []string{"t0", "wide1"})
	next := one("wide2")
	equalLists(t, "with another that waits for its turn", r.running(), []string{"t0", "wide1"})
	if err := r.finish(small, wide, next); err != nil {
		t.Fatal(err)
	}
}

// A task that hangs keeps its own lane and no other, whatever runs beside it.
func TestTeamHang(t *testing.T) {
	r := newRig(t, team(2), engine.Options{})
	r.hang["stuck"] = true
	r.submit(build(t, func(b *graph.Builder) { alone(b, grid("stuck", 1, 1, 2)) }), engine.RunOptions{})
	r.step()
	r.now += 100 * ms
	for i := range 20 {
		id := r.submit(build(t, func(b *graph.Builder) {
			alone(b, grid("small", 3, 1, 2))
			alone(b, grid("wide", 3, 8, 2))
		}), engine.RunOptions{})
		if err := r.finish(id); err != nil {
			t.Fatalf("run %d: %v", i, err)
		}
	}
	equalLists(t, "in the end", r.running(), []string{"stuck"})
}

// A task that waits for another follows it on its lane, so that other lanes take what can
// begin.
func TestTeamChain(t *testing.T) {
	r := newRig(t, team(4), engine.Options{})
	c := r.submit(build(t, func(b *graph.Builder) {
		last := b.Data(graph.Data{Name: "x", Bytes: 8, Input: true})
		for i := range 10 {
			d := b.Data(graph.Data{Name: fmt.Sprint("x", i), Bytes: 8})
			b.Add(job(fmt.Sprint("c", i), 20, reads(last), writes(d)))
			last = d
		}
	}), engine.RunOptions{})
	r.step()
	first := r.lane("c0")
	equal(t, "the lane of what follows", r.lane("c1"), first)
	id := r.submit(independent(t, 30, 2), engine.RunOptions{})
	if err := r.finish(id); err != nil {
		t.Fatal(err)
	}
	equal(t, "end of 30 independent tasks of 8 ms on three lanes", r.now, 80*ms)
	if err := r.finish(c); err != nil {
		t.Fatal(err)
	}
}

// Short tasks that are known to be short go to one lane, where handing them over costs
// less than they take; unknown ones are spread.
func TestTeamPacks(t *testing.T) {
	m := team(4)
	r := newRig(t, m, engine.Options{Cost: machine.NewHistory(machine.NewRoofline(m), m)})
	lanes := func() int {
		id := r.submit(independent(t, 8, 0.0001), engine.RunOptions{})
		r.step()
		seen := map[engine.Lane]bool{}
		for _, o := range r.ops {
			seen[o.a.Op.Lane] = true
		}
		if err := r.finish(id); err != nil {
			t.Fatal(err)
		}
		return len(seen)
	}
	equal(t, "lanes for tasks of which nothing is known", lanes(), 4)
	for range 10 {
		lanes()
	}
	equal(t, "lanes for tasks of 0.4 µs", lanes(), 1)
}

// A quick task does not wait behind a long one while a lane is idle, nor what waits for it.
func TestQuickBesideLong(t *testing.T) {
	m := team(2)
	r := newRig(t, m, engine.Options{Cost: machine.NewHistory(machine.NewRoofline(m), m)})
	for range 40 { // until quick tasks are known to be quick
		r.mustRun(r.submit(independent(t, 8, 0.0001), engine.RunOptions{}))
	}
	begin := r.now
	r.mustRun(r.submit(build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 8})
		b.Add(job("long", 25)) // by the whole team: 50 on a lane
		b.Add(job("quick", 0.0001, writes(x)))
		b.Add(job("long too", 25, reads(x)))
	}), engine.RunOptions{}))
	if took := r.now - begin; took > 60*ms {
		t.Errorf("two tasks of 50 ms, one behind a quick one, took %v on two lanes", took)
	}
}

// Of grids that each take all of a team it is expected that they run in turn.
func TestRemainingOfGrids(t *testing.T) {
	r := newRig(t, team(16), engine.Options{})
	id := r.submit(build(t, func(b *graph.Builder) {
		for i := range 100 {
			b.Add(grid(fmt.Sprint("grid ", i), 10, 16, 16))
		}
	}), engine.RunOptions{})
	r.step()
	p, ok := r.e.Progress(r.now, id)
	left, told := p.Remaining()
	if !ok || !told || left < 900*ms || left > 1100*ms {
		t.Errorf("100 grids of 10 ms: %v left, %v, %v", left, ok, told)
	}
	r.mustRun(id)
}

// Tasks of which nothing is known, and which take far longer than was predicted, are dealt
// out to all lanes.
func TestTeamDealsOutTheUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		tasks, runs int
	}{"one run": {40, 1}, "one run after another": {1, 40}} {
		r := newRig(t, team(4), engine.Options{})
		g := independent(t, c.tasks, 0) // by prediction they end at once
		for range c.runs {
			r.submit(g, engine.RunOptions{})
			r.step()
			r.now += 10 * time.Microsecond // and they do not
		}
		lanes := map[engine.Lane]int{}
		for _, o := range r.ops {
			lanes[o.a.Op.Lane]++
		}
		for l, n := range lanes {
			if n < 8 || n > 12 {
				t.Errorf("%s: lane %d was given %d of 40 tasks", name, l, n)
			}
		}
		equal(t, "lanes in use, "+name, len(lanes), 4)
		for r.advance() {
		}
	}
}
