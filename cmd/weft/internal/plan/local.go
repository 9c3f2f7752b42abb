package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weft-run/weft/machine"
)

// ErrNoDevice is returned by Reserve if no device may take a job now.
var ErrNoDevice = errors.New("no device can take the job")

// Limits are what must hold on every device of a machine while jobs run there. Zero means
// no limit.
type Limits struct {
	Utilisation float64 // the most of a device's compute that jobs may have together, 0 to 1
	Margin      float64 // the part of a device's memory that stays free, 0 to 1
	Celsius     float64 // a device this hot takes no job
	// Watts is the most that the machine may draw; 0 means the machine's own budget.
	Watts float64
}

// Condition is a device as it is now.
type Condition struct {
	Celsius float64 // 0 unknown
	Down    bool    // it takes no work
}

// Demand is the predicted demand of a job on one device.
type Demand struct {
	Name  string
	Bytes int64
	// Utilisation is the part of the device that the job keeps busy, above 0 up to 1.
	Utilisation float64
	// Seconds is its time on a device that runs nothing else, by device.
	Seconds []float64
}

// Reservation is a job's part of a device.
type Reservation struct {
	ID     int
	Job    string
	Device machine.DeviceID
	Bytes  int64
	Part   float64 // of the device's compute
	Watts  float64 // at most
	Until  float64 // seconds, when the job is predicted to end
}

// Reservations are the parts of a machine's devices that jobs have. A Reservations is not
// safe for concurrent use.
type Reservations struct {
	m      *machine.Machine
	limits Limits
	held   []Reservation
	last   int
}

// NewReservations returns an empty record for a machine.
func NewReservations(m *machine.Machine, l Limits) (*Reservations, error) {
	if !(l.Utilisation >= 0 && l.Utilisation <= 1) || !(l.Margin >= 0 && l.Margin < 1) || !(l.Celsius >= 0) || !(l.Watts >= 0) {
		return nil, fmt.Errorf("plan: bad limits %+v: utilisation and margin are from 0 to 1, and none is negative", l)
	}
	l.Utilisation = cmp.Or(l.Utilisation, 1)
	l.Watts = cmp.Or(l.Watts, m.BudgetWatts)
	return &Reservations{m: m, limits: l}, nil
}

// Held returns the reservations, oldest first.
func (r *Reservations) Held() []Reservation { return slices.Clone(r.held) }

// Release gives a reservation back and reports whether it was there.
func (r *Reservations) Release(id int) bool {
	n := len(r.held)
	r.held = slices.DeleteFunc(r.held, func(x Reservation) bool { return x.ID == id })
	return len(r.held) < n
}

// Reserve gives a job a part of the device that is predicted to be done with it first: a
// device of which others have a part is as much slower. now is in the seconds of Until, and
// conditions are of each device. Where no device may take the job, the error wraps
// ErrNoDevice and says of each one why.
func (r *Reservations) Reserve(d Demand, now float64, conditions []Condition) (Reservation, error) {
	if d.Bytes < 0 || !(d.Utilisation > 0 && d.Utilisation <= 1) || len(d.Seconds) != len(r.m.Devices) || len(conditions) != len(r.m.Devices) {
		return Reservation{}, fmt.Errorf("plan: demand of %s: %d bytes, utilisation %v, %d durations and %d conditions for %d devices", d.Name, d.Bytes, d.Utilisation, len(d.Seconds), len(conditions), len(r.m.Devices))
	}
	best, found := Reservation{Until: math.Inf(1)}, false
	var reasons []error
	for i := range r.m.Devices {
		x, err := r.offer(d, machine.DeviceID(i), now, conditions[i])
		if err != nil {
			reasons = append(reasons, fmt.Errorf("%s: %w", r.m.Devices[i].Name, err))
			continue
		}
		if x.Until < best.Until {
			best, found = x, true
		}
	}
	if !found {
		return Reservation{}, fmt.Errorf("plan: %w: %s: %w", ErrNoDevice, d.Name, errors.Join(reasons...))
	}
	r.last++
	best.ID = r.last
	r.held = append(r.held, best)
	return best, nil
}

