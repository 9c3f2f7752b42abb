package sched

import (
	"fmt"

	"github.com/weft-run/weft/machine"
)

// roundRobin deals tasks to devices in turn. Use it on equal devices with
// equal tasks, or as the baseline other policies must beat: it looks at
// neither cost nor data.
type roundRobin struct {
	estimator
	next machine.DeviceID
}

func newRoundRobin(p Problem) Policy { return &roundRobin{estimator: newEstimator(p)} }

// choose returns the first device from next on that fits, or -1.
func (p *roundRobin) choose(v *Situation, i int) machine.DeviceID {
	n := len(v.Devices)
	for k := range n {
		d := machine.DeviceID((int(p.next) + k) % n)
		if judge(v, &v.Tasks[i], d) == fits {
			return d
		}
	}
	return -1
}

func (p *roundRobin) Place(v *Situation, out []Placement) []Placement {
	p.begin()
	for i := range v.Tasks {
		if d := p.choose(v, i); d >= 0 {
			out = p.put(v, i, d, out)
			p.next = d + 1
		}
	}
	return out
}

func (p *roundRobin) Explain(v *Situation, i int) Explanation {
	e := p.explain(v, i, "roundrobin", p.choose(v, i), nil)
	if e.Chosen >= 0 {
		turn := machine.DeviceID(int(p.next) % len(v.Devices))
		e.Why = fmt.Sprintf("it is the turn of %s, and %s is the first from there that can take it", p.name(turn), p.name(e.Chosen))
		if turn == e.Chosen {
			e.Why = fmt.Sprintf("it is the turn of %s", p.name(turn))
		}
	}
	return e
}
