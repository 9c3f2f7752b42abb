package plan

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// world drives a fleet in simulated time and watches that it does nothing impossible.
type world struct {
	t       *testing.T
	f       *Fleet
	kinds   []Machines
	now     float64
	due     []dueEvent
	jobs    map[int]FleetJob
	units   map[int]*simUnit
	runs    map[int]int // unit by job that runs
	outage  map[int][2]float64
	lossy   float64 // rate at which rented machines are taken away, in a second
	rng     *rand.Rand
	done    map[int]float64
	verbs   map[FleetVerb]int
	cost    float64
	wasted  float64
	refused []float64
	slow    map[int]float64 // by job, times as long as predicted; 1 where it is not said
	watch   func()          // called after every step
	acts    func(a FleetAction)
	ended   func(unit int) // called when a job of a machine is done
	refuse  func(kind int) // called when a machine is refused
}

type simUnit struct {
	kind   int
	ready  bool
	job    int
	epoch  int // changes whenever its job does
	rented float64
}

type dueEvent struct {
	at    float64
	event FleetEvent
	epoch int // of the unit, for Done
}

func newWorld(t *testing.T, kinds []Machines, here int, rules FleetRules) *world {
	w := &world{t: t, f: NewFleet(kinds, here, rules), kinds: kinds, jobs: map[int]FleetJob{}, units: map[int]*simUnit{}, runs: map[int]int{},
		outage: map[int][2]float64{}, rng: rand.New(rand.NewPCG(1, 7)), done: map[int]float64{}, verbs: map[FleetVerb]int{}}
	id := 0
	for k := range kinds[:here] {
		for range kinds[k].Count {
			w.units[id] = &simUnit{kind: k, ready: true, job: -1, rented: math.NaN()}
			id++
		}
	}
	return w
}

func (w *world) arrive(at float64, j FleetJob) {
	w.jobs[j.ID] = j
	w.due = append(w.due, dueEvent{at: at, event: FleetEvent{Arrived: &j}})
}

// run lets time pass until nothing is left to do.
func (w *world) run() {
	for steps := 0; ; steps++ {
		if steps > 100_000 {
			w.t.Fatalf("at %v s after %d steps there is no end", w.now, steps)
		}
		next := w.f.Next(w.now)
		i := -1
		for k, d := range w.due {
			if d.at <= next && (i < 0 || d.at < w.due[i].at) {
				i = k
			}
		}
		var actions []FleetAction
		switch {
		case i >= 0:
			d := w.due[i]
			w.due = slices.Delete(w.due, i, i+1)
			w.now = max(w.now, d.at)
			if !w.happens(d) {
				continue
			}
			actions = w.f.Step(w.now, d.event)
		case math.IsInf(next, 1):
			return
		default:
			w.now = next
			actions = w.f.Step(w.now)
		}
		for _, a := range actions {
			if w.acts != nil {
				w.acts(a)
			}
			w.do(a)
		}
		if w.watch != nil {
			w.watch()
		}
	}
}

// happens applies an event to the world and reports whether it is still true.
func (w *world) happens(d dueEvent) bool {
	e := d.event
	u := w.units[e.Unit]
	switch {
	case e.Arrived != nil:
		return true
	case u == nil || e.Done && d.epoch != u.epoch:
		return false
	case e.Done:
		if _, twice := w.done[u.job]; twice {
			w.t.Fatalf("job %d is done twice", u.job)
		}
		w.done[u.job] = w.now
		if w.ended != nil {
			w.ended(e.Unit)
		}
		delete(w.runs, u.job)
		u.job = -1
		u.epoch++
	case e.Ready:
		u.ready = true
	case e.Refused:
		w.refused = append(w.refused, w.now)
		if w.refuse != nil {
			w.refuse(u.kind)
		}
		delete(w.units, e.Unit)
	case e.Lost:
		w.cost += (w.now - u.rented) * w.kinds[u.kind].Hourly / 3600
		delete(w.runs, u.job)
		delete(w.units, e.Unit)
	}
	return true
}

