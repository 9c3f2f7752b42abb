// Package stage cuts a graph into stages that are run one after another, so that between
// two of them nothing runs and what has been computed is plain data. A checkpoint lies
// there. The root package calls it.
//
// Tasks are put into levels: a task is one level above the highest of those it waits for.
// A flow has every order that data demands, so that the levels one after another give what
// the graph gives. A stage is any number of levels in a row: where they are cut changes
// neither the result nor what lies between them.
package stage

import (
	"fmt"
	"slices"

	"github.com/weft-run/weft/graph"
)

// Stages is a graph in levels.
type Stages struct {
	g     *graph.Graph
	level []int32          // by task
	tasks [][]graph.TaskID // by level, in the order of the graph
	// first and last are, by data, the levels of the first and last task that uses it; last
	// is -1 if none does. written says whether one writes it.
	first, last []int32
	written     []bool
	// accesses are, by piece, the tasks that use it, in the order of levels.
	accesses [][]access
}

// access is one use of a piece, by a task of a level.
type access struct {
	level         int32
	reads, writes bool
}

// Of puts the tasks of a graph into levels.
func Of(g *graph.Graph) *Stages {
	f := g.Flow()
	s := &Stages{
		g: g, level: make([]int32, g.NumTasks()), accesses: make([][]access, len(f.Pieces)),
		first: make([]int32, g.NumData()), last: make([]int32, g.NumData()), written: make([]bool, g.NumData()),
	}
	for d := range s.last {
		s.last[d] = -1
	}
	for i := range s.level {
		t := graph.TaskID(i)
		at := int32(0)
		for _, p := range f.Preds(t) { // which come before it in the graph
			at = max(at, s.level[p]+1)
		}
		s.level[t] = at
		for int(at) >= len(s.tasks) {
			s.tasks = append(s.tasks, nil)
		}
		s.tasks[at] = append(s.tasks[at], t)
	}
	for l, tasks := range s.tasks {
		for _, t := range tasks {
			for _, u := range f.TaskUses(t) {
				if s.last[u.Data] < 0 {
					s.first[u.Data] = int32(l)
				}
				s.last[u.Data] = int32(l)
				s.written[u.Data] = s.written[u.Data] || u.Access.Writes()
				for p := u.P0; p < u.P1; p++ {
					s.accesses[p] = append(s.accesses[p], access{int32(l), u.Access.Reads(), u.Access.Writes()})
				}
			}
		}
	}
	return s
}

// Levels is how many levels there are.
func (s *Stages) Levels() int { return len(s.tasks) }

// Tasks is how many tasks the levels lo to hi-1 have.
func (s *Stages) Tasks(lo, hi int) (n int) {
	for _, tasks := range s.tasks[lo:hi] {
		n += len(tasks)
	}
	return n
}

// Written reports whether a task writes the data.
func (s *Stages) Written(d graph.DataID) bool { return s.written[d] }

// Across reports whether data has to be kept between the stage of levels lo to hi-1 and
// those before or after: it is the caller's, or one of these uses it as well. Data that it
// is false for begins and ends within the stage, or has no part in it.
func (s *Stages) Across(d graph.DataID, lo, hi int) bool {
	if s.last[d] < int32(lo) || s.first[d] >= int32(hi) {
		return false
	}
	h := s.g.Data(d)
	return h.Input || h.Output || s.first[d] < int32(lo) || s.last[d] >= int32(hi)
}

// Done reports whether no task of level at or above uses the data.
func (s *Stages) Done(d graph.DataID, at int) bool { return s.last[d] < int32(at) }

// Graph returns the tasks of levels lo to hi-1 as a graph with the same names of data. Data
// that lies across its bounds is an input of it and no output: resident data stands for it,
// which keeps what the stage writes. An input that no task of the whole graph writes is an
// input as it was.
func (s *Stages) Graph(lo, hi int) (*graph.Graph, error) {
	var b graph.Builder
	data := make(map[graph.DataID]graph.DataID)
	number := make(map[graph.TaskID]graph.TaskID)
	for _, tasks := range s.tasks[lo:hi] {
		for _, id := range tasks {
			t := *s.g.Task(id)
			t.Uses = slices.Clone(t.Uses)
			for i := range t.Uses {
				d := t.Uses[i].Data
				if _, ok := data[d]; !ok {
					h := *s.g.Data(d)
					h.Combine, h.Weights = nil, "" // the graph has combined, and weights are bound
					h.Output = false
					h.Input = s.Across(d, lo, hi)
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
	}
	g, err := b.Build()
	if err != nil {
		return nil, fmt.Errorf("levels %d to %d: %w", lo, hi, err)
	}
	return g, nil
}

// Range is an interval of data.
type Range struct{ Lo, Hi int64 }

// Live returns which parts of data matter after the levels below at: those that were
// written and that a task of a later level reads before one writes them anew, or that are
// the caller's to have at the end.
func (s *Stages) Live(d graph.DataID, at int) (out []Range) {
	f := s.g.Flow()
	for p := f.PieceOff[d]; p < f.PieceOff[d+1]; p++ {
		if !s.live(p, int32(at)) {
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

func (s *Stages) live(p, at int32) bool {
	written := false
	for _, a := range s.accesses[p] {
		if a.level < at {
			written = written || a.writes
			continue
		}
		// Of one level either one task writes a piece or several read it, for a writer
		// waits for readers and they for it.
		return written && a.reads
	}
	return written && s.g.Data(s.g.Flow().Pieces[p].Data).Output
}
