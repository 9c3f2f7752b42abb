package cut

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/sim"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// staging is a GPU to which data is copied by way of page-locked memory. It is what it really
// takes: kernels lose what waits for their last blocks, copies have a rate each way, and those
// home take several times longer where they touch the memory for the first time.
type staging struct {
	machine.Cost
	kernel    time.Duration // of all rows
	lost      time.Duration // by each kernel
	in, out   float64       // bytes per second
	fresh     float64       // how many times longer copies take to memory that was not touched before
	untouched bool
}

// Task is what a kernel takes.
func (s staging) Task(t *graph.Task, _ machine.DeviceID) machine.Estimate {
	const whole = 2 * 4096 * 4096 * 4096
	return machine.Estimate{Median: s.lost + stretch(s.kernel, t.Work.Ops/whole)}
}

// Copy is what a copy takes.
func (s staging) Copy(bytes int64, from, _ machine.DeviceID) machine.Estimate {
	if from == machine.Host {
		return machine.Estimate{Median: time.Duration(float64(bytes) / s.in * 1e9)}
	}
	d := time.Duration(float64(bytes) / s.out * 1e9)
	if s.untouched {
		d = stretch(d, s.fresh)
	}
	return machine.Estimate{Median: d}
}

// h200 is the max-plus product of 4096 × 4096 matrices of plain memory as it was measured:
// kernels of all, half, a quarter and an eighth of the rows take 5.45, 2.78, 1.42 and 0.76 ms,
// 32 MiB of A 0.83 ms, B 1.5 ms, 32 MiB of C 0.86 ms and, when its pages are made,
// 4 to 5 ms.
var h200 = staging{kernel: 5360 * time.Microsecond, lost: 88 * time.Microsecond, in: 43e9, out: 39e9, fresh: 5}

// run simulates a graph as it really goes and returns what it takes. With learn, v learns from
// it as from a real run.
func (s staging) run(t testing.TB, v *Knowledge, g *graph.Graph, learn bool) time.Duration {
	s.Cost = machine.NewRoofline(v.Machine)
	c := sim.Config{Machine: v.Machine, Cost: present{v}, Truth: s, Jobs: []sim.Job{{Graph: g}}, Unchecked: true}
	if learn {
		c.Cost = v.Cost
	}
	res, err := sim.Run(c)
	if err != nil || res.Runs[0].Err != nil {
		t.Fatal(err, res.Runs[0].Err)
	}
	return res.Runs[0].Report.Ended - res.Runs[0].Report.Started
}

// best is the least that any number of tasks takes.
func (s staging) best(t testing.TB, v *Knowledge, w Divisible) time.Duration {
	best := time.Hour
	for _, n := range []float64{1, 2, 4, 8, 16, 32} {
		for _, ends := range []float64{1, 2} {
			g, err := w.Graph(parted(w.Items, sched.Range{Hi: w.Items.Extent}, 1/n, 1/n/ends, w.Items.Grain))
			if err != nil {
				t.Fatal(err)
			}
			best = min(best, s.run(t, v, g, false))
		}
	}
	return best
}

// The cut of the product that was measured: in two tasks it takes 8.75 ms, in four 8 ms, in
// eight 8.1 ms and in five, of which the first and last are half as large, 7.7 ms.
func TestCutOfMeasuredProduct(t *testing.T) {
	v := shipped(t, "h200", 50e9, 1)
	w := matmul(4096, true)
	for range 5 {
		for _, n := range []float64{1, 2, 4, 8} {
			g, err := w.Graph(parted(w.Items, sched.Range{Hi: 4096}, 1/n, 1/n, w.Items.Grain))
			if err != nil {
				t.Fatal(err)
			}
			h200.run(t, v, g, true)
		}
	}
	p, err := v.Plan(w)
	if err != nil {
		t.Fatal(err)
	}
	took, best := h200.run(t, v, p.Graph, false), h200.best(t, v, w)
	t.Logf("%d tasks: %v, best %v: %v", len(p.Ranges), took, best, p.Ranges)
	if n := len(p.Ranges); n < 4 || n > 5 || took > 8050*time.Microsecond || float64(took) > 1.01*float64(best) {
		t.Errorf("%d tasks, which take %v; four take 8 ms, the best %v", n, took, best)
	}
}

// lives runs work in several processes, some times in each of them, and returns what the
// last run of the last took and how many tasks every run had. The results of the first run in
// a process are copied to memory that nothing has touched yet.
func (s staging) lives(t testing.TB, v *Knowledge, w Divisible, processes, runs int) (took time.Duration, tasks []int) {
	for range processes {
		for i := range runs {
			p, err := v.Plan(w)
			if err != nil {
				t.Fatal(err)
			}
			s.untouched = i == 0
			took = s.run(t, v, p.Graph, true)
			tasks = append(tasks, len(p.Ranges))
		}
		again := *v
		again.Cost = machine.NewHistory(machine.NewRoofline(v.Machine), v.Machine)
		if err := again.Cost.Load(v.Cost.Save()); err != nil {
			t.Fatal(err)
		}
		*v = again
	}
	return took, tasks
}

// Copies to memory that is touched for the first time take many times longer than the next
// ones. They do not keep the work from being cut into tasks of their size.
func TestCutAfterFreshMemory(t *testing.T) {
	v := shipped(t, "h200", 50e9, 1)
	w := matmul(4096, true)
	// A process before was cut for other sizes: only the copies that touched fresh memory had
	// those that are best.
	for i := range 3 {
		for _, untouched := range []bool{true, false, false, false, false, false, false} {
			ranges := []sched.Range{{Hi: 2048}, {Lo: 2048, Hi: 4096}}
			if untouched {
				ranges = []sched.Range{{Hi: 1024}, {Lo: 1024, Hi: 3072}, {Lo: 3072, Hi: 4096}}
			}
			g, err := w.Graph(ranges)
			if err != nil {
				t.Fatal(i, err)
			}
			s := h200
			s.untouched = untouched
			s.run(t, v, g, true)
		}
	}
	took, tasks := h200.lives(t, v, w, 3, 8)
	best := h200.best(t, v, w)
	t.Logf("%v, best %v; numbers of tasks %v", took, best, tasks)
	if float64(took) > 1.02*float64(best) {
		t.Errorf("%v in the end, want about %v; numbers of tasks %v", took, best, tasks)
	}
}

// Whatever a GPU and its link are like, after some runs no other number of tasks is done much
// sooner.
func TestCutIsAboutBest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	between := func(lo, hi float64) float64 { return lo + (hi-lo)*r.Float64() }
	for range 12 {
		s := staging{
			kernel: stretch(time.Millisecond, math.Exp(between(-0.7, 4))),
			in:     between(10e9, 60e9), out: between(10e9, 60e9), fresh: between(1, 6),
		}
		s.lost = stretch(s.kernel, between(0, 0.06))
		v := shipped(t, "h200", 25e9, 1)
		w := matmul(4096, true)
		took, tasks := s.lives(t, v, w, 3, 8)
		best := s.best(t, v, w)
		t.Logf("%v in the end, the best is %v; numbers of tasks %v", took, best, tasks)
		if float64(took) > 1.05*float64(best) {
			t.Errorf("%+v: %v in the end, the best is %v; numbers of tasks %v", s, took, best, tasks)
		}
	}
}
