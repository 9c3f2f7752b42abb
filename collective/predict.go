package collective

import (
	"math"
	"time"

	"github.com/weft-run/weft/machine"
)

// Bound is a time no algorithm can beat: the bytes that must enter one rank's
// memory over the widest link it has to another and, for an allreduce, the
// vectors that must enter and leave a group of close devices through what all
// routes out of it share. It is 0 where ranks share a memory or the operation has
// no such bound.
func (p *Plan) bound() time.Duration {
	s := &p.Spec
	n := float64(len(s.Ranks))
	vector := float64(s.Count * s.elementBytes())
	bytes := vector
	switch s.Op {
	case OpAllReduce:
		bytes *= 2 * (n - 1) / n
	case OpReduceScatter, OpAllGather, OpAllToAll:
		bytes *= (n - 1) / n
	case OpBarrier:
		return 0
	}
	widest := 0.0
	for i, a := range s.Ranks {
		for _, b := range s.Ranks[:i] {
			_, bps, _ := p.m.Path(a, b)
			widest = math.Max(widest, bps)
		}
	}
	if widest == 0 || math.IsInf(widest, 1) {
		return 0
	}
	seconds := bytes / widest
	if s.Op == OpAllReduce {
		seconds = math.Max(seconds, 2*vector/p.narrowest())
	}
	return time.Duration(seconds * 1e9)
}

// narrowest is the least rate at which everything can leave and enter a group of
// close devices: the rate of the resource that all routes out share, or the sum of those
// that each device's routes out share; infinite without such a limit.
func (p *Plan) narrowest() float64 {
	s := &p.Spec
	t := newTopology(p.m, s.Ranks)
	rate := make(map[string]float64)
	for _, r := range p.m.Resources {
		rate[r.Name] = r.BPS
	}
	// shared is the least rate among resources that all of some routes use.
	shared := func(uses map[string]int, routes int) float64 {
		least := math.Inf(1)
		for name, n := range uses {
			if n == routes && rate[name] > 0 {
				least = math.Min(least, rate[name])
			}
		}
		return least
	}
	least := math.Inf(1)
	for g, members := range t.groups {
		routes, each := 0, 0.0
		uses := make(map[string]int) // routes out that use a resource
		for _, a := range members {
			own := make(map[string]int)
			out := 0
			for b := range s.Ranks {
				if t.group[b] == g {
					continue
				}
				out++
				hops, _, _ := p.m.Path(s.Ranks[a], s.Ranks[b])
				for _, h := range hops {
					for _, name := range p.m.Links[h].Resources {
						own[name]++
					}
				}
			}
			for name, n := range own {
				uses[name] += n
			}
			routes += out
			each += shared(own, out)
		}
		if routes > 0 {
			least = math.Min(least, math.Min(each, shared(uses, routes)))
		}
	}
	return least
}

// costTable holds the predicted durations of copies between ranks and of tasks on ranks. Each
// is looked up once.
type costTable struct {
	m     *machine.Machine
	cost  machine.Cost
	ranks []machine.DeviceID
	// links and computes are the shared things a copy between two ranks goes
	// through, and a rank computes with.
	links    map[[2]machine.DeviceID][]int
	far      map[[2]machine.DeviceID]bool
	computes map[machine.DeviceID][]int
	takes    map[taskKey]time.Duration
}

// taskKey holds everything that the time of a step depends on.
type taskKey struct {
	on                 machine.DeviceID
	elements           int64
	ins, outs, divisor int
}

func newCostTable(m *machine.Machine, cost machine.Cost, ranks []machine.DeviceID) *costTable {
	w := &costTable{m: m, cost: cost, ranks: ranks, far: m.Far(), links: make(map[[2]machine.DeviceID][]int), computes: make(map[machine.DeviceID][]int), takes: make(map[taskKey]time.Duration)}
	number := make(map[string]int)
	for i, r := range m.Resources {
		number[r.Name] = i
	}
	for _, d := range ranks {
		w.computes[d] = numbers(number, m.Devices[d].Resources)
	}
	return w
}

