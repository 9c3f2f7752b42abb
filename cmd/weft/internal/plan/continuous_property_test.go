package plan

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// arrivals draws machines and jobs: most deadlines leave time to rent a machine, and some
// hardly.
func arrivals(t *testing.T, seed uint64, machines int) *world {
	rng := rand.New(rand.NewPCG(seed, 11))
	kinds := []Machines{{Name: "here", Count: 1 + rng.IntN(2), Hourly: 0.05}}
	for range 1 + rng.IntN(3) {
		kinds = append(kinds, Machines{Name: "rented", Count: machines, Hourly: 1 + 5*rng.Float64(), Start: 300 * rng.Float64()})
	}
	w := newWorld(t, kinds, 1, FleetRules{Idle: 1000 * rng.Float64(), Gain: 1 + rng.Float64(), Avoid: 60, Forget: 3600, Patience: 300 * float64(seed%3)})
	w.rng = rng
	at := 0.0
	for i := range 40 {
		at += 150 * rng.ExpFloat64()
		j := FleetJob{ID: i, Seconds: make([]float64, len(kinds)), Move: 60 * rng.Float64()}
		for k := range j.Seconds {
			if k == len(kinds)-1 || rng.IntN(4) > 0 {
				j.Seconds[k] = 10 + 1000*rng.Float64()
			}
		}
		if rng.IntN(5) > 0 {
			last := len(kinds) - 1
			j.Deadline = at + (kinds[last].Start+j.Seconds[last])*(1.001+2*rng.Float64()*rng.Float64())
		}
		w.arrive(at, j)
	}
	return w
}

// promised returns the jobs that the fleet says will be in time.
func (w *world) promised(out map[int]bool) {
	for _, u := range w.f.units {
		for _, id := range u.next {
			if !w.f.jobs[id].late {
				out[id] = true
			}
		}
		if j := w.f.jobs[u.job]; j != nil && u.end <= j.Deadline {
			out[u.job] = true
		}
	}
}

