package cut

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// cores is a Knowledge of CPU devices that do 10⁹ operations a second and answer after a time.
func cores(n int, reply time.Duration) *Knowledge {
	m := &machine.Machine{HostBPS: 1e12}
	for i := range n {
		d := machine.Device{Name: "cpu:" + strconv.Itoa(i), Kind: machine.CPU, Backend: "cpu", HostMemory: true, ComputeUnits: 1}
		d.Rates.Ops[graph.FP32], d.Rates.MemoryBPS, d.Rates.ReplyNS = 1e9, 1e12, float64(reply)
		m.Devices = append(m.Devices, d)
	}
	v := &Knowledge{Machine: m, Devices: make([]engine.DeviceStatus, n)}
	for i := range v.Devices {
		v.Devices[i].State = engine.Healthy
	}
	return v.Rates()
}

// work is a task with a number of operations.
func work(ops float64) graph.Task {
	k := &graph.Kernel{Name: "k", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "k"}}}
	return graph.Task{Steps: []graph.Step{{Kernel: k}}, Work: graph.Work{Ops: ops}}
}

// A device this runtime has just used fully is as good as one it has not; one
// that others use, or another run, is not, and yet gets something.
func TestSplitDynamic(t *testing.T) {
	for _, c := range []struct {
		name  string
		first engine.DeviceStatus
		want  int64 // of 1000
	}{
		{"idle", engine.DeviceStatus{}, 500},
		{"used by what we ended", engine.DeviceStatus{Util: 1}, 500},
		{"used by others", engine.DeviceStatus{Util: 0.75, Others: 0.75}, 200},
		{"used by another run", engine.DeviceStatus{Util: 0.75, Queued: 3}, 200},
		{"fully used by others", engine.DeviceStatus{Util: 1, Others: 1}, 48},
		{"lost", engine.DeviceStatus{State: engine.Lost}, 0},
	} {
		v := cores(2, 0)
		v.Partitioner = sched.Dynamic
		if c.first.State != engine.Lost {
			c.first.State = engine.Healthy
		}
		v.Devices[0] = c.first
		got, err := v.Split(sched.Items{Extent: 1000}, work(1e6))
		if err != nil || got.Ranges[0].Len() != c.want {
			t.Errorf("%s: %v, %v; want %d of 1000", c.name, got.Ranges, err, c.want)
		}
	}
}

// A plan whose graph turns out to be faster on one device is cut for that one, and its
// ranges, graph and prediction are those of the last cut.
func TestPlanForOne(t *testing.T) {
	v := cores(2, time.Microsecond)
	built := 0
	w := Divisible{Items: sched.Items{Extent: 1000}, Whole: work(100e6), Graph: func(ranges []sched.Range) (*graph.Graph, error) {
		built++
		var b graph.Builder
		x := b.Data(graph.Data{Name: "x", Bytes: 8, Input: true})
		for range ranges { // each task needs the one before: several devices gain nothing
			task := work(100e6 / float64(len(ranges)))
			task.Uses = []graph.Use{{Data: x, Access: graph.ReadWrite}}
			b.Add(task)
		}
		return b.Build()
	}}
	split, err := v.Split(w.Items, w.Whole)
	if err != nil || split.Ranges[0].Len() != 500 {
		t.Fatalf("split %v, %v: the test needs a split that is not worth it", split.Ranges, err)
	}
	p, err := v.Plan(w)
	if err != nil {
		t.Fatal(err)
	}
	if built != 2 || !p.Partition.Choice.One() || p.Graph.NumTasks() != len(p.Ranges) || len(p.Ranges) != 1 {
		t.Errorf("built %d times, %d ranges, %d tasks: %s", built, len(p.Ranges), p.Graph.NumTasks(), p.Partition.Why)
	}
	if p.Partition.Completion != p.Prediction.Median {
		t.Errorf("the partition says %v, the prediction %v", p.Partition.Completion, p.Prediction.Median)
	}
	w.Graph = nil
	if p, err = v.Plan(w); err != nil || p.Graph != nil || p.Prediction != nil || len(p.Ranges) < 2 {
		t.Errorf("without a graph: %+v, %v", p, err)
	}
}

// A plan that is not wanted any more ends at the next look: before another graph is built, or in the
// simulation of one.
func TestPlanStops(t *testing.T) {
	for most := range 4 {
		v, built, asked := cores(2, time.Microsecond), 0, 0
		v.Stop = func() bool { asked++; return asked > most }
		w := Divisible{Items: sched.Items{Extent: 1000}, Whole: work(100e6), Graph: func(ranges []sched.Range) (*graph.Graph, error) {
			built++
			var b graph.Builder
			for range 2000 {
				b.Add(work(1e6))
			}
			return b.Build()
		}}
		if p, err := v.Plan(w); !errors.Is(err, ErrStopped) || p != nil || built > most || asked > most+2 {
			t.Errorf("not wanted after %d looks: %v, %v, %d graphs, %d looks", most, p, err, built, asked)
		}
	}
}
