package plan

import (
	"cmp"
	"math"
	"slices"
)

// Fleet decides over time which machines to rent and which job runs where, as jobs
// arrive. It is a state machine: Step takes the time and what happened, and returns what
// to do. Whoever drives it rents, starts, moves and gives back, and tells what came of it.
//
// A job waits as long as it can still be done in time by a machine that is there. Only
// then a machine is rented, and it is given back when it has been idle for a while: so
// a queue that comes and goes does not make machines come and go.
type Fleet struct {
	rules  FleetRules
	kinds  []Machines
	here   int // of them are one's own, and not for rent
	units  []*unit
	jobs   map[int]*running
	queue  []int // jobs that wait, the earliest deadline first
	avoid  []avoided
	nextID int
}

// FleetRules are the thresholds of a Fleet.
type FleetRules struct {
	Idle float64 // seconds without work after which a rented machine is given back
	// Gain is how many times cheaper the rest of a running job must be elsewhere, with
	// the move, to be moved there; at least 1.
	Gain float64
	// Avoid is for how many seconds a kind is not asked for after it was not available;
	// each further time doubles it, and each Forget seconds without one halve it again.
	Avoid, Forget float64
}

// DefaultFleetRules returns rules for machines that take minutes to start.
func DefaultFleetRules() FleetRules {
	return FleetRules{Idle: 600, Gain: 1.5, Avoid: 120, Forget: 3600}
}

// FleetJob is a job that arrives.
type FleetJob struct {
	ID       int
	Deadline float64   // absolute, in seconds; 0 for none
	Seconds  []float64 // on each kind of machines; 0 where it does not fit
	Move     float64   // seconds to move it by a checkpoint: write, transfer, read
}

// FleetEvent is something that happened. Exactly one field but Kind and Unit says what.
type FleetEvent struct {
	Arrived *FleetJob
	Done    bool    // the job of Unit is done
	Ready   bool    // Unit has started and takes work
	Refused bool    // Unit, asked for by Rent, is not available
	Lost    bool    // Unit was taken away
	Unit    int     // of the events above
	Kept    float64 // of Lost: the part of its job, 0 to 1, that a checkpoint kept
}

// FleetVerb is what a FleetAction does.
type FleetVerb string

const (
	Rent    FleetVerb = "rent"    // ask for a machine of Kind, which is Unit from now on
	Release FleetVerb = "release" // give Unit back
	Launch  FleetVerb = "launch"  // begin Job on Unit, or go on with it
	Move    FleetVerb = "move"    // stop Job with a checkpoint and go on with it on Unit
)

// FleetAction is something to do.
type FleetAction struct {
	Verb FleetVerb
	Kind int
	Unit int
	Job  int
	// Left is the part of the job that is still to be done, and Wasted the seconds of work
	// that an interruption destroyed and that are done again.
	Left, Wasted float64
}

// unit is a machine of the fleet.
type unit struct {
	id, kind int
	ready    float64 // when it is expected to take work, at the latest
	started  bool
	rented   bool
	job      int     // that runs or is reserved, -1 for none
	end      float64 // when its job is expected to be done
	idle     float64 // since when it has none
}

type running struct {
	FleetJob
	left   float64 // part to be done at begun
	begun  float64 // when it was launched; meaningless while it waits
	unit   *unit
	wasted float64
}

// avoided is what is known of a kind that was not available.
type avoided struct {
	until, last float64
	times       float64 // refusals that are remembered
}

// NewFleet returns a fleet. The first here kinds are machines of one's own, which are
// there from the beginning; the others can be rented, up to their Count.
func NewFleet(kinds []Machines, here int, rules FleetRules) *Fleet {
	f := &Fleet{rules: rules, kinds: kinds, here: here, jobs: make(map[int]*running), avoid: make([]avoided, len(kinds))}
	for k := range kinds[:here] {
		for range kinds[k].Count {
			f.units = append(f.units, &unit{id: f.nextID, kind: k, started: true, job: -1})
			f.nextID++
		}
	}
	return f
}

// Units returns how many machines there are, with those that are still starting.
func (f *Fleet) Units() int { return len(f.units) }

// Step takes what happened until now and returns what to do.
func (f *Fleet) Step(now float64, events ...FleetEvent) (out []FleetAction) {
	for _, e := range events {
		f.take(now, e)
	}
	out = f.launch(now, out)
	out = f.rent(now, out)
	out = f.move(now, out)
	return f.release(now, out)
}

