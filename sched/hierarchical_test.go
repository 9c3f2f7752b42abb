package sched

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weft-run/weft/machine"
)

// Every pair of strategies places every task that can be placed, once, where it may go.
func TestHierarchicalAllowed(t *testing.T) {
	for _, between := range strategies {
		for _, within := range strategies {
			make, err := Hierarchical(between, within)
			if err != nil {
				t.Fatal(err)
			}
			rapid.Check(t, func(t *rapid.T) {
				seed := rapid.Uint64().Draw(t, "seed")
				r := rand.New(rand.NewPCG(seed, 1))
				n := 1 + r.IntN(12)
				p := make(Problem{Machine: switches(n), Cost: uniform(), Seed: seed})
				v := randomView(r, n, 1+r.IntN(40))
				for range 3 {
					before := v.clone()
					checkRound(t, before, v, p.Place(v, nil))
				}
			})
		}
	}
}

// switches is a machine of n devices on switches of three.
func switches(n int) *machine.Machine {
	m := bare(n)
	m.Links = nil
	for i := range n {
		for k := i + 1; k < n && k/3 == i/3; k++ {
			m.Links = append(m.Links, machine.Link{A: machine.DeviceID(i), B: machine.DeviceID(k), Kind: machine.PCIeSwitch, BPS: 1e9})
		}
	}
	return m
}

// Each strategy takes the device that its rule says, between two groups of three devices and
// within one.
func TestHierarchicalStrategies(t *testing.T) {
	m := switches(6)
	if g := m.Groups(); len(g) != 2 {
		t.Fatalf("groups: %v", g)
	}
	for _, c := range []struct {
		between, within string
		want            []machine.DeviceID // of tasks one after another
	}{
		{"roundrobin", "roundrobin", []machine.DeviceID{0, 3, 1, 4, 2, 5, 0, 3}},
		{"roundrobin", "finish", []machine.DeviceID{0, 3, 1, 4, 2, 5}},
		{"leastloaded", "leastloaded", []machine.DeviceID{3, 4, 5, 3}}, // the first group has four queued
		{"capacity", "capacity", []machine.DeviceID{5, 5}},             // the others are in use by half
		{"finish", "roundrobin", []machine.DeviceID{0, 3, 1, 4, 2, 5}},
	} {
		make, err := Hierarchical(c.between, c.within)
		if err != nil {
			t.Fatal(err)
		}
		v := &Situation{Classes: 1, Devices: []Device{}}
		for i := range 6 {
			d := Device{Accepts: true, Slow: 1, Score: 10, CapBytes: 1 << 40, FreeBytes: 1 << 40}
			if c.between == "leastloaded" && i == 0 {
				d.Queued = 4
			}
			if c.between == "capacity" && i < 5 {
				d.Util = 0.5
			}
			if c.between == "capacity" && i == 5 {
				d.Score = 100
			}
			v.Devices = append(v.Devices, d)
		}
		for range c.want {
			v.Tasks = append(v.Tasks, Ready{Cost: []time.Duration{time.Millisecond}})
		}
		for i, p := range make(Problem{Machine: m, Cost: uniform()}).Place(v, nil) {
			if p.Device != c.want[i] {
				t.Errorf("%s, then %s: task %d went to device %d, want %d", c.between, c.within, i, p.Device, c.want[i])
			}
		}
	}
	for _, bad := range [][2]string{{"best", ""}, {"", "steal"}} {
		if _, err := Hierarchical(bad[0], bad[1]); !errors.Is(err, ErrUnknown) {
			t.Errorf("strategies %q: %v", bad, err)
		}
	}
}
