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
	"github.com/weft-run/weft/sched"
)

// urgent is a task of 1 ms with a priority.
func urgent(name string, priority int, uses ...graph.Use) graph.Task {
	k := job(name, 1, uses...)
	k.Priority = priority
	return k
}

// single is a graph of one task over data of its own.
func single(t *testing.T, k graph.Task) *graph.Graph {
	return build(t, func(b *graph.Builder) {
		k.Uses = append(k.Uses, writes(b.Data(graph.Data{Name: "of " + k.Name, Bytes: 8})))
		b.Add(k)
	})
}

// A task that is more urgent overtakes what is queued, not what is issued.
func TestUrgentOvertakes(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{Depth: 2})
	bulk := r.submit(independent(t, 20, 1), engine.RunOptions{})
	r.until("five done", func() bool { return len(r.ran) == 5 })
	issued := len(r.launched)
	now := r.submit(single(t, urgent("now", 1)), engine.RunOptions{})
	r.finish(now, bulk)
	equal(t, "the next task issued", r.launched[issued], "now@cpu:0")
}

// The same by the priority of whole runs.
func TestUrgentRun(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{Depth: 2})
	bulk := r.submit(independent(t, 20, 1), engine.RunOptions{})
	r.step()
	now := r.submit(single(t, job("now", 1)), engine.RunOptions{Priority: 3})
	r.finish(now, bulk)
	equal(t, "the first task not issued before", r.launched[2], "now@cpu:0")
}

// Priority is a head start of 100 ms of service a step: under a stream of newer
// urgent tasks that keeps the device busy, an old one gets its turn.
func TestNothingStarves(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{Depth: 2})
	stream := r.submit(build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 8, Input: true, Durability: graph.Volatile})
		for i := range 300 {
			b.Add(urgent(fmt.Sprint("u", i), 1, updates(x)))
		}
	}), engine.RunOptions{})
	r.step()
	patient := r.submit(single(t, job("patient", 1)), engine.RunOptions{})
	r.finish(patient)
	if n := len(r.ran) - 1; n < 95 || n > 105 {
		t.Errorf("the patient task came after %d urgent ones of 1 ms, want about 100", n)
	}
	r.finish(stream)
}

// Two runs share a device by weight: 3 to 1 while both have work.
func TestFairShares(t *testing.T) {
	for _, weights := range [][2]float64{{1, 1}, {3, 1}} {
		r := newRig(t, cpus(1), engine.Options{Depth: 2})
		a := r.submit(independent(t, 100, 1), engine.RunOptions{Weight: weights[0]})
		b := r.submit(independent(t, 100, 1), engine.RunOptions{Weight: weights[1]})
		byRun := map[engine.RunID]int{}
		seen := map[engine.Op]bool{}
		r.until("half way", func() bool {
			for _, o := range r.ops {
				if !seen[o.a.Op] {
					seen[o.a.Op] = true
					byRun[o.a.Run]++
				}
			}
			return len(seen) >= 80
		})
		want := 80 * weights[0] / (weights[0] + weights[1])
		if got := float64(byRun[a]); got < want-4 || got > want+4 {
			t.Errorf("weights %v: of %d tasks %d are of the first run, want about %v", weights, len(seen), byRun[a], want)
		}
		r.finish(a, b)
	}
}

// A run that comes late is not made to pay for what others got before, nor
// paid for it.
func TestLateRunStartsEven(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{Depth: 2})
	a := r.submit(independent(t, 300, 1), engine.RunOptions{})
	r.until("a while", func() bool { return len(r.ran) == 100 })
	b := r.submit(independent(t, 50, 1), engine.RunOptions{})
	r.finish(b)
	// Half the service from then on: 50 of its own, about 50 of the other.
	if n := len(r.ran) - 100; n < 90 || n > 110 {
		t.Errorf("the late run of 50 tasks took %d turns, want about 100", n)
	}
	r.finish(a)
}

// fickle is a cost model that takes tasks for longer by now and then another time.
type fickle struct {
	machine.Cost
	epoch uint64
}

func (f *fickle) Epoch() uint64 { return f.epoch }

func (f *fickle) Task(t *graph.Task, on machine.DeviceID) machine.Estimate {
	e := f.Cost.Task(t, on)
	e.Median += time.Duration(f.epoch*7%10) * ms
	return e
}

