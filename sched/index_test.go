package sched

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// unalike makes devices that nearly all differ, and shapes of tasks with costs for each of their
// classes. Some costs are bound by computing and some by memory, so that they order devices
// differently, and some are equal or zero.
func unalike(r *rand.Rand, devices, shapes int, teams bool) (v *Situation, costs [][]time.Duration) {
	v = randomView(r, devices, 0)
	v.Classes = int32(indexFrom + r.IntN(devices))
	ops, bps := make([]float64, v.Classes), make([]float64, v.Classes)
	for c := range ops {
		ops[c], bps[c] = math.Exp(3*r.Float64()), math.Exp(3*r.Float64())
	}
	for d := range v.Devices {
		v.Devices[d].join(int32(r.IntN(int(v.Classes))), teams)
		if r.IntN(3) == 0 {
			v.Devices[d].FreeAt = v.Now
		}
	}
	even := r.IntN(4) == 0
	for range shapes {
		of, work := r.Float64(), time.Duration(r.IntN(3))*time.Millisecond
		cost := make([]time.Duration, v.Classes)
		for c := range cost {
			switch cost[c] = time.Duration(float64(work) * (of/ops[c] + (1-of)/bps[c])); {
			case even:
				cost[c] = cost[c].Round(100 * time.Microsecond)
			case r.IntN(20) == 0:
				cost[c] = -1
			}
		}
		costs = append(costs, cost)
	}
	return v, costs
}

// join makes a device one of a class, whose devices are equal in where they compute, and if
// there are teams in their lanes.
func (d *Device) join(class int32, teams bool) {
	if d.setClass(class); teams {
		d.Team = class % 3
	}
}

// refill changes the costs of a shape where they are, as the engine does when predictions change.
func refill(r *rand.Rand, cost []time.Duration) {
	r.Shuffle(len(cost)/2, func(a, b int) { cost[a], cost[b] = cost[b], cost[a] })
}

// change changes the state of a device, which the policy is told of.
func (v *Situation) change(r *rand.Rand, teams bool) {
	d := r.IntN(len(v.Devices))
	dev, fresh := &v.Devices[d], randomView(r, 1, 0).Devices[0]
	dev.Accepts, dev.FreeAt, dev.FreeBytes, dev.CapBytes = fresh.Accepts, fresh.FreeAt, fresh.FreeBytes, fresh.CapBytes
	if r.IntN(6) == 0 {
		dev.Slow = []float64{1, fresh.Slow}[r.IntN(2)]
	}
	if r.IntN(20) == 0 {
		dev.join(int32(r.IntN(int(v.Classes))), teams)
	}
	v.Dirty = append(v.Dirty, machine.DeviceID(d))
}

// TestIndexDecidesAsTrial compares what policies decide with the index of classes, and without
// it: where they are not told which costs are the same, they try every class.
func TestIndexDecidesAsTrial(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 5))
		n := indexFrom + r.IntN(200)
		name := []string{"finish", "finish", "priority", "adaptive"}[r.IntN(4)]
		teams := r.IntN(3) == 0
		v, costs := unalike(r, n, 1+r.IntN(2*maxKnown), teams)
		v.crowd(r)
		ids := make([]uint64, len(costs))
		for k := range ids {
			ids[k] = uint64(k + 1)
		}
		cost := uniform()
		with := Policies()[name](Problem{Machine: bare(n), Cost: cost, Seed: 1})
		without := Policies()[name](Problem{Machine: bare(n), Cost: cost, Seed: 1})
		for round := range 30 {
			v.Tasks = v.Tasks[:0]
			for i := range 1 + r.IntN(6) {
				task := randomTask(r, v, i)
				k := r.IntN(len(costs))
				if task.Cost, task.CostID = costs[k], ids[k]; r.IntN(20) == 0 { // another policy changed them
					task.Cost = slices.Clone(task.Cost)
					refill(r, task.Cost)
				}
				v.Tasks = append(v.Tasks, task)
			}
			w := v.clone()
			for i := range w.Tasks {
				w.Tasks[i].CostID = 0
			}
			got, want := with.Place(v, nil), without.Place(w, nil)
			if !slices.Equal(got, want) {
				t.Fatalf("%s, round %d: placed %v, by trial %v", name, round, got, want)
			}
			v.Now += time.Duration(r.IntN(200)) * time.Microsecond
			v.Dirty = v.Dirty[:0]
			for range r.IntN(4) {
				v.change(r, teams)
			}
			if r.IntN(8) == 0 {
				k := r.IntN(len(costs))
				refill(r, costs[k])
				ids[k] += 16 * maxKnown // which is kept in the same place
			}
		}
	})
}

