package collective

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Native is the algorithm of a vendor's own library, such as NCCL: the whole
// operation is one task that a gang of devices runs, one rank each. It is taken
// whenever Spec.Native allows it and the ranks have joined a communicator, since
// it knows its devices better than any graph. In what order it folds is its own
// affair.
const Native = "native"

// Native reports whether devices could do the operation by their own library: nil,
// or why not.
func (s *Spec) Native(m *machine.Machine) error {
	switch {
	case s.Exact:
		return errors.New("exact results are asked for, and a library folds in any order")
	case s.Op == OpBarrier || s.Count == 0 || len(s.Ranks) < 2:
		return errors.New("there is nothing to exchange")
	case s.Ends != nil:
		return errors.New("libraries cut vectors into equal blocks")
	case s.Op.Folds() && s.Fold == Average && (s.Type == I32 || s.Type == I64):
		return errors.New("no library averages integers as it is done here")
	}
	first := &m.Devices[s.Ranks[0]]
	for r, id := range s.Ranks {
		d := &m.Devices[id]
		switch {
		case d.Joins == "":
			return fmt.Errorf("%s has no library for it", d.Name)
		case d.Joins != first.Joins:
			return fmt.Errorf("%s has %s and %s has %s", first.Name, first.Joins, d.Name, d.Joins)
		case nativeKernels[d.Joins] == nil:
			return fmt.Errorf("library %s is not known", d.Joins)
		case !d.CanRun(nativeKernels[d.Joins][s.Op]):
			return fmt.Errorf("%s runs no library routines", d.Name)
		case slices.Contains(s.Ranks[:r], id):
			return fmt.Errorf("%s would be two ranks", d.Name)
		}
	}
	return nil
}

// nativeKernels are the routines of libraries, by operation. Their arguments are
// what a rank brings, then what it gets, each where there is any; their parameters are
// graph.Collective.
var nativeKernels = func() map[string][]*graph.Kernel {
	out := make(map[string][]*graph.Kernel)
	for _, library := range []string{"nccl"} {
		for o := range Op(NumOps) {
			entry := library + "." + o.String()
			out[library] = append(out[library], &graph.Kernel{Name: entry, Impls: []graph.Impl{{Dialect: graph.Library, Entry: entry}}})
		}
	}
	return out
}()

// nativeLatency is the assumed time to start a library's operation on several devices,
// until one has been measured.
const nativeLatency = 20 * time.Microsecond

// native makes the plan by library, given the best there is without, or says why
// there is none.
func native(cost machine.Cost, best *Plan) (*Plan, error) {
	s := best.Spec
	s.Algorithm, s.Pieces = Native, 1
	why := s.Native(best.m)
	if why == nil && s.Communicator == 0 {
		why = errors.New("the ranks have not joined one another")
	}
	if why != nil {
		if slices.ContainsFunc(s.Ranks, func(d machine.DeviceID) bool { return best.m.Devices[d].Joins != "" }) {
			best.why += fmt.Sprintf("  %-12s %10s  %v\n", Native, "no", why)
		}
		return nil, why
	}
	p := &Plan{Spec: s, m: best.m, native: true}
	t := p.gang()
	for _, r := range p.members() {
		p.Predicted = max(p.Predicted, cost.Task(&t, s.Ranks[r]).Median)
	}
	p.Predicted = max(p.Predicted, p.bound()+nativeLatency)
	library := strings.ToUpper(best.m.Devices[s.Ranks[0]].Joins)
	p.why = fmt.Sprintf("  %-12s %10v  1 step, taken: every rank is a GPU of its own and exactness is not asked for, so %s does it\n%s",
		Native, round(p.Predicted), library, best.why)
	return p, nil
}

// members are the ranks that take part, in the order of their devices, which is
// the one in which an engine numbers the members of a gang.
func (p *Plan) members() []int {
	var out []int
	for r := range p.Spec.Ranks {
		if p.Spec.InCount(r) > 0 || p.Spec.OutCount(r) > 0 {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b int) int { return int(p.Spec.Ranks[a] - p.Spec.Ranks[b]) })
	return out
}

// gang is the one task of a native plan, without its uses. It is not tried again:
// a communicator that failed once is of no more use.
func (p *Plan) gang() graph.Task {
	s := &p.Spec
	members := p.members()
	t := graph.Task{
		Name: fmt.Sprintf("%v %s", s.Op, Native), Gang: len(members), Retries: -1,
		Steps: []graph.Step{graph.Step{
			Kernel: nativeKernels[p.m.Devices[s.Ranks[0]].Joins][s.Op],
			Launch: graph.Launch{Grid: [3]uint32{uint32(min(s.Count, maxElements)), 1, 1}},
		}.With(graph.Collective{
			Communicator: s.Communicator, Count: uint64(s.Count),
			Type: int(s.Type), Fold: int(s.Fold), Root: s.Root, Peer: s.Peer,
		})},
	}
	for _, r := range members {
		t.On.Only = append(t.On.Only, p.m.Devices[s.Ranks[r]].Name)
		t.Work.Bytes = max(t.Work.Bytes, float64((s.InCount(r)+s.OutCount(r))*s.Type.Size()))
	}
	t.Work.Unit = units[s.Type]
	return t
}

// addNative adds a native plan to a graph.
func (p *Plan) addNative(b *graph.Builder, in, out []Buffer) []graph.TaskID {
	t := p.gang()
	size := p.Spec.elementBytes()
	members := p.members()
	for k, r := range members {
		if n := p.Spec.InCount(r); n > 0 {
			t.Uses = append(t.Uses, graph.Use{Data: in[r].Data, Offset: in[r].Offset, Bytes: n * size, Access: graph.Read, Rank: int16(k)})
		}
		if n := p.Spec.OutCount(r); n > 0 {
			t.Uses = append(t.Uses, graph.Use{Data: out[r].Data, Offset: out[r].Offset, Bytes: n * size, Access: graph.Write, Rank: int16(k)})
		}
	}
	id := b.Add(t)
	last := make([]graph.TaskID, len(p.Spec.Ranks))
	for r := range last {
		last[r] = graph.NoTask
		if slices.Contains(members, r) {
			last[r] = id
		}
	}
	return last
}