// offer is the reservation that a device could give, or why it cannot.
func (r *Reservations) offer(d Demand, on machine.DeviceID, now float64, c Condition) (Reservation, error) {
	dev := &r.m.Devices[on]
	bytes, part, watts := int64(0), 0.0, r.m.HostWatts
	for _, x := range r.held {
		watts += x.Watts
		if x.Device == on {
			part += x.Part
		}
		if x.Device == on || dev.HostMemory && r.m.Devices[x.Device].HostMemory {
			bytes += x.Bytes
		}
	}
	whole := roomOf(r.m, on)
	room := int64(float64(whole) * (1 - r.limits.Margin))
	more := dev.PowerWatts * d.Utilisation
	const slack = 1e-9 // sums of the same parts may differ by so much
	switch seconds := d.Seconds[on]; {
	case c.Down:
		return Reservation{}, errors.New("it takes no work")
	case !(seconds > 0) || math.IsInf(seconds, 0):
		return Reservation{}, errors.New("it cannot run the job")
	case r.limits.Celsius > 0 && c.Celsius >= r.limits.Celsius:
		return Reservation{}, fmt.Errorf("it has %.0f °C, and the limit is %.0f", c.Celsius, r.limits.Celsius)
	case whole > 0 && d.Bytes > room-bytes:
		return Reservation{}, fmt.Errorf("the job needs %s and %s of %s are free", sizeText(d.Bytes), sizeText(max(room-bytes, 0)), sizeText(whole))
	case part+d.Utilisation > r.limits.Utilisation+slack:
		return Reservation{}, fmt.Errorf("jobs have %.0f %% of it, this one wants %.0f %%, and the limit is %.0f %%", 100*part, 100*d.Utilisation, 100*r.limits.Utilisation)
	case r.limits.Watts > 0 && watts+more > r.limits.Watts+slack:
		return Reservation{}, fmt.Errorf("the machine draws up to %.0f W, this job up to %.0f more, and the limit is %.0f", watts, more, r.limits.Watts)
	default:
		// Others on the device share its memory's rate and its caches: it is taken to be as
		// much slower as they have of it.
		return Reservation{Job: d.Name, Device: on, Bytes: d.Bytes, Part: d.Utilisation, Watts: more, Until: now + seconds*(1+part)}, nil
	}
}

// roomOf is the memory of a device, which for one that works in host memory is the host's and
// shared; 0 means unknown.
func roomOf(m *machine.Machine, id machine.DeviceID) int64 {
	if d := &m.Devices[id]; !d.HostMemory {
		return d.MemBytes
	}
	return m.HostBytes
}

// DemandOf returns what a job asks of each device of a machine by itself, as a model predicts
// it. A device that the job does not fit on has no duration. The part of the device is the
// largest that computing and memory traffic are of the time on any device; the rest it waits
// for launches and copies.
func (m *Model) DemandOf(need Need, on *machine.Machine) Demand {
	d := Demand{Name: need.Name, Bytes: need.PeakBytes, Seconds: make([]float64, len(on.Devices))}
	for i := range on.Devices {
		one := only(on, machine.DeviceID(i))
		if e := m.OnMachine(need, one); e.Fits {
			p := partsOf(&need, one)
			d.Seconds[i] = e.Median
			d.Utilisation = max(d.Utilisation, max(p.compute, p.memory)/max(p.total(), 1e-12))
		}
	}
	d.Utilisation = min(max(d.Utilisation, leastPart), 1)
	return d
}

// leastPart is the least part of a device that a job is taken to have.
const leastPart = 0.01

// Batch is the demand of a batch of items on a machine.
type Batch struct {
	Items    int
	Need     Need
	Estimate Estimate
	Rate     float64 // items per second, one batch after the other
	// Confidence is the chance that a batch is done within the latency asked for.
	Confidence float64
}

// LargestBatch returns the largest batch, of up to most items, that is done within latency
// seconds with a chance of at least confidence. need says what a batch takes, and must not
// fall with its size. ok is false if not even one item is, and the Batch is then of one.
func (m *Model) LargestBatch(need func(items int) Need, on *machine.Machine, most int, latency, confidence float64) (best Batch, ok bool) {
	of := func(items int) Batch {
		n := need(items)
		b := Batch{Items: items, Need: n, Estimate: m.OnMachine(n, on)}
		if e := &b.Estimate; e.Fits {
			b.Rate = float64(items) / e.Median
			b.Confidence = e.within(latency)
		}
		return b
	}
	best = of(1)
	if best.Confidence < confidence || most < 1 {
		return best, false
	}
	lo, hi := 1, most+1 // lo is done in time, and hi is not or is too many
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		if b := of(mid); b.Confidence >= confidence {
			lo, best = mid, b
		} else {
			hi = mid
		}
	}
	return best, true
}
