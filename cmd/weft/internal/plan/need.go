package plan

import (
	"cmp"
	"math"

	"github.com/weft-run/weft/graph"
)

// NeedOf returns what a graph asks of a machine if it is run some times, one run after
// another on the same data. All of it follows from what tasks declare: their work, the data
// they use and their workspace. Tasks are taken in the order of the graph, which is one in
// which they can run.
//
// PeakBytes is the most that is alive at a time: inputs from their first use to their last,
// values from the task that makes them to the last that reads them. A device with less runs
// the graph too, as long as LeastBytes of the largest task fit; values then move to host
// memory and back. State is the most that tasks have made and others still want: what a
// checkpoint at the worst moment holds.
func NeedOf(name string, g *graph.Graph, times float64) Need {
	n := Need{Name: name, Dialects: dialectsOf(g)}
	flow := g.Flow()
	var ops [graph.NumUnits]float64
	for id := range graph.TaskID(g.NumTasks()) {
		t := g.Task(id)
		n.Flops += t.Work.Ops
		n.Bytes += t.Work.Bytes
		n.Launches += float64(max(len(t.Steps), 1))
		ops[t.Work.Unit] += t.Work.Ops
		n.LeastBytes = max(n.LeastBytes, taskBytes(flow, id)+t.Workspace)
	}
	for u, x := range ops {
		if x > ops[n.Unit] {
			n.Unit = graph.Unit(u)
		}
	}
	n.Flops, n.Bytes, n.Launches, n.Runs = n.Flops*times, n.Bytes*times, n.Launches*times, times
	for d := range graph.DataID(g.NumData()) {
		data := g.Data(d)
		if data.Input {
			n.Upload += float64(data.Bytes)
		}
		if data.Output {
			n.Download += float64(data.Bytes)
		}
		if data.Input || data.Output {
			n.HostBytes += data.Bytes
		}
	}
	n.PeakBytes, n.State = alive(g)
	if times == 1 { // what several runs read is uploaded once
		n.First = firstOf(g)
	}
	return n
}

// taskBytes is the data that a task uses, every piece once.
func taskBytes(f *graph.Flow, id graph.TaskID) (sum int64) {
	seen := make(map[int32]bool)
	uses := f.TaskUses(id)
	for i := range uses {
		for p := uses[i].P0; p < uses[i].P1; p++ {
			if !seen[p] {
				seen[p] = true
				sum += f.Pieces[p].Hi - f.Pieces[p].Lo
			}
		}
	}
	return sum
}

// alive returns the most bytes that are alive while tasks run in order, and the most of them
// that tasks made.
func alive(g *graph.Graph) (peak, made int64) {
	f := g.Flow()
	// A value is alive from the task that makes it (an input: that first uses it) to the
	// last one that uses it. The last value of an output is copied home by then. A value
	// that replaces another takes its memory.
	type span struct{ first, last graph.TaskID }
	spans := make([]span, len(f.Values))
	for v := range spans {
		spans[v] = span{math.MaxInt32, -1}
	}
	tasks := graph.TaskID(g.NumTasks())
	for id := range tasks {
		uses := f.TaskUses(id)
		for i := range uses {
			for _, list := range [][]int32{f.Reads(&uses[i]), f.Writes(&uses[i])} {
				for _, v := range list {
					if v >= 0 {
						spans[v] = span{min(spans[v].first, id), max(spans[v].last, id)}
					}
				}
			}
		}
	}
	comes, goes := make([]int64, tasks+1), make([]int64, tasks+1)
	madeComes, madeGoes := make([]int64, tasks+1), make([]int64, tasks+1)
	for v := range spans {
		s := spans[v]
		if s.last < 0 {
			continue
		}
		p := f.Pieces[f.Values[v].Piece]
		bytes := p.Hi - p.Lo
		if f.Values[v].Producer != graph.NoTask {
			madeComes[s.first] += bytes
			madeGoes[s.last] += bytes
		}
		if prev := f.Values[v].Prev; prev >= 0 && spans[prev].last == s.first {
			s.first++ // it is written where the version before it was
			if s.first > s.last {
				continue
			}
		}
		comes[s.first] += bytes
		goes[s.last] += bytes
	}
	live, liveMade := int64(0), int64(0)
	for id := range tasks {
		live += comes[id]
		liveMade += madeComes[id]
		peak = max(peak, live+g.Task(id).Workspace)
		made = max(made, liveMade)
		live -= goes[id]
		liveMade -= madeGoes[id]
	}
	return peak, made
}

// least is the device memory that the job cannot do without.
func (n *Need) least() int64 { return cmp.Or(n.LeastBytes, n.PeakBytes) }
