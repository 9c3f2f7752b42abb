package cut

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weft-run/weft/experimental/sim"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/trace"
)

// shipped is a Knowledge of devices of a shipped machine, whose link has a rate.
func shipped(t testing.TB, name string, link float64, devices int) *Knowledge {
	m, ok := machine.Named(name)
	if !ok {
		t.Fatal("no machine ", name)
	}
	m.Devices = m.Devices[:devices]
	for i := range m.Links {
		m.Links[i].BPS = link
	}
	v := &Knowledge{Machine: m, Devices: make([]engine.DeviceStatus, devices)}
	for i := range v.Devices {
		v.Devices[i].State = engine.Healthy
	}
	return v.Rates()
}

// matmul is the product of two square matrices in host memory, cut by rows.
func matmul(n int64, streamed bool) Divisible {
	task := func(rows int64) graph.Task {
		return graph.Task{
			Steps: []graph.Step{{Kernel: anyKernel}},
			Work:  graph.Work{Ops: 2 * float64(rows*n*n), Bytes: 4 * float64(2*rows*n+n*n)},
		}
	}
	return Divisible{
		Whole: task(n),
		Items: sched.Items{
			Extent: n, Streamed: streamed, Grain: 240,
			Cost: func(lo, hi int64) float64 { return 2 * float64(n*n) * float64(hi-lo) },
			Bytes: func(lo, hi int64) (in, out int64) {
				if hi == lo {
					return 0, 0
				}
				return 4 * n * (hi - lo + n), 4 * n * (hi - lo)
			},
		},
		Graph: func(ranges []sched.Range) (*graph.Graph, error) {
			var b graph.Builder
			x := b.Data(graph.Data{Name: "A", Bytes: 4 * n * n, Input: true})
			y := b.Data(graph.Data{Name: "B", Bytes: 4 * n * n, Input: true})
			z := b.Data(graph.Data{Name: "C", Bytes: 4 * n * n, Output: true})
			for _, r := range ranges {
				t := task(r.Len())
				t.Uses = []graph.Use{
					{Data: x, Offset: 4 * n * r.Lo, Bytes: 4 * n * r.Len(), Access: graph.Read},
					{Data: y, Access: graph.Read},
					{Data: z, Offset: 4 * n * r.Lo, Bytes: 4 * n * r.Len(), Access: graph.Write},
				}
				b.Add(t)
			}
			return b.Build()
		},
	}
}

// A product of matrices in host memory is cut so that copies overlap computing: a GPU that
// computes it in 5.5 ms, with copies of 8 ms, is done in little more than copying B and
// computing take. The simulated run shows each copy beside a computation.
func TestProductOverlaps(t *testing.T) {
	v := shipped(t, "h200", 25e9, 1)
	v.Machine.Devices[0].Rates.Ops[graph.FP32] = 25e12
	v = v.Rates()
	whole, err := v.Plan(matmul(4096, false))
	if err != nil {
		t.Fatal(err)
	}
	p, err := v.Plan(matmul(4096, true))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("as one task %v, as %d %v: %v", whole.Prediction.Median, len(p.Ranges), p.Prediction.Median, p.Ranges)
	if len(whole.Ranges) != 1 || whole.Prediction.Median < 13*time.Millisecond {
		t.Errorf("without overlap: %d tasks, %v", len(whole.Ranges), whole.Prediction.Median)
	}
	if p.Prediction.Median > 9500*time.Microsecond || len(p.Ranges) < 4 {
		t.Errorf("%d tasks, predicted %v, want at most 9.5 ms", len(p.Ranges), p.Prediction.Median)
	}
	rec := trace.NewRecorder(1 << 12)
	res, err := sim.Run(sim.Config{Machine: v.Machine, Jobs: []sim.Job{{Graph: p.Graph}}, Trace: rec})
	if err != nil || res.Runs[0].Err != nil {
		t.Fatal(err, res.Runs[0].Err)
	}
	if took := res.Runs[0].Report.Ended - res.Runs[0].Report.Started; took > 9500*time.Microsecond {
		t.Errorf("it takes %v, want at most 9.5 ms", took)
	}
	beside, copies := 0, 0
	for _, c := range rec.Events() {
		for _, x := range rec.Events() {
			if c.Kind == trace.Copy && x.Kind == trace.Exec && x.Start < c.End && c.Start < x.End {
				beside++
				break
			}
		}
		if c.Kind == trace.Copy {
			copies++
		}
	}
	// All but those of the first task's inputs and the last one's result.
	if copies != 2*len(p.Ranges)+1 || beside < copies-3 {
		t.Errorf("%d of %d copies beside a computation", beside, copies)
	}
}

