package tropical_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/sim"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/workload/tropical"
)

// cores is a machine of n devices of one core each, which share nothing.
func cores(n int) *machine.Machine {
	m := &machine.Machine{Name: "cores", HostBPS: 1e10}
	for i := range n {
		d := machine.Device{Name: fmt.Sprintf("cpu:%d", i), Kind: machine.CPU, Backend: "cpu", HostMemory: true, ComputeUnits: 1, Lanes: 1}
		for u := range d.Rates.Ops {
			d.Rates.Ops[u] = 1e9
		}
		d.Rates.MemoryBPS, d.Rates.LaunchNS = 1e10, 1000
		m.Devices = append(m.Devices, d)
	}
	return m
}

// Training is cut and scheduled so that two equal devices reach 90 % of twice the speed of
// one and more, also if tasks take up to 20 % longer or shorter than predicted: what is
// below that on real devices, they lose by sharing memory and cores.
func TestTrainingScales(t *testing.T) {
	for _, batch := range []int{1024, 14912} {
		for _, noise := range []float64{0, 0.1, 0.2} {
			var took [3]time.Duration
			for n := 1; n <= 2; n++ {
				j, err := tropical.NewTraining(tropical.Training{Inputs: 64, Hidden: 32, Outputs: 8, Batch: batch, Shards: 8, Steps: 20, Rate: 0.5, Seed: 1})
				if err != nil {
					t.Fatal(err)
				}
				m := cores(n)
				if err := j.Place(m); err != nil {
					t.Fatal(err)
				}
				g, err := j.Graph(nil)
				if err != nil {
					t.Fatal(err)
				}
				res, err := sim.Run(sim.Config{Machine: m, Jobs: []sim.Job{{Graph: g}}, Noise: noise, Seed: 3})
				if err != nil {
					t.Fatal(err)
				}
				took[n] = res.Runs[0].Report.Elapsed()
			}
			efficiency := float64(took[1]) / float64(2*took[2])
			t.Logf("batch of %d, durations ± %.0f %%: %v on one device, %v on two, efficiency %.1f %%", batch, 100*noise, took[1], took[2], 100*efficiency)
			if efficiency < 0.9 {
				t.Errorf("efficiency %.3f, want 0.9", efficiency)
			}
		}
	}
}
