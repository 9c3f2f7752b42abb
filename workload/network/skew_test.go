package network_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/sim"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/network"
)

// cores is a machine of n devices of one core each, which share nothing.
func cores(n int) *machine.Machine {
	m := &machine.Machine{Name: "cores", HostBPS: 1e10}
	for i := range n {
		d := machine.Device{Name: fmt.Sprintf("cpu:%d", i), Kind: machine.CPU, Backend: "cpu", HostMemory: true, ComputeUnits: 1, Lanes: 1}
		for u := range d.Rates.Ops {
			d.Rates.Ops[u] = 1e10
		}
		d.Rates.MemoryBPS, d.Rates.LaunchNS = 2e9, 1000 // what a core gathers at random places
		m.Devices = append(m.Devices, d)
	}
	return m
}

// ranges are n ranges of blocks: with about equal cost, or with about equal numbers of rows.
func ranges(t testing.TB, j workload.Job, n int, equalRows bool) []sched.Range {
	t.Helper()
	items := j.Items()
	var shares []sched.Share
	for i := range n {
		shares = append(shares, sched.Share{Device: machine.DeviceID(i), Rate: 1, FreeBytes: 1 << 40})
	}
	if equalRows {
		all := float64(network.Rows(j, items.Extent))
		items.Cost = func(lo, hi int64) float64 { return float64(network.Rows(j, hi)-network.Rows(j, lo)) / all }
	}
	p, err := sched.Latency(items, shares)
	if err != nil {
		t.Fatal(err)
	}
	return p.Ranges
}

// Blocks with equal numbers of edges keep eight devices busy for more than 90 % of the time. With equal
// numbers of rows, most devices wait for the first, which has the most edges.
func TestSkew(t *testing.T) {
	for _, c := range []network.Config{
		{Problem: network.PageRank, Nodes: 1 << 13, Steps: 4, Seed: 1},
		{Problem: network.Layers, Nodes: 1 << 13, Features: 16, Seed: 1},
	} {
		j := workloadtest.New[workload.Job](t)(network.New(c))
		simulate := func(n int, equalRows bool) time.Duration {
			g, err := j.Graph(ranges(t, j, n, equalRows))
			if err != nil {
				t.Fatal(err)
			}
			res, err := sim.Run(sim.Config{Machine: cores(n), Jobs: []sim.Job{{Graph: g}}, Seed: 3})
			if err != nil {
				t.Fatal(err)
			}
			return res.Runs[0].Report.Elapsed()
		}
		one := float64(simulate(1, false))
		edges, rows := one/float64(8*simulate(8, false)), one/float64(8*simulate(8, true))
		t.Logf("%s on eight devices: %.1f %% with equal edges, %.1f %% with equal rows", j.Name(), 100*edges, 100*rows)
		if edges < 0.9 || rows > 0.6 {
			t.Errorf("%s: efficiency %.3f with equal edges and %.3f with equal rows, want at least 0.9 and at most 0.6", j.Name(), edges, rows)
		}
	}
}
