package sched

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft/machine"
)

// hierarchical decides twice: first which group of close devices takes a task,
// then which device of the group. By default that is the group which is predicted to have
// it done soonest, by its mean backlog, its best run time and what must be copied
// there, and the device that finishes it first; see Hierarchical for other strategies. Use it on machines
// with several switches or nodes, where work and its data should stay within a
// group, and where there are too many devices to look at each.
type hierarchical struct {
	estimator
	groups []group
	home   []int32 // group of each device
	// between and within are the strategies by which a group and a device of it are chosen.
	between, within string
	turn            int // between by turns: the group whose turn it is
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
	turn    int  // within by turns: which of its devices is next
}

// strategies are the rules by which hierarchical chooses a group, and a device of a group. Each
// has the name of the policy that chooses among all devices by the same rule.
var strategies = []string{"capacity", "finish", "leastloaded", "roundrobin"}

// Hierarchical returns the policy "hierarchical" with strategies: between says how a group of
// close devices is chosen for a task, within how a device of the group is. Each is "finish"
// (predicted to be done soonest), "leastloaded" (least queued for its score), "capacity" (most
// capability left, by sampled utilisation) or "roundrobin" (in turn); empty means "finish". The
// error wraps ErrUnknown.
func Hierarchical(between, within string) (Factory, error) {
	for _, s := range []string{between, within} {
		if s != "" && !slices.Contains(strategies, s) {
			return nil, fmt.Errorf("strategy %q: %w; use one of %s", s, ErrUnknown, strings.Join(strategies, ", "))
		}
	}
	return func(p Problem) Policy {
		h := newHierarchical(p).(*hierarchical)
		h.between, h.within = cmp.Or(between, Default), cmp.Or(within, Default)
		return h
	}, nil
}

func newHierarchical(p Problem) Policy {
	h := &hierarchical{estimator: newEstimator(p), home: make([]int32, len(p.Machine.Devices)), between: Default, within: Default}
	for g, devices := range p.Machine.Groups() {
		h.groups = append(h.groups, group{devices: devices})
		for _, d := range devices {
			h.home[d] = int32(g)
		}
	}
	return h
}

// survey takes in the state of the devices at the start of a round.
func (p *hierarchical) survey(v *Situation) {
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
func (p *hierarchical) reach(v *Situation, t *Ready, g *group) (soon time.Duration, ok bool) {
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

// groupKey ranks a group for a task, the lowest first; ok is false when no device of it can
// run the task.
func (p *hierarchical) groupKey(v *Situation, t *Ready, k int) (key float64, ok bool) {
	g := &p.groups[k]
	soon, ok := p.reach(v, t, g)
	if !ok {
		return 0, false
	}
	queued, load, score, left := 0.0, 0.0, 0.0, 0.0
	if p.between == "leastloaded" || p.between == "capacity" {
		for _, d := range g.devices {
			if dev := &v.Devices[d]; dev.Accepts {
				queued, load = queued+float64(dev.Queued), load+dev.Load
				score, left = score+dev.Score, left+spare(dev)
			}
		}
	}
	switch p.between {
	case "leastloaded":
		return (queued + 1 + load) / max(score, 1), true
	case "capacity":
		return -left / (1 + queued), true
	case "roundrobin":
		return float64((k - p.turn + len(p.groups)) % len(p.groups)), true
	}
	return float64(soon), true
}

// deviceKey ranks the n-th device of a group for an offer, the lowest first. Offers with equal
// keys are compared by their finish.
func (p *hierarchical) deviceKey(v *Situation, g *group, n int, o *offer) float64 {
	dev := &v.Devices[o.device]
	switch p.within {
	case "leastloaded":
		return weightedLoad(dev)
	case "capacity":
		return -spare(dev) / float64(1+dev.Queued)
	case "roundrobin":
		return float64((n - g.turn + len(g.devices)) % len(g.devices))
	}
	return 0
}

// choose returns the offer taken and its group, after survey.
func (p *hierarchical) choose(v *Situation, t *Ready) (offer, int) {
	for k := range p.groups {
		p.groups[k].tried = false
	}
	for {
		best, lowest := -1, 0.0
		for k := range p.groups {
			if p.groups[k].tried {
				continue
			}
			if key, ok := p.groupKey(v, t, k); ok && (best < 0 || key < lowest) {
				best, lowest = k, key
			}
		}
		if best < 0 {
			return noOffer, -1
		}
		taken, lowest := noOffer, 0.0
		for n, d := range p.groups[best].devices {
			if judge(v, t, d) == fits {
				o := p.offer(v, t, d)
				key := p.deviceKey(v, &p.groups[best], n, &o)
				if taken.device < 0 || key < lowest || key == lowest && o.before(taken) {
					taken, lowest = o, key
				}
			}
		}
		if taken.device >= 0 {
			return taken, best
		}
		p.groups[best].tried = true // constraints or memory rule out all of it
	}
}

func (p *hierarchical) Place(v *Situation, out []Placement) []Placement {
	p.survey(v)
	for i := range v.Tasks {
		o, k := p.choose(v, &v.Tasks[i])
		if o.device < 0 {
			continue
		}
		before := max(v.Devices[o.device].FreeAt, v.Now)
		finish := v.Assign(i, o.device, o.transfer, o.runs)
		g := &p.groups[k]
		g.backlog += v.Devices[o.device].FreeAt - before
		p.turn, g.turn = k+1, slices.Index(g.devices, o.device)+1
		out = append(out, Placement{Task: int32(i), Device: o.device, Finish: finish})
	}
	return out
}

func (p *hierarchical) Explain(v *Situation, i int) Explanation {
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
		if p.between != Default || p.within != Default {
			e.Why = fmt.Sprintf("group %d of %d is first by %s, and %s is its first by %s", k, len(p.groups), p.between, p.name(taken.device), p.within)
		}
	}
	return e
}
