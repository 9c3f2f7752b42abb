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
// A job that arrives is promised to a machine that does it in time, after those that were
// promised to it before. Only if there is none a machine is rented, and it is given back
// when it has been idle for a while: so a queue that comes and goes does not make machines
// come and go. A promise is kept as long as machines do what was predicted: a later job comes
// before an earlier one only where both are in time, and one that has waited for Patience seconds is
// overtaken no more, so that each job runs in the end. If the machine is late itself, the job
// waits for it until the last moment at which a rented one would be in time.
type Fleet struct {
	rules  FleetRules
	kinds  []Machines
	here   int // of them are one's own, and not for rent
	units  []*unit
	jobs   map[int]*running
	queue  []int // jobs that no machine is promised to
	avoid  []avoided
	nextID int
}

// FleetRules are the thresholds of a Fleet.
type FleetRules struct {
	Idle float64 // seconds without work after which a rented machine is given back
	// Gain is the least ratio for moving a running job: the cost of its rest here over the cost
	// elsewhere, with the move; at least 1.
	Gain float64
	// Avoid is the number of seconds for which a kind is not asked for after it was not available;
	// each further refusal doubles it, and each Forget seconds without one halve it again.
	Avoid, Forget float64
	// Patience is the time in seconds after which later jobs no longer overtake a waiting job that is
	// late or has no deadline; 0 means that they always may.
	Patience float64
}

// DefaultFleetRules returns rules for machines that take minutes to start.
func DefaultFleetRules() FleetRules {
	return FleetRules{Idle: 600, Gain: 1.5, Avoid: 120, Forget: 3600, Patience: 3600}
}

// FleetJob is a job that arrives.
type FleetJob struct {
	ID       int
	Deadline float64   // absolute, in seconds; 0 for none
	Seconds  []float64 // on each kind of machines; 0 where it does not fit
	Move     float64   // seconds to move it by a checkpoint: write, transfer, read
}

// FleetEvent is something that happened: exactly one of Arrived, Done, Ready, Refused and Lost says
// what.
type FleetEvent struct {
	Arrived *FleetJob
	Done    bool    // the job of Unit is done
	Ready   bool    // Unit has started and takes work
	Refused bool    // Unit, asked for by Rent, is not available
	Lost    bool    // Unit was taken away
	Unit    int     // of the events above
	Kept    float64 // of Lost: the part of its job, 0 to 1, that a checkpoint kept
}

// FleetVerb is the verb of a FleetAction.
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
	job      int     // that runs, -1 for none
	end      float64 // when its job is expected to be done
	idle     float64 // since when it has none
	next     []int   // jobs that it is promised to, in the order in which they run: by their deadlines
	promised float64 // seconds that those take, while promise is at work
}

type running struct {
	FleetJob
	arrived float64
	left    float64 // part to be done at begun
	begun   float64 // when it was launched; meaningless while it waits
	unit    *unit   // nil while it waits
	late    bool    // no machine does it in time: it runs as if it had no deadline
	wasted  float64
}

// avoided records that a kind was not available.
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
	f.recall(now)
	out = f.promise(now, out)
	out = f.launch(now, out)
	out = f.move(now, out)
	return f.release(now, out)
}

// Next returns when Step has something to do even if nothing happens: a machine has been
// idle for long, a kind may be asked for again, a machine that a job waits for is late, or a
// job can wait no longer. It is infinite if there is nothing.
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
		if len(u.next) > 0 {
			soon(u.due())
		}
	}
	waiting := f.waiting()
	for _, j := range waiting {
		for k := f.here; k < len(f.kinds); k++ {
			if j.Seconds[k] > 0 {
				soon(j.due() - f.kinds[k].Start - j.rest(k) - reaction)
			}
		}
	}
	if len(waiting) > 0 {
		for _, a := range f.avoid {
			soon(a.until)
		}
	}
	return next
}

// reaction is the time, in seconds, that is left for a Step after the moment that Next named:
// a machine that must be rented at the last moment is rented so much before it.
const reaction = 5

// rounding is the time, in seconds, by which sums of the same times may differ.
const rounding = 1e-7

// waiting returns the jobs that do not run.
func (f *Fleet) waiting() (out []*running) {
	for _, id := range f.queue {
		out = append(out, f.jobs[id])
	}
	for _, u := range f.units {
		for _, id := range u.next {
			out = append(out, f.jobs[id])
		}
	}
	return out
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
		f.jobs[e.Arrived.ID] = &running{FleetJob: *e.Arrived, arrived: now, left: 1}
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
		for _, id := range u.next {
			f.enqueue(id)
		}
		if j != nil {
			// What no checkpoint kept is done again.
			done := min(max(now-j.begun, 0)/j.Seconds[u.kind], j.left)
			kept := min(max(e.Kept, 1-j.left), 1)
			j.wasted += max(1-j.left+done-kept, 0) * j.Seconds[u.kind]
			j.left, j.unit = 1-kept, nil
			f.enqueue(u.job)
		}
	}
}

