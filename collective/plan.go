package collective

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Plan is an operation worked out for certain devices. It is immutable and may
// be added to any number of graphs.
type Plan struct {
	Spec      Spec // with Algorithm and Pieces filled in
	Predicted time.Duration
	m         *machine.Machine
	steps     []step
	temps     []int64 // elements of each temporary
	// inOrder says that every device takes its steps in the order of the plan,
	// else each as soon as it can: a copy from far in the wrong place holds up
	// all those behind it.
	inOrder bool
	native  bool // it is one task of a gang, and no steps
	why     string
}

// place is a range of elements that a step reads or writes.
type place struct {
	in, out bool // of a rank; neither: a temporary
	which   int  // the rank, or the temporary
	lo, hi  int64
}

// step is one task: rank folds what it finds into each of outs.
type step struct {
	rank    int
	ins     []place
	outs    []place
	divisor int
	// level is by how many steps others come before it, piece which of its
	// slice it is about.
	level, piece int
}

// NewPlan works out an operation on a machine. Where the specification leaves a
// choice it takes what cost predicts to be done first (choose.go); Explain tells why.
func NewPlan(m *machine.Machine, cost machine.Cost, s Spec) (*Plan, error) {
	if err := s.check(m); err != nil {
		return nil, err
	}
	asked := s.Algorithm
	if asked == Native {
		s.Algorithm = ""
	}
	candidates, err := s.candidates()
	if err != nil {
		return nil, err
	}
	p := choose(m, cost, s, candidates)
	if asked != "" && asked != Native {
		return p, nil
	}
	n, why := native(cost, p)
	switch {
	case why == nil:
		return n, nil
	case asked == Native:
		return nil, fmt.Errorf("%v: %w: not by a library of the devices: %w", s.Op, ErrSpec, why)
	}
	return p, nil
}

// alignBytes is the alignment of slices and pieces, where possible: a cache line.
const alignBytes = 64

// maxElements is the most elements of a task, which a launch must be able to count.
const maxElements = 1 << 30

// planner collects the steps of a plan.
type planner struct {
	s      *Spec
	m      *machine.Machine
	a      *algorithm
	t      *topology
	shared bool // all ranks compute in one memory
	wide   bool // all devices fold any number of arrays at once
	pieces int
	steps  []step
	temps  []int64
	piece  int // which of its slice is being looked at
}

func newPlanner(m *machine.Machine, s *Spec, a *algorithm, t *topology, pieces int) *planner {
	p := &planner{s: s, m: m, a: a, t: t, pieces: pieces, shared: true, wide: true}
	for _, d := range s.Ranks {
		p.shared = p.shared && m.MemoryOf(d) == m.MemoryOf(s.Ranks[0])
		p.wide = p.wide && m.Devices[d].CanRun(manyKernels[s.Fold][s.Type])
	}
	return p
}

// run makes the steps.
func (p *planner) run() {
	s, n := p.s, p.t.n
	switch s.Op {
	case OpAllReduce:
		p.overOwners(func(r route) {
			r.folds, r.wanted = true, p.everyone(-1)
			p.route(r)
		})
	case OpReduce:
		if p.a.halves || p.a.fold == nil && p.shared {
			p.overOwners(func(r route) {
				r.folds, r.wanted = true, p.only(s.Root)
				p.route(r)
			})
			break
		}
		p.whole(func(r route) {
			r.owner, r.folds, r.wanted = s.Root, true, p.only(s.Root)
			p.route(r)
		})
	case OpReduceScatter:
		for r := range n {
			first, end := s.block(r)
			p.cut(first, end, func(lo, hi int64) {
				p.route(route{lo: lo, hi: hi, owner: r, folds: true, wanted: p.only(r), shift: first})
			})
		}
	case OpBroadcast:
		if p.a.halves {
			p.overOwners(func(r route) {
				r.source, r.wanted = s.Root, p.everyone(s.Root)
				p.route(r)
			})
			break
		}
		p.whole(func(r route) {
			r.owner, r.source, r.wanted = s.Root, s.Root, p.everyone(s.Root)
			p.route(r)
		})
	case OpAllGather:
		for r := range n {
			first, end := s.block(r)
			p.cut(first, end, func(lo, hi int64) {
				p.route(route{lo: lo, hi: hi, owner: r, source: r, base: first, wanted: p.everyone(-1)})
			})
		}
	case OpAllToAll:
		for i := range n { // each begins with another, so that they do not meet
			for r := range n {
				from := (r + i) % n
				first, end := s.block(r)
				to := int64(from)*(end-first) - first
				p.cut(first, end, func(lo, hi int64) {
					p.copy(r, place{in: true, which: from, lo: lo, hi: hi}, place{out: true, which: r, lo: to + lo, hi: to + hi}, i)
				})
			}
		}
	case OpSend:
		p.whole(func(r route) {
			p.copy(s.Peer, place{in: true, which: s.Root, lo: r.lo, hi: r.hi}, place{out: true, which: s.Peer, lo: r.lo, hi: r.hi}, 0)
		})
	case OpBarrier:
		r := route{hi: 1, owner: p.a.owners(p.t)[0], folds: true, wanted: make([]bool, n), visit: true}
		for k := range n {
			at := p.temp(1)
			p.steps = append(p.steps, step{rank: k, outs: []place{at}})
			r.tokens = append(r.tokens, at)
		}
		p.route(r)
	}
}

