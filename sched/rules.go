package sched

import (
	"cmp"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// rule is a method of scheduling a whole graph, to be rehearsed.
type rule struct {
	// on is the device of each task; if it is nil, a device is chosen when a task is ready.
	on []int32
	// ranked takes tasks by falling upward rank instead of in the order they become
	// ready.
	ranked bool
	// holding chooses the device that holds most of what a task reads, of equal ones
	// that with the shortest queue, and lets idle devices take from the longest; else
	// a task goes where it ends first.
	holding bool
	// copies is the weight of the duration of input copies in the choice of a device. A
	// weight above 1 accounts for the other copies that their links delay meanwhile.
	copies float64
}

// numRules is the number of rules tried for a graph. No rule is good for all graphs: without
// any one of these some row of TestSchedules, or of the same graphs twice as large on seven
// machines, falls more than 5 % behind the best policy.
const numRules = 6

func (r *rehearsal) ruleFor(i int) rule {
	switch i {
	case 0: // as finish does without a plan
		return rule{copies: 1}
	case 1:
		return rule{ranked: true, on: r.heft()}
	case 2:
		return rule{ranked: true, copies: 3}
	case 3:
		return rule{ranked: true, holding: true}
	case 4:
		return rule{copies: 5}
	}
	return rule{on: r.alone()}
}

// choose returns the device of a task that is ready, -1 where none can run it.
func (r *rehearsal) choose(t int32) int32 {
	if r.rule.on != nil {
		return r.rule.on[t]
	}
	if r.rule.holding {
		return r.holder(t)
	}
	base := r.inputsAt(t)
	best, ends, transfer := int32(-1), 0.0, time.Duration(0)
	for d := range r.devices {
		runs := r.runs(t, d)
		if runs < 0 {
			continue
		}
		copies := r.transfer(t, r.mem[d])
		at := float64(max(base, r.state[d].freeAt)+runs) + float64(r.rule.copies*float64(copies))
		if best < 0 || at < ends || at == ends && copies < transfer {
			best, ends, transfer = d, at, copies
		}
	}
	return best
}

// holder returns the device that holds most of what t reads.
func (r *rehearsal) holder(t int32) int32 {
	best, most, queue := int32(-1), int64(0), time.Duration(0)
	for d := range r.devices {
		runs := r.runs(t, d)
		if runs < 0 {
			continue
		}
		held, wait := r.held(t, r.mem[d]), time.Duration(r.state[d].queued+1)*runs
		if best < 0 || held > most || held == most && wait < queue {
			best, most, queue = d, held, wait
		}
	}
	return best
}

// alone puts all tasks on the device that would do them first by itself, which is
// right where links are slow enough. Where none can run all tasks, some have -1.
func (r *rehearsal) alone() []int32 {
	on := make([]int32, len(r.rank))
	best, least := int32(-1), time.Duration(0)
	for d := range r.devices {
		total := time.Duration(0)
		for t := range on {
			c := r.runs(int32(t), d)
			if c < 0 {
				total = -1
				break
			}
			total += c
		}
		if total >= 0 && (best < 0 || total < least) {
			best, least = d, total
		}
	}
	for t := range on {
		on[t] = best
	}
	return on
}

// span is a time a device is taken for.
type span struct{ begin, end time.Duration }

// maxGaps is the most gaps of a device that are tried for one task. A later gap is
// rarely the best choice, and the bound keeps the time to plan a task constant.
const maxGaps = 32

// heft is the schedule of Topcuoglu, Hariri and Wu (2002): tasks by falling upward
// rank, each on the device that ends it first, in the first gap that is long enough.
// It knows nothing of copies that share links.
func (r *rehearsal) heft() []int32 {
	busy := make([][]span, r.devices)
	end := make([]time.Duration, len(r.rank))
	on := make([]int32, len(r.rank))
	for _, t := range r.order {
		best, at := span{end: never}, 0
		for d := range r.devices {
			runs := r.runs(t, d)
			if runs < 0 {
				continue
			}
			if s, k := gap(busy[d], r.arrives(t, r.mem[d], on, end), runs); s.end < best.end {
				best, on[t], at = s, d, k
			}
		}
		end[t] = best.end
		busy[on[t]] = slices.Insert(busy[on[t]], at, best)
	}
	return on
}

// gap returns the first span of length runs, from a time on, in which a device is
// free, and its position among those in which it is busy.
func gap(busy []span, from, runs time.Duration) (span, int) {
	k, _ := slices.BinarySearchFunc(busy, from, func(s span, x time.Duration) int { return cmp.Compare(s.end, x) })
	for last := k + maxGaps; k < len(busy); k++ {
		if from+runs <= busy[k].begin {
			break
		}
		if k == last {
			k = len(busy) - 1
		}
		from = max(from, busy[k].end)
	}
	return span{from, from + runs}, k
}

// arrives returns the time at which the inputs of t are in a memory, given the devices and
// ends of other tasks, if no two copies share a link.
func (r *rehearsal) arrives(t, mem int32, on []int32, end []time.Duration) time.Duration {
	f := r.of.Flow
	at := time.Duration(0)
	for _, p := range f.Preds(graph.TaskID(t)) {
		at = max(at, end[p])
	}
	uses := f.TaskUses(graph.TaskID(t))
	for k := range uses {
		for _, v := range f.Reads(&uses[k]) {
			from, made := int32(0), time.Duration(0)
			if p := f.Values[v].Producer; p >= 0 {
				from, made = r.mem[on[p]], end[p]
			} else {
				from = r.initial(v)
			}
			at = max(at, made+max(r.copies.at(r.size[v], from, mem).took, 0))
		}
	}
	return at
}

// rankTasks computes the upward ranks of tasks, the mean time from the beginning of
// each to the end of the graph, and their order by them.
func (r *rehearsal) rankTasks() {
	f := r.of.Flow
	n := len(f.Rows) - 1
	mean := make([]time.Duration, len(r.of.Costs))
	for s := range mean {
		can := time.Duration(0)
		for _, c := range r.cost[s*int(r.devices) : (s+1)*int(r.devices)] {
			if c >= 0 {
				mean[s] += c
				can++
			}
		}
		mean[s] /= max(can, 1)
	}
	copies := r.copies.means(r.mem)
	r.rank = append(r.rank[:0], make([]time.Duration, n)...)
	for t := n - 1; t >= 0; t-- { // successors have larger numbers
		r.rank[t] += mean[f.Rows[t].Shape]
		rank := r.rank[t]
		for _, p := range f.Preds(graph.TaskID(t)) {
			r.rank[p] = max(r.rank[p], rank)
		}
		uses := f.TaskUses(graph.TaskID(t))
		for k := range uses {
			for _, v := range f.Reads(&uses[k]) {
				if p := f.Values[v].Producer; p >= 0 {
					r.rank[p] = max(r.rank[p], rank+copies[r.size[v]])
				}
			}
		}
	}
	r.order = r.order[:0]
	for t := range n {
		r.order = append(r.order, int32(t))
	}
	slices.SortStableFunc(r.order, func(a, b int32) int { return cmp.Compare(r.rank[b], r.rank[a]) })
	r.place = append(r.place[:0], make([]int32, n)...)
	for i, t := range r.order {
		r.place[t] = int32(i)
	}
}

// survey takes in costs and works out what the graph takes at least on all devices.
func (r *rehearsal) survey(run *Run) {
	r.of, r.devices = run, int32(len(run.Devices))
	r.mem, r.cost = r.mem[:0], r.cost[:0]
	for d := range run.Devices {
		m := int32(d) + 1
		if run.Devices[d].HostMemory {
			m = hostMemory
		}
		r.mem = append(r.mem, m)
	}
	rates := make([]float64, len(run.Costs)) // tasks in a nanosecond on all devices
	for s := range run.Costs {
		for d := range run.Devices {
			dev := &run.Devices[d]
			c := time.Duration(-1)
			if dev.Accepts && run.Costs[s][dev.Class] >= 0 {
				c = slowed(run.Costs[s][dev.Class], dev.Slow)
				rates[s] += 1 / float64(max(c, 1))
			}
			r.cost = append(r.cost, c)
		}
	}
	total := 0.0
	for t := range len(run.Flow.Rows) - 1 {
		if rate := rates[run.Flow.Rows[t].Shape]; rate > 0 {
			total += 1 / rate
		}
	}
	r.spread = time.Duration(total)
}

// longest returns the length of the longest chain with each task on the device that is
// best for it.
func (r *rehearsal) longest() time.Duration {
	f := r.of.Flow
	best := make([]time.Duration, len(r.of.Costs))
	for s := range best {
		best[s] = -1
		for _, c := range r.cost[s*int(r.devices) : (s+1)*int(r.devices)] {
			if c >= 0 && (best[s] < 0 || c < best[s]) {
				best[s] = c
			}
		}
	}
	ends := make([]time.Duration, len(f.Rows)-1)
	r.chain = 0
	for t := range ends {
		for _, p := range f.Preds(graph.TaskID(t)) {
			ends[t] = max(ends[t], ends[p])
		}
		ends[t] += max(best[f.Rows[t].Shape], 0)
		r.chain = max(r.chain, ends[t])
	}
	return r.chain
}

// prepare works out copies and ranks; false where there are too many kinds of copies.
func (r *rehearsal) prepare(m *machine.Machine, cost machine.Cost) bool {
	f := r.of.Flow
	r.copies = newCopyTable(m, cost)
	r.size = r.size[:0]
	for v := range f.Values {
		p := &f.Pieces[f.Values[v].Piece]
		r.size = append(r.size, r.copies.row(p.Hi-p.Lo))
		if len(r.copies.took) > maxCopyCosts {
			return false
		}
	}
	r.rankTasks()
	return true
}

// initial returns the memory an initial value is in.
func (r *rehearsal) initial(v int32) int32 {
	if at := r.of.At[v]; at >= 0 {
		return r.mem[at]
	}
	return hostMemory
}