// Runs of one graph are a stream: each of its steps takes them in the order they
// began, though some are charged more than others for the same work, and though
// some are cancelled on their way.
func TestRunsOfOneGraphKeepOrder(t *testing.T) {
	const steps, runs, ahead = 4, 48, 16
	m := cpus(steps)
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 8, Input: true, Output: true})
		for s := range steps {
			task := job(fmt.Sprint("step ", s), float64(20+10*s), updates(x)) // so that runs queue up
			task.On.Only = []string{m.Devices[s].Name}
			b.Add(task)
		}
	})
	for _, cancels := range []bool{false, true} {
		cost := &fickle{Cost: machine.NewRoofline(m)}
		r := newRig(t, m, engine.Options{Cost: cost})
		order := make([][]engine.RunID, steps)
		seen := map[engine.Op]bool{}
		var began, cancel []engine.RunID
		r.until("all runs have ended", func() bool {
			for len(began) < min(runs, len(r.ended)+ahead) {
				began = append(began, r.submit(g, engine.RunOptions{}))
				if cancels && len(began)%2 == 0 {
					cancel = append(cancel, began[len(began)-1])
				}
				if len(cancel) > 2 {
					r.step(engine.Event{Kind: engine.Cancel, Run: cancel[0]})
					cancel = cancel[1:]
				}
			}
			cost.epoch++
			for _, o := range r.ops {
				if o.a.Kind == engine.Launch && !seen[o.a.Op] {
					seen[o.a.Op] = true
					order[o.a.Device] = append(order[o.a.Device], o.a.Run)
				}
			}
			return len(r.ended) == runs
		})
		for s, got := range order {
			if !slices.IsSorted(got) || !cancels && !slices.Equal(got, began) {
				t.Errorf("cancelling %v: step %d took runs in the order %v", cancels, s, got)
			}
		}
	}
}

// Concurrent bounds tasks in flight over all devices, and of one run.
func TestConcurrent(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{Concurrent: 3})
	r.mustRun(r.submit(independent(t, 40, 0.1), engine.RunOptions{}))
	equal(t, "most in flight", r.peak, 3)

	r = newRig(t, cpus(4), engine.Options{})
	r.mustRun(r.submit(independent(t, 40, 1), engine.RunOptions{Concurrent: 2}))
	equal(t, "most in flight of the run", r.peak, 2)

	// A limit of one run does not hold up another.
	r = newRig(t, cpus(1), engine.Options{})
	slow := r.submit(independent(t, 10, 1), engine.RunOptions{Concurrent: 1})
	other := r.submit(independent(t, 10, 1), engine.RunOptions{})
	r.finish(slow, other)
	if r.peak < 2 {
		t.Errorf("at most %d in flight beside a run limited to 1", r.peak)
	}
}

