package sim

import (
	"slices"
	"testing"

	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// Each change is simulated, and those that save nothing are left out.
func TestWhatIf(t *testing.T) {
	m, _ := machine.Named("mixed")
	s, err := ParseScenario([]byte("independent n=300 ops=1e9 bytes=64KiB\nat 1ms lose cuda:1\n"), m)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Jobs()
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Machine: m, Jobs: jobs, Faults: s.Faults}
	r, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	fixes, err := WhatIf(c, r.Makespan)
	if err != nil {
		t.Fatal(err)
	}
	without := c
	without.Faults = nil
	whole, err := Run(without)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(fixes, func(f trace.Fix) bool { return f.For == trace.Faults })
	if i < 0 || fixes[i].Makespan != whole.Makespan {
		t.Errorf("without faults it takes %v, and the fixes are %+v", whole.Makespan, fixes)
	}
	if !slices.ContainsFunc(fixes, func(f trace.Fix) bool { return f.What == "one more cuda:0" }) {
		t.Errorf("one more GPU saves nothing: %+v", fixes)
	}
	for i, f := range fixes {
		if f.Gain < 0.001 || f.Makespan >= r.Makespan || i > 0 && f.Gain > fixes[i-1].Gain {
			t.Errorf("fix %d is %+v of %v", i, f, r.Makespan)
		}
	}
	if len(m.Devices) != 3 || m.Devices[0].Rates.LaunchNS == 0 {
		t.Error("the machine was changed")
	}
	if fixes, err := WhatIf(c, 0); err != nil || len(fixes) > 0 {
		t.Errorf("of no time at all: %v, %v", fixes, err)
	}
}
