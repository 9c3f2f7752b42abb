package sched

import (
	"fmt"
	"slices"
)

// priority places urgent tasks first and on the device that runs them
// fastest, as long as waiting for it costs no more than their own run time;
// the rest goes where it finishes first. Use it when a few urgent tasks come
// in among many others and their latency matters more than throughput.
//
// Nothing starves: every task that fits is placed in the round that offers it,
// and one placement in fairEvery goes to the task offered first, however low
// its priority.
type priority struct {
	finish
	order  []int32 // scratch: indices of v.Tasks by priority
	placed []bool  // scratch: by index of v.Tasks
}

// fairEvery is the interval, in placements, at which one ignores priority, so that no task
// starves.
const fairEvery = 4

func newPriority(p Problem) Policy { return &priority{finish: finish{estimator: newEstimator(p)}} }

func (p *priority) Place(v *Situation, out []Placement) []Placement {
	p.update(v)
	n := len(v.Tasks)
	p.order = p.order[:0]
	for i := range n {
		p.order = append(p.order, int32(i))
	}
	slices.SortStableFunc(p.order, func(a, b int32) int {
		return v.Tasks[b].Priority - v.Tasks[a].Priority
	})
	p.placed = append(p.placed[:0], make([]bool, n)...)
	urgent, fair := 0, 0
	for turn := 1; turn <= n; turn++ { // so that one is left to find
		for p.placed[p.order[urgent]] {
			urgent++
		}
		for p.placed[fair] {
			fair++
		}
		i := int(p.order[urgent])
		if turn%fairEvery == 0 {
			i = fair
		}
		p.placed[i] = true
		if o, _ := p.choose(v, i); o.device >= 0 {
			out = p.take(v, i, o, out)
		}
	}
	return out
}

// choose returns the offer to take and the earliest one. Only urgent tasks, with positive
// priority, wait for the most capable device. The device of a class that is free first
// stands for all of the class.
func (p *priority) choose(v *Situation, i int) (taken, first offer) {
	t := &v.Tasks[i]
	taken, first = p.finish.choose(v, t)
	if t.Priority <= 0 || first.device < 0 {
		return taken, first
	}
	taken = first
	faster := func(o offer) {
		if o.device >= 0 && o.finish-first.finish <= o.runs && (o.runs < taken.runs || o.runs == taken.runs && o.before(taken)) {
			taken = o
		}
	}
	if t.Only != nil {
		for _, d := range t.Only {
			faster(p.try(v, t, d, noOffer))
		}
		return taken, first
	}
	for c := range p.trees {
		faster(p.tryClass(v, t, c, noOffer))
	}
	for _, d := range p.apart {
		faster(p.try(v, t, d, noOffer))
	}
	return taken, first
}

func (p *priority) Explain(v *Situation, i int) Explanation {
	p.update(v)
	taken, first := p.choose(v, i)
	e := p.explain(v, i, "priority", taken.device, nil)
	t := &v.Tasks[i]
	switch {
	case e.Chosen < 0:
	case t.Priority > 0:
		e.Why = fmt.Sprintf("urgent (priority %d): %s runs it fastest, in %v, and finishes at %v; the earliest, %s, at %v",
			t.Priority, p.name(taken.device), Round(taken.runs), Round(taken.finish-v.Now), p.name(first.device), Round(first.finish-v.Now))
	default:
		e.Why = p.why(v, t, &e, taken, first)
	}
	return e
}
