package sim

import (
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// A run stays on the devices it was cut for, although another would help; it goes elsewhere
// when they take no work.
func TestRather(t *testing.T) {
	m, _ := machine.Named("h200")
	k := &graph.Kernel{Name: "k", Impls: []graph.Impl{{Dialect: graph.Abstract}}}
	var b graph.Builder
	for range 16 { // 1 ms each on the GPU, 31 ms on the CPU
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: k}}, Work: graph.Work{Ops: 60.4e9}})
	}
	for range 64 { // about as long on either
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: k}}, Work: graph.Work{Ops: 1e6}})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	var o graph.Builder // after which the CPU has nothing to do, and may take what others have
	o.Add(graph.Task{Steps: []graph.Step{{Kernel: k}}, Work: graph.Work{Ops: 1e9}, On: graph.Constraint{Only: []string{"cpu"}}})
	other, err := o.Build()
	if err != nil {
		t.Fatal(err)
	}
	gpu := []machine.DeviceID{0}
	for _, c := range []struct {
		name     string
		rather   []machine.DeviceID
		faults   Faults
		gpu, cpu bool
	}{
		{"any device", nil, nil, true, true},
		{"the GPU", gpu, nil, true, false},
		{"the CPU", []machine.DeviceID{1}, nil, false, true},
		{"both", []machine.DeviceID{0, 1}, nil, true, true},
		{"the GPU, which is lost", gpu, Faults{{At: 5 * time.Millisecond, Kind: Lose, Device: 0}}, true, true},
		{"the GPU, which is drained", gpu, Faults{{Kind: Drain, Device: 0}}, false, true},
	} {
		for _, policy := range sched.Names() {
			res, err := Run(Config{Machine: m, Policy: policy, Jobs: []Job{{Graph: g, Rather: c.rather}, {Graph: other}}, Faults: c.faults})
			if err == nil {
				err = res.Runs[0].Err
			}
			if err != nil {
				t.Fatalf("%s, %s: %v", c.name, policy, err)
			}
			d := res.Runs[0].Report.Devices
			if c.rather == nil && policy != "finish" {
				continue // they decide otherwise
			}
			if (d[0].Tasks > 0) != c.gpu || (d[1].Tasks > 0) != c.cpu {
				t.Errorf("%s, %s: %d tasks on the GPU and %d on the CPU", c.name, policy, d[0].Tasks, d[1].Tasks)
			}
		}
	}
}