// While machines do what was predicted, every job is in time of which the fleet ever said so,
// and if enough machines can be rented that is every job that a rented one can do in time.
func TestFleetKeepsPromises(t *testing.T) {
	for seed := range uint64(400) {
		machines := 100
		if seed%2 == 1 {
			machines = 1 + int(seed)%3
		}
		w := arrivals(t, seed, machines)
		promised := map[int]bool{}
		w.watch = func() { w.promised(promised) }
		w.run()
		w.check()
		for id, j := range w.jobs {
			if late := j.Deadline > 0 && w.done[id] > j.Deadline+1e-6; late && (promised[id] || machines == 100) {
				t.Errorf("job %d was done at %v, due at %v; it was promised: %t", id, w.done[id], j.Deadline, promised[id])
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// A job that waits for a machine that is late gets a rented one at the last moment at which
// that is in time, although nothing happens then.
func TestFleetWaitsNoLonger(t *testing.T) {
	w := newWorld(t, fleetKinds, 1, DefaultFleetRules())
	w.slow = map[int]float64{0: 20}
	w.arrive(0, FleetJob{ID: 0, Seconds: []float64{1000, 0}})
	w.arrive(10, FleetJob{ID: 1, Deadline: 4000, Seconds: []float64{900, 300}})
	rented := math.NaN()
	w.acts = func(a FleetAction) {
		if a.Verb == Rent {
			rented = w.now
		}
	}
	w.run()
	if late := w.check(); late > 0 || !(rented >= 4000-480-reaction && rented <= 4000-480) {
		t.Errorf("%d late, rented at %v, done at %v", late, rented, w.done)
	}
	// One that is done as predicted is waited for.
	w = newWorld(t, fleetKinds, 1, DefaultFleetRules())
	w.arrive(0, FleetJob{ID: 0, Seconds: []float64{3000, 0}})
	w.arrive(10, FleetJob{ID: 1, Deadline: 4000, Seconds: []float64{900, 300}})
	w.run()
	if late := w.check(); late > 0 || w.verbs[Rent] > 0 {
		t.Errorf("%d late, %v", late, w.verbs)
	}
	// A machine that does not start is not waited for either.
	w = newWorld(t, fleetKinds, 0, DefaultFleetRules())
	w.kinds = slices.Clone(w.kinds)
	w.kinds[1].Start = 3000 // and not the 180 s that the fleet was told
	w.kinds[0].Start = 10
	w.f.kinds = []Machines{{Name: "other", Count: 1, Hourly: 9, Start: 10}, fleetKinds[1]}
	w.arrive(0, FleetJob{ID: 1, Deadline: 1000, Seconds: []float64{300, 300}})
	w.run()
	if late := w.check(); late > 0 || w.verbs[Rent] != 2 {
		t.Errorf("%d late, %v, done at %v", late, w.verbs, w.done)
	}
}

// Jobs that wait for one machine run by their deadlines, so that none is rented for one that
// can come after another.
func TestFleetOrder(t *testing.T) {
	w := newWorld(t, fleetKinds, 1, DefaultFleetRules())
	w.arrive(0, FleetJob{ID: 0, Seconds: []float64{100, 0}})
	w.arrive(1, FleetJob{ID: 1, Deadline: 300, Seconds: []float64{100, 100}})
	w.arrive(2, FleetJob{ID: 2, Deadline: 900, Seconds: []float64{200, 100}})
	w.arrive(3, FleetJob{ID: 3, Deadline: 700, Seconds: []float64{300, 100}})
	w.run()
	if late := w.check(); late > 0 || w.verbs[Rent] > 0 || w.done[3] != 500 || w.done[2] != 700 {
		t.Errorf("%d late, %v, done at %v", late, w.verbs, w.done)
	}
}

// Of idle machines that are in time the cheapest gets the job.
func TestFleetCheapestIdle(t *testing.T) {
	kinds := []Machines{{Name: "fast", Count: 1, Hourly: 1}, {Name: "thrifty", Count: 1, Hourly: 0.1}, {Name: "slow", Count: 1, Hourly: 0.01}}
	f := NewFleet(kinds, 3, DefaultFleetRules())
	out := f.Step(0, FleetEvent{Arrived: &FleetJob{ID: 1, Deadline: 300, Seconds: []float64{100, 200, 400}}})
	if len(out) != 1 || out[0].Verb != Launch || out[0].Kind != 1 {
		t.Errorf("%+v", out)
	}
}

// A machine that is free earlier than was expected takes a job that waits for another.
func TestFleetSteals(t *testing.T) {
	w := newWorld(t, []Machines{{Name: "here", Count: 2, Hourly: 0.05}}, 1, DefaultFleetRules())
	w.slow = map[int]float64{1: 0.2}
	w.arrive(0, FleetJob{ID: 0, Seconds: []float64{400}})
	w.arrive(0, FleetJob{ID: 1, Seconds: []float64{500}})
	w.arrive(1, FleetJob{ID: 2, Seconds: []float64{100}})
	w.run()
	if w.check(); w.done[2] != 200 {
		t.Errorf("done at %v", w.done)
	}
}

// A job that would be late is tried anew when machines can be rented again.
func TestFleetTriesAgain(t *testing.T) {
	w := newWorld(t, fleetKinds, 1, DefaultFleetRules())
	w.outage[1] = [2]float64{0, 100}
	w.arrive(0, FleetJob{ID: 0, Seconds: []float64{5000, 0}})
	w.arrive(1, FleetJob{ID: 1, Deadline: 2000, Seconds: []float64{300, 300}})
	w.run()
	if late := w.check(); late > 0 || w.verbs[Rent] != 2 {
		t.Errorf("%d late, %v, done at %v", late, w.verbs, w.done)
	}
}

// However late machines are, no job waits for one beyond the last moment at which a rented
// machine would be in time.
func TestFleetOverruns(t *testing.T) {
	overdue := 0
	for seed := range uint64(200) {
		w := arrivals(t, seed, 100)
		w.slow = map[int]float64{}
		for id := range w.jobs {
			w.slow[id] = math.Exp(w.rng.NormFloat64())
		}
		type place struct{ job, unit int }
		since := map[place]float64{} // when a job began to wait for a machine
		w.watch = func() {
			before := since
			since = map[place]float64{}
			for _, u := range w.f.units {
				for _, id := range u.next {
					j := w.f.jobs[id]
					since[place{id, u.id}] = w.now
					if t, seen := before[place{id, u.id}]; seen {
						since[place{id, u.id}] = t
					}
					if j.Deadline == 0 || u.job < 0 {
						continue
					}
					last := math.Inf(-1)
					for k := 1; k < len(w.kinds); k++ {
						if j.Seconds[k] > 0 {
							last = max(last, j.Deadline-w.kinds[k].Start-j.rest(k))
						}
					}
					if u.end <= last {
						overdue++
						if w.now >= last && since[place{id, u.id}] < last {
							t.Errorf("at %v s job %d waits for a machine that was expected at %v; until %v one could be rented", w.now, id, u.end, last)
						}
					}
				}
			}
		}
		w.run()
		w.check()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if overdue == 0 {
		t.Error("no job waited")
	}
}

// A machine is given back only after it had no work for Idle seconds, none is rented that
// is not needed, and none within Idle seconds of the last work of one that was given back:
// machines do not come and go.
func TestFleetDoesNotFlap(t *testing.T) {
	released := 0
	for seed := range uint64(300) {
		w := arrivals(t, seed, 1+int(seed)%5)
		worked := map[int]float64{} // when a machine had work last, or was ready
		type gone struct {
			kind int
			last float64
		}
		var before []gone
		w.watch = func() {
			for id, u := range w.units {
				if _, seen := worked[id]; u.job >= 0 || u.ready && !seen {
					worked[id] = w.now
				}
			}
		}
		w.acts = func(a FleetAction) {
			switch a.Verb {
			case Move: // the machine that it leaves worked until now
				worked[w.runs[a.Job]] = w.now
			case Release:
				released++
				idle := w.now - worked[a.Unit]
				if idle < w.f.rules.Idle-1e-6 {
					t.Errorf("machine %d is given back at %v s after %v s without work, and not %v s", a.Unit, w.now, idle, w.f.rules.Idle)
				}
				before = append(before, gone{a.Kind, worked[a.Unit]})
			case Rent:
				j := w.jobs[a.Job]
				does := func(kind int) bool {
					return j.Seconds[kind] > 0 && (j.Deadline == 0 || w.now+a.Left*j.Seconds[kind] <= j.Deadline)
				}
				for id, u := range w.units {
					if u.ready && u.job < 0 && does(u.kind) && !w.taken(id) {
						t.Errorf("a machine is rented at %v s for job %d, and machine %d is idle", w.now, a.Job, id)
					}
				}
				for _, g := range before {
					if does(g.kind) && w.now-g.last < w.f.rules.Idle-1e-6 {
						t.Errorf("a machine is rented %v s after the last work of one that was given back", w.now-g.last)
					}
				}
			}
		}
		w.ended = func(unit int) { worked[unit] = w.now }
		w.run()
		w.check()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if released < 100 {
		t.Errorf("%d machines were given back", released)
	}
}

// taken reports whether a machine is promised to a job, or begins one in this step.
func (w *world) taken(id int) bool {
	u := w.f.unit(id)
	return u == nil || u.job >= 0 || len(u.next) > 0
}

// A kind that was refused is not asked for before Avoid seconds have passed, doubled for each
// refusal before it, of which Forget seconds halve what is remembered.
func TestFleetAvoidsForDecayingTime(t *testing.T) {
	refusals, most := 0, 0.0
	for seed := range uint64(200) {
		w := arrivals(t, seed, 3)
		for k := 1; k < len(w.kinds); k++ {
			from := 3000 * w.rng.Float64()
			w.outage[k] = [2]float64{from, from + 4000*w.rng.Float64()}
		}
		refused := make([][]float64, len(w.kinds)) // when, by kind
		w.refuse = func(kind int) {
			refused[kind] = append(refused[kind], w.now)
			refusals++
		}
		w.acts = func(a FleetAction) {
			times := refused[a.Kind]
			if a.Verb != Rent || len(times) == 0 {
				return
			}
			last, remembered := times[len(times)-1], 0.0
			for _, t := range times {
				remembered += math.Exp2(-(last - t) / w.f.rules.Forget)
			}
			wait := w.f.rules.Avoid * math.Exp2(remembered-1)
			if most = max(most, remembered); w.now < last+wait-1e-6 {
				t.Errorf("kind %d is asked for %v s after a refusal, and not %v s: refused at %v", a.Kind, w.now-last, wait, times)
			}
		}
		w.run()
		w.check()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if refusals < 200 || most < 3 {
		t.Errorf("%d refusals, %v at a time", refusals, most)
	}
}

// Thousands of jobs that are late, and a machine that is lost with a third of them: each runs, by
// their deadlines. A Step that took time by the square of their number would not end here.
func TestFleetManyLate(t *testing.T) {
	const n = 3000
	f := NewFleet([]Machines{{Name: "here", Count: 3, Hourly: 0.05}, {Name: "rented", Count: 5, Hourly: 1, Start: 60}}, 1, DefaultFleetRules())
	var events []FleetEvent
	for i := range n { // the last is the most urgent
		events = append(events, FleetEvent{Arrived: &FleetJob{ID: i, Deadline: 1 + float64(n-i)*1e-6, Seconds: []float64{100, 200}}})
	}
	left, lost := n, false
	ran := make([]int, n)
	for now := 0.0; left > 0; now += 100 {
		actions := f.Step(now, events...)
		if events = nil; len(actions) == 0 {
			t.Fatalf("at %v s %d of %d jobs wait", now, left, n)
		}
		for _, a := range actions {
			if ran[a.Job]++; a.Verb != Launch || ran[a.Job] > 1 || a.Job < left-10 {
				t.Fatalf("at %v s with %d jobs left: %+v", now, left, a)
			}
			e := FleetEvent{Unit: a.Unit, Done: true}
			if left--; !lost && left == n/2 {
				e.Done, e.Lost, ran[a.Job] = false, true, 0
				lost = true
				left++
			}
			events = append(events, e)
		}
	}
}

// Under a load that is always too much, of jobs that can be done in time if they come first, each job
// runs in the end: none that arrives after one has waited for Patience seconds runs before it on the
// machine that it waits for. Without patience some wait until no more arrive.
func TestFleetPatience(t *testing.T) {
	const patience, jobs = 2000, 150
	overtaken := func(seed uint64, patience float64) (times int, longest float64) {
		rng := rand.New(rand.NewPCG(seed, 12))
		kinds := []Machines{{Name: "here", Count: 1 + rng.IntN(2), Hourly: 0.05}}
		w := newWorld(t, kinds, 1, FleetRules{Idle: 600, Gain: 1.5, Avoid: 60, Forget: 3600, Patience: patience})
		w.rng = rng
		arrived, at := make([]float64, jobs), 0.0
		for i := range jobs {
			at += 40 * rng.ExpFloat64()
			arrived[i] = at
			j := FleetJob{ID: i, Seconds: []float64{50 + 100*rng.Float64()}}
			if rng.IntN(5) > 0 { // in time if it begins at once, or a little later
				j.Deadline = at + j.Seconds[0]*(1+3*rng.Float64())
			}
			w.arrive(at, j)
		}
		w.acts = func(a FleetAction) {
			if a.Verb != Launch {
				return
			}
			longest = max(longest, w.now-arrived[a.Job])
			for _, id := range w.f.unit(a.Unit).next { // those that wait for the machine
				if j := w.f.jobs[id]; arrived[a.Job] > arrived[id]+2000 && (j.late || j.Deadline == 0) {
					times++
				}
			}
		}
		w.run()
		w.check()
		if len(w.done) != jobs {
			t.Fatalf("seed %d: %d of %d jobs are done", seed, len(w.done), jobs)
		}
		return times, longest
	}
	without := 0
	for seed := range uint64(8) {
		if times, longest := overtaken(seed, patience); times > 0 {
			t.Fatalf("seed %d: jobs are overtaken %d times by those that came %d s after them, and wait up to %v s", seed, times, patience, longest)
		}
		times, _ := overtaken(seed, 0)
		without += times
	}
	if without == 0 {
		t.Error("none is overtaken without patience either: this says nothing")
	}
}