// enqueue lets a job wait without a machine.
func (f *Fleet) enqueue(id int) {
	f.jobs[id].late = false
	f.queue = append(f.queue, id)
}

// due returns the deadline of a job; a late one has none any more.
func (j *running) due() float64 {
	if j.Deadline == 0 || j.late {
		return math.Inf(1)
	}
	return j.Deadline
}

// aged reports whether a job without a deadline that it can meet has waited for Patience seconds, so
// that no later job comes before it.
func (f *Fleet) aged(now float64, j *running) bool {
	return f.rules.Patience > 0 && math.IsInf(j.due(), 1) && now-j.arrived >= f.rules.Patience
}

// from returns the first place that a job can have in a machine's order: behind all aged jobs that
// arrived before it.
func (f *Fleet) from(now float64, u *unit, j *running) int {
	for i := len(u.next); i > 0; i-- {
		if x := f.jobs[u.next[i-1]]; x.arrived < j.arrived && f.aged(now, x) {
			return i
		}
	}
	return 0
}

// timed returns the number of jobs in a machine's order up to the last one with a deadline to meet.
func (f *Fleet) timed(u *unit) int {
	for i := len(u.next); i > 0; i-- {
		if !math.IsInf(f.jobs[u.next[i-1]].due(), 1) {
			return i
		}
	}
	return 0
}

// before reports whether a job overtakes another that the same machine is promised to.
func (j *running) before(x *running) bool {
	return j.due() < x.due() || j.late && x.late && j.Deadline < x.Deadline
}

// rest returns the time of the rest of a job on a kind, 0 where it does not fit.
func (j *running) rest(kind int) float64 { return j.left * j.Seconds[kind] }

// due returns the time at which a machine is expected to take the next job.
func (u *unit) due() float64 {
	if u.job >= 0 {
		return u.end
	}
	return u.ready
}

// overdue reports whether a machine is not free although that was expected by now.
func (u *unit) overdue(now float64) bool { return now >= u.due() && (u.job >= 0 || !u.started) }

// recall takes back promises that cannot be kept: of jobs that would be late, because their
// machine is, and of those that can wait for it no longer. Late jobs that there is hope for are
// tried anew.
func (f *Fleet) recall(now float64) {
	for _, u := range f.units {
		at := max(now, u.due())
		u.next = slices.DeleteFunc(u.next, func(id int) bool {
			j := f.jobs[id]
			if j.late && (f.aged(now, j) || !f.hope(now, j)) {
				at += j.rest(u.kind) // it keeps its place, before or behind the jobs that are in time
				return false
			}
			if !j.late && at+j.rest(u.kind) <= j.due()+rounding && f.trusts(now, u, j) {
				at += j.rest(u.kind)
				return false
			}
			f.enqueue(id)
			return true
		})
	}
}

// hope reports whether a late job may be in time after all: on a machine that has nothing else to
// do before it, or on one that can be rented.
func (f *Fleet) hope(now float64, j *running) bool {
	if now > j.Deadline {
		return false
	}
	for _, u := range f.units {
		if j.Seconds[u.kind] > 0 && max(now, u.due())+j.rest(u.kind) <= j.Deadline {
			return true
		}
	}
	for k := f.here; k < len(f.kinds); k++ {
		if now+(f.kinds[k].Start+j.rest(k)) <= j.Deadline && f.rentable(now, k, j) {
			return true
		}
	}
	return false
}

// trusts reports whether a job can be promised to a machine: not to one that is overdue when
// it is the last moment for a rented one to be in time.
func (f *Fleet) trusts(now float64, u *unit, j *running) bool {
	if !u.overdue(now) {
		return true
	}
	last := math.Inf(-1)
	for k := f.here; k < len(f.kinds); k++ {
		if f.rentable(now, k, j) {
			if t := j.due() - f.kinds[k].Start - j.rest(k); now <= t {
				last = max(last, t)
			}
		}
	}
	return math.IsInf(last, -1) || now < last-reaction
}

// ends returns the time at which a machine would be done with a job in addition to those promised
// to it; false if one of them would be late.
func (f *Fleet) ends(now float64, u *unit, j *running) (end float64, ok bool) {
	if j.Seconds[u.kind] == 0 || !f.trusts(now, u, j) {
		return 0, false
	}
	if math.IsInf(j.due(), 1) { // behind all others, at the latest
		return max(now, u.due()) + u.promised + j.rest(u.kind), true
	}
	at, placed, from := max(now, u.due()), false, f.from(now, u, j)
	put := func(x *running) bool {
		at += x.rest(u.kind)
		return at <= x.due()
	}
	for i, id := range u.next[:max(from, f.timed(u))] { // no later one can be late
		x := f.jobs[id]
		if !placed && i >= from && j.due() < x.due() {
			if placed = true; !put(j) {
				return 0, false
			}
			end = at
		}
		if !put(x) {
			return 0, false
		}
	}
	if !placed {
		ok = put(j)
		return at, ok
	}
	return end, true
}

