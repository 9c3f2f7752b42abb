package plan

import (
	"math"
	"slices"

	"github.com/weft-run/weft/graph"
)

// First is the tasks at the beginning of a job after which less has to be uploaded than its
// inputs: they can run here, and the rest on a rented machine.
type First struct {
	Flops  float64 `json:"flops"`  // operations of these tasks
	Bytes  float64 `json:"bytes"`  // memory traffic of these tasks
	Upload float64 `json:"upload"` // bytes that the other tasks read of them, and inputs that those read
}

// firstOf returns the beginnings of a graph, in its order, that leave at most half and at most
// a tenth of the inputs to upload, and the one that leaves least.
func firstOf(g *graph.Graph) (out [3]First) {
	f := g.Flow()
	tasks := graph.TaskID(g.NumTasks())
	if tasks < 2 {
		return out
	}
	first, last := make([]graph.TaskID, len(f.Values)), make([]graph.TaskID, len(f.Values))
	for v := range last {
		first[v], last[v] = math.MaxInt32, -1
	}
	for id := range tasks {
		uses := f.TaskUses(id)
		for i := range uses {
			for _, v := range f.Writes(&uses[i]) {
				if v >= 0 {
					first[v] = min(first[v], id)
				}
			}
			for _, v := range f.Reads(&uses[i]) {
				if v >= 0 {
					last[v] = max(last[v], id)
				}
			}
		}
	}
	// change is by how much more is to be uploaded after a task than before it.
	all, change := 0.0, make([]float64, tasks)
	for v := range last {
		p := f.Pieces[f.Values[v].Piece]
		bytes := float64(p.Hi - p.Lo)
		switch {
		case last[v] < 0: // nobody reads it
		case f.Values[v].Producer == graph.NoTask:
			all += bytes
			change[last[v]] -= bytes
		default:
			change[first[v]] += bytes
			change[last[v]] -= bytes
		}
	}
	at := First{Upload: all}
	var before []First
	for id := range tasks - 1 {
		t := g.Task(id)
		at.Flops, at.Bytes, at.Upload = at.Flops+t.Work.Ops, at.Bytes+t.Work.Bytes, at.Upload+change[id]
		before = append(before, at)
	}
	least := slices.MinFunc(before, func(a, b First) int { return int(math.Copysign(1, a.Upload-b.Upload)) })
	n := 0
	for _, part := range []float64{0.5 * all, 0.1 * all, least.Upload} {
		i := slices.IndexFunc(before, func(x First) bool { return x.Upload <= part })
		if i >= 0 && before[i].Upload <= 0.9*all && !slices.Contains(out[:n], before[i]) {
			out[n] = before[i]
			n++
		}
	}
	return out
}

// share returns the part of a job that its first tasks are at most, and the part that the
// others are at most: by operations or by memory traffic, whichever is more.
func (f *First) share(n *Need) (first, rest float64) {
	lo, hi := 1.0, 0.0
	for _, x := range [][2]float64{{f.Flops, n.Flops}, {f.Bytes, n.Bytes}} {
		if x[1] > 0 {
			lo, hi = min(lo, x[0]/x[1]), max(hi, x[0]/x[1])
		}
	}
	return min(hi, 1), max(1-lo, 0)
}