// busy makes devices that all differ, none of which is free much earlier than others, and tasks
// of two shapes: one bound by computing, one by memory.
func busy(devices, tasks int) *Situation {
	r := rand.New(rand.NewPCG(1, 7))
	v := &Situation{Classes: int32(devices)}
	costs := make([][]time.Duration, 2)
	for d := range devices {
		v.Devices = append(v.Devices, Device{Class: int32(d), Accepts: true, Slow: 1, CapBytes: 8 << 30, FreeBytes: 8 << 30})
		for k := range costs {
			costs[k] = append(costs[k], time.Duration(float64(time.Millisecond)*(1+9*r.Float64())))
			if d%20 == 19 {
				costs[k][d] = -1
			}
		}
		v.Devices[d].FreeAt = time.Duration(r.IntN(2e7))
	}
	for i := range tasks {
		v.Tasks = append(v.Tasks, Ready{Task: graph.TaskID(i), Kernel: kernels[0], Cost: costs[i%2], CostID: uint64(1 + i%2), Hint: -1, Near: -1})
	}
	return v
}

// Of devices that finish a task at the same time, the one wins that copies less for it, also if
// the other was found first.
func TestIndexPrefersFewerCopies(t *testing.T) {
	v := busy(indexFrom, 1)
	const slow, fast = 40, 7
	task := &v.Tasks[0]
	for d := range v.Devices {
		v.Devices[d].FreeAt, task.Cost[d] = 0, time.Second
	}
	task.Inputs = []Input{{Bytes: 100_000, At: machine.Host}} // 20 µs
	v.Devices[slow].HostMemory, task.Cost[slow], task.Cost[fast] = true, 50*time.Microsecond, 30*time.Microsecond
	got := newFinish(Problem{Machine: bare(len(v.Devices)), Cost: uniform()}).Place(v, nil)
	if len(got) != 1 || got[0].Device != slow || got[0].Finish != 50*time.Microsecond {
		t.Errorf("placed %v, want device %d", got, slow)
	}
}

// Deciding among many devices that all differ looks at a part of them, which grows less than
// their number: four times as many may take at most 2.5 times the steps.
func TestIndexLooksAtFew(t *testing.T) {
	steps := func(devices int) uint64 {
		v := busy(devices, devices)
		p := newFinish(Problem{Machine: bare(devices), Cost: uniform()}).(*finish)
		if placed := p.Place(v, nil); len(placed) != len(v.Tasks) {
			t.Fatalf("%d of %d tasks placed", len(placed), len(v.Tasks))
		}
		return p.index.steps / uint64(len(v.Tasks))
	}
	few, many := steps(1000), steps(4000)
	t.Logf("%d steps a task among 1,000 devices, %d among 4,000", few, many)
	if few == 0 || 2*many > 5*few {
		t.Errorf("%d steps a task among 1,000 devices, %d among 4,000", few, many)
	}
}

// BenchmarkUnalike is a decision among devices that all differ: with the index, and where each
// is tried.
func BenchmarkUnalike(b *testing.B) {
	for _, by := range []string{"index", "trial"} {
		b.Run(by, func(b *testing.B) {
			v := busy(10_000, 1000)
			for i := range v.Tasks {
				if by == "trial" {
					v.Tasks[i].CostID = 0
				}
			}
			p := newFinish(Problem{Machine: bare(len(v.Devices)), Cost: uniform()})
			var out []Placement
			for b.Loop() {
				out = p.Place(v, out[:0])
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(v.Tasks)), "ns/task")
		})
	}
}