// Runs with a limit end together with others, whichever device their next task is queued on.
func TestConcurrentOnSeveral(t *testing.T) {
	for limit := 1; limit <= 4; limit++ {
		r := newRig(t, cpus(4), engine.Options{})
		few := r.submit(independent(t, 40, 10), engine.RunOptions{Concurrent: limit})
		other := r.submit(independent(t, 40, 10), engine.RunOptions{})
		if err := r.finish(few, other); err != nil {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}

// How far a lane is issued ahead: Depth tasks, less when they are long, but two, so
// that one can be prepared while another runs; a single one where nothing has to be
// and another device could take the second.
func TestLookAhead(t *testing.T) {
	cases := []struct {
		m      *machine.Machine
		o      engine.Options
		millis float64
		want   int
	}{
		{cpus(1), engine.Options{Depth: 5, Ahead: 1000 * ms}, 1, 5},
		{cpus(1), engine.Options{Depth: 1, Ahead: 1000 * ms}, 1, 2},
		{cpus(1), engine.Options{Depth: 64, Ahead: 4 * ms}, 1, 4},
		{cpus(1), engine.Options{Depth: 64, Ahead: 4 * ms}, 10, 2},
		{cpus(1), engine.Options{}, 0.001, 256},
		{cpus(1), engine.Options{}, 0.01, 50},
		{cpus(3), engine.Options{}, 1.5, 6},
		{cpus(3), engine.Options{}, 2.5, 3},
		{gpus(3, 1<<30), engine.Options{}, 2.5, 6},
	}
	for _, c := range cases {
		r := newRig(t, c.m, c.o)
		r.mustRun(r.submit(independent(t, 300, c.millis), engine.RunOptions{}))
		equal(t, fmt.Sprintf("most in flight with %d deep, %v ahead, tasks of %v ms", c.o.Depth, c.o.Ahead, c.millis), r.peak, c.want)
	}
}

// A device that turns out to be slow is helped, also when all it has should have
// been done by now: with what is next on it, and what is small is left for the end.
func TestStealFromOverdue(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{})
	g := build(t, func(b *graph.Builder) {
		for i, millis := range []float64{20, 20, 16, 16, 8, 8} {
			b.Add(job(fmt.Sprintf("t%d", i), millis))
		}
	})
	r.hang["t0"] = true
	id := r.submit(g, engine.RunOptions{})
	r.until("all but what hangs have run", func() bool { return len(r.ran) == 5 })
	_, slow, _ := strings.Cut(r.launched[slices.IndexFunc(r.launched, func(s string) bool { return strings.HasPrefix(s, "t0@") })], "@")
	equal(t, "tasks on the slow device", r.launchedOn(slow), 1)
	at := slices.IndexFunc(r.ran, func(s string) bool { return strings.HasPrefix(s, "t2") })
	if at < 0 || at > slices.IndexFunc(r.ran, func(s string) bool { return strings.HasPrefix(s, "t4") }) {
		t.Errorf("the small one was taken before the large: %v", r.ran)
	}
	delete(r.hang, "t0")
	r.mustRun(id)
}

// A device begins what was to begin first, although it was meant for one that turns
// out to be slow, before small tasks of its own. What is short does not move, nor
// what uses a memory of its own, nor anything where all is as fast as predicted.
func TestBeginsInTurn(t *testing.T) {
	for _, c := range []struct {
		m      *machine.Machine
		millis float64 // of a unit of work
		hangs  bool
		want   string // what ends first
	}{
		{cpus(2), 1, true, "t1@cpu:1 t3@cpu:1 t2@cpu:1"},
		{cpus(2), 1, false, "t0@cpu:0 t1@cpu:1 t2@cpu:0"},
		{cpus(2), 0.05, true, "t1@cpu:1 t3@cpu:1 t5@cpu:1"},
		{gpus(2, 1<<30), 1, true, "t1@gpu:1 t3@gpu:1 t5@gpu:1"},
	} {
		r := newRig(t, c.m, engine.Options{})
		g := build(t, func(b *graph.Builder) {
			for i, units := range []float64{20, 20, 16, 16, 8, 8} {
				b.Add(job(fmt.Sprintf("t%d", i), units*c.millis))
			}
		})
		r.hang["t0"] = c.hangs
		id := r.submit(g, engine.RunOptions{})
		r.until("three have run", func() bool { return len(r.ran) >= 3 })
		equal(t, fmt.Sprintf("%s, %v ms, hangs %v: what ran", c.m.Name, c.millis, c.hangs), strings.Join(r.ran[:3], " "), c.want)
		delete(r.hang, "t0")
		r.mustRun(id)
	}
}

// One task that cannot be taken does not stand in the way of others that can.
func TestBeginsInTurnWhatItMay(t *testing.T) {
	r := newRig(t, cpus(3), engine.Options{})
	g := build(t, func(b *graph.Builder) {
		b.Add(job("hung", 20))
		b.Add(job("long", 100))
		b.Add(job("short", 20))
		only := job("only", 17)
		only.On.Only = []string{"cpu:1"}
		b.Add(only)
		b.Add(job("large", 16))
		b.Add(job("larger", 16))
		for i := range 12 {
			b.Add(job(fmt.Sprintf("small%d", i), 8))
		}
	})
	r.hang["hung"] = true
	id := r.submit(g, engine.RunOptions{})
	r.until("three have run", func() bool { return len(r.ran) >= 3 })
	equal(t, "what ran", strings.Join(r.ran[:3], " "), "short@cpu:2 larger@cpu:2 large@cpu:2")
	delete(r.hang, "hung")
	r.mustRun(id)
}

// What has no room is left where it waits, lest the device that takes it stands idle
// beside tasks of its own that fit.
func TestBeginsInTurnWhatFits(t *testing.T) {
	m := cpus(2)
	m.HostBytes = 1000
	r := newRig(t, m, engine.Options{})
	g := build(t, func(b *graph.Builder) {
		writes := func(bytes int64) graph.Use { return writes(b.Data(graph.Data{Bytes: bytes})) }
		b.Add(job("late", 40, writes(500)))
		for i := range 4 {
			b.Add(job(fmt.Sprintf("a%d", i), 10, writes(8)))
		}
		b.Add(job("big", 20, writes(900)))
		for i := range 18 {
			b.Add(job(fmt.Sprintf("b%d", i), 10, writes(8)))
		}
	})
	r.hang["late"] = true
	id := r.submit(g, engine.RunOptions{})
	r.until("all that fits has run beside what hangs", func() bool { return len(r.ran) == 22 })
	delete(r.hang, "late")
	r.mustRun(id)
}

// A device leaves to another what it would itself be done with later: the other may be
// long at what it has and still be the one to wait for.
func TestLeavesToFaster(t *testing.T) {
	for _, times := range []float64{3, 5, 10, 20} {
		m := cpus(2)
		m.Devices[1].Rates.Ops[graph.FP32] /= times
		r := newRig(t, m, engine.Options{})
		g := build(t, func(b *graph.Builder) {
			for i := range 10 {
				b.Add(job(fmt.Sprintf("large%d", i), 60))
			}
			for i := range 80 {
				b.Add(job(fmt.Sprintf("small%d", i), 5))
			}
		})
		r.mustRun(r.submit(g, engine.RunOptions{}))
		if best := time.Duration(1000 / (1 + 1/times) * float64(ms)); float64(r.now) > 1.02*float64(best) {
			t.Errorf("with a device %v times slower it took %v, possible is %v", times, r.now, best)
		}
	}
}

// A task that failed on a device is not taken back by it, neither in turn nor when it
// has nothing left, while there is another.
func TestFailedGoesElsewhere(t *testing.T) {
	for _, more := range []int{0, 40} {
		r := newRig(t, cpus(2), engine.Options{Backoff: time.Microsecond})
		g := build(t, func(b *graph.Builder) {
			b.Add(job("picky", 5))
			b.Add(job("long", 40))
			for i := range 4 + more {
				b.Add(job(fmt.Sprintf("t%d", i), 4))
			}
		})
		r.outcome = func(task, dev string) engine.Status {
			if task == "picky" && dev == "cpu:0" {
				return engine.Refused
			}
			return engine.OK
		}
		r.mustRun(r.submit(g, engine.RunOptions{}))
		equal(t, fmt.Sprintf("attempts beside %d more", more), r.count("picky"), 2)
	}
}

// A device that helps one that is overdue takes what can begin: what waits for the
// very task that is late would keep the thief waiting too.
func TestStealWhatCanBegin(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{})
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 8})
		for i, use := range []graph.Use{writes(x), reads(x)} {
			a := job(fmt.Sprintf("a%d", i), 20, use)
			a.Priority = 5
			b.Add(a)
		}
		for i := range 5 {
			b.Add(job(fmt.Sprintf("t%d", i), 20))
		}
	})
	r.hang["a0"] = true
	id := r.submit(g, engine.RunOptions{})
	r.until("all but what hangs, and waits for it, have run", func() bool { return len(r.ran) == 5 })
	delete(r.hang, "a0")
	r.mustRun(id)
}

