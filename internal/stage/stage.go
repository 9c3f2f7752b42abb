package stage

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weft-run/weft/graph"
)

// Stages is a graph in the order in which it is cut.
type Stages struct {
	g     *graph.Graph
	tasks []graph.TaskID // in order
	ends  []int          // of levels: how many tasks there are up to each
	// first and last are, by data, the places of the first and last task that uses it; last
	// is -1 if none does. written says whether one writes it.
	first, last []int
	written     []bool
	// accesses are, by piece, the uses of it, in order.
	accesses [][]access
}

// access is one use of a piece, by the task at a place of the order.
type access struct {
	at            int
	reads, writes bool
}

// Of puts the tasks of a graph into their order.
func Of(g *graph.Graph) *Stages {
	f := g.Flow()
	s := &Stages{
		g: g, tasks: make([]graph.TaskID, g.NumTasks()), accesses: make([][]access, len(f.Pieces)),
		first: make([]int, g.NumData()), last: make([]int, g.NumData()), written: make([]bool, g.NumData()),
	}
	for d := range s.last {
		s.last[d] = -1
	}
	level := make([]int, g.NumTasks())
	for i := range level {
		s.tasks[i] = graph.TaskID(i)
		for _, p := range f.Preds(graph.TaskID(i)) { // which come before it in the graph
			level[i] = max(level[i], level[p]+1)
		}
	}
	slices.SortStableFunc(s.tasks, func(a, b graph.TaskID) int { return cmp.Compare(level[a], level[b]) })
	for at, t := range s.tasks {
		if at+1 == len(s.tasks) || level[s.tasks[at+1]] > level[t] {
			s.ends = append(s.ends, at+1)
		}
		for _, u := range f.TaskUses(t) {
			if s.last[u.Data] < 0 {
				s.first[u.Data] = at
			}
			s.last[u.Data] = at
			s.written[u.Data] = s.written[u.Data] || u.Access.Writes()
			for p := u.P0; p < u.P1; p++ {
				s.accesses[p] = append(s.accesses[p], access{at, u.Access.Reads(), u.Access.Writes()})
			}
		}
	}
	return s
}

// Tasks returns the number of tasks.
func (s *Stages) Tasks() int { return len(s.tasks) }

// End returns where a stage should end that begins at lo and is to have about n tasks: at
// the end of a level if there is one between half and twice as many.
func (s *Stages) End(lo, n int) int {
	hi := min(lo+max(n, 1), len(s.tasks))
	i, whole := slices.BinarySearch(s.ends, hi)
	switch {
	case whole || i == len(s.ends):
		return hi
	case s.ends[i]-lo <= 2*n:
		return s.ends[i]
	case i > 0 && s.ends[i-1]-lo >= (n+1)/2:
		return s.ends[i-1]
	}
	return hi
}

// Written reports whether a task writes the data.
func (s *Stages) Written(d graph.DataID) bool { return s.written[d] }

// across reports whether data that the stage of tasks lo to hi-1 uses has to be kept between it and
// those before or after: it is the caller's, or one of these uses it as well. Data that it
// is false for begins and ends within the stage.
func (s *Stages) across(d graph.DataID, lo, hi int) bool {
	h := s.g.Data(d)
	return h.Input || h.Output || s.first[d] < lo || s.last[d] >= hi
}

// Done reports whether none of the tasks from at on uses the data.
func (s *Stages) Done(d graph.DataID, at int) bool { return s.last[d] < at }

// Graph returns the tasks lo to hi-1 as a graph with the same names of data. Data
// that lies across its bounds is an input of it and no output: resident data stands for it,
// which keeps what the stage writes. An input that no task of the whole graph writes is an
// input as it was. bound has the inputs, by their numbers in the whole graph.
func (s *Stages) Graph(lo, hi int) (part *graph.Graph, bound []graph.DataID, err error) {
	var b graph.Builder
	data := make(map[graph.DataID]graph.DataID)
	number := make(map[graph.TaskID]graph.TaskID)
	for _, id := range s.tasks[lo:hi] {
		t := *s.g.Task(id)
		t.Uses = slices.Clone(t.Uses)
		for i := range t.Uses {
			d := t.Uses[i].Data
			if _, ok := data[d]; !ok {
				h := *s.g.Data(d)
				h.Combine, h.Weights = nil, "" // the graph has combined, and weights are bound
				h.Output = false
				if h.Input = s.across(d, lo, hi); h.Input {
					bound = append(bound, d)
				}
				data[d] = b.Data(h)
			}
			t.Uses[i].Data = data[d]
		}
		after := t.After
		t.After = nil
		for _, p := range after {
			if n, ok := number[p]; ok { // those of earlier stages have ended
				t.After = append(t.After, n)
			}
		}
		number[id] = b.Add(t)
	}
	if part, err = b.Build(); err != nil {
		return nil, nil, fmt.Errorf("tasks %d to %d: %w", lo, hi, err)
	}
	return part, bound, nil
}

// Range is an interval of data.
type Range struct{ Lo, Hi int64 }

// Live returns which parts of data matter after the tasks before at: those that were
// written and that a later task reads before one writes them anew, or that are
// the caller's to have at the end.
func (s *Stages) Live(d graph.DataID, at int) (out []Range) {
	f := s.g.Flow()
	for p := f.PieceOff[d]; p < f.PieceOff[d+1]; p++ {
		if !s.live(p, at) {
			continue
		}
		piece := f.Pieces[p]
		if n := len(out); n > 0 && out[n-1].Hi == piece.Lo {
			out[n-1].Hi = piece.Hi
			continue
		}
		out = append(out, Range{piece.Lo, piece.Hi})
	}
	return out
}

func (s *Stages) live(p int32, at int) bool {
	written := false
	for _, a := range s.accesses[p] {
		if a.at >= at {
			return written && a.reads
		}
		written = written || a.writes
	}
	return written && s.g.Data(s.g.Flow().Pieces[p].Data).Output
}
