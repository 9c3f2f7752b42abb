package sim

import (
	"math"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// crowd has four cores and, on the same cores, a driver that makes a quarter as
// much of them.
func crowd() *machine.Machine {
	m := &machine.Machine{
		Resources: []machine.Resource{{Name: machine.HostCores, Cores: 4}},
		Devices: []machine.Device{
			{Name: "cpu:0", Backend: "cpu", HostMemory: true},
			{Name: "vulkan:0", Backend: "vulkan", MemBytes: 1 << 30},
		},
		Links:   []machine.Link{{A: machine.Host, B: 1, Kind: machine.HostLink, BPS: 1e10}},
		HostBPS: 1e10,
	}
	for i, rate := range []float64{4e9, 1e9} {
		d := &m.Devices[i]
		d.ComputeUnits, d.Resources = 4, []string{machine.HostCores}
		d.Rates.Ops[graph.FP32], d.Rates.MemoryBPS = rate, 1e12
	}
	return m
}

// equalTasks is n tasks of a gigaop each.
func equalTasks(t *testing.T, n int) *graph.Graph {
	t.Helper()
	var b graph.Builder
	for range n {
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: kernel}}, Work: graph.Work{Ops: 1e9}})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Work that may go anywhere goes to the device that makes most of the cores, since
// whatever another computes on them is taken from it.
func TestCrowdIsLeftAlone(t *testing.T) {
	res, err := Run(Config{Machine: crowd(), Jobs: []Job{{Graph: equalTasks(t, 16)}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Makespan.Seconds(); math.Abs(got-4) > 0.01 {
		t.Errorf("16 tasks of 250 ms took %v s, want 4", got)
	}
}

// The time learned of a task is that which it takes alone, whichever devices compute
// beside it, and the prediction for devices side by side is what happens.
func TestCrowdLearnsTimesAlone(t *testing.T) {
	m := crowd()
	truth := machine.NewRoofline(m)
	cost := machine.NewHistory(truth, m)
	g := equalTasks(t, 16)
	res, err := Run(Config{Machine: m, Policy: "roundrobin", Cost: cost, Truth: truth, Jobs: []Job{{Graph: g}, {Graph: g, At: 1e11}}})
	if err != nil {
		t.Fatal(err)
	}
	for d, want := range []float64{0.25, 1} {
		e := cost.Task(g.Task(0), machine.DeviceID(d))
		if e.Bound != machine.ByHistory || math.Abs(e.Median.Seconds()/want-1) > 0.02 {
			t.Errorf("a task on %s is predicted to take %v by %v, want %v s by history", m.Devices[d].Name, e.Median, e.Bound, want)
		}
	}
	// Eight tasks of 0.25 s at half speed beside eight of 1 s: 4 s in which the
	// driver gets 2 s done, and the other 6 s alone.
	for _, r := range res.Runs {
		if got := (r.Report.Ended - r.Report.Started).Seconds(); math.Abs(got-10) > 0.05 {
			t.Errorf("a run took %v s, want 10", got)
		}
	}
}