// A thief begins no sooner than what its task waits for ends: chains are not slowed
// down by a device that happens to be idle.
func TestStealOfChains(t *testing.T) {
	for chains := 1; chains <= 3; chains++ {
		m := gpus(1, 1<<30)
		slow := machine.Device{Name: "cpu", Kind: machine.CPU, Backend: "cpu", HostMemory: true}
		slow.Rates.Ops[graph.FP32] = 1e9 / (1.5 + float64(chains))
		m.Devices = append(m.Devices, slow)
		r := newRig(t, m, engine.Options{})
		g := build(t, func(b *graph.Builder) {
			x := make([]graph.DataID, chains)
			for i := range 10 {
				for c := range chains {
					y := b.Data(graph.Data{Name: fmt.Sprint(c, "y", i), Bytes: 8})
					uses := []graph.Use{writes(y)}
					if i > 0 {
						uses = append(uses, reads(x[c]))
					}
					b.Add(job(fmt.Sprint(c, "a", i), 10, uses...))
					x[c] = y
				}
			}
			s := job("s", 0.1)
			s.On.Only = []string{"cpu"}
			b.Add(s)
		})
		r.mustRun(r.submit(g, engine.RunOptions{}))
		if most := time.Duration(100*chains)*ms + ms; r.now > most {
			t.Errorf("%d chains that one device runs in %v took %v: %v", chains, most, r.now, r.ran)
		}
	}
}

