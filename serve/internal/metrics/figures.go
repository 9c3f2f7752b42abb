package metrics

import (
	"maps"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/serve/internal/infer"
)

// with returns totals that have what happened from one sample to the next as well. A peak is one of
// samples that are kept: those that follow at once have rates that mean little.
func (t totals) with(before, now *sample) totals {
	dt := now.at.Sub(before.at).Seconds()
	if dt <= 0 {
		return t
	}
	t.joules = maps.Clone(t.joules)
	for i := range now.runtime.Devices {
		d := &now.runtime.Devices[i]
		if inService(d) {
			t.devices += dt
		}
		was := deviceOf(&before.runtime, d.Name)
		if was != nil && was.Health.PowerW >= 0 && d.Health.PowerW >= 0 {
			t.joules[d.Name] += (was.Health.PowerW + d.Health.PowerW) / 2 * dt
		}
	}
	t.predictions += items(before, now)
	if now.at.Sub(before.at) >= every/2 {
		t.peak = max(t.peak, rate(before, now))
	}
	return t
}

// inService reports whether a device takes work.
func inService(d *weft.DeviceMetrics) bool { return d.State == "healthy" || d.State == "draining" }

func deviceOf(m *weft.Metrics, name string) *weft.DeviceMetrics {
	for i := range m.Devices {
		if m.Devices[i].Name == name {
			return &m.Devices[i]
		}
	}
	return nil
}

// modelOf returns what is known of a model version, which is zero if there is none.
func modelOf(s *sample, model, version string) infer.Stats {
	for _, m := range s.models {
		if m.Model == model && m.Version == version {
			return m
		}
	}
	return infer.Stats{}
}

// grown is how much a counter grew. One that is less than before has begun anew.
func grown(before, now uint64) float64 {
	if now < before {
		return float64(now)
	}
	return float64(now - before)
}

// items is how many predictions were computed from one sample to another.
func items(before, now *sample) float64 {
	n := 0.0
	for _, m := range now.models {
		n += grown(modelOf(before, m.Model, m.Version).Items, m.Items)
	}
	return n
}

// rate is the predictions a second between two samples.
func rate(before, now *sample) float64 {
	dt := now.at.Sub(before.at).Seconds()
	if dt <= 0 {
		return 0
	}
	return items(before, now) / dt
}

// work is what a device did between two samples.
type work struct {
	tasks, busy float64 // seconds
}

// works returns the work of every device that takes any, between two samples.
func works(before, now *sample) (out []work) {
	for i := range now.runtime.Devices {
		d := &now.runtime.Devices[i]
		if !inService(d) {
			continue
		}
		w := work{float64(d.Tasks), d.Busy.Seconds()}
		if was := deviceOf(&before.runtime, d.Name); was != nil {
			w = work{float64(d.Tasks - was.Tasks), (d.Busy - was.Busy).Seconds()}
		}
		out = append(out, w)
	}
	return out
}

// scalingEfficiency is the rate at which devices ended tasks together, as a part of the sum of the
// rates at which each does while it is busy. It is 1 where all were busy all the time, and is false
// if none ended a task.
func scalingEfficiency(ws []work, dt time.Duration) (float64, bool) {
	together, alone := 0.0, 0.0
	for _, w := range ws {
		if w.tasks > 0 && w.busy > 0 {
			together += w.tasks / dt.Seconds()
			alone += w.tasks / w.busy
		}
	}
	if alone == 0 || dt <= 0 {
		return 0, false
	}
	return min(together/alone, 1), true
}

// loadBalance is the mean of the times that devices were busy as a part of the greatest. It is 1 if
// all were busy equally long, 1/n if one of n was alone, and is false if none was.
func loadBalance(ws []work) (float64, bool) {
	sum, most := 0.0, 0.0
	for _, w := range ws {
		sum += w.busy
		most = max(most, w.busy)
	}
	if most == 0 {
		return 0, false
	}
	return sum / float64(len(ws)) / most, true
}

// faultTolerance is the part of faults that failed no run: of the executions that were tried again,
// the devices that were lost and the runs that failed, those that are not failed runs. Without faults
// it is 1.
func faultTolerance(m *weft.Metrics) float64 {
	overcome := float64(m.Retries + m.Losses)
	all := overcome + float64(m.Runs.Failed)
	if all == 0 {
		return 1
	}
	return overcome / all
}

// joulesPerKWh is how many joules a kilowatt-hour has.
const joulesPerKWh = 3.6e6

// money is what predictions cost and are worth.
type money struct {
	energy, devices, value float64
}

// account is the money of some energy, time of devices and predictions.
func (p Prices) account(joules, deviceSeconds, predictions float64) money {
	return money{energy: joules / joulesPerKWh * p.KWh, devices: deviceSeconds / 3600 * p.DeviceHour, value: predictions * p.Prediction}
}

// cost is what was paid.
func (m money) cost() float64 { return m.energy + m.devices }

// roi is the return on investment: the value less the cost, as a part of the cost.
func (m money) roi() float64 { return (m.value - m.cost()) / m.cost() }
