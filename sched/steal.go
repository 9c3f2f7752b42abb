package sched

import (
	"fmt"
	"time"

	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
)

// steal gives every device a queue: a task joins the queue of the device that
// holds most of what it reads, or the one that would be shortest were all tasks
// like it, and a device with nothing left takes from the longest queue. Use it when
// run times cannot be predicted or vary from task to task: a task in a queue that is
// too long goes to an idle device.
type steal struct {
	estimator
	seen seen
	held []int64
}

// seen is the mean predicted cost of the tasks offered so far, by class.
type seen []struct {
	total time.Duration
	tasks int64
}

func newSteal(p Problem) Policy { return &steal{estimator: newEstimator(p)} }

// holdings returns the bytes of t's inputs each device holds, in scratch
// memory that is valid until the next call.
func (p *steal) holdings(v *Situation, t *Ready) []int64 {
	p.held = append(p.held[:0], make([]int64, len(v.Devices))...)
	for _, in := range t.Inputs {
		if in.At >= 0 {
			p.held[in.At] += in.Bytes
		}
	}
	return p.held
}

func (p *steal) choose(v *Situation, i int) machine.DeviceID {
	t := &v.Tasks[i]
	held := p.holdings(v, t)
	return lowest(v, t, func(d machine.DeviceID) [2]float64 {
		return [2]float64{-float64(held[d]), float64(queue(v, t, d))}
	})
}

// queue returns the time that d would take for its queue and t if all queued tasks were like t.
func queue(v *Situation, t *Ready, d machine.DeviceID) time.Duration {
	dev := &v.Devices[d]
	return time.Duration(dev.Queued+1) * dev.Takes(t.width(dev), runs(v, t, d))
}

func (p *steal) Place(v *Situation, out []Placement) []Placement {
	p.seen.add(v)
	return p.each(v, out, p.choose)
}

// add takes in the tasks of a round.
func (s *seen) add(v *Situation) {
	if n := int(v.Classes) - len(*s); n > 0 {
		*s = append(*s, make(seen, n)...)
	}
	for i := range v.Tasks {
		for c, cost := range v.Tasks[i].Cost {
			if cost >= 0 && c < len(*s) {
				(*s)[c].total += cost
				(*s)[c].tasks++
			}
		}
	}
}

// Steal returns the device with the longest queue, or -1 when none is worth
// taking from.
func (p *steal) Steal(v *Situation, thief machine.DeviceID) machine.DeviceID {
	return p.seen.victim(v, thief, 1)
}

// victim returns the device with the longest queue whose last task the thief,
// running pace times slower than predicted, would end before its owner does. The
// first task of a queue is running and cannot be taken.
func (s seen) victim(v *Situation, thief machine.DeviceID, pace float64) machine.DeviceID {
	if !v.Devices[thief].Accepts {
		return -1
	}
	victim := machine.DeviceID(-1)
	for i := range v.Devices {
		d, dev := machine.DeviceID(i), &v.Devices[i]
		if d == thief || dev.Queued < 2 || !s.pays(v, thief, d, pace) {
			continue
		}
		if victim < 0 || dev.Queued > v.Devices[victim].Queued ||
			dev.Queued == v.Devices[victim].Queued && dev.FreeAt > v.Devices[victim].FreeAt {
			victim = d
		}
	}
	return victim
}

// pays reports whether an average task would end sooner on the thief than at
// the end of the victim's queue.
func (s seen) pays(v *Situation, thief, victim machine.DeviceID, pace float64) bool {
	ends := max(v.Now, v.Devices[thief].FreeAt)
	if c := int(v.Devices[thief].Class); c < len(s) && s[c].tasks > 0 {
		ends += slowed(s[c].total/time.Duration(s[c].tasks), v.Devices[thief].Slow*pace)
	}
	return ends < v.Devices[victim].FreeAt
}

func (p *steal) Explain(v *Situation, i int) Explanation {
	held := p.holdings(v, &v.Tasks[i])
	e := p.explain(v, i, "steal", p.choose(v, i), func(d machine.DeviceID) string {
		return fmt.Sprintf("holds %s, %d queued", text.Count(held[d], "byte"), v.Devices[d].Queued)
	})
	switch {
	case e.Chosen < 0:
	case held[e.Chosen] > 0:
		e.Why = fmt.Sprintf("%s holds most of what it reads, %s", p.name(e.Chosen), text.Count(held[e.Chosen], "byte"))
	default:
		e.Why = fmt.Sprintf("%s has the shortest queue, %s or %v with this one", p.name(e.Chosen),
			text.Count(v.Devices[e.Chosen].Queued, "task"), Round(queue(v, &v.Tasks[i], e.Chosen)))
	}
	return e
}