// A chain is issued ahead too: dependents wait on the device, not in the engine.
func TestChainIsIssuedAhead(t *testing.T) {
	r := newRig(t, cpus(1), engine.Options{Depth: 8, Ahead: 1000 * ms})
	id := r.submit(chain(t, 20, 1, graph.Volatile), engine.RunOptions{})
	r.step()
	equal(t, "tasks of a chain in flight before any is done", len(r.inFlight()), 8)
	r.mustRun(id)
	equal(t, "time", r.now, 20*ms)
}

// A gang is issued all at once or not at all, and gangs in one order on every
// lane, so that two can never wait for each other.
func TestGangs(t *testing.T) {
	gang := func(name string, n int) graph.Task {
		k := job(name, 2)
		k.Gang = n
		return k
	}
	r := newRig(t, cpus(4), engine.Options{})
	g := build(t, func(b *graph.Builder) {
		for i := range 6 {
			d := b.Data(graph.Data{Name: fmt.Sprint("d", i), Bytes: 8})
			k := gang(fmt.Sprint("g", i), 2+i%3)
			k.Uses = []graph.Use{writes(d)}
			b.Add(k)
			b.Add(job(fmt.Sprint("t", i), 1, reads(d)))
		}
	})
	r.mustRun(r.submit(g, engine.RunOptions{}))
	// In the log of launches members of a gang follow one another…
	var order []string
	for i := 0; i < len(r.launched); i++ {
		name, _, _ := strings.Cut(r.launched[i], "@")
		if name[0] != 'g' {
			continue
		}
		n := 2 + int(name[1]-'0')%3
		devs := make(map[string]bool)
		for _, l := range r.launched[i : i+n] {
			other, dev, _ := strings.Cut(l, "@")
			equal(t, "member", other, name)
			devs[dev] = true
		}
		equal(t, "devices of "+name, len(devs), n)
		order = append(order, name)
		i += n - 1
	}
	equal(t, "gangs", len(order), 6) // …and each was launched once.
	equal(t, "tasks", len(r.ran), (2+3+4)*2+6)
}

// A gang waits whole for a device that is away, and fails when there can never
// be enough.
func TestGangNeedsEnoughDevices(t *testing.T) {
	three := job("three", 1)
	three.Gang = 3
	r := newRig(t, cpus(3), engine.Options{Health: engine.HealthRules{RungTimeout: 1000 * ms}})
	r.lose(2, false)
	id := r.submit(single(t, three), engine.RunOptions{})
	r.step()
	equal(t, "launches with two of three devices", len(r.launched), 0)
	r.back(2, false)
	equal(t, "launches with all three", len(r.launched), 3)
	r.mustRun(id)

	four := job("four", 1)
	four.Gang = 4
	is(t, r.finish(r.submit(single(t, four), engine.RunOptions{})), engine.ErrNoDevice)
}

