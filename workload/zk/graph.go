package zk

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload/zk/msm"
	"github.com/weft-run/weft/workload/zk/ntt"
)

// perDevice is the number of constraints of a proof for each device that takes part.
const perDevice = 10_000

// sum is one of the five sums of points times scalars that a proof has.
type sum struct {
	name    string
	scalars string // data that they are in
	n       int    // points
	second  bool   // they are in G2

	multiples int // of each point, in the proving key on devices; 0 means one
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
	log         int // of the number of roots of unity, to base 2
	sums        [numSums]sum
	per         int // perDevice, unless a test sets it
	// Set by Place: the number of devices, the most cores of one, the names of the devices that take
	// part (nil for any), and whether all devices compute in host memory.
	devices, cores int
	only           []string
	hosted         bool
	// anywhere lets all devices take part, after those that were chosen were lost.
	anywhere bool
	// urgency is added to the priority of every task.
	urgency int
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

// Place takes note of the devices. If fewer than all take part, GPUs go first. If one device is enough,
// it is chosen when the work is cut.
func (s *shape) Place(m *machine.Machine) error {
	s.devices, s.cores, s.only, s.hosted = len(m.Devices), 1, nil, true
	for _, d := range m.Devices {
		if d.Kind == machine.CPU {
			s.cores = max(s.cores, d.ComputeUnits)
		}
		s.hosted = s.hosted && d.HostMemory
	}
	if k := s.shares(); k > 1 && k < s.devices && !s.anywhere {
		best := slices.Clone(m.Devices)
		slices.SortStableFunc(best, func(a, b machine.Device) int { return cmp.Compare(rank(a), rank(b)) })
		for _, d := range best[:k] {
			s.only = append(s.only, d.Name)
		}
	}
	return nil
}

// rank orders devices: those with rank 0 take part first.
func rank(d machine.Device) int {
	switch d.Kind {
	case machine.Discrete:
		return 0
	case machine.CPU:
		return 2
	}
	return 1
}

// Rule says how many devices take part at most, and why.
func (s *shape) Rule() string {
	return fmt.Sprintf("one device for each %d constraints: at most %d of %d", s.per, s.shares(), max(s.devices, 1))
}

// finer is the number of pieces that each device's share is cut into where all devices may take part.
const finer = 8

// shares returns the most devices that take part: one for each 10,000 constraints.
func (s *shape) shares() int {
	return min((s.constraints+s.per-1)/s.per, max(s.devices, 1))
}

// Items are the constraints. If fewer devices take part than there are, a range is at least a whole
// share, so that there are no more ranges than shares.
func (s *shape) Items() sched.Items {
	k := s.shares()
	if k >= s.devices {
		k *= finer
	}
	return sched.Items{
		Extent: int64(s.constraints), Align: int64((s.constraints + k - 1) / k),
		Grain: int64(max(1, s.constraints*3/(4*s.shares()))), // sums of few points take longer per point
	}
}

// multiply is the number of 32-bit integer operations of a product of scalars or coordinates.
const multiply = 2 * 136

// transformWork is the work of transforms.
func (s *shape) transformWork(times float64) graph.Work {
	n := float64(s.size())
	return graph.Work{Ops: times * n / 2 * float64(s.log) * multiply, Bytes: times * 2 * scalarBytes * n, Unit: graph.Int32}
}

// work is the work of a sum, about.
func (m *sum) work() graph.Work {
	n := float64(m.n)
	adds := math.Inf(1)
	for c := 4.; c <= 16; c++ {
		adds = min(adds, math.Ceil(254/c)*(n+math.Exp2(c)))
	}
	w := graph.Work{Ops: adds * 10 * multiply, Bytes: float64(m.pointBytes()+scalarBytes) * n, Unit: graph.Int32}
	if m.second {
		w.Ops *= 3
	}
	return w
}

// tableBytes is the size of the points with their multiples.
func (m *sum) tableBytes() int64 { return int64(m.n*max(m.multiples, 1)) * m.pointBytes() }

func (m *sum) pointBytes() int64 {
	if m.second {
		return bn254.SizeOfG2AffineUncompressed
	}
	return bn254.SizeOfG1AffineUncompressed
}

// sumsBytes is the size of the partial sums.
func (m *sum) sumsBytes() int64 {
	if m.second {
		return msm.SumsBytes[bn254.G2Affine](m.n)
	}
	return msm.SumsBytes[bn254.G1Affine](m.n)
}

// Whole is a whole proof as one task. Most of its work is sums of points.
func (s *shape) Whole() graph.Task {
	t := graph.Task{Name: "proof", Work: s.transformWork(7)}
	if g, err := s.sumGraph(&s.sums[sumZ], []sched.Range{{Hi: int64(s.sums[sumZ].n)}}); err == nil {
		t.Steps = g.Task(0).Steps
	}
	for i := range s.sums {
		w := s.sums[i].work()
		t.Work.Ops, t.Work.Bytes = t.Work.Ops+w.Ops, t.Work.Bytes+w.Bytes
	}
	return t
}

// Graph has a task for the transforms of each of a, b and c and one for the quotient, and for each
// of the five sums a task for each range of constraints, which takes an equal part of the points.
// Sums that need no quotient run in parallel with the transforms.
func (s *shape) Graph(ranges []sched.Range) (*graph.Graph, error) {
	b := placed{on: graph.Constraint{Only: s.only}, urgency: s.urgency}
	scalars := map[string]graph.DataID{"quotient": s.transforms(&b)}
	for i := range s.sums {
		m := &s.sums[i]
		if m.n == 0 {
			continue
		}
		if _, ok := scalars[m.scalars]; !ok {
			scalars[m.scalars] = b.Secret(graph.Data{Name: m.scalars, Bytes: int64(m.n) * scalarBytes, Input: true})
		}
		if err := s.addSum(&b, m, scalars[m.scalars], ranges); err != nil {
			return nil, err
		}
	}
	return b.Build()
}

// placed is a builder of tasks for some devices.
type placed struct {
	graph.Builder
	on      graph.Constraint
	urgency int
}

// Secret adds data that is, or is computed from, the witness.
func (b *placed) Secret(d graph.Data) graph.DataID {
	d.Secret = true
	return b.Data(d)
}

// Add adds a task.
func (b *placed) Add(t graph.Task) {
	t.On, t.Priority = b.on, t.Priority+b.urgency
	b.Builder.Add(t)
}

// The tables of transforms by their names: of an inverse, of a transform on the coset, and of the
// inverse of that, which also divides.
const (
	tablesBack   = "roots, inverse"
	tablesCoset  = "roots, coset"
	tablesDivide = "roots, inverse coset"
)

var (
	back      = ntt.Transform{Inverse: true}
	onCoset   = ntt.Transform{Coset: true}
	fromCoset = ntt.Transform{Inverse: true, Coset: true}
)

// transforms adds the tasks that make the quotient. GPUs have steps of their own, tables and a
// workspace.
func (s *shape) transforms(b *placed) graph.DataID {
	n := int64(s.size()) * scalarBytes
	params := transformParams{s.log}
	var roots [3]graph.DataID
	if !s.hosted {
		for i, name := range []string{tablesBack, tablesCoset, tablesDivide} {
			roots[i] = b.Data(graph.Data{Name: name, Bytes: s.tableBytes(), Input: true})
		}
	}
	quotient := graph.Task{
		Name:     "quotient",
		Steps:    []graph.Step{graph.Step{Kernel: quotientKernel, Launch: graph.Grid(1), Args: []int{0, 1, 2, 3}}.With(params)},
		Work:     s.transformWork(1),
		Priority: 3,
	}
	for _, name := range []string{"a", "b", "c"} {
		in := b.Secret(graph.Data{Name: name, Bytes: n, Input: true})
		out := b.Data(graph.Data{Name: name + " on the coset", Bytes: n, Tolerance: graph.SameBytes})
		t := graph.Task{
			Name:     "transform " + name,
			Steps:    []graph.Step{graph.Step{Kernel: cosetKernel, Launch: graph.Grid(1), Args: []int{0, 1}}.With(params)},
			Uses:     []graph.Use{{Data: in, Access: graph.Read}, {Data: out, Access: graph.Write}},
			Work:     s.transformWork(2),
			Priority: 3,
		}
		if !s.hosted {
			t.Uses = append(t.Uses, graph.Use{Data: roots[0], Access: graph.Read}, graph.Use{Data: roots[1], Access: graph.Read})
			t.Workspace = n
			between, other := s.between(1, 4)
			t.Steps = append(t.Steps, ntt.Steps(passKernel, s.log, back, 0, between, 2, other)...)
			t.Steps = append(t.Steps, ntt.Steps(passKernel, s.log, onCoset, between, 1, 3, 4)...)
		}
		b.Add(t)
		quotient.Uses = append(quotient.Uses, graph.Use{Data: out, Access: graph.Read})
	}
	h := b.Data(graph.Data{Name: "quotient", Bytes: n, Tolerance: graph.SameBytes})
	quotient.Uses = append(quotient.Uses, graph.Use{Data: h, Access: graph.Write})
	if !s.hosted {
		quotient.Uses = append(quotient.Uses, graph.Use{Data: roots[2], Access: graph.Read})
		quotient.Workspace = n
		between, _ := s.between(3, 5)
		quotient.Steps = append(quotient.Steps, graph.Step{Kernel: productKernel, Launch: graph.Grid(s.size()), Args: []int{0, 1, 2, between}}.With(productParams{s.size()}))
		quotient.Steps = append(quotient.Steps, ntt.Steps(passKernel, s.log, fromCoset, between, 3, 4, 5)...)
	}
	b.Add(quotient)
	return h
}

// between returns the buffer in which a transform must begin so that it ends in target, and the other
// buffer.
func (s *shape) between(target, workspace int) (from, other int) {
	if ntt.Passes(s.log)%2 == 0 {
		return target, workspace
	}
	return workspace, target
}

// tables are the tables of transforms, in the order of their names.
func (s *shape) tables() (out [3][]fr.Element) {
	for i, t := range [...]ntt.Transform{back, onCoset, fromCoset} {
		out[i] = ntt.Tables(s.log, t, divisor(s.log))
	}
	return out
}

// tableBytes is the size of the tables of a transform.
func (s *shape) tableBytes() int64 {
	return scalarBytes * int64(len(ntt.Tables(s.log, back, fr.One())))
}

// addSum adds the tasks of a sum.
func (s *shape) addSum(b *placed, m *sum, scalars graph.DataID, ranges []sched.Range) error {
	var cut []sched.Range
	for _, r := range ranges {
		if lo, hi := m.at(r.Lo, s.constraints), m.at(r.Hi, s.constraints); lo < hi {
			cut = append(cut, sched.Range{Lo: lo, Hi: hi})
		}
	}
	g, err := s.sumGraph(m, cut)
	if err != nil {
		return err
	}
	data := [...]graph.DataID{
		b.Data(graph.Data{Name: m.name, Bytes: m.tableBytes(), Input: true}), scalars,
		b.Data(graph.Data{Name: "sums of " + m.name, Bytes: m.sumsBytes(), Output: true, Tolerance: graph.SameBytes}),
	}
	for id := range g.NumTasks() {
		t := *g.Task(graph.TaskID(id))
		t.Name = m.name + ", " + t.Name
		t.Uses = slices.Clone(t.Uses)
		for i := range t.Uses {
			t.Uses[i].Data = data[t.Uses[i].Data]
		}
		if m.second {
			t.Priority = 1 // the longest
		}
		if s.hosted { // cores need no workspace
			t.Steps, t.Workspace = slices.DeleteFunc(slices.Clone(t.Steps), func(s graph.Step) bool { return !onCores(s.Kernel) }), 0
		}
		b.Add(t)
	}
	return nil
}

// onCores reports whether a kernel does anything on cores.
func onCores(k *graph.Kernel) bool {
	return slices.ContainsFunc(k.Impls, func(i graph.Impl) bool { return i.Dialect == graph.Go && i.Entry != "" })
}

// sumGraph is a sum as a graph of its own, whose data are points, scalars and sums.
func (s *shape) sumGraph(m *sum, ranges []sched.Range) (*graph.Graph, error) {
	var b graph.Builder
	points := b.Data(graph.Data{Name: "points", Bytes: m.tableBytes(), Input: true})
	scalars := b.Data(graph.Data{Name: "scalars", Bytes: int64(m.n) * scalarBytes, Input: true})
	sums := b.Data(graph.Data{Name: "sums", Bytes: m.sumsBytes(), Output: true})
	var err error
	// Other tasks run on the other cores.
	if cores := (s.cores + 1) / 2; m.second {
		err = msm.Sum[bn254.G2Affine]{N: m.n, Points: points, Scalars: scalars, Sums: sums, Cores: cores, Multiples: m.multiples}.Add(&b, ranges)
	} else {
		err = msm.Sum[bn254.G1Affine]{N: m.n, Points: points, Scalars: scalars, Sums: sums, Cores: cores, Multiples: m.multiples}.Add(&b, ranges)
	}
	if err != nil {
		return nil, err
	}
	return b.Build()
}

// at returns the bound of points for a bound of constraints: the same fraction of the sum's points.
func (m *sum) at(constraint int64, of int) int64 {
	if constraint == int64(of) {
		return int64(m.n)
	}
	hi, lo := bits.Mul64(uint64(m.n), uint64(constraint))
	q, _ := bits.Div64(hi, lo, uint64(of))
	return int64(q) / msm.Align(m.n) * msm.Align(m.n)
}
