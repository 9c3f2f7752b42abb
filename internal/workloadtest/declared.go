package workloadtest

import (
	"fmt"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// Declares cuts a job that is Streamed into three ranges of different lengths and compares what it says of
// each with the range's task: by these figures work is divided, and nothing else sees that they are wrong.
// Other jobs need parts of one another's results, which are no bytes of a range.
func Declares(t testing.TB, j workload.Job) {
	t.Helper()
	if !j.Items().Streamed {
		return
	}
	ranges := uneven(j.Items())
	g, err := j.Graph(ranges)
	if err != nil {
		t.Fatal(err)
	}
	if err := declared(j, ranges, g); err != nil {
		t.Errorf("%s: %v", j.Name(), err)
	}
}

// uneven cuts items at a quarter and at half of them, as far as they may be cut.
func uneven(p sched.Items) (ranges []sched.Range) {
	align := max(p.Align, 1)
	lo := int64(0)
	for _, part := range []int64{4, 2, 1} {
		hi := p.Extent / align / part * align
		if part == 1 {
			hi = p.Extent
		}
		if hi > lo {
			ranges = append(ranges, sched.Range{Lo: lo, Hi: hi})
			lo = hi
		}
	}
	return ranges
}

// mostOps is how often the operations of all items the ranges may have together. Ranges do some work
// each that all items as one do once.
const mostOps = 1.25

// declared compares what a job says of ranges with their tasks, which are the first of its graph. What
// every range reads alike, such as the coefficients of a function, may be counted or not: a device that
// has several ranges copies it once.
func declared(j workload.Job, ranges []sched.Range, g *graph.Graph) error {
	items, whole, ops := j.Items(), j.Whole().Work, 0.0
	for i, r := range ranges {
		task := g.Task(graph.TaskID(i))
		own, shared, writes := traffic(g, graph.TaskID(i), len(ranges))
		in, out := items.Bytes(r.Lo, r.Hi)
		if in < own || in > own+shared {
			return fmt.Errorf("range %d-%d is said to read %d bytes, and its task %s reads %d of its own and %d that all read", r.Lo, r.Hi, in, task.Name, own, shared)
		}
		if out != writes {
			return fmt.Errorf("range %d-%d is said to write %d bytes, and its task %s writes %d", r.Lo, r.Hi, out, task.Name, writes)
		}
		if least := float64(max(own, out)); task.Work.Bytes < least {
			return fmt.Errorf("%s moves %.0f bytes through memory, it says, and reads %d of its own and writes %d", task.Name, task.Work.Bytes, own, out)
		}
		ops += task.Work.Ops
		if task.Work.Unit != whole.Unit {
			return fmt.Errorf("%s computes with %s, and all items with %s", task.Name, task.Work.Unit, whole.Unit)
		}
	}
	all := ops
	for id := len(ranges); id < g.NumTasks(); id++ { // which join what ranges made
		all += g.Task(graph.TaskID(id)).Work.Ops
	}
	if !(all >= whole.Ops*(1-1e-9) && ops <= whole.Ops*mostOps) || whole.Ops <= 0 {
		return fmt.Errorf("the ranges take %.0f operations together, with what joins them %.0f, and all items as one %.0f", ops, all, whole.Ops)
	}
	return nil
}

// traffic is how many bytes one of the first n tasks of a graph reads that the others do not read
// alike, how many that all do, and how many it writes.
func traffic(g *graph.Graph, id graph.TaskID, n int) (own, shared, writes int64) {
	for i, u := range g.Task(id).Uses {
		size := u.Bytes
		if size == 0 {
			size = g.Data(u.Data).Bytes - u.Offset
		}
		if u.Access != graph.Read {
			writes += size
		}
		if u.Access == graph.Write {
			continue
		}
		alike := n > 1
		for other := range n {
			uses := g.Task(graph.TaskID(other)).Uses
			alike = alike && i < len(uses) && uses[i] == u
		}
		if alike {
			shared += size
		} else {
			own += size
		}
	}
	return own, shared, writes
}
