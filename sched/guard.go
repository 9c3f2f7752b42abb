package sched

import (
	"fmt"
	"runtime/debug"

	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
)

// Guard returns a factory whose policies cannot harm the loop that asks them: whatever f's
// policy does wrong is reported to warn, once for each policy, and the tasks concerned are
// placed by the default policy. Wrong is a panic, a placement of a task that was not
// offered or is placed already, and one on a device that cannot run the task. A task that
// is left out is offered again, as by any policy; a Place that never returns is waited for.
func Guard(f Factory, warn func(error)) Factory {
	return func(p Problem) Policy {
		g := &guard{warn: warn, instead: Policies()[Default](p)}
		if err := safely("the policy's factory", func() { g.policy = f(p) }); err != nil || g.policy == nil {
			if err == nil {
				err = fmt.Errorf("the policy's factory returned nil")
			}
			warn(err)
			return g.instead
		}
		if s, ok := g.policy.(Stealer); ok {
			return &guardedStealer{guard: g, stealer: s}
		}
		return g
	}
}

// guard stands between the engine and a policy of the caller's.
type guard struct {
	policy  Policy
	instead Policy
	warn    func(error)
	warned  bool
	before  []Device // scratch: the situation's devices as they were
	placed  []bool   // scratch: by task of the situation
	rest    []int32
	tasks   []Ready
	more    []Placement
}

// complain reports the first mistake only: a policy's mistakes are all alike.
func (g *guard) complain(err error) {
	if !g.warned {
		g.warned = true
		g.warn(err)
	}
}

// Place lets the policy place tasks and keeps the valid placements.
func (g *guard) Place(v *Situation, out []Placement) []Placement {
	n := len(v.Tasks)
	kept := len(out)
	g.before = append(g.before[:0], v.Devices...)
	given := *v
	err := safely("the policy's Place", func() { out = g.policy.Place(v, out) })
	*v = given // the policy may have changed it
	for d := range v.Devices {
		was := g.before[d]
		was.FreeAt, was.Queued = v.Devices[d].FreeAt, v.Devices[d].Queued
		v.Devices[d] = was
	}
	if err != nil {
		g.complain(err)
		copy(v.Devices, g.before)
		out = out[:kept]
		g.rest = g.rest[:0]
		for i := range n {
			g.rest = append(g.rest, int32(i))
		}
		return g.placeRest(v, out)
	}
	g.placed = append(g.placed[:0], make([]bool, n)...)
	g.rest = g.rest[:0]
	good := out[:kept]
	for _, p := range out[kept:] {
		if p.Task < 0 || int(p.Task) >= n || g.placed[p.Task] {
			g.complain(fmt.Errorf("the policy placed task %d of %d, which is not there or placed already", p.Task, n))
			continue
		}
		g.placed[p.Task] = true
		if judge(v, &v.Tasks[p.Task], p.Device) != fits {
			g.complain(fmt.Errorf("the policy put task %d on device %d of %d, which cannot take it", p.Task, p.Device, len(v.Devices)))
			g.rest = append(g.rest, p.Task)
			continue
		}
		good = append(good, p)
	}
	g.account(v, good[kept:])
	return g.placeRest(v, good)
}

// account makes the devices of the situation count what was placed, once: a policy may have
// used Situation.Assign, or not.
func (g *guard) account(v *Situation, good []Placement) {
	counts := make([]int32, len(v.Devices))
	for _, p := range good {
		counts[p.Device]++
	}
	right := true
	for d, was := range g.before {
		now := &v.Devices[d]
		right = right && now.Queued == was.Queued+counts[d] && now.FreeAt >= was.FreeAt
	}
	if right {
		return
	}
	copy(v.Devices, g.before)
	for i := range good {
		p := &good[i]
		p.Finish = v.Assign(int(p.Task), p.Device, 0, runs(v, &v.Tasks[p.Task], p.Device))
	}
}

// placeRest has the default policy place the tasks named by rest.
func (g *guard) placeRest(v *Situation, out []Placement) []Placement {
	if len(g.rest) == 0 {
		return out
	}
	part := *v
	g.tasks = g.tasks[:0]
	for _, i := range g.rest {
		g.tasks = append(g.tasks, v.Tasks[i])
	}
	part.Tasks, part.Dirty = g.tasks, nil
	for d := range v.Devices { // the default policy did not see what was placed before
		part.Dirty = append(part.Dirty, machine.DeviceID(d))
	}
	g.more = g.instead.Place(&part, g.more[:0])
	for _, p := range g.more {
		p.Task = g.rest[p.Task]
		out = append(out, p)
	}
	return out
}

// Observe passes on how a placement turned out.
func (g *guard) Observe(o Outcome) {
	if w, ok := g.policy.(Observer); ok {
		if err := safely("the policy's Observe", func() { w.Observe(o) }); err != nil {
			g.complain(err)
		}
	}
}

// Explain passes on why a task goes where it goes.
func (g *guard) Explain(v *Situation, i int) (ex Explanation) {
	ex = Explanation{Chosen: -1, Why: "the policy does not explain itself"}
	if x, ok := g.policy.(Explainer); ok {
		if err := safely("the policy's Explain", func() { ex = x.Explain(v, i) }); err != nil {
			g.complain(err)
		}
	}
	return ex
}

// Plan has a policy that is a Planner plan a graph; others have no plan.
func (g *guard) Plan(run *Run) (made Plan) {
	p, ok := g.policy.(Planner)
	if !ok {
		return Plan{}
	}
	if err := safely("the policy's Plan", func() { made = p.Plan(run) }); err != nil {
		g.complain(err)
		return Plan{}
	}
	n := len(run.Flow.Rows) - 1
	seen := make([]bool, n)
	for _, turn := range made.Turns {
		if len(made.Turns) != n || turn < 0 || int(turn) >= n || seen[turn] {
			g.complain(fmt.Errorf("the policy's plan has no turn of its own for each of %s", text.Count(n, "task")))
			g.Forget(run.ID)
			return Plan{}
		}
		seen[turn] = true
	}
	if len(made.Ranks) != 0 && len(made.Ranks) != n {
		g.complain(fmt.Errorf("the policy's plan has %s for %s", text.Count(len(made.Ranks), "rank"), text.Count(n, "task")))
		made.Ranks = nil
	}
	return made
}

// Forget tells the policy that a run it planned has ended.
func (g *guard) Forget(run int32) {
	if p, ok := g.policy.(Planner); ok {
		if err := safely("the policy's Forget", func() { p.Forget(run) }); err != nil {
			g.complain(err)
		}
	}
}

// guardedStealer is a guard whose policy is a Stealer.
type guardedStealer struct {
	*guard
	stealer Stealer
}

// Steal has the policy choose whom a device takes tasks from.
func (g *guardedStealer) Steal(v *Situation, thief machine.DeviceID) (from machine.DeviceID) {
	if err := safely("the policy's Steal", func() { from = g.stealer.Steal(v, thief) }); err != nil {
		g.complain(err)
		return -1
	}
	if from < -1 || int(from) >= len(v.Devices) || from == thief {
		g.complain(fmt.Errorf("the policy had device %d take tasks from device %d of %d", thief, from, len(v.Devices)))
		return -1
	}
	return from
}

// safely calls fn and makes a panic an error with its stack.
func safely(what string, fn func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s panicked: %v\n%s", what, p, debug.Stack())
		}
	}()
	fn()
	return nil
}