// Only keeps a task to devices it names, by name, backend or kind; Hint wins
// when it costs little and loses when it costs much.
func TestConstraints(t *testing.T) {
	m := cpus(2)
	gpu := gpus(1, 1<<20)
	m.Devices = append(m.Devices, gpu.Devices[0])
	m.Links = []machine.Link{{A: 2, B: machine.Host, BPS: 1e9}}
	for _, c := range []struct{ only, hint, want string }{
		{"cpu:1", "", "cpu:1"},
		{"gpu:0", "", "gpu:0"},
		{"cuda", "", "gpu:0"},
		{"discrete", "", "gpu:0"},
		{"gpu", "", "gpu:0"},
		{"", "cpu:1", "cpu:1"},
		{"", "gpu:0", "gpu:0"},
		{"cpu:0", "cpu:1", "cpu:0"},
	} {
		r := newRig(t, m, engine.Options{})
		k := job("k", 1)
		if c.only != "" {
			k.On.Only = []string{c.only}
		}
		k.On.Hint = c.hint
		r.mustRun(r.submit(single(t, k), engine.RunOptions{}))
		equalLists(t, fmt.Sprintf("only %q hint %q", c.only, c.hint), r.launched, []string{"k@" + c.want})
	}
	// A hint at a busy device loses.
	r := newRig(t, m, engine.Options{})
	long := job("long", 50)
	long.On.Only = []string{"cpu:1"}
	r.submit(single(t, long), engine.RunOptions{})
	r.step()
	k := job("k", 1)
	k.On.Hint = "cpu:1"
	r.mustRun(r.submit(single(t, k), engine.RunOptions{}))
	if slices.Contains(r.launched, "k@cpu:1") {
		t.Error("a hint made a task of 1 ms wait 50 ms")
	}
}

// What no device can ever run fails at once, in the step it is submitted to.
func TestImpossible(t *testing.T) {
	ptx := &graph.Kernel{Name: "ptx", Impls: []graph.Impl{{Dialect: graph.PTX}}}
	nowhere := job("nowhere", 1)
	nowhere.On.Only = []string{"cuda:7"}
	foreign := job("foreign", 1)
	foreign.Steps = []graph.Step{{Kernel: ptx}}
	scratch := job("scratch", 1)
	scratch.Workspace = 2 << 20
	for _, c := range []struct {
		k    graph.Task
		m    *machine.Machine
		want error
	}{
		{nowhere, cpus(2), engine.ErrNoDevice},
		{foreign, cpus(2), engine.ErrNoDevice},
		{scratch, gpus(2, 1<<20), engine.ErrOutOfMemory},
	} {
		r := newRig(t, c.m, engine.Options{})
		id := r.submit(single(t, c.k), engine.RunOptions{})
		r.step()
		if _, ok := r.ended[id]; !ok {
			t.Errorf("%s: not failed at once", c.k.Name)
			continue
		}
		is(t, r.ended[id].Err, c.want)
		if !strings.Contains(r.ended[id].Err.Error(), c.k.Name) {
			t.Errorf("the error does not name the task: %v", r.ended[id].Err)
		}
	}
}

// A task that could run only on a device that is away waits for it.
func TestWaitsForItsDevice(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{Health: engine.HealthRules{RungTimeout: 1000 * ms}})
	r.lose(1, false)
	k := job("k", 1)
	k.On.Only = []string{"cpu:1"}
	id := r.submit(single(t, k), engine.RunOptions{})
	r.step()
	equal(t, "launches", len(r.launched), 0)
	r.back(1, false)
	r.mustRun(id)

	// And fails when the device is given up.
	r = newRig(t, cpus(2), engine.Options{})
	r.lose(1, false)
	is(t, r.finish(r.submit(single(t, k), engine.RunOptions{})), engine.ErrNoDevice)
}

// Explain is called once for every task placed, and says what then happens.
func TestExplain(t *testing.T) {
	said := make(map[string]string)
	m := cpus(3)
	r := newRig(t, m, engine.Options{Explain: func(x sched.Explanation) {
		if said[x.Task] != "" {
			t.Errorf("%s explained twice", x.Task)
		}
		if x.Why == "" || x.Policy != "finish" || len(x.Rows) != 3 {
			t.Errorf("poor explanation %+v", x)
		}
		said[x.Task] = m.DeviceName(x.Chosen)
	}})
	r.mustRun(r.submit(chain(t, 5, 1, graph.Volatile), engine.RunOptions{}))
	for _, l := range r.launched {
		name, dev, _ := strings.Cut(l, "@")
		equal(t, "device said for "+name, said[name], dev)
	}
	equal(t, "explanations", len(said), 5)
}