// order puts the steps about in the order things will happen, each after those
// it needs: the pieces of a step one after the other before the next step, or each
// piece some steps behind the one before it.
func (p *planner) order(behind int) {
	slices.SortStableFunc(p.steps, func(a, b step) int {
		return cmp.Or(cmp.Compare(a.level+behind*a.piece, b.level+behind*b.piece), cmp.Compare(a.level, b.level), cmp.Compare(a.piece, b.piece))
	})
}

// everyone are all ranks but one, -1 for none.
func (p *planner) everyone(but int) []bool {
	out := make([]bool, p.t.n)
	for r := range out {
		out[r] = r != but
	}
	return out
}

// only is one rank.
func (p *planner) only(r int) []bool {
	out := make([]bool, p.t.n)
	out[r] = true
	return out
}

// overOwners cuts the vector into slices, one for each rank the algorithm gives
// one to, and those into pieces.
func (p *planner) overOwners(each func(route)) {
	owners := p.a.owners(p.t)
	for k, owner := range owners {
		lo, hi := p.aligned(0, p.s.Count, len(owners), k)
		p.cut(lo, hi, func(lo, hi int64) { each(route{lo: lo, hi: hi, owner: owner}) })
	}
}

// whole takes the vector as one slice.
func (p *planner) whole(each func(route)) {
	p.cut(0, p.s.Count, func(lo, hi int64) { each(route{lo: lo, hi: hi}) })
}

// cut cuts a slice into pieces.
func (p *planner) cut(lo, hi int64, each func(lo, hi int64)) {
	n := max(p.pieces, int((hi-lo+maxElements-1)/maxElements))
	for k := range n {
		if a, b := p.aligned(lo, hi, n, k); a < b {
			p.piece = k
			each(a, b)
		}
	}
}

// aligned is part k of n of some elements, cut at cache lines where there are
// enough elements for all to have some.
func (p *planner) aligned(lo, hi int64, n, k int) (int64, int64) {
	line := alignBytes / p.s.Type.Size()
	if (hi-lo)/line < int64(n) {
		line = 1
	}
	at := func(k int) int64 {
		if k == n {
			return hi
		}
		a, _ := Cut(hi-lo, n, k)
		return lo + a/line*line
	}
	return at(k), at(k + 1)
}

// route is the order of ranks that one piece of a slice passes.
type route struct {
	lo, hi int64 // elements of the whole vector
	owner  int
	folds  bool // what all ranks have is folded; else source has it
	source int
	wanted []bool // which ranks get it
	// base and shift are the elements of the vector before those that ranks
	// bring and get.
	base, shift int64
	tokens      []place // what ranks have, where it is no input
	visit       bool    // all ranks are to be reached although none gets anything
}

// held is a place where a rank holds a piece, and the level from which on it does.
type held struct {
	place
	level int
}

// route adds the steps of one piece of a slice.
func (p *planner) route(r route) {
	bring := make([]held, p.t.n)
	for rank := range bring {
		bring[rank].place = place{in: true, which: rank, lo: r.lo - r.base, hi: r.hi - r.base}
		if r.tokens != nil {
			bring[rank].place = r.tokens[rank]
		}
	}
	has := make([]*held, p.t.n) // the result
	root := r.owner
	switch {
	case !r.folds:
		has[r.source] = &bring[r.source]
		p.spread(r, has, []hop{{r.source, root}})
	case p.a.fold == nil:
		p.atOnce(r, bring, has)
	default:
		root = p.along(r, bring, has)
	}
	switch wants := count(r.wanted); {
	case wants > 1 || r.visit:
		p.spread(r, has, p.a.spread(p.t, root))
	case wants == 1:
		p.spread(r, has, []hop{{root, slices.Index(r.wanted, true)}})
	}
	// A source has it already, but not where it wants it.
	if !r.folds && r.wanted[r.source] {
		p.copy(r.source, has[r.source].place, p.target(r, r.source), 0)
	}
}

