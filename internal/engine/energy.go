package engine

import "time"

// Energy: an estimate of what the tasks of a run take, from the power of devices as sampled.

// powerSamples is the number of samples of a device's power that are kept: 6.4 s at the usual 100 ms.
// A longer task is charged the mean of them for the time before.
const powerSamples = 64

// energy is the power of a device over time, as a polyline through samples.
type energy struct {
	n      int // samples kept
	next   int // where the next one goes
	at     [powerSamples]time.Duration
	watts  [powerSamples]float64
	joules [powerSamples]float64 // from the first sample on to this one
}

// sample takes in the power at a time.
func (p *energy) sample(at time.Duration, watts float64) {
	joules := 0.0
	if p.n > 0 {
		k := p.last()
		joules = p.joules[k] + (p.watts[k]+watts)/2*(at-p.at[k]).Seconds()
	}
	p.at[p.next], p.watts[p.next], p.joules[p.next] = at, watts, joules
	p.next = (p.next + 1) % powerSamples
	p.n = min(p.n+1, powerSamples)
}

func (p *energy) last() int { return (p.next + powerSamples - 1) % powerSamples }

// between returns the joules from one time to another: the area under the polyline, which
// goes on level after the last sample, and before the first at the mean of all.
func (p *energy) between(start, end time.Duration) float64 { return p.upTo(end) - p.upTo(start) }

// upTo returns the joules from the first sample ever to a time, which are negative before it.
func (p *energy) upTo(t time.Duration) float64 {
	k := p.last()
	if t >= p.at[k] {
		return p.joules[k] + p.watts[k]*(t-p.at[k]).Seconds()
	}
	for n := 1; n < p.n; n++ {
		b := k
		k = (k + powerSamples - 1) % powerSamples
		if t >= p.at[k] {
			span, into := (p.at[b] - p.at[k]).Seconds(), (t - p.at[k]).Seconds()
			watts := p.watts[k] + (p.watts[b]-p.watts[k])*into/span
			return p.joules[k] + (p.watts[k]+watts)/2*into
		}
	}
	mean := p.watts[k]
	if last := p.last(); p.at[last] > p.at[k] {
		mean = (p.joules[last] - p.joules[k]) / (p.at[last] - p.at[k]).Seconds()
	}
	return p.joules[k] - mean*(p.at[k]-t).Seconds()
}

// together estimates how many launches shared a device with the one that has just ended,
// itself included: one for each busy lane. The energy of the device is divided by this
// number.
func (e *Engine) together(d *device) int {
	n := 1
	for l := d.lanes[0]; l < d.lanes[1]; l++ {
		if e.lanes[l].done < e.lanes[l].issued {
			n++
		}
	}
	return min(n, int(d.lanes[1]-d.lanes[0]))
}