// do performs an action, which must be possible.
func (w *world) do(a FleetAction) {
	w.verbs[a.Verb]++
	u := w.units[a.Unit]
	switch a.Verb {
	case Rent:
		have := 0
		for _, x := range w.units {
			if x.kind == a.Kind {
				have++
			}
		}
		if have >= w.kinds[a.Kind].Count {
			w.t.Fatalf("%d machines of kind %d, and one more is rented", have, a.Kind)
		}
		w.units[a.Unit] = &simUnit{kind: a.Kind, job: -1, rented: w.now}
		if o, ok := w.outage[a.Kind]; ok && w.now >= o[0] && w.now < o[1] {
			w.due = append(w.due, dueEvent{at: w.now + 5, event: FleetEvent{Refused: true, Unit: a.Unit}})
			return
		}
		w.due = append(w.due, dueEvent{at: w.now + w.kinds[a.Kind].Start, event: FleetEvent{Ready: true, Unit: a.Unit}})
		if w.lossy > 0 {
			w.due = append(w.due, dueEvent{at: w.now + w.kinds[a.Kind].Start + w.rng.ExpFloat64()/w.lossy, event: FleetEvent{Lost: true, Unit: a.Unit}})
		}
	case Release:
		if u == nil || u.job >= 0 || math.IsNaN(u.rented) {
			w.t.Fatalf("%+v: not a rented machine without work", a)
		}
		w.cost += (w.now - u.rented) * w.kinds[u.kind].Hourly / 3600
		delete(w.units, a.Unit)
	case Launch, Move:
		delay := 0.0
		old, runs := w.runs[a.Job]
		if runs != (a.Verb == Move) {
			w.t.Fatalf("%+v: it runs: %t", a, runs)
		}
		if a.Verb == Move {
			w.units[old].job = -1
			w.units[old].epoch++
			delay = w.jobs[a.Job].Move
		}
		if u == nil || !u.ready || u.job >= 0 || w.jobs[a.Job].Seconds[u.kind] == 0 || a.Left < 0 || a.Left > 1 {
			w.t.Fatalf("%+v on %+v", a, u)
		}
		w.wasted = max(w.wasted, a.Wasted)
		u.job = a.Job
		u.epoch++
		w.runs[a.Job] = a.Unit
		takes := delay + a.Left*w.jobs[a.Job].Seconds[u.kind]*cmp.Or(w.slow[a.Job], 1)
		w.due = append(w.due, dueEvent{at: w.now + takes, event: FleetEvent{Done: true, Unit: a.Unit}, epoch: u.epoch})
	}
}

// check sees that every job was done, and returns how many were late.
func (w *world) check() (late int) {
	w.t.Helper()
	for id, j := range w.jobs {
		at, ok := w.done[id]
		if !ok {
			w.t.Errorf("job %d was never done", id)
		}
		if j.Deadline > 0 && at > j.Deadline+1e-6 {
			late++
		}
	}
	for id, u := range w.units {
		if !math.IsNaN(u.rented) {
			w.t.Errorf("machine %d was never given back", id)
		}
	}
	return late
}

var fleetKinds = []Machines{{Name: "here", Count: 1, Hourly: 0.05}, {Name: "rented", Count: 4, Hourly: 4, Start: 180}}

// Jobs whose deadlines leave time to rent a machine are in time, and what one's own
// machine can do in time is not rented for.
func TestFleetInTime(t *testing.T) {
	w := newWorld(t, fleetKinds, 1, DefaultFleetRules())
	for i := range 8 {
		w.arrive(float64(i)*10, FleetJob{ID: i, Deadline: float64(i)*10 + 2000, Seconds: []float64{900, 300}, Move: 30})
	}
	w.run()
	if late := w.check(); late > 0 || w.verbs[Rent] == 0 || w.verbs[Release] != w.verbs[Rent] {
		t.Errorf("%d late, %v", late, w.verbs)
	}
	w = newWorld(t, fleetKinds, 1, DefaultFleetRules())
	for i := range 3 {
		w.arrive(0, FleetJob{ID: i, Deadline: 3000, Seconds: []float64{900, 300}})
	}
	w.run()
	if late := w.check(); late > 0 || w.verbs[Rent] > 0 || w.cost > 0 {
		t.Errorf("%d late, %v", late, w.verbs)
	}
}

// A load that comes every ten minutes rents machines once, not every time.
func TestFleetHysteresis(t *testing.T) {
	rented := func(idle float64) int {
		rules := DefaultFleetRules()
		rules.Idle = idle
		w := newWorld(t, fleetKinds, 1, rules)
		for i := range 40 {
			w.arrive(float64(i/2)*600, FleetJob{ID: i, Deadline: float64(i/2)*600 + 520, Seconds: []float64{500, 300}})
		}
		w.run()
		if late := w.check(); late > 0 {
			t.Errorf("%d late with %v s", late, idle)
		}
		return w.verbs[Rent]
	}
	if kept, flapping := rented(600), rented(0); kept > 2 || flapping < 15 {
		t.Errorf("rented %d times, and %d times without waiting", kept, flapping)
	}
}

