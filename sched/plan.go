package sched

import (
	"math"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Planner is the optional ability of a policy to look at a graph as a whole before
// its tasks are offered one by one.
type Planner interface {
	// Plan is called when a run begins that nothing binds: no other run is there,
	// devices are idle and run one task at a time, and tasks may go anywhere and have
	// no priorities.
	Plan(run *Run) Plan
	// Forget is called when a run for which Plan answered something ends: its number
	// may be used again.
	Forget(run int32)
}

// Plan is the decision of a policy for a whole graph. Both fields may be nil.
type Plan struct {
	// Turns has a place for every task: device queues hand out tasks of the run in
	// this order, and not in the order they became ready.
	Turns []int32
	// Ranks are upward ranks, to be shown in Situation.Graphs.
	Ranks []time.Duration
}

// Run is a run that begins. It is valid during the call only.
type Run struct {
	ID   int32 // its number, as Ready.Run has it
	Now  time.Duration
	Flow *graph.Flow
	// Devices are as in a Situation.
	Devices []Device
	// Costs are by shape and device class, negative where a task cannot run.
	Costs [][]time.Duration
	// At says, by initial value, whose memory holds it.
	At []machine.DeviceID
	// Workspace is the largest workspace of a task.
	Workspace int64
	// Depth and Ahead are how many tasks a device is given in advance, and for how
	// long a time.
	Depth int
	Ahead time.Duration
}

// dearest returns the longest duration of any task, each on its fastest device.
func (run *Run) dearest() time.Duration {
	most := time.Duration(0)
	for _, costs := range run.Costs {
		least := never
		for _, c := range costs {
			if c >= 0 {
				least = min(least, c)
			}
		}
		if least < never {
			most = max(most, least)
		}
	}
	return most
}

// planMaker makes plans for whole graphs by rehearsing them under several rules and
// keeping the best. A plan binds each task to a device; where that device cannot take
// the task any more, the policy decides as it does without a plan.
type planMaker struct {
	r      rehearsal
	byRun  []*schedule // nil where a run has none
	active int
	known  []*schedule   // made last, to be used again
	next   int           // the one of known to be replaced
	states []planState   // of devices, as the plan adopted last supposes them
	until  time.Duration // when it has all done, and a little more
}

// schedule is the best one found for a graph. With none set, placing tasks as they come is as
// good.
type schedule struct {
	none   bool
	flow   *graph.Flow
	costs  []time.Duration // what it was made for
	states []planState
	at     []machine.DeviceID
	on     []machine.DeviceID
	turns  []int32
	ranks  []time.Duration
	took   time.Duration
}

// planState is the state that a plan assumes for a device.
type planState struct {
	accepts bool
	slow    float64
}

const (
	// maxPlanned is the number of tasks of the largest graph that is planned. That
	// takes about 0.1 s, during which no other decision is made.
	maxPlanned = 1 << 14
	// planShare is the longest that planning may take, as a part of the least time
	// the graph takes. It excludes graphs whose tasks, spread over all devices, take
	// less than 16·(2 + 0.7·devices) µs each.
	planShare = 1.0 / 16
	// planTask and planTry are the costs of planning per task, and per task and device it
	// is tried on, under all rules: twice what BenchmarkPlan measures on a core of 2.5 GHz,
	// because its graph carries only two of the rules to the end.
	planTask = 2 * time.Microsecond
	planTry  = 700 * time.Nanosecond
	// planEnough is the factor of the lower bound of all schedules at which a plan is
	// accepted without trying others. No plan is made where placing tasks as they
	// become ready reaches it.
	planEnough = 1.02
	// maxCopyCosts is the largest number of entries of a copyTable: distinct sizes times
	// pairs of memories. A graph that needs more is not planned.
	maxCopyCosts = 1 << 16
	// keptPlans is the number of plans that are kept for graphs that run again.
	keptPlans = 16
	// planDrift is the largest relative difference of costs from those a plan was
	// made for at which it is used again.
	planDrift = 0.1
)

// Plan implements Planner for the policies that place by finish time.
func (p *finish) Plan(run *Run) Plan {
	made := p.plans.recall(run)
	if made == nil {
		if made = p.plans.make(run, p.machine, p.cost); made == nil {
			return Plan{}
		}
		p.plans.keep(made)
	}
	if made.none {
		return Plan{}
	}
	p.plans.adopt(run, made)
	return Plan{Turns: made.turns, Ranks: made.ranks}
}

// Forget implements Planner.
func (p *finish) Forget(run int32) { p.plans.drop(int(run)) }

func (p *planMaker) drop(run int) {
	if run < len(p.byRun) && p.byRun[run] != nil {
		p.byRun[run] = nil
		p.active--
	}
}

// look drops all plans where a device is not as they suppose any more. What is left of
// a run is then placed as it comes, which suits whatever the devices have become.
func (p *planMaker) look(d machine.DeviceID, dev *Device) {
	if p.states[d] == (planState{dev.Accepts, dev.Slow}) {
		return
	}
	for run := range p.byRun {
		p.drop(run)
	}
}

// told returns where the plan, if there is one, has a task: -1 for nowhere.
func (p *planMaker) told(t *Ready) machine.DeviceID {
	if p.active == 0 || int(t.Run) >= len(p.byRun) || p.byRun[t.Run] == nil {
		return -1
	}
	return p.byRun[t.Run].on[t.Task]
}

// onTime reports whether a device is predicted to end no later than the plan. No task is
// stolen from it then: the plan includes the time of copies, and a thief's estimate does not.
func (p *planMaker) onTime(d *Device) bool { return p.active > 0 && d.FreeAt <= p.until }

func (p *planMaker) adopt(run *Run, made *schedule) {
	for int(run.ID) >= len(p.byRun) {
		p.byRun = append(p.byRun, nil)
	}
	p.byRun[run.ID] = made
	p.active++
	p.states = made.states
	p.until = run.Now + made.took + made.took/32
}

func (p *planMaker) keep(made *schedule) {
	if len(p.known) < keptPlans {
		p.known = append(p.known, made)
		return
	}
	p.known[p.next] = made
	p.next = (p.next + 1) % keptPlans
}

// recall returns a plan that was made for the same graph in the same state, nil where
// there is none. One that does not suit any more is taken out.
func (p *planMaker) recall(run *Run) *schedule {
	for i, k := range p.known {
		if k.flow != run.Flow {
			continue
		}
		if k.suits(run) {
			return k
		}
		p.known = slices.Delete(p.known, i, i+1)
		p.next = 0
		return nil
	}
	return nil
}

// suits reports whether costs and devices are about what the plan supposes.
func (k *schedule) suits(run *Run) bool {
	i := 0
	for _, costs := range run.Costs {
		for _, c := range costs {
			was := k.costs[i]
			if (c < 0) != (was < 0) || c >= 0 && math.Abs(float64(c-was)) > planDrift*float64(was) {
				return false
			}
			i++
		}
	}
	for d := range run.Devices {
		if s := k.states[d]; s.accepts != run.Devices[d].Accepts || s.slow != run.Devices[d].Slow {
			return false
		}
	}
	return slices.Equal(k.at, run.At)
}

// make returns the best plan found for a graph, nil where planning would not pay or
// nothing fits.
func (p *planMaker) make(run *Run, m *machine.Machine, cost machine.Cost) *schedule {
	n := len(run.Flow.Rows) - 1
	if n < 2 || n > maxPlanned || len(m.Devices) < 2 {
		return nil
	}
	least := time.Duration(float64(n) / planShare * float64(planTask+time.Duration(len(m.Devices))*planTry))
	if time.Duration(n)*run.dearest() < least {
		return nil // no closer look at graphs of short tasks, of which there may be many
	}
	r := &p.r
	if r.survey(run); max(r.spread, r.longest()) < least || !r.prepare(m, cost) {
		return nil
	}
	k := &schedule{took: never, ranks: slices.Clone(r.rank), on: make([]machine.DeviceID, n), turns: make([]int32, n)}
	enough := time.Duration(planEnough * float64(max(r.spread, r.chain)))
	for i := 0; i < numRules && k.took > enough; i++ {
		took, ok := r.run(r.ruleFor(i), k.took)
		switch {
		case !ok:
			continue
		case i == 0 && took <= enough:
			return run.note(&schedule{none: true})
		}
		k.took = took
		for t := range r.tasks {
			k.on[t], k.turns[t] = machine.DeviceID(r.tasks[t].on), r.tasks[t].turn
		}
	}
	if k.took == never {
		return nil
	}
	return run.note(k)
}

// note records in a schedule the costs and states it was made for.
func (run *Run) note(k *schedule) *schedule {
	k.flow, k.at = run.Flow, slices.Clone(run.At)
	for _, costs := range run.Costs {
		k.costs = append(k.costs, costs...)
	}
	for d := range run.Devices {
		k.states = append(k.states, planState{run.Devices[d].Accepts, run.Devices[d].Slow})
	}
	return k
}
