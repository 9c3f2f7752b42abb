package sched

import (
	"fmt"

	"github.com/weft-run/weft/machine"
)

// capacity sends a task to the device with the most capacity to spare:
// score × (1 − utilisation), shared among the tasks already queued there, since
// a sample of utilisation is older than they are. Use it when utilisation is
// sampled and other programs use the devices too.
type capacity struct{ estimator }

func newCapacity(p Problem) Policy { return &capacity{newEstimator(p)} }

// spare is a device's unused capacity.
func spare(d *Device) float64 { return d.Score * (1 - min(max(d.Util, 0), 1)) }

func (p *capacity) choose(v *Situation, i int) machine.DeviceID {
	return lowest(v, &v.Tasks[i], func(d machine.DeviceID) [2]float64 {
		dev := &v.Devices[d]
		// When nothing is to spare anywhere the shortest queue decides.
		return [2]float64{-spare(dev) / float64(1+dev.Queued), weightedLoad(dev)}
	})
}

func (p *capacity) Place(v *Situation, out []Placement) []Placement { return p.each(v, out, p.choose) }

func (p *capacity) Explain(v *Situation, i int) Explanation {
	e := p.explain(v, i, "capacity", p.choose(v, i), func(d machine.DeviceID) string {
		dev := &v.Devices[d]
		return fmt.Sprintf("capacity %.4g = %.4g × (1 − %.2f), %d queued", spare(dev), dev.Score, dev.Util, dev.Queued)
	})
	if e.Chosen >= 0 {
		dev := &v.Devices[e.Chosen]
		e.Why = fmt.Sprintf("%s has the most capacity to spare, %.4g for %d queued and this one", p.name(e.Chosen), spare(dev), dev.Queued)
		if spare(dev) == 0 {
			e.Why = fmt.Sprintf("nothing has capacity to spare, and %s has the shortest queue for its score, %d", p.name(e.Chosen), dev.Queued)
		}
	}
	return e
}
