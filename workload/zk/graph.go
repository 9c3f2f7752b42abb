package zk

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// perDevice is how many constraints of a proof there are for each device that takes part.
const perDevice = 10_000

// sum is one of the five sums of points times scalars that a proof has.
type sum struct {
	name    string
	scalars string // data that they are in
	n       int    // points
	second  bool   // they are in G2
}

// The sums by their positions.
const (
	sumA = iota
	sumB1
	sumB2
	sumK
	sumZ
	numSums
)

// shape is the size of a proof and how it is cut.
type shape struct {
	constraints int
	log         int // of the roots of unity
	sums        [numSums]sum
	per         int // perDevice but in tests
	// What Place says: how many devices there are, the most cores that one has, which devices
	// alone take part, nil for any, and whether all compute in host memory.
	devices, cores int
	only           []string
	hosted         bool
}

func newShape(constraints, log int, points [numSums]int) shape {
	s := shape{constraints: constraints, log: log, per: perDevice}
	for i, name := range [numSums]string{"A", "B1", "B2", "K", "Z"} {
		scalars := "wires " + name[:1]
		if i == sumZ {
			scalars = "quotient"
		}
		s.sums[i] = sum{name: name, scalars: scalars, n: points[i], second: i == sumB2}
	}
	return s
}

// size is the number of roots of unity.
func (s *shape) size() int { return 1 << s.log }

// Place tells the devices there are. Where fewer than all take part, GPUs go first. One that
// works alone is chosen when the work is cut.
func (s *shape) Place(m *machine.Machine) error {
	s.devices, s.cores, s.only, s.hosted = len(m.Devices), 1, nil, true
	for _, d := range m.Devices {
		if d.Kind == machine.CPU {
			s.cores = max(s.cores, d.ComputeUnits)
		}
		s.hosted = s.hosted && d.HostMemory
	}
	if k := s.shares(); k > 1 && k < s.devices {
		best := slices.Clone(m.Devices)
		slices.SortStableFunc(best, func(a, b machine.Device) int { return cmp.Compare(rank(a), rank(b)) })
		for _, d := range best[:k] {
			s.only = append(s.only, d.Name)
		}
	}
	return nil
}

// rank is 0 for devices that are to take part first.
func rank(d machine.Device) int {
	switch d.Kind {
	case machine.Discrete:
		return 0
	case machine.CPU:
		return 2
	}
	return 1
}

// Rule says how many devices take part at most.
func (s *shape) Rule() string {
	return fmt.Sprintf("one device for each %d constraints: at most %d of %d", s.per, s.shares(), max(s.devices, 1))
}

// finer is how many times finer than one share for each device the constraints are cut where
// all devices may take part.
const finer = 8

// shares is how many devices take part at most: one for each 10,000 constraints.
func (s *shape) shares() int {
	return min((s.constraints+s.per-1)/s.per, max(s.devices, 1))
}

// Items are the constraints. Each share of them is a device's at least, where there are fewer
// shares than devices.
func (s *shape) Items() sched.Items {
	k := s.shares()
	if k >= s.devices {
		k *= finer
	}
	return sched.Items{Extent: int64(s.constraints), Align: int64((s.constraints + k - 1) / k)}
}

// Grain is most of a share: sums of few points take longer for each.
func (s *shape) Grain() int64 {
	return int64(max(1, s.constraints*3/(4*s.shares())))
}

// multiply is how many operations on 32-bit integers a product of scalars or coordinates takes.
const multiply = 2 * 136

// transformWork is the work of transforms, and sumWork that of a sum of n points.
func (s *shape) transformWork(times float64) graph.Work {
	n := float64(s.size())
	return graph.Work{Ops: times * n / 2 * float64(s.log) * multiply, Bytes: times * 2 * scalarBytes * n, Unit: graph.Int32}
}

func (m *sum) work(n int) graph.Work {
	most, adds := float64(n), math.Inf(1)
	for c := 4.; c <= 16; c++ {
		adds = min(adds, math.Ceil(254/c)*(most+math.Exp2(c)))
	}
	w := graph.Work{Ops: adds * 11 * multiply, Bytes: (pointBytes1 + scalarBytes) * most, Unit: graph.Int32}
	if m.second {
		w.Ops *= 3
		w.Bytes += (pointBytes2 - pointBytes1) * most
	}
	return w
}

func (m *sum) kernels() (sums, add *graph.Kernel) {
	if m.second {
		return sumKernel2, addKernel2
	}
	return sumKernel1, addKernel1
}

func (m *sum) pointBytes() int64 {
	if m.second {
		return pointBytes2
	}
	return pointBytes1
}

// leastPart is how many points a core adds up at least where several do.
const leastPart = 1 << 12

// Whole is all of a proof as one task, most of which is sums of points.
func (s *shape) Whole() graph.Task {
	t := graph.Task{Name: "proof", Steps: []graph.Step{s.sumStep(&s.sums[sumA], s.sums[sumA].n, 1)}, Work: s.transformWork(7)}
	for i := range s.sums {
		w := s.sums[i].work(s.sums[i].n)
		t.Work.Ops, t.Work.Bytes = t.Work.Ops+w.Ops, t.Work.Bytes+w.Bytes
	}
	return t
}

func (s *shape) sumStep(m *sum, n, parts int) graph.Step {
	k, _ := m.kernels()
	return graph.Step{Kernel: k, Launch: graph.Grid(parts)}.With(sumParams{max(n, 1), parts})
}