// Every policy finishes the same work, and the same calls give the same
// actions, faults included.
func TestDeterminism(t *testing.T) {
	var names []string
	for name := range sched.Policies() {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		play := func() []string {
			r := newRig(t, gpus(3, 1<<13), engine.Options{Policy: sched.Policies()[name], Seed: 7, ReplayDepth: 3})
			r.fail["c3"], r.fail["t5"] = 1, 2
			a := r.submit(chain(t, 12, 1, graph.Versioned), engine.RunOptions{})
			b := r.submit(independent(t, 30, 1), engine.RunOptions{Weight: 2})
			r.until("half way", func() bool { return len(r.ran) > 15 })
			r.lose(1, false)
			r.now += 2 * ms
			r.back(1, false)
			r.mustRun(a)
			r.mustRun(b)
			return r.acts
		}
		first, second := play(), play()
		for i := range first {
			if i >= len(second) || first[i] != second[i] {
				t.Errorf("%s: action %d differs", name, i)
				break
			}
		}
		equal(t, name+": actions", len(second), len(first))
	}
}

// A task that must run where no link leads to ends with an error that says so, and
// others go where their data can be had.
func TestNoWayForData(t *testing.T) {
	for _, only := range [][]string{{"gpu:0"}, {"gpu:0", "gpu:1"}, nil} {
		m := gpus(3, 100*mb)
		m.Links = m.Links[2:] // of gpu:2
		r := newRig(t, m, engine.Options{})
		g := build(t, func(b *graph.Builder) {
			j := job("t", 1, reads(inputs(b, 1)[0]))
			j.On.Only = only
			b.Add(j)
		})
		err := r.finish(r.submit(g, engine.RunOptions{}))
		if only == nil {
			is(t, err, nil)
			equal(t, "tasks of the device with a link", r.launchedOn("gpu:2"), 1)
			continue
		}
		is(t, err, engine.ErrNoDevice)
		if err != nil && !strings.Contains(err.Error(), "no link leads") {
			t.Errorf("%v: want it to say why", err)
		}
	}
}

// Where no link leads, a task whose inputs are on two sides ends, as does one whose
// result cannot come home, soon or late.
func TestNoWayBetween(t *testing.T) {
	for what, add := range map[string]func(b *graph.Builder){
		"inputs apart": func(b *graph.Builder) {
			var both []graph.Use
			for i := range 2 {
				d := b.Data(graph.Data{Name: fmt.Sprint("d", i), Bytes: mb})
				j := job(fmt.Sprint("make ", i), 1, writes(d))
				j.On.Only = []string{fmt.Sprintf("gpu:%d", i)}
				b.Add(j)
				both = append(both, reads(d))
			}
			b.Add(job("t", 1, both...))
		},
		"short": func(b *graph.Builder) {
			b.Add(job("t", 0.1, writes(b.Data(graph.Data{Name: "out", Bytes: mb, Output: true}))))
		},
		"long": func(b *graph.Builder) {
			b.Add(job("t", 5, writes(b.Data(graph.Data{Name: "out", Bytes: mb, Output: true}))))
		},
	} {
		m := gpus(2, 100*mb)
		m.Links = nil
		r := newRig(t, m, engine.Options{})
		err := r.finish(r.submit(build(t, add), engine.RunOptions{}))
		is(t, err, engine.ErrNoDevice)
		if err != nil && !strings.Contains(err.Error(), "no link leads") {
			t.Errorf("%s: %v: want it to say why", what, err)
		}
	}
}

// A run with a limit gives the place of a task that cannot use it to another, which the
// first may be waiting for, and lets tasks in as they came.
func TestRunLimitKeepsItsPlace(t *testing.T) {
	g := build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 1000})
		b.Add(job("first", 1, writes(x)))
		slow := job("reader", 1, reads(x))
		slow.Priority = -100
		b.Add(slow)
		for i := range 3 {
			b.Add(job(fmt.Sprint("over", i), 1, writes(x)))
		}
	})
	for limit := 1; limit < 4; limit++ {
		for _, m := range []*machine.Machine{gpus(1, 10*mb), gpus(2, 10*mb), cpus(2)} {
			r := newRig(t, m, engine.Options{})
			r.mustRun(r.submit(g, engine.RunOptions{Concurrent: limit}))
		}
	}
	r := newRig(t, cpus(1), engine.Options{})
	r.mustRun(r.submit(independent(t, 6, 1), engine.RunOptions{Concurrent: 1}))
	equalLists(t, "order", r.launched, []string{"t0@cpu:0", "t1@cpu:0", "t2@cpu:0", "t3@cpu:0", "t4@cpu:0", "t5@cpu:0"})
}
