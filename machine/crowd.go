package machine

import (
	"slices"
	"time"
)

// Crowd is a set of devices that compute on the same processor cores and take
// more of them than there are, as the cores themselves and a GPU driver that runs
// on them.
type Crowd struct {
	Cores   int
	Devices []DeviceID // ascending
	Takes   []int      // cores each of them takes
}

// Crowds returns the crowds of a machine; a device is in one at most. Devices that
// share cores of which there are enough for all of them are no crowd: they do not
// disturb one another.
func (m *Machine) Crowds() []Crowd {
	var out []Crowd
	for i := range m.Resources {
		r := &m.Resources[i]
		if r.Cores == 0 {
			continue
		}
		c := Crowd{Cores: r.Cores}
		for d := range m.Devices {
			if dev := &m.Devices[d]; slices.Contains(dev.Resources, r.Name) && !inCrowd(out, DeviceID(d)) {
				c.Devices = append(c.Devices, DeviceID(d))
				c.Takes = append(c.Takes, dev.cores())
			}
		}
		if c.Speed(c.Devices...) < 1 {
			out = append(out, c)
		}
	}
	return out
}

// cores returns the number of cores that a device takes which computes on cores.
func (d *Device) cores() int { return max(d.ComputeUnits, 1) }

func inCrowd(crowds []Crowd, d DeviceID) bool {
	return slices.ContainsFunc(crowds, func(c Crowd) bool { return slices.Contains(c.Devices, d) })
}

// Speed is the fraction of its own speed at which each of some devices of the
// crowd runs while all of these compute.
func (c *Crowd) Speed(of ...DeviceID) float64 {
	taken := 0
	for _, d := range of {
		taken += c.Takes[slices.Index(c.Devices, d)]
	}
	return min(1, float64(c.Cores)/float64(max(taken, 1)))
}

// Share is the part of the crowd's cores that a device of it takes, at most 1.
func (c *Crowd) Share(d DeviceID) float64 {
	return min(1, float64(c.Takes[slices.Index(c.Devices, d)])/float64(c.Cores))
}

// Contention records when the devices of crowds compute, and derives from that how
// long an execution would have taken with the cores to itself. Cost models learn
// that time, because the devices that compute at the same time differ from run to
// run. A nil Contention is one without crowds.
type Contention struct {
	crowds []Crowd
	of     []int32 // crowd of each device, -1 for none
	open   []time.Duration
	spans  [][]span // of each device, ascending
}

// span is a time in which a device computed.
type span struct{ start, end time.Duration }

// idle is Contention.open of a device that does not compute.
const idle = time.Duration(-1)

// maxSpans is the most spans that are kept of a device. minPause is the shortest
// pause between two spans; a shorter one is part of a span.
const (
	maxSpans = 64
	minPause = 20 * time.Microsecond
)

// NewContention follows the devices of a machine; it is nil when they do not
// disturb one another.
func NewContention(m *Machine) *Contention {
	c := &Contention{crowds: m.Crowds()}
	if len(c.crowds) == 0 {
		return nil
	}
	n := len(m.Devices)
	c.of, c.open, c.spans = make([]int32, n), make([]time.Duration, n), make([][]span, n)
	for i := range n {
		c.of[i], c.open[i] = -1, idle
	}
	for i := range c.crowds {
		for _, d := range c.crowds[i].Devices {
			c.of[d] = int32(i)
		}
	}
	return c
}

// Began notes that a device was given work. One that had some already goes on.
func (c *Contention) Began(d DeviceID, at time.Duration) {
	if c != nil && c.of[d] >= 0 && c.open[d] == idle {
		c.open[d] = at
	}
}

// Ran notes that a device computed from start to end, in the order of ends; more
// says that it has other work.
func (c *Contention) Ran(d DeviceID, start, end time.Duration, more bool) {
	if c == nil || c.of[d] < 0 {
		return
	}
	c.open[d] = idle
	if more {
		c.open[d] = end
	}
	s := c.spans[d]
	switch n := len(s); {
	case end <= start:
	case n > 0 && start-s[n-1].end < minPause:
		s[n-1].start, s[n-1].end = min(s[n-1].start, start), max(s[n-1].end, end)
	case n == maxSpans: // the oldest two become one, their pause included
		s[1].start = s[0].start
		c.spans[d] = append(s[:0], append(s[1:], span{start, end})...)
	default:
		c.spans[d] = append(s, span{start, end})
	}
}

// Alone returns what an execution of a device, which took from start to end, would
// have taken alone. What another device has not ended yet counts as computed since
// it was given or since the device ended something last.
func (c *Contention) Alone(d DeviceID, start, end time.Duration) time.Duration {
	if c == nil || c.of[d] < 0 || end <= start {
		return end - start
	}
	crowd := &c.crowds[c.of[d]]
	// Who computes changes at these times; between them speeds are constant.
	at := []time.Duration{start, end}
	for _, o := range crowd.Devices {
		if o == d {
			continue
		}
		c.each(o, start, end, func(s span) { at = append(at, s.start, s.end) })
	}
	slices.Sort(at)
	work := 0.0
	busy := make([]DeviceID, 0, len(crowd.Devices))
	for i := 1; i < len(at); i++ {
		if at[i] == at[i-1] {
			continue
		}
		busy = append(busy[:0], d)
		for _, o := range crowd.Devices {
			computes := false
			c.each(o, at[i-1], at[i], func(span) { computes = o != d })
			if computes {
				busy = append(busy, o)
			}
		}
		// The conversion keeps multiply and add apart on every architecture.
		work += float64(float64(at[i]-at[i-1]) * crowd.Speed(busy...))
	}
	return max(time.Duration(work), 1)
}

// each calls fn for the parts of [start, end) in which a device computed.
func (c *Contention) each(d DeviceID, start, end time.Duration, fn func(span)) {
	s := c.spans[d]
	for i := len(s) - 1; i >= 0 && s[i].end > start; i-- {
		if s[i].start < end {
			fn(span{max(s[i].start, start), min(s[i].end, end)})
		}
	}
	if from := c.open[d]; from != idle && from < end {
		fn(span{max(from, start), end})
	}
}
