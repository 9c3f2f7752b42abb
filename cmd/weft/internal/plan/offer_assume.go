package plan

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weft-run/weft/internal/text"
)

// Assumptions are what no catalogue knows and a plan depends on. Every plan lists them.
type Assumptions struct {
	EnergyPrice float64 // US dollars for a kilowatt-hour here
	GPUWatts    float64 // of a GPU here whose power is not known
	HostWatts   float64 // of the machine here beside its GPUs, if that is not known
	Start       float64 // seconds from renting an instance until the job runs on it
	Uplink      float64 // bytes per second from here to a rented machine
	Downlink    float64 // bytes per second from a rented machine to here
	Egress      float64 // US dollars for a gigabyte that leaves a rented machine
	Spot        float64 // interruptions of a spot instance in an hour
	Checkpoint  float64 // bytes per second to write or read a checkpoint on a rented machine
	Billing     float64 // seconds that a rented machine is billed in
	Stale       float64 // days after which a price is called stale
	Confidence  float64 // least probability of meeting the deadline, and of meeting the budget
}

// Assumption is one of the Assumptions, for people to read.
type Assumption struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Text    string  `json:"text"` // the value with its unit
	Default bool    `json:"default"`
	Means   string  `json:"means"`
}

// assumed describes an assumption: its unit is one of units, or a word that is only shown.
type assumed struct {
	name   string
	at     func(a *Assumptions) *float64
	value  float64
	lo, hi float64
	units  []text.Unit
	unit   string
	means  string
}

// Defaults are round figures of the middle of what providers and meters show; none is
// measured, which is why each can be set and all are printed.
var assumptions = []assumed{
	{"energy", func(a *Assumptions) *float64 { return &a.EnergyPrice }, 0.20, 0, 100, nil, "$/kWh", "price of electricity here"},
	{"gpu-power", func(a *Assumptions) *float64 { return &a.GPUWatts }, 300, 1, 1e5, text.Watts, "", "drawn by a GPU here of unknown power"},
	{"host-power", func(a *Assumptions) *float64 { return &a.HostWatts }, 100, 0, 1e5, text.Watts, "", "power drawn here without the GPUs, if unknown"},
	{"start", func(a *Assumptions) *float64 { return &a.Start }, 180, 0, 1e6, nil, "s", "from renting a machine to running on it"},
	{"uplink", func(a *Assumptions) *float64 { return &a.Uplink }, 12.5e6, 1, 1e15, text.BytesPerSecond, "", "from here to a rented machine"},
	{"downlink", func(a *Assumptions) *float64 { return &a.Downlink }, 12.5e6, 1, 1e15, text.BytesPerSecond, "", "from a rented machine to here"},
	{"egress", func(a *Assumptions) *float64 { return &a.Egress }, 0.09, 0, 100, nil, "$/GB", "price of data that leaves a rented machine"},
	{"spot", func(a *Assumptions) *float64 { return &a.Spot }, 0.05, 0, 1000, nil, "/h", "interruptions of a spot machine"},
	{"checkpoint", func(a *Assumptions) *float64 { return &a.Checkpoint }, 500e6, 1, 1e15, text.BytesPerSecond, "", "to write or read a checkpoint there"},
	{"billing", func(a *Assumptions) *float64 { return &a.Billing }, 60, 1, 1e6, nil, "s", "rented machines are billed in steps of this"},
	{"stale", func(a *Assumptions) *float64 { return &a.Stale }, 90, 0, 1e5, nil, "days", "after which a price is called stale"},
	{"confidence", func(a *Assumptions) *float64 { return &a.Confidence }, 0.9, 0.5, 0.999, nil, "", "probability of keeping deadline and budget"},
}

// DefaultAssumptions returns the assumptions of a plan that says nothing else.
func DefaultAssumptions() Assumptions {
	var a Assumptions
	for _, x := range assumptions {
		*x.at(&a) = x.value
	}
	return a
}

// AssumptionNames returns the names that Set takes.
func AssumptionNames() []string {
	names := make([]string, len(assumptions))
	for i, x := range assumptions {
		names[i] = x.name
	}
	return names
}

// Set sets an assumption to a value written with its unit or without, as "uplink" to
// "1GB/s" or "energy" to "0.30".
func (a *Assumptions) Set(name, value string) error {
	for _, x := range assumptions {
		if x.name != name {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSuffix(value, x.unit), 64)
		if x.units != nil && err != nil {
			v, err = text.ParseQuantity(value, x.units)
		}
		if x.unit == "s" && err != nil {
			d, bad := text.ParseDuration(value)
			v, err = d.Seconds(), bad
		}
		if err != nil || !(v >= x.lo && v <= x.hi) { // written so that NaN fails
			return fmt.Errorf("assumption %s=%s: expected %s to %s, as in %s=%s", name, value, x.show(x.lo), x.show(x.hi), name, strings.ReplaceAll(x.show(x.value), " ", ""))
		}
		*x.at(a) = v
		return nil
	}
	return text.Unknown("assumption", name, AssumptionNames())
}

// List returns the assumptions with what they mean.
func (a *Assumptions) List() []Assumption {
	list := make([]Assumption, len(assumptions))
	for i, x := range assumptions {
		v := *x.at(a)
		list[i] = Assumption{Name: x.name, Value: v, Text: x.show(v), Default: v == x.value, Means: x.means}
	}
	return list
}

// check finds an assumption out of its bounds.
func (a *Assumptions) check() error {
	for _, x := range assumptions {
		if v := *x.at(a); !(v >= x.lo && v <= x.hi) {
			return fmt.Errorf("%w: assumption %s is %g; expected %s to %s", ErrRequest, x.name, v, x.show(x.lo), x.show(x.hi))
		}
	}
	return nil
}

func (x assumed) show(v float64) string {
	if s, ok := text.FormatQuantity(v, x.units); ok && x.units != nil {
		return s
	}
	unit := x.unit
	if len(x.units) > 0 {
		unit = x.units[len(x.units)-1].Suffix
		for _, u := range x.units {
			if u.Exp == 0 && u.Shift == 0 {
				unit = u.Suffix
			}
		}
	}
	return strings.TrimSpace(strconv.FormatFloat(v, 'g', 6, 64) + " " + unit)
}
