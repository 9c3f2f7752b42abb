package sched

import (
	"fmt"

	"github.com/weft-run/weft/machine"
)

// leastLoaded sends a task to the device with the least load for its weight:
// (queued tasks + 1 + moving average of utilisation) / score, the shortest
// expected delay of weighted least-connection balancing. Use it for many
// similar tasks whose run times cannot be predicted.
type leastLoaded struct{ estimator }

func newLeastLoaded(p Problem) Policy { return &leastLoaded{newEstimator(p)} }

// weightedLoad is the load of a device for its score. Devices without a score
// weigh as little as the smallest score does.
func weightedLoad(d *Device) float64 {
	return (float64(d.Queued) + 1 + d.Load) / max(d.Score, 1)
}

func (p *leastLoaded) choose(v *Situation, i int) machine.DeviceID {
	return lowest(v, &v.Tasks[i], func(d machine.DeviceID) [2]float64 {
		return [2]float64{weightedLoad(&v.Devices[d])}
	})
}

func (p *leastLoaded) Place(v *Situation, out []Placement) []Placement {
	return p.each(v, out, p.choose)
}

func (p *leastLoaded) Explain(v *Situation, i int) Explanation {
	e := p.explain(v, i, "leastloaded", p.choose(v, i), func(d machine.DeviceID) string {
		dev := &v.Devices[d]
		return fmt.Sprintf("load %.4f = (%d queued + 1 + %.2f) / score %.0f", weightedLoad(dev), dev.Queued, dev.Load, max(dev.Score, 1))
	})
	if e.Chosen >= 0 {
		e.Why = fmt.Sprintf("%s has the least load for its score, %.4f", p.name(e.Chosen), weightedLoad(&v.Devices[e.Chosen]))
	}
	return e
}