// target returns the place where a rank puts the result of a route.
func (p *planner) target(r route, rank int) place {
	if !r.wanted[rank] {
		return p.temp(r.hi - r.lo)
	}
	return place{out: true, which: rank, lo: r.lo - r.shift, hi: r.hi - r.shift}
}

// spread copies the result along hops to those that do not have it.
func (p *planner) spread(r route, has []*held, hops []hop) {
	for _, h := range hops {
		if from := has[h.from]; has[h.to] == nil {
			has[h.to] = &held{p.target(r, h.to), from.level + 1}
			p.copy(h.to, from.place, has[h.to].place, from.level)
		}
	}
}

// along folds what ranks bring along the hops of the algorithm, and returns
// where they end.
func (p *planner) along(r route, acc []held, has []*held) int {
	hops, root := p.a.fold(p.t, r.owner)
	if len(hops) == 0 { // there is one rank
		has[root] = &held{p.target(r, root), 1}
		p.copy(root, acc[root].place, has[root].place, 0)
	}
	for i, h := range hops {
		level := max(acc[h.from].level, acc[h.to].level)
		st := step{rank: h.to, ins: []place{acc[h.to].place, acc[h.from].place}, divisor: 1, level: level, piece: p.piece}
		var at place
		if i == len(hops)-1 {
			at = p.target(r, root)
			has[root] = &held{at, level + 1}
			st.divisor = p.divisor()
		} else {
			at = p.temp(r.hi - r.lo)
		}
		acc[h.to] = held{at, level + 1}
		st.outs = []place{at}
		p.steps = append(p.steps, st)
	}
	return root
}

// atOnce has the owner fold what all ranks bring, in their order: in one step
// where its device can, and then in one memory also into all results.
func (p *planner) atOnce(r route, bring []held, has []*held) {
	st := step{rank: r.owner, divisor: p.divisor(), piece: p.piece}
	for rank := range bring {
		st.ins = append(st.ins, bring[rank].place)
	}
	for len(st.ins) > 2 && !p.wide {
		at := p.temp(r.hi - r.lo)
		p.steps = append(p.steps, step{rank: st.rank, ins: slices.Clone(st.ins[:2]), outs: []place{at}, divisor: 1, level: st.level, piece: p.piece})
		st.ins = append([]place{at}, st.ins[2:]...)
		st.level++
	}
	give := func(rank int) {
		has[rank] = &held{p.target(r, rank), st.level + 1}
		st.outs = append(st.outs, has[rank].place)
	}
	if p.shared && p.wide {
		for rank, wanted := range r.wanted {
			if wanted {
				give(rank)
			}
		}
	}
	if len(st.outs) == 0 { // else all who want it have it, and the owner need not
		give(r.owner)
	}
	p.steps = append(p.steps, st)
}

func count(set []bool) (n int) {
	for _, in := range set {
		if in {
			n++
		}
	}
	return n
}

// divisor returns the number that a complete sum is divided by: the ranks for
// Average, else 1.
func (p *planner) divisor() int {
	if p.s.Op.Folds() && p.s.Fold == Average {
		return p.t.n
	}
	return 1
}

// temp is a new temporary.
func (p *planner) temp(elements int64) place {
	p.temps = append(p.temps, elements)
	return place{which: len(p.temps) - 1, hi: elements}
}

func (p *planner) copy(rank int, from, to place, level int) {
	p.steps = append(p.steps, step{rank: rank, ins: []place{from}, outs: []place{to}, divisor: 1, level: level, piece: p.piece})
}

// Buffer is the position in a graph's data where a rank's elements begin. The zero
// Buffer serves a rank that brings or gets nothing.
type Buffer struct {
	Data   graph.DataID
	Offset int64 // bytes, whole elements
}

