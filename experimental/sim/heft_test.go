package sim

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// heft is the schedule of Topcuoglu, Hariri and Wu (2002), worked out for a whole
// graph before it begins: tasks in the order of their upward ranks, each on the
// device that ends it first, in the first gap that is long enough. It is what the
// policies are held against; no line of them is in it.
type heft struct {
	m    *machine.Machine
	cost machine.Cost
	f    *graph.Flow
	runs [][]float64 // by task and device, nanoseconds
	ins  [][]hop     // what each task reads, by who makes it
	avg  map[int64]float64
}

// hop is data that goes from a task, or from host memory (-1), to another.
type hop struct {
	from  int
	bytes int64
}

// newHEFT returns the rank of every task, as a priority, and the device of each.
func newHEFT(g *graph.Graph, m *machine.Machine) (priority []int, on []machine.DeviceID) {
	h := &heft{m: m, cost: machine.NewRoofline(m), f: g.Flow(), avg: make(map[int64]float64)}
	for t := range g.NumTasks() {
		id := graph.TaskID(t)
		runs := make([]float64, len(m.Devices))
		for d := range runs {
			runs[d] = float64(h.cost.Task(g.Task(id), machine.DeviceID(d)).Median)
		}
		h.runs = append(h.runs, runs)
		from := make(map[int]int64)
		for _, p := range h.f.Preds(id) {
			from[int(p)] += 0
		}
		uses := h.f.TaskUses(id)
		for k := range uses {
			for _, v := range h.f.Reads(&uses[k]) {
				p := h.f.Pieces[h.f.Values[v].Piece]
				from[int(h.f.Values[v].Producer)] += p.Hi - p.Lo
			}
		}
		var ins []hop
		for p, bytes := range from {
			ins = append(ins, hop{p, bytes})
		}
		slices.SortFunc(ins, func(a, b hop) int { return cmp.Compare(a.from, b.from) })
		h.ins = append(h.ins, ins)
	}
	order := h.order()
	priority = make([]int, len(order))
	for i, t := range order {
		priority[t] = len(order) - i
	}
	return priority, h.place(order)
}

// order returns the tasks by falling upward rank: the mean time from the beginning
// of a task to the end of the graph.
func (h *heft) order() []int {
	n := len(h.runs)
	rank, order := make([]float64, n), make([]int, n)
	for t := n - 1; t >= 0; t-- {
		order[t] = t
		for _, x := range h.runs[t] {
			rank[t] += x / float64(len(h.runs[t]))
		}
	}
	// Successors have larger numbers, so their ranks are complete.
	down := make([]float64, n) // the longest way on from the end of a task
	for t := n - 1; t >= 0; t-- {
		rank[t] += down[t]
		for _, in := range h.ins[t] {
			if in.from >= 0 {
				down[in.from] = max(down[in.from], h.average(in.bytes)+rank[t])
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank[b], rank[a]) })
	return order
}

// copy is the time of a copy between the memories of two devices.
func (h *heft) copy(bytes int64, from, to machine.DeviceID) float64 {
	memory := func(d machine.DeviceID) machine.DeviceID {
		if d >= 0 && h.m.Devices[d].HostMemory {
			return machine.Host
		}
		return d
	}
	if from, to = memory(from), memory(to); from == to || bytes == 0 {
		return 0
	}
	return float64(h.cost.Copy(bytes, from, to).Median)
}

// average is that time over all pairs of devices.
func (h *heft) average(bytes int64) float64 {
	if x, ok := h.avg[bytes]; ok {
		return x
	}
	sum, n := 0.0, float64(len(h.m.Devices))
	for a := range h.m.Devices {
		for b := range h.m.Devices {
			sum += h.copy(bytes, machine.DeviceID(a), machine.DeviceID(b))
		}
	}
	h.avg[bytes] = sum / (n * n)
	return h.avg[bytes]
}

// place gives each task the device that ends it first.
func (h *heft) place(order []int) []machine.DeviceID {
	type span struct{ begin, end float64 }
	busy := make([][]span, len(h.m.Devices))
	end := make([]float64, len(order))
	on := make([]machine.DeviceID, len(order))
	for _, t := range order {
		best := span{end: math.Inf(1)}
		for d, runs := range h.runs[t] {
			begin := 0.0
			for _, in := range h.ins[t] {
				from, at := machine.Host, 0.0
				if in.from >= 0 {
					from, at = on[in.from], end[in.from]
				}
				begin = max(begin, at+h.copy(in.bytes, from, machine.DeviceID(d)))
			}
			for _, b := range busy[d] {
				if begin+runs <= b.begin {
					break
				}
				begin = max(begin, b.end)
			}
			if begin+runs < best.end {
				best, on[t] = span{begin, begin + runs}, machine.DeviceID(d)
			}
		}
		end[t] = best.end
		line := &busy[on[t]]
		at, _ := slices.BinarySearchFunc(*line, best.begin, func(s span, x float64) int { return cmp.Compare(s.begin, x) })
		*line = slices.Insert(*line, at, best)
	}
	return on
}

// asTold is a policy that puts every task where it was told to.
type asTold []machine.DeviceID

func (on asTold) Place(v *sched.Situation, out []sched.Placement) []sched.Placement {
	for i := range v.Tasks {
		t := &v.Tasks[i]
		d := on[t.Task]
		out = append(out, sched.Placement{Task: int32(i), Device: d, Finish: v.Assign(i, d, 0, t.Cost[v.Devices[d].Class])})
	}
	return out
}

// executed is how long the schedule takes in the simulator, where links are shared.
func executed(c Config, plan func(priority []int) *graph.Graph) (time.Duration, error) {
	priority, on := newHEFT(plan(nil), c.Machine)
	c.Jobs = []Job{{Graph: plan(priority)}}
	c.NewPolicy = func(sched.Problem) sched.Policy { return asTold(on) }
	res, err := Run(c)
	if err != nil {
		return 0, err
	}
	return res.Makespan, res.Runs[0].Err
}