func numbers(of map[string]int, names []string) (out []int) {
	for _, name := range names {
		out = append(out, of[name])
	}
	return out
}

// through are the shared things between two devices.
func (w *costTable) through(from, to machine.DeviceID) []int {
	key := [2]machine.DeviceID{from, to}
	out, ok := w.links[key]
	if !ok {
		hops, _, _ := w.m.Path(from, to)
		number := make(map[string]int)
		for i, r := range w.m.Resources {
			number[r.Name] = i
		}
		for _, h := range hops {
			out = append(out, numbers(number, w.m.Links[h].Resources)...)
		}
		w.links[key] = out
	}
	return out
}

// predict goes through the steps of a plan in their order with a clock for every
// device, for copies into, out of and over a network from each, and for everything
// shared: a list schedule. What it leaves out is that shared things are divided and
// not taken in turns, which comes to the same in the end.
func (w *costTable) predict(p *Plan) time.Duration {
	n := len(w.m.Devices)
	compute, in, out, sent := make([]time.Duration, n), make([]time.Duration, n), make([]time.Duration, n), make([]time.Duration, n)
	busy := make([]time.Duration, len(w.m.Resources))
	size := p.Spec.elementBytes()
	// When and where each value was made; the input of a rank is there from the start.
	type made struct {
		at time.Duration
		on machine.DeviceID
	}
	temps := make([]made, len(p.temps))
	outs := make(map[place]made)
	end := time.Duration(0)
	occupy := func(shared []int, from time.Duration, bytes float64, cores int, takes time.Duration) time.Duration {
		until := from + takes
		for _, r := range shared {
			use := takes // n users at 1/n each: one at a time
			if bps := w.m.Resources[r].BPS; bps > 0 {
				use = time.Duration(bytes / bps * 1e9)
			} else if all := w.m.Resources[r].Cores; all > 0 {
				use = time.Duration(float64(takes) * float64(cores) / float64(all))
			}
			busy[r] = max(busy[r], from) + use
			until = max(until, busy[r])
		}
		return until
	}
	for i := range p.steps {
		st := &p.steps[i]
		dev := w.ranks[st.rank]
		ready := time.Duration(0)
		for _, at := range st.ins {
			var m made
			switch {
			case at.in:
				m = made{on: w.ranks[at.which]}
			case at.out:
				m = outs[at]
			default:
				m = temps[at.which]
			}
			arrives := m.at
			if w.m.MemoryOf(m.on) != w.m.MemoryOf(dev) {
				bytes := (at.hi - at.lo) * size
				into, from := &in[dev], &out[m.on]
				if w.far[[2]machine.DeviceID{m.on, dev}] {
					into, from = &sent[m.on], &sent[m.on]
				}
				start := max(m.at, *into, *from)
				takes := w.cost.Copy(bytes, m.on, dev).Median
				if takes < 0 {
					return math.MaxInt64 // no path there
				}
				arrives = occupy(w.through(m.on, dev), start, float64(bytes), 0, takes)
				*into, *from = arrives, arrives
			}
			ready = max(ready, arrives)
		}
		start := max(ready, compute[dev])
		key := taskKey{dev, st.outs[0].hi - st.outs[0].lo, len(st.ins), len(st.outs), st.divisor}
		takes, ok := w.takes[key]
		if !ok {
			t := p.task(st)
			takes = w.cost.Task(&t, dev).Median
			w.takes[key] = takes
		}
		bytes := float64(key.elements*size) * float64(len(st.ins)+len(st.outs))
		done := occupy(w.computes[dev], start, bytes, max(w.m.Devices[dev].ComputeUnits, 1), takes)
		compute[dev] = done
		for _, at := range st.outs {
			if at.out {
				outs[at] = made{done, dev}
			} else {
				temps[at.which] = made{done, dev}
			}
		}
		end = max(end, done)
	}
	return end
}