// Add adds the operation to a graph. in holds what each rank brings, out is where
// each gets its result; they must not overlap. For a barrier, after lists the tasks
// that each rank waits for, and in and out are ignored. Add returns the last task of
// each rank, graph.NoTask for a rank with nothing to do. Once a barrier's tasks are
// done, all ranks have arrived.
func (p *Plan) Add(b *graph.Builder, in, out []Buffer, after ...[]graph.TaskID) []graph.TaskID {
	if p.native {
		return p.addNative(b, in, out)
	}
	size := p.Spec.elementBytes()
	temps := make([]graph.DataID, len(p.temps))
	for i, n := range p.temps {
		temps[i] = b.Data(graph.Data{Bytes: n * size})
	}
	last := make([]graph.TaskID, len(p.Spec.Ranks))
	for r := range last {
		last[r] = graph.NoTask
	}
	latest := make(map[machine.DeviceID]graph.TaskID)
	use := func(at place, a graph.Access) graph.Use {
		u := graph.Use{Offset: at.lo * size, Bytes: (at.hi - at.lo) * size, Access: a}
		switch {
		case at.in:
			u.Data, u.Offset = in[at.which].Data, in[at.which].Offset+u.Offset
		case at.out:
			u.Data, u.Offset = out[at.which].Data, out[at.which].Offset+u.Offset
		default:
			u.Data = temps[at.which]
		}
		return u
	}
	for i := range p.steps {
		st := &p.steps[i]
		t := p.task(st)
		for _, at := range st.ins {
			t.Uses = append(t.Uses, use(at, graph.Read))
		}
		for _, at := range st.outs {
			t.Uses = append(t.Uses, use(at, graph.Write))
		}
		if len(st.ins) == 0 && st.rank < len(after) {
			t.After = slices.Clone(after[st.rank])
		}
		on := p.Spec.Ranks[st.rank]
		if before, ok := latest[on]; ok && p.inOrder {
			t.After = append(t.After, before)
		}
		last[st.rank] = b.Add(t)
		latest[on] = last[st.rank]
	}
	return last
}

// Graph is the operation as a graph of its own. Its inputs are named "in 0" and
// so on by rank, its outputs "out 0"; those without elements are left out.
func (p *Plan) Graph() (*graph.Graph, error) {
	var b graph.Builder
	n := len(p.Spec.Ranks)
	in, out := make([]Buffer, n), make([]Buffer, n)
	size := p.Spec.elementBytes()
	for r := range n {
		if c := p.Spec.InCount(r); c > 0 {
			in[r].Data = b.Data(graph.Data{Name: InName(r), Bytes: c * size, Input: true})
		}
		if c := p.Spec.OutCount(r); c > 0 {
			out[r].Data = b.Data(graph.Data{Name: OutName(r), Bytes: c * size, Output: true})
		}
	}
	p.Add(&b, in, out)
	return b.Build()
}

// InName and OutName are what Graph calls the data of a rank.
func InName(rank int) string { return fmt.Sprintf("in %d", rank) }

// OutName returns the name that Graph gives to a rank's result.
func OutName(rank int) string { return fmt.Sprintf("out %d", rank) }

// elementBytes is the size of an element; tokens of a barrier are int32.
func (s *Spec) elementBytes() int64 {
	if s.Op == OpBarrier {
		return I32.Size()
	}
	return s.Type.Size()
}

// streamBytes is the number of bytes moved from which an operation writes its results
// past the caches: a core would not find more than this there again.
const streamBytes = 32 << 20

// task is a step without its uses.
func (p *Plan) task(st *step) graph.Task {
	s := &p.Spec
	typ, op := s.Type, s.Fold
	if s.Op == OpBarrier {
		typ, op = I32, Max
	}
	n, k, m := st.outs[0].hi-st.outs[0].lo, len(st.ins), len(st.outs)
	t := graph.Task{On: graph.Constraint{Only: []string{p.m.Devices[s.Ranks[st.rank]].Name}}}
	var kernel *graph.Kernel
	switch {
	case k == 0:
		t.Name, kernel = "arrive", tokenKernel
	case k == 1 && m == 1:
		t.Name, kernel = "copy", copyKernels[typ.Size()]
	case k == 2 && m == 1:
		t.Name, kernel = "fold", pairKernels[op][typ]
	default:
		t.Name, kernel = "fold all", manyKernels[op][typ]
	}
	t.Name = fmt.Sprintf("%v %s %d", s.Op, t.Name, st.rank)
	stream := 0
	if st.outs[0].out && s.Count*typ.Size()*int64(len(s.Ranks)) >= streamBytes {
		stream = 1
	}
	step := graph.Step{Kernel: kernel, Launch: graph.Launch{Grid: [3]uint32{uint32(n), 1, 1}}}
	t.Steps = []graph.Step{step.With(params{int(n), k, st.divisor, stream})}
	t.Work = graph.Work{Ops: float64(n) * float64(max(k-1, 0)), Bytes: float64(n*typ.Size()) * float64(k+m), Unit: units[typ]}
	return t
}

// units are what types are computed in.
var units = [numTypes]graph.Unit{graph.FP32, graph.FP64, graph.FP32, graph.FP32, graph.Int32, graph.Int32}
