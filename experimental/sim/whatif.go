package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// WhatIf simulates the work of a configuration on machines that differ from its own in
// one thing each: launches cost nothing, copies cost nothing, there is one more of the
// fastest device, or nothing goes wrong. makespan is that of the configuration itself.
// WhatIf returns the part of it that each change saves, the largest first, without
// changes that save less than 0.1 % or fail a run.
func WhatIf(c Config, makespan time.Duration) ([]trace.Fix, error) {
	fixes := []trace.Fix{}
	try := func(v trace.Verdict, what string, c Config) error {
		c.Cost, c.Truth = nil, nil // those of the changed machine
		c.Trace, c.Explain, c.Unchecked = nil, nil, true
		r, err := Run(c)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		failed := slices.ContainsFunc(r.Runs, func(r RunResult) bool { return r.Err != nil })
		gain := 1 - float64(r.Makespan)/float64(makespan)
		if !failed && gain >= 0.001 {
			fixes = append(fixes, trace.Fix{What: what, For: v, Makespan: r.Makespan, Gain: gain})
		}
		return nil
	}
	if makespan <= 0 {
		return nil, nil
	}
	for _, change := range []struct {
		verdict trace.Verdict
		what    string
		to      func(c *Config)
	}{
		{trace.OverheadBound, "no launch overhead", func(c *Config) { c.Machine = withoutLaunches(c.Machine) }},
		{trace.TransferBound, "copies that take no time", func(c *Config) { c.Machine = withoutCopies(c.Machine) }},
		{trace.ComputeBound, "one more " + fastest(c.Machine).Name, func(c *Config) { c.Machine = withOneMore(c.Machine) }},
		{trace.Faults, "no faults", func(c *Config) { c.Faults = nil }},
	} {
		changed := c
		if change.verdict == trace.Faults && len(c.Faults) == 0 {
			continue
		}
		change.to(&changed)
		if err := try(change.verdict, change.what, changed); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(fixes, func(a, b trace.Fix) int { return int(min(max(a.Makespan-b.Makespan, -1), 1)) })
	return fixes, nil
}

func withoutLaunches(m *machine.Machine) *machine.Machine {
	out := *m
	out.Devices = slices.Clone(m.Devices)
	for i := range out.Devices {
		out.Devices[i].Rates.LaunchNS, out.Devices[i].Rates.ReplyNS = 0, 0
	}
	return &out
}

// freeBPS is a rate in bytes per second at which copies take no time: a terabyte takes
// a nanosecond.
const freeBPS = 1e21

func withoutCopies(m *machine.Machine) *machine.Machine {
	out := *m
	out.Links = slices.Clone(m.Links)
	for i := range out.Links {
		out.Links[i].BPS, out.Links[i].LatencyNS, out.Links[i].Resources = freeBPS, 0, nil
	}
	return &out
}

// withOneMore adds a device that equals the fastest in all but its name, with links of
// its own.
func withOneMore(m *machine.Machine) *machine.Machine {
	out := *m
	best := fastest(m)
	id, _ := m.Lookup(best.Name)
	more := *best
	more.Name += " (one more)"
	out.Devices = append(slices.Clone(m.Devices), more)
	out.Links = slices.Clone(m.Links)
	for _, l := range m.Links {
		switch id {
		case l.A:
			l.A = machine.DeviceID(len(m.Devices))
		case l.B:
			l.B = machine.DeviceID(len(m.Devices))
		default:
			continue
		}
		out.Links = append(out.Links, l)
	}
	return &out
}

// fastest is the device with the highest merit.
func fastest(m *machine.Machine) *machine.Device {
	merits, _ := machine.Merits(m.Devices)
	best := 0
	for i := range merits {
		if merits[i] > merits[best] {
			best = i
		}
	}
	return &m.Devices[best]
}
