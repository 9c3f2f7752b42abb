package sched

import (
	"fmt"
	"slices"
	"time"

	"github.com/weft-run/weft/machine"
)

// hierarchical decides twice: first which group of close devices takes a task,
// by the mean backlog of the group, its best run time and what must be copied
// there; then which device of the group finishes it first. Use it on machines
// with several switches or nodes, where work and its data should stay within a
// group, and where there are too many devices to look at each.
type hierarchical struct {
	model
	groups []group
	home   []int32 // group of each device
}

// group is a set of close devices and its state in a round.
type group struct {
	devices []machine.DeviceID
	// classes, open, first and backlog are the classes of the devices that accept
	// work, their number, the first of them and the sum of their backlogs.
	classes []int32
	open    int32
	first   machine.DeviceID
	backlog time.Duration
	tried   bool // scratch of one choice: nothing in it fits
}

func newHierarchical(p Problem) Policy {
	h := &hierarchical{model: newModel(p), home: make([]int32, len(p.Machine.Devices))}
	for g, devices := range p.Machine.Groups() {
		h.groups = append(h.groups, group{devices: devices})
		for _, d := range devices {
			h.home[d] = int32(g)
		}
	}
	return h
}

// survey takes in the state of the devices at the start of a round.
func (p *hierarchical) survey(v *View) {
	p.begin()
	for k := range p.groups {
		g := &p.groups[k]
		g.classes, g.open, g.backlog = g.classes[:0], 0, 0
		for _, d := range g.devices {
			dev := &v.Devices[d]
			if !dev.Accepts {
				continue
			}
			if g.open == 0 {
				g.first = d
			}
			g.open++
			g.backlog += max(dev.FreeAt-v.Now, 0)
			if !slices.Contains(g.classes, dev.Class) {
				g.classes = append(g.classes, dev.Class)
			}
		}
	}
}

// reach predicts how soon a group would have a task done, were its backlog
// spread evenly; ok is false when no device of it can run the task.
func (p *hierarchical) reach(v *View, t *Ready, g *group) (soon time.Duration, ok bool) {
	best := time.Duration(-1)
	for _, c := range g.classes {
		if int(c) < len(t.Cost) && t.Cost[c] >= 0 && (best < 0 || t.Cost[c] < best) {
			best = t.Cost[c]
		}
	}
	if best < 0 {
		return 0, false
	}
	return g.backlog/time.Duration(g.open) + p.transfer(v, t, g.first) + best, true
}

// choose returns the offer taken and its group, after survey.
func (p *hierarchical) choose(v *View, t *Ready) (offer, int) {
	for k := range p.groups {
		p.groups[k].tried = false
	}
	for {
		best, soonest := -1, time.Duration(0)
		for k := range p.groups {
			g := &p.groups[k]
			if g.tried {
				continue
			}
			if soon, ok := p.reach(v, t, g); ok && (best < 0 || soon < soonest) {
				best, soonest = k, soon
			}
		}
		if best < 0 {
			return noOffer, -1
		}
		taken := noOffer
		for _, d := range p.groups[best].devices {
			if judge(v, t, d) == fits {
				if o := p.offer(v, t, d); o.before(taken) {
					taken = o
				}
			}
		}
		if taken.device >= 0 {
			return taken, best
		}
		p.groups[best].tried = true // constraints or memory rule out all of it
	}
}

func (p *hierarchical) Place(v *View, out []Placement) []Placement {
	p.survey(v)
	for i := range v.Tasks {
		o, k := p.choose(v, &v.Tasks[i])
		if o.device < 0 {
			continue
		}
		before := max(v.Devices[o.device].FreeAt, v.Now)
		finish := v.Assign(i, o.device, o.transfer, o.runs)
		p.groups[k].backlog += v.Devices[o.device].FreeAt - before
		out = append(out, Placement{Task: int32(i), Device: o.device, Finish: finish})
	}
	return out
}

func (p *hierarchical) Explain(v *View, i int) Explanation {
	p.survey(v)
	t := &v.Tasks[i]
	taken, k := p.choose(v, t)
	e := p.explain(v, i, "hierarchical", taken.device, func(d machine.DeviceID) string {
		g := &p.groups[p.home[d]]
		soon, _ := p.reach(v, t, g)
		return fmt.Sprintf("group %d, done in about %v", p.home[d], Round(soon))
	})
	if e.Chosen >= 0 {
		soon, _ := p.reach(v, t, &p.groups[k])
		e.Why = fmt.Sprintf("group %d of %d would have it done soonest, in about %v, and %s is its first to finish, at %v",
			k, len(p.groups), Round(soon), p.name(taken.device), Round(taken.finish-v.Now))
	}
	return e
}