// Next returns when Step has something to do even if nothing happens: a machine has been
// idle for long, a kind may be asked for again, or a job can wait no longer. It is
// infinite if there is nothing.
func (f *Fleet) Next(now float64) float64 {
	next := math.Inf(1)
	soon := func(t float64) {
		if t > now {
			next = min(next, t)
		}
	}
	for _, u := range f.units {
		if u.rented && u.started && u.job < 0 {
			soon(u.idle + f.rules.Idle)
		}
	}
	if len(f.queue) > 0 {
		for _, a := range f.avoid {
			soon(a.until)
		}
	}
	return next
}

func (f *Fleet) unit(id int) *unit {
	if i := slices.IndexFunc(f.units, func(u *unit) bool { return u.id == id }); i >= 0 {
		return f.units[i]
	}
	return nil
}

// take notes an event. One of a machine that is gone is ignored.
func (f *Fleet) take(now float64, e FleetEvent) {
	if e.Arrived != nil {
		f.jobs[e.Arrived.ID] = &running{FleetJob: *e.Arrived, left: 1}
		f.enqueue(e.Arrived.ID)
		return
	}
	u := f.unit(e.Unit)
	if u == nil {
		return
	}
	j := f.jobs[u.job]
	switch {
	case e.Done:
		delete(f.jobs, u.job)
		u.job, u.idle = -1, now
	case e.Ready:
		u.started, u.ready, u.idle = true, now, now
	case e.Refused, e.Lost:
		f.units = slices.DeleteFunc(f.units, func(x *unit) bool { return x == u })
		if e.Refused {
			a := &f.avoid[u.kind]
			a.times = a.times*math.Exp2(-(now-a.last)/f.rules.Forget) + 1
			a.last, a.until = now, now+f.rules.Avoid*math.Exp2(min(a.times-1, 20))
		}
		if j != nil && j.unit == u { // else it still waits
			// What no checkpoint kept is done again.
			done := min(max(now-j.begun, 0)/j.Seconds[u.kind], j.left)
			kept := min(max(e.Kept, 1-j.left), 1)
			j.wasted += max(1-j.left+done-kept, 0) * j.Seconds[u.kind]
			j.left, j.unit = 1-kept, nil
			f.enqueue(u.job)
		}
	}
}

func (f *Fleet) enqueue(id int) {
	f.queue = append(f.queue, id)
	slices.SortStableFunc(f.queue, func(a, b int) int {
		return cmp.Or(cmp.Compare(f.jobs[a].due(), f.jobs[b].due()), cmp.Compare(a, b))
	})
}

func (j *running) due() float64 {
	if j.Deadline == 0 {
		return math.Inf(1)
	}
	return j.Deadline
}

// rest is how long what is left of a job takes on a kind, 0 where it does not fit.
func (j *running) rest(kind int) float64 { return j.left * j.Seconds[kind] }

// launch gives waiting jobs to idle machines, the cheapest on which each is done in time,
// or else the one on which it is done first.
func (f *Fleet) launch(now float64, out []FleetAction) []FleetAction {
	waiting := f.queue[:0:0]
	for _, id := range f.queue {
		j := f.jobs[id]
		var best *unit
		late := func(u *unit) bool { return now+j.rest(u.kind) > j.due() }
		for _, u := range f.units {
			if !u.started || u.job >= 0 && u.job != id || j.Seconds[u.kind] == 0 {
				continue
			}
			switch {
			case best == nil, late(best) && !late(u):
				best = u
			case late(best) == late(u):
				if late(u) && j.rest(u.kind) < j.rest(best.kind) || !late(u) && f.cost(j, u.kind) < f.cost(j, best.kind) {
					best = u
				}
			}
		}
		if best == nil || late(best) && f.better(now, j) {
			waiting = append(waiting, id)
			continue
		}
		f.unreserve(id)
		out = append(out, f.put(now, j, best, Launch, 0))
	}
	f.queue = waiting
	return out
}

// better reports whether a late job would be in time on a machine that is starting or
// could be rented.
func (f *Fleet) better(now float64, j *running) bool {
	for _, u := range f.units {
		if !u.started && (u.job < 0 || u.job == j.ID) && j.Seconds[u.kind] > 0 && max(u.ready, now)+j.rest(u.kind) <= j.due() {
			return true
		}
	}
	return f.kindFor(now, j) >= 0
}

// put lets a job run on a machine.
func (f *Fleet) put(now float64, j *running, u *unit, verb FleetVerb, delay float64) FleetAction {
	u.job, j.unit, j.begun = j.ID, u, now+delay
	u.end = j.begun + j.rest(u.kind)
	return FleetAction{Verb: verb, Kind: u.kind, Unit: u.id, Job: j.ID, Left: j.left, Wasted: j.wasted}
}

