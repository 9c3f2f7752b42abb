package machine

import (
	"math"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
)

// task makes a task that runs a kernel a number of times.
func task(name string, steps int, w graph.Work) *graph.Task {
	k := &graph.Kernel{Name: name}
	t := &graph.Task{Work: w}
	for range steps {
		t.Steps = append(t.Steps, graph.Step{Kernel: k})
	}
	return t
}

func TestRooflineTask(t *testing.T) {
	m := &Machine{Devices: []Device{
		{Name: "a", Rates: Rates{Ops: [5]float64{graph.FP32: 1e12, graph.TF32: 8e12}, MemoryBPS: 1e11, LaunchNS: 5000}},
		{Name: "b", Rates: Rates{Ops: [5]float64{1e12, 3e11, 2e12, 4e12, 5e11}, MemoryBPS: 1e11}},
		{Name: "unmeasured"},
	}}
	c := NewRoofline(m)
	for _, x := range []struct {
		name  string
		steps int
		w     graph.Work
		on    DeviceID
		want  time.Duration
		bound Bound
	}{
		{"nothing still pays a launch", 1, graph.Work{}, 0, 5 * time.Microsecond, ByLaunch},
		{"a launch for each step", 4, graph.Work{}, 0, 20 * time.Microsecond, ByLaunch},
		{"compute", 1, graph.Work{Ops: 1e9, Bytes: 1e6}, 0, 1005 * time.Microsecond, ByCompute},
		{"memory", 1, graph.Work{Ops: 1e6, Bytes: 1e9}, 0, 10005 * time.Microsecond, ByMemory},
		{"launch longer than work", 1, graph.Work{Ops: 1e6}, 0, 6 * time.Microsecond, ByLaunch},
		{"tf32 measured", 1, graph.Work{Ops: 8e9, Unit: graph.TF32}, 0, 1005 * time.Microsecond, ByCompute},
		{"fp16 from fp32", 1, graph.Work{Ops: 1e9, Unit: graph.FP16}, 0, 1005 * time.Microsecond, ByCompute},
		{"fp64 from half of fp32", 1, graph.Work{Ops: 1e9, Unit: graph.FP64}, 0, 2005 * time.Microsecond, ByCompute},
		{"int32 from fp32", 1, graph.Work{Ops: 1e9, Unit: graph.Int32}, 0, 1005 * time.Microsecond, ByCompute},
		{"fp64 measured", 1, graph.Work{Ops: 3e8, Unit: graph.FP64}, 1, time.Millisecond, ByCompute},
		{"tf32 of b", 1, graph.Work{Ops: 2e9, Unit: graph.TF32}, 1, time.Millisecond, ByCompute},
		{"fp16 of b", 1, graph.Work{Ops: 4e9, Unit: graph.FP16}, 1, time.Millisecond, ByCompute},
		{"int32 of b", 1, graph.Work{Ops: 5e8, Unit: graph.Int32}, 1, time.Millisecond, ByCompute},
		{"unmeasured is slow", 1, graph.Work{Ops: 1e9}, 2, time.Second, ByCompute},
		{"too long to say", 1, graph.Work{Ops: 1e300}, 2, math.MaxInt64, ByCompute},
	} {
		got := c.Task(task("k", x.steps, x.w), x.on)
		if got.Median != x.want || got.Bound != x.bound || got.Samples != 0 {
			t.Errorf("%s: %+v, want %v by %v", x.name, got, x.want, x.bound)
		}
		if got.Low > got.Median || got.High < got.Median {
			t.Errorf("%s: interval %v to %v is not about %v", x.name, got.Low, got.High, got.Median)
		}
	}
	if c.Epoch() != 0 {
		t.Errorf("epoch %d", c.Epoch())
	}
}

func TestRooflineCopy(t *testing.T) {
	for _, x := range []struct {
		machine  string
		bytes    int64
		from, to DeviceID
		want     time.Duration
	}{
		{"3x5070", 25e6, Host, 0, 1010 * time.Microsecond},
		{"3x5070", 25e6, 0, 1, 1008 * time.Microsecond},
		{"3x5070", 0, 0, 1, 8 * time.Microsecond},
		{"4x5070-ring", 12e6, 0, 2, 2020 * time.Microsecond}, // through the host
		{"3x5070", 1e9, 1, 1, 0},
		{"3x5070", 40e6, Host, Host, time.Millisecond}, // within host memory
		{"2xcpu", 1e9, 0, 1, 0},                        // one memory
		{"2xcpu", 1e9, 0, Host, 0},
		{"2xcpu", 20e6, Host, Host, time.Millisecond},
	} {
		got := NewRoofline(named(t, x.machine)).Copy(x.bytes, x.from, x.to)
		if got.Median != x.want {
			t.Errorf("%s: %d bytes %d→%d take %v, want %v", x.machine, x.bytes, x.from, x.to, got.Median, x.want)
		}
	}
	cut := named(t, "mixed").WithoutLink(0, Host)
	if got := NewRoofline(cut).Copy(1, Host, 0); got.Median >= 0 {
		t.Errorf("a copy without a path takes %v, want a negative time", got.Median)
	}
}
