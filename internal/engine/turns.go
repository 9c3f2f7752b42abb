package engine

import (
	"slices"

	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// Plans: a policy that plans (sched.Planner) looks at a run as a whole before it begins
// and may give its tasks turns, which become their keys in device queues.

// plan asks the policy for a plan of a run that begins, if nothing constrains the run.
// Turns become keys: the key of a task is the service of all tasks before it. The run is
// then served as any other of its weight, in the order of the plan.
func (e *Engine) plan(r *run) {
	for int(r.slot) >= len(e.situation.Graphs) {
		e.situation.Graphs = append(e.situation.Graphs, sched.RunGraph{})
	}
	g := &e.situation.Graphs[r.slot]
	g.Flow, g.Ranks = r.f, nil
	if e.planner == nil || r.g.NumTasks() < 2 || !e.unbound(r) {
		return
	}
	w := &e.begins
	w.ID, w.Now, w.Flow, w.Devices = int32(r.slot), e.now, r.f, e.situation.Devices
	w.Depth, w.Ahead, w.Workspace = e.o.Depth, e.o.Ahead, 0
	w.Costs, w.At = w.Costs[:0], w.At[:0]
	for s := range r.shapes {
		w.Costs = append(w.Costs, e.shape(r, r.f.ShapeTask[s]).costs)
		w.Workspace = max(w.Workspace, r.shapes[s].workspace)
	}
	for _, v := range r.init {
		at := machine.Host
		if s := e.mem.vals.at[v].slot; s >= 0 {
			at = e.mem.spaces[e.mem.insts[e.mem.slots.at[s].inst].space].dev
		}
		w.At = append(w.At, at)
	}
	p := e.planner.Plan(w)
	g.Ranks = p.Ranks
	r.planned = p.Turns != nil || p.Ranks != nil
	if p.Turns == nil {
		return
	}
	r.keys = slices.Grow(r.keys, len(p.Turns))[:len(p.Turns)]
	order := make([]int32, len(p.Turns))
	for t, turn := range p.Turns {
		order[turn] = int32(t)
	}
	at := e.vnow
	for _, t := range order {
		r.keys[t] = at
		at += r.shapes[r.f.Rows[t].Shape].charge
	}
}

// unbound reports whether a run that begins is the only one, on idle devices that run its
// tasks one after another, and may have its tasks placed anywhere in any order.
func (e *Engine) unbound(r *run) bool {
	if len(e.byID) > 1 || e.mem.away > 0 || len(e.situation.Crowds) > 0 || r.f.Prioritised ||
		e.o.Concurrent > 0 || r.o.Concurrent > 0 || len(r.o.Rather) > 0 {
		return false
	}
	for s := range r.shapes {
		if sh := &r.shapes[s]; sh.constrained || sh.gang > 1 {
			return false
		}
	}
	for d := range e.devs {
		if e.situation.Devices[d].Queued > 0 || e.devs[d].lanes[1]-e.devs[d].lanes[0] > 1 && !e.inTurns(r, machine.DeviceID(d)) {
			return false
		}
	}
	return true
}

// inTurns reports whether every task of a run takes all lanes of a device or cannot run
// there.
func (e *Engine) inTurns(r *run, dev machine.DeviceID) bool {
	team, c := e.devs[dev].team, e.situation.Devices[dev].Class
	for s := range r.shapes {
		if e.shape(r, r.f.ShapeTask[s]).costs[c] >= 0 && (team == 0 || int(r.shapes[s].widths[c]) < team) {
			return false
		}
	}
	return true
}

// unplan ends the plan of a run.
func (e *Engine) unplan(r *run) {
	if r.planned {
		r.planned = false
		e.planner.Forget(int32(r.slot))
	}
	r.keys = r.keys[:0]
	e.situation.Graphs[r.slot] = sched.RunGraph{}
}