// A kind that is not available is asked for less and less often, and after a while as at
// first.
func TestFleetAvoids(t *testing.T) {
	kinds := append(slices.Clone(fleetKinds), Machines{Name: "dearer", Count: 1, Hourly: 9, Start: 180})
	w := newWorld(t, kinds[1:2], 0, DefaultFleetRules())
	w.outage[0] = [2]float64{0, 7200}
	w.arrive(0, FleetJob{ID: 1, Seconds: []float64{300}})
	w.run()
	w.check()
	if n := len(w.refused); n < 3 || n > 10 { // without memory it would be 57
		t.Errorf("asked %d times in 2 hours: %v", n, w.refused)
	}
	for i := 2; i < len(w.refused); i++ {
		if w.refused[i]-w.refused[i-1] < w.refused[i-1]-w.refused[i-2] {
			t.Errorf("asked at %v", w.refused)
		}
	}
	// With another kind to rent the job is in time.
	w = newWorld(t, kinds[1:], 0, DefaultFleetRules())
	w.outage[0] = [2]float64{0, 7200}
	w.arrive(0, FleetJob{ID: 1, Deadline: 600, Seconds: []float64{300, 300}})
	w.run()
	if late := w.check(); late > 0 || len(w.refused) != 1 {
		t.Errorf("%d late, refused %v", late, w.refused)
	}
	f := NewFleet(kinds[1:2], 0, DefaultFleetRules())
	f.Step(0, FleetEvent{Arrived: &FleetJob{ID: 1, Seconds: []float64{300}}})
	f.Step(5, FleetEvent{Refused: true, Unit: 0})
	first := f.avoid[0].until - 5
	f.avoid[0].times = 6
	f.units = append(f.units, &unit{id: 99, kind: 0, job: -1})
	f.Step(20*3600, FleetEvent{Refused: true, Unit: 99})
	if again := f.avoid[0].until - 20*3600; again > 1.01*first {
		t.Errorf("avoided for %v s at first, and %v s after a day", first, again)
	}
}

// A long job goes home when this machine is free, unless that saves little.
func TestFleetMoves(t *testing.T) {
	run := func(gain, move float64) (float64, int) {
		rules := DefaultFleetRules()
		rules.Gain = gain
		w := newWorld(t, fleetKinds, 1, rules)
		w.arrive(0, FleetJob{ID: 1, Deadline: 2000, Seconds: []float64{1500, 1500}})
		w.arrive(1, FleetJob{ID: 2, Deadline: 10000, Seconds: []float64{9500, 8000}, Move: move})
		w.arrive(2, FleetJob{ID: 3, Deadline: 10200, Seconds: []float64{0, 10000}})
		w.run()
		if late := w.check(); late > 0 {
			t.Errorf("%d late", late)
		}
		return w.cost, w.verbs[Move]
	}
	cost, moves := run(1.5, 30)
	stay, none := run(math.Inf(1), 30)
	if moves != 1 || none != 0 || cost > 0.8*stay {
		t.Errorf("$%.2f with %d moves, $%.2f with %d", cost, moves, stay, none)
	}
	if _, moves := run(1.5, 8000); moves != 0 {
		t.Error("a job is moved although that takes longer than the rest of it")
	}
}

// Jobs get to their end on machines that are taken away, and what was lost is told.
func TestFleetInterrupted(t *testing.T) {
	w := newWorld(t, fleetKinds[1:], 0, DefaultFleetRules())
	w.lossy = 1.0 / 1500
	for i := range 20 {
		w.arrive(float64(i)*50, FleetJob{ID: i, Seconds: []float64{600}})
	}
	w.run()
	if w.check(); w.wasted == 0 || w.verbs[Launch] <= 20 {
		t.Errorf("wasted %v s, launched %d times", w.wasted, w.verbs[Launch])
	}
}

// Nothing impossible is done and every job gets done, whatever happens.
func TestFleetRandom(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		kinds := []Machines{{Name: "here", Count: 1 + rng.IntN(2), Hourly: 0.05}}
		for range 1 + rng.IntN(3) {
			kinds = append(kinds, Machines{Name: "rented", Count: 1 + rng.IntN(3), Hourly: 1 + 5*rng.Float64(), Start: 300 * rng.Float64()})
		}
		w := newWorld(t, kinds, 1, FleetRules{Idle: 1000 * rng.Float64(), Gain: 1 + rng.Float64(), Avoid: 60, Forget: 3600})
		w.rng = rng
		if rng.IntN(2) == 0 {
			w.lossy = 1e-4
		}
		w.outage[1] = [2]float64{3000 * rng.Float64(), 6000 * rng.Float64()}
		at := 0.0
		for i := range 30 {
			at += 200 * rng.ExpFloat64()
			j := FleetJob{ID: i, Seconds: make([]float64, len(kinds)), Move: 60 * rng.Float64()}
			for k := range j.Seconds {
				if k == 0 || rng.IntN(4) > 0 {
					j.Seconds[k] = 1000 * rng.Float64()
				}
			}
			if rng.IntN(2) == 0 {
				j.Deadline = at + 2000*rng.Float64()
			}
			w.arrive(at, j)
		}
		w.run()
		w.check()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