// unreserve frees the machine that was rented for a job and has not begun it.
func (f *Fleet) unreserve(id int) {
	for _, u := range f.units {
		if u.job == id && f.jobs[id].unit != u {
			u.job = -1
		}
	}
}

func (f *Fleet) cost(j *running, kind int) float64 { return j.rest(kind) * f.kinds[kind].Hourly }

// rent asks for machines for jobs that no machine of the fleet can do in time, counting
// those that are starting and those that will be free.
func (f *Fleet) rent(now float64, out []FleetAction) []FleetAction {
	free := make(map[*unit]float64) // when a machine has done what it is promised to
	for _, u := range f.units {
		free[u] = max(now, u.ready)
		if j := f.jobs[u.job]; j != nil && j.unit == u {
			free[u] = max(now, u.end)
		}
	}
	for _, id := range f.queue {
		j := f.jobs[id]
		var best *unit
		for _, u := range f.units {
			if j.Seconds[u.kind] > 0 && (best == nil || free[u]+j.rest(u.kind) < free[best]+j.rest(best.kind)) {
				best = u
			}
		}
		if best != nil && free[best]+j.rest(best.kind) <= j.due() {
			free[best] += j.rest(best.kind)
			continue
		}
		kind := f.kindFor(now, j)
		if kind < 0 {
			if best != nil { // late, but nothing is earlier
				free[best] += j.rest(best.kind)
			}
			continue
		}
		u := &unit{id: f.nextID, kind: kind, rented: true, ready: now + f.kinds[kind].Start, job: id}
		f.nextID++
		f.units = append(f.units, u)
		free[u] = u.ready + j.rest(kind)
		out = append(out, FleetAction{Verb: Rent, Kind: kind, Unit: u.id, Job: id, Left: j.left})
	}
	return out
}

// kindFor returns the cheapest kind that can be rented and does a job in time, or the
// fastest if none does and no machine is there for it; -1 for none.
func (f *Fleet) kindFor(now float64, j *running) int {
	best, inTime := -1, false
	there := slices.ContainsFunc(f.units, func(u *unit) bool { return j.Seconds[u.kind] > 0 })
	for k := f.here; k < len(f.kinds); k++ {
		m, have := f.kinds[k], 0
		for _, u := range f.units {
			if u.kind == k {
				have++
			}
		}
		if have >= m.Count || j.Seconds[k] == 0 || now < f.avoid[k].until {
			continue
		}
		takes := m.Start + j.rest(k)
		ok := now+takes <= j.due()
		cost := takes * m.Hourly
		switch {
		case !ok && (inTime || there):
		case best < 0, ok && !inTime,
			ok && cost < (f.kinds[best].Start+j.rest(best))*f.kinds[best].Hourly,
			!ok && takes < f.kinds[best].Start+j.rest(best):
			best, inTime = k, ok
		}
	}
	return best
}

// move takes jobs from rented machines to idle ones where the rest is so much cheaper
// that it is worth the move, and still in time. One move at a time for each machine.
func (f *Fleet) move(now float64, out []FleetAction) []FleetAction {
	if len(f.queue) > 0 {
		return out // idle machines are for those
	}
	for _, to := range f.units {
		if !to.started || to.job >= 0 {
			continue
		}
		var best *unit
		saves := 0.0
		for _, from := range f.units {
			j := f.jobs[from.job]
			if !from.rented || j == nil || j.unit != from || j.Seconds[to.kind] == 0 || now < j.begun {
				continue
			}
			left := max(j.left-(now-j.begun)/j.Seconds[from.kind], 0)
			here := left * j.Seconds[to.kind]
			stay := left * j.Seconds[from.kind] * f.kinds[from.kind].Hourly
			change := here*f.kinds[to.kind].Hourly + j.Move*(f.kinds[from.kind].Hourly+f.kinds[to.kind].Hourly)
			if stay > f.rules.Gain*change && stay-change > saves && now+j.Move+here <= j.due() {
				best, saves = from, stay-change
			}
		}
		if best == nil {
			continue
		}
		j := f.jobs[best.job]
		j.left = max(j.left-(now-j.begun)/j.Seconds[best.kind], 0)
		best.job, best.idle = -1, now
		out = append(out, f.put(now, j, to, Move, j.Move))
	}
	return out
}

// release gives back rented machines that have been idle for long.
func (f *Fleet) release(now float64, out []FleetAction) []FleetAction {
	f.units = slices.DeleteFunc(f.units, func(u *unit) bool {
		if !u.rented || !u.started || u.job >= 0 || now < u.idle+f.rules.Idle { // as Next has it, to the last bit
			return false
		}
		out = append(out, FleetAction{Verb: Release, Kind: u.kind, Unit: u.id, Job: -1})
		return true
	})
	return out
}
