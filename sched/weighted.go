package sched

import (
	"fmt"
	"time"

	"github.com/weft-run/weft/machine"
)

// weighted is the form of capacity that weighs three things, each from 0 to 1:
// 0.4 × free memory + 0.3 × compute + 0.3 × load. Use it when tasks are large
// for the memory of the devices and predictions are coarse.
type weighted struct{ estimator }

func newWeighted(p Problem) Policy { return &weighted{newEstimator(p)} }

// merits are the three terms for one device and task.
type merits struct{ memory, compute, load float64 }

// total keeps the products apart from the sum, so that no architecture fuses
// them into different bits.
func (m merits) total() float64 {
	return float64(0.4*m.memory) + float64(0.3*m.compute) + float64(0.3*m.load)
}

// scale holds the units of a task's merits: the largest memory among devices that fit, and
// the shortest duration on one.
type scale struct {
	bytes int64
	runs  time.Duration
}

func (p *weighted) scale(v *Situation, t *Ready) scale {
	s := scale{bytes: 1, runs: -1}
	for i := range v.Devices {
		d := machine.DeviceID(i)
		if judge(v, t, d) != fits {
			continue
		}
		s.bytes = max(s.bytes, v.Devices[d].CapBytes)
		if r := runs(v, t, d); s.runs < 0 || r < s.runs {
			s.runs = r
		}
	}
	return s
}

func (s scale) merits(v *Situation, t *Ready, d machine.DeviceID) merits {
	dev := &v.Devices[d]
	return merits{
		memory: min(max(float64(v.Free(dev))/float64(s.bytes), 0), 1),
		// One nanosecond more on both sides keeps tasks without cost defined.
		compute: float64(s.runs+1) / float64(runs(v, t, d)+1),
		load:    1 / (1 + dev.Load + float64(dev.Queued)),
	}
}

func (p *weighted) choose(v *Situation, i int) machine.DeviceID {
	t := &v.Tasks[i]
	s := p.scale(v, t)
	return lowest(v, t, func(d machine.DeviceID) [2]float64 {
		return [2]float64{-s.merits(v, t, d).total(), float64(v.Devices[d].Queued)}
	})
}

func (p *weighted) Place(v *Situation, out []Placement) []Placement { return p.each(v, out, p.choose) }

func (p *weighted) Explain(v *Situation, i int) Explanation {
	t := &v.Tasks[i]
	s := p.scale(v, t)
	e := p.explain(v, i, "capacity-weighted", p.choose(v, i), func(d machine.DeviceID) string {
		m := s.merits(v, t, d)
		return fmt.Sprintf("%.3f = 0.4 × memory %.2f + 0.3 × compute %.2f + 0.3 × load %.2f", m.total(), m.memory, m.compute, m.load)
	})
	if e.Chosen >= 0 {
		e.Why = fmt.Sprintf("%s has the highest sum, %.3f", p.name(e.Chosen), s.merits(v, t, e.Chosen).total())
	}
	return e
}