// Graph has a task for the transforms of each of a, b and c and one for the quotient; for each
// of the five sums a task for each range of constraints, which takes as large a part of the
// points, and one that adds these up. Sums that need no quotient run beside the transforms.
func (s *shape) Graph(ranges []sched.Range) (*graph.Graph, error) {
	b := placed{on: graph.Constraint{Only: s.only}}
	scalars := map[string]graph.DataID{"quotient": s.transforms(&b)}
	for i := range s.sums {
		m := &s.sums[i]
		if m.n == 0 {
			continue
		}
		if _, ok := scalars[m.scalars]; !ok {
			scalars[m.scalars] = b.Data(graph.Data{Name: m.scalars, Bytes: int64(m.n) * scalarBytes, Input: true})
		}
		s.addSum(&b, m, scalars[m.scalars], ranges)
	}
	return b.Build()
}

// placed is a builder of tasks for some devices.
type placed struct {
	graph.Builder
	on graph.Constraint
}

// Add adds a task.
func (b *placed) Add(t graph.Task) {
	t.On = b.on
	b.Builder.Add(t)
}

// transforms adds the tasks that make the quotient. In host memory what they make is the
// prover's, so that it can be cleared.
func (s *shape) transforms(b *placed) graph.DataID {
	n := int64(s.size()) * scalarBytes
	quotient := graph.Task{
		Name:     "quotient",
		Steps:    []graph.Step{graph.Step{Kernel: quotientKernel, Launch: graph.Grid(1)}.With(transformParams{s.log})},
		Work:     s.transformWork(1),
		Priority: 3,
	}
	for _, name := range []string{"a", "b", "c"} {
		in := b.Data(graph.Data{Name: name, Bytes: n, Input: true})
		out := b.Data(graph.Data{Name: name + " on the coset", Bytes: n, Output: s.hosted, Tolerance: graph.SameBytes})
		b.Add(graph.Task{
			Name:     "transform " + name,
			Steps:    []graph.Step{graph.Step{Kernel: cosetKernel, Launch: graph.Grid(1)}.With(transformParams{s.log})},
			Uses:     []graph.Use{{Data: in, Access: graph.Read}, {Data: out, Access: graph.Write}},
			Work:     s.transformWork(2),
			Priority: 3,
		})
		quotient.Uses = append(quotient.Uses, graph.Use{Data: out, Access: graph.Read})
	}
	h := b.Data(graph.Data{Name: "quotient", Bytes: n, Output: s.hosted, Tolerance: graph.SameBytes})
	quotient.Uses = append(quotient.Uses, graph.Use{Data: h, Access: graph.Write})
	b.Add(quotient)
	return h
}

// addSum adds the tasks of a sum.
func (s *shape) addSum(b *placed, m *sum, scalars graph.DataID, ranges []sched.Range) {
	type share struct{ lo, hi, parts int }
	var shares []share
	parts := 0
	for _, r := range ranges {
		lo, hi := m.at(r.Lo, s.constraints), m.at(r.Hi, s.constraints)
		if lo == hi {
			continue
		}
		// Other tasks run on the cores beside it.
		n := max(1, min((s.cores+1)/2, (hi-lo)/leastPart))
		shares = append(shares, share{lo, hi, n})
		parts += n
	}
	size, first := m.pointBytes(), int64(0)
	points := b.Data(graph.Data{Name: m.name, Bytes: int64(m.n) * size, Input: true})
	sums := b.Data(graph.Data{Name: "parts of " + m.name, Bytes: int64(parts) * size, Tolerance: graph.SameBytes})
	out := b.Data(graph.Data{Name: "sum of " + m.name, Bytes: size, Output: true, Tolerance: graph.SameBytes})
	for _, r := range shares {
		t := graph.Task{
			Name:  fmt.Sprintf("%s %d-%d", m.name, r.lo, r.hi),
			Steps: []graph.Step{s.sumStep(m, r.hi-r.lo, r.parts)},
			Uses: []graph.Use{
				{Data: points, Offset: int64(r.lo) * size, Bytes: int64(r.hi-r.lo) * size, Access: graph.Read},
				{Data: scalars, Offset: int64(r.lo) * scalarBytes, Bytes: int64(r.hi-r.lo) * scalarBytes, Access: graph.Read},
				{Data: sums, Offset: first * size, Bytes: int64(r.parts) * size, Access: graph.Write},
			},
			Work: m.work(r.hi - r.lo),
		}
		if m.second {
			t.Priority = 1 // the longest
		}
		b.Add(t)
		first += int64(r.parts)
	}
	_, add := m.kernels()
	b.Add(graph.Task{
		Name:  "sum of " + m.name,
		Steps: []graph.Step{graph.Step{Kernel: add, Launch: graph.Grid(1)}.With(addParams{parts})},
		Uses:  []graph.Use{{Data: sums, Access: graph.Read}, {Data: out, Access: graph.Write}},
		Work:  graph.Work{Ops: float64(parts) * 16 * multiply, Bytes: float64(parts) * float64(size), Unit: graph.Int32},
	})
}

// at is the point at which a range of constraints begins or ends.
func (m *sum) at(constraint int64, of int) int {
	hi, lo := bits.Mul64(uint64(m.n), uint64(constraint))
	q, _ := bits.Div64(hi, lo, uint64(of))
	return int(q)
}