// promise gives machines to the jobs that have none, the earliest deadline first: of those that do it in time the cheapest
// that is idle, or else the one that is done first. If there is none, one is rented; if that
// would be late too, the job waits for whichever is done first.
func (f *Fleet) promise(now float64, out []FleetAction) []FleetAction {
	slices.SortFunc(f.queue, func(a, b int) int {
		return cmp.Or(cmp.Compare(f.jobs[a].due(), f.jobs[b].due()), cmp.Compare(a, b))
	})
	for _, u := range f.units {
		u.promised = 0
		for _, id := range u.next {
			u.promised += f.jobs[id].rest(u.kind)
		}
	}
	var stuck []int
	for _, id := range f.queue {
		j := f.jobs[id]
		u := f.place(now, j)
		if u == nil {
			if k := f.kindFor(now, j); k >= 0 {
				u = &unit{id: f.nextID, kind: k, rented: true, ready: now + f.kinds[k].Start, job: -1}
				f.nextID++
				f.units = append(f.units, u)
				out = append(out, FleetAction{Verb: Rent, Kind: k, Unit: u.id, Job: id, Left: j.left})
				j.late = u.ready+j.rest(k) > j.due()
			} else {
				j.late = true
				if u = f.place(now, j); u == nil {
					j.late = false
					stuck = append(stuck, id)
					continue
				}
			}
		}
		at, from := len(u.next), f.from(now, u, j)
		for at > from && j.before(f.jobs[u.next[at-1]]) {
			at--
		}
		u.next = slices.Insert(u.next, at, id)
		u.promised += j.rest(u.kind)
	}
	f.queue = stuck
	return out
}

// place returns the machine that a job is promised to, nil if none is in time.
func (f *Fleet) place(now float64, j *running) (best *unit) {
	var bestEnd float64
	idle := false
	for _, u := range f.units {
		end, ok := f.ends(now, u, j)
		if !ok {
			continue
		}
		now := u.started && u.job < 0 && len(u.next) == 0
		switch {
		case best == nil, now && !idle,
			now && idle && f.cost(j, u.kind) < f.cost(j, best.kind),
			!now && !idle && end < bestEnd:
			best, bestEnd, idle = u, end, now
		}
	}
	return best
}

// launch starts the first job of every machine that is free. One that has none takes the
// most urgent of another that it does earlier.
func (f *Fleet) launch(now float64, out []FleetAction) []FleetAction {
	for _, u := range f.units {
		if !u.started || u.job >= 0 {
			continue
		}
		if len(u.next) == 0 {
			f.steal(now, u)
		}
		if len(u.next) > 0 {
			id := u.next[0]
			u.next = slices.Delete(u.next, 0, 1)
			out = append(out, f.put(now, f.jobs[id], u, Launch, 0))
		}
	}
	return out
}

// steal lets an idle machine have the most urgent job of another that it would do earlier.
func (f *Fleet) steal(now float64, idle *unit) {
	var from *unit
	var most *running
	for _, u := range f.units {
		at := max(now, u.due())
		if u.started && u.job < 0 {
			continue // it begins its jobs now
		}
		for _, id := range u.next {
			j := f.jobs[id]
			at += j.rest(u.kind)
			end := now + j.rest(idle.kind)
			if j.Seconds[idle.kind] > 0 && end < at && (most == nil || j.due() < most.due()) {
				from, most = u, j
			}
		}
	}
	if most != nil {
		from.next = slices.DeleteFunc(from.next, func(id int) bool { return id == most.ID })
		idle.next = append(idle.next, most.ID)
	}
}

// put lets a job run on a machine.
func (f *Fleet) put(now float64, j *running, u *unit, verb FleetVerb, delay float64) FleetAction {
	u.job, j.unit, j.begun = j.ID, u, now+delay
	u.end = j.begun + j.rest(u.kind)
	return FleetAction{Verb: verb, Kind: u.kind, Unit: u.id, Job: j.ID, Left: j.left, Wasted: j.wasted}
}

func (f *Fleet) cost(j *running, kind int) float64 { return j.rest(kind) * f.kinds[kind].Hourly }

// rentable reports whether one more machine of a kind can be asked for, for a job.
func (f *Fleet) rentable(now float64, kind int, j *running) bool {
	have := 0
	for _, u := range f.units {
		if u.kind == kind {
			have++
		}
	}
	return have < f.kinds[kind].Count && j.Seconds[kind] > 0 && now >= f.avoid[kind].until
}

// kindFor returns the cheapest kind that can be rented and does a job in time, or the
// fastest if none does and no machine is there for it; -1 for none.
func (f *Fleet) kindFor(now float64, j *running) int {
	best, inTime := -1, false
	there := slices.ContainsFunc(f.units, func(u *unit) bool { return j.Seconds[u.kind] > 0 })
	for k := f.here; k < len(f.kinds); k++ {
		if !f.rentable(now, k, j) {
			continue
		}
		m := f.kinds[k]
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
	if len(f.waiting()) > 0 {
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
