package sim

import (
	"math"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// LowerBound returns a time no schedule of the jobs can beat, counted from the
// first submission: for each time something is submitted, what comes from then
// on takes at least as long as its work spread over all devices as if tasks
// could be cut anywhere, and as its longest chain with each task on the device
// that is best for it. Copies are free, so it holds for every policy.
func LowerBound(m *machine.Machine, cost machine.Cost, jobs []Job) time.Duration {
	if len(jobs) == 0 {
		return 0
	}
	jobs = slices.Clone(jobs)
	slices.SortStableFunc(jobs, func(a, b Job) int { return int(min(max(a.At-b.At, -1), 1)) })
	b := newBounds(m, cost)
	var best time.Duration
	for i := len(jobs) - 1; i >= 0; i-- {
		if jobs[i].Graph == nil { // which Run refuses
			continue
		}
		chain := b.add(jobs[i].Graph)
		after := jobs[i].At - jobs[0].At
		best = max(best, after+chain)
		if i == 0 || jobs[i-1].At < jobs[i].At {
			best = max(best, after+b.spread())
		}
	}
	return best
}

// bounds collects tasks of equal costs.
type bounds struct {
	m      *machine.Machine
	cost   machine.Cost
	class  []int32
	device []machine.DeviceID // one of each class
	count  []float64          // devices of each class
	index  map[string]int
	kinds  []kind
	key    []byte
}

// kind is tasks that cost the same everywhere.
type kind struct {
	n    float64
	cost []float64 // nanoseconds by class, +Inf where impossible
}

func newBounds(m *machine.Machine, cost machine.Cost) *bounds {
	b := &bounds{m: m, cost: cost, class: m.Classes(), index: make(map[string]int)}
	for i, c := range b.class {
		if int(c) == len(b.device) {
			b.device = append(b.device, machine.DeviceID(i))
			b.count = append(b.count, 0)
		}
		b.count[c]++
	}
	return b
}

// add takes in a graph's tasks and returns the length of its longest chain.
func (b *bounds) add(g *graph.Graph) time.Duration {
	f := g.Flow()
	best := make([]time.Duration, len(f.ShapeTask))
	slot := make([]int, len(f.ShapeTask))
	for s, t := range f.ShapeTask {
		task := g.Task(t)
		costs := make([]float64, len(b.device))
		b.key = b.key[:0]
		best[s] = math.MaxInt64
		for c, d := range b.device {
			est := time.Duration(-1)
			if b.allows(task, int32(c)) {
				est = b.cost.Task(task, d).Median
			}
			costs[c] = float64(est) * b.m.Devices[d].Part(task)
			if est < 0 {
				costs[c] = math.Inf(1)
			} else {
				best[s] = min(best[s], est)
			}
			for k := 0; k < 64; k += 8 {
				b.key = append(b.key, byte(uint64(est)>>k))
			}
		}
		if best[s] == math.MaxInt64 {
			best[s] = 0 // it cannot run at all, so it bounds nothing
			slot[s] = -1
			continue
		}
		k, ok := b.index[string(b.key)]
		if !ok {
			k = len(b.kinds)
			b.index[string(b.key)] = k
			b.kinds = append(b.kinds, kind{cost: costs})
		}
		slot[s] = k
	}
	ends := make([]time.Duration, g.NumTasks())
	var longest time.Duration
	for t := range ends {
		s := f.Rows[t].Shape
		if slot[s] >= 0 {
			b.kinds[slot[s]].n += float64(max(g.Task(graph.TaskID(t)).Gang, 1))
		}
		for _, p := range f.Preds(graph.TaskID(t)) {
			ends[t] = max(ends[t], ends[p])
		}
		ends[t] += best[s]
		longest = max(longest, ends[t])
	}
	return longest
}

// allows reports whether a task may run on some device of a class.
func (b *bounds) allows(t *graph.Task, class int32) bool {
	for i := range b.m.Devices {
		d := &b.m.Devices[i]
		if b.class[i] != class {
			continue
		}
		if slices.ContainsFunc(t.Steps, func(s graph.Step) bool { return !d.CanRun(s.Kernel) }) {
			return false // devices of a class run the same kernels
		}
		if engine.Allows(t, d) {
			return true
		}
	}
	return false
}

// spread returns the least time that the work takes when every class of devices
// may take any part of any task. That is a linear program: minimise T such that
// no class works longer than T. Its dual gives every class a price with the
// prices adding up to one; the work bought at the cheapest class each is then a
// bound for any prices, so the search for good ones need not be exact.
func (b *bounds) spread() time.Duration {
	n := len(b.count)
	price := make([]float64, n)
	load := make([]float64, n)
	// Right at once when devices differ by a factor that is the same for all
	// tasks: price by how long the class would take alone.
	for c := range price {
		for _, k := range b.kinds {
			if !math.IsInf(k.cost[c], 1) {
				price[c] += k.n * k.cost[c] / b.count[c]
			}
		}
		if price[c] > 0 {
			price[c] = 1 / price[c]
		}
	}
	rounds := 1
	if n > 1 {
		rounds = min(2000, 1+20_000_000/(n*max(len(b.kinds), 1)))
	}
	best := 0.0
	for round := range rounds {
		sum := 0.0
		for _, p := range price {
			sum += p
		}
		if sum == 0 {
			return 0
		}
		total := 0.0
		clear(load)
		for _, k := range b.kinds {
			at, least := -1, math.Inf(1)
			for c := range price {
				if x := price[c] * k.cost[c] / b.count[c]; x < least {
					at, least = c, x
				}
			}
			if at >= 0 {
				total += k.n * least / sum
				load[at] += k.n * k.cost[at] / b.count[at]
			}
		}
		best = max(best, total)
		if total == 0 {
			break
		}
		// Classes the work flocks to become dearer.
		step := 0.5 / math.Sqrt(float64(round)+1)
		worst := slices.Max(load)
		for c := range price {
			price[c] *= math.Exp(step * load[c] / worst)
		}
	}
	return time.Duration(best)
}