// Where there is nothing to overlap, one task is best: little data, or much to compute.
func TestOverlapNeeded(t *testing.T) {
	v := shipped(t, "h200", 25e9, 1)
	for _, c := range []struct {
		name  string
		n     int64
		flops float64
		most  int
	}{{"small", 64, 25e12, 1}, {"slow", 1024, 1e9, 1}, {"large", 4096, 25e12, 33}} {
		v.Machine.Devices[0].Rates.Ops[graph.FP32] = c.flops
		w := matmul(c.n, true)
		got := v.Rates().Tasks(w, sched.Partition{Ranges: []sched.Range{{Hi: c.n}}})
		if len(got) > c.most || c.most > 1 && len(got) < 4 {
			t.Errorf("%s: %d tasks", c.name, len(got))
		}
	}
	// What does not fit into memory as one task is cut, however little it gains.
	v.Machine.Devices[0].Rates.Ops[graph.FP32] = 1e9
	v.Machine.Devices[0].MemBytes = 4 * 1024 * 1024 * 2
	got := v.Rates().Tasks(matmul(1024, true), sched.Partition{Ranges: []sched.Range{{Hi: 1024}}})
	if len(got) < 2 {
		t.Errorf("%d tasks of a product that is larger than the memory", len(got))
	}
}

// Whatever a range is parted into, tasks cover it, lie on boundaries and have the least
// number of items.
func TestParted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 5000).Draw(t, "n")
		p := sched.Items{Extent: n, Align: rapid.Int64Range(0, 70).Draw(t, "align")}
		if rapid.Bool().Draw(t, "uneven") {
			p.Cost = func(lo, hi int64) float64 { return float64(hi*hi - lo*lo) }
		}
		align, grain := max(p.Align, 1), rapid.Int64Range(1, 100).Draw(t, "grain")
		each := 1 / rapid.SampledFrom([]float64{1, 2, 4, 8, 16, 32}).Draw(t, "tasks")
		r := sched.Range{Lo: rapid.Int64Range(0, n).Draw(t, "lo") / align * align, Hi: n}
		at := r.Lo
		tasks := parted(p, r, each, each/rapid.SampledFrom([]float64{1, 2}).Draw(t, "ends"), grain)
		for i, x := range tasks {
			if x.Lo != at || x.Hi <= x.Lo || x.Hi%align != 0 && x.Hi != n || x.Len() < min(grain, r.Len()) {
				t.Fatalf("task %d of %v is %v", i, tasks, x)
			}
			at = x.Hi
		}
		if at != r.Hi {
			t.Fatalf("%v end before %d", tasks, r.Hi)
		}
	})
}

// uneconomic is a GPU whose kernels lose the more the fewer rows they have.
type uneconomic struct {
	machine.Cost
	loss float64 // of a kernel of 512 rows of 4096, as a part of its time
}

// Task is what a task really takes.
func (u uneconomic) Task(t *graph.Task, on machine.DeviceID) machine.Estimate {
	e := u.Cost.Task(t, on)
	e.Median = stretch(e.Median, 1+u.loss*(2*512*4096*4096)/t.Work.Ops)
	return e
}

// What a kernel loses on few rows is not known before it ran. After some runs the cut is
// about as good as the best there is.
func TestOverlapLearns(t *testing.T) {
	for _, loss := range []float64{0, 0.05, 0.2, 0.5, 2} {
		v := shipped(t, "h200", 25e9, 1)
		v.Machine.Devices[0].Rates.Ops[graph.FP32] = 25e12
		v = v.Rates()
		truth := uneconomic{machine.NewRoofline(v.Machine), loss}
		w := matmul(4096, true)
		takes := func(g *graph.Graph, learn bool) time.Duration {
			rec := trace.NewRecorder(1 << 12)
			res, err := sim.Run(sim.Config{Machine: v.Machine, Cost: present{v}, Truth: truth, Trace: rec, Jobs: []sim.Job{{Graph: g}}, Unchecked: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range rec.Events() {
				if learn && e.Kind == trace.Exec {
					v.Cost.Observe(g.Task(e.Task), e.Device, e.End-e.Start)
				}
			}
			return res.Runs[0].Report.Ended - res.Runs[0].Report.Started
		}
		best := time.Hour
		whole := sched.Range{Hi: 4096}
		for _, n := range []float64{1, 2, 4, 8, 16} {
			for _, ends := range []float64{1, 2} {
				g, err := w.Graph(parted(w.Items, whole, 1/n, 1/n/ends, w.Items.Grain))
				if err != nil {
					t.Fatal(err)
				}
				best = min(best, takes(g, false))
			}
		}
		var took time.Duration
		var tasks []int
		for range 15 {
			p, err := v.Plan(w)
			if err != nil {
				t.Fatal(err)
			}
			took = takes(p.Graph, true)
			tasks = append(tasks, len(p.Ranges))
		}
		t.Logf("loss %.2f: best %v, after 15 runs %v; numbers of tasks %v", loss, best, took, tasks)
		if float64(took) > 1.05*float64(best) {
			t.Errorf("a loss of %.2f: %v after 15 runs, want about %v", loss, took, best)
		}
	}
}
