package stage

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-run/weft/graph"
)

// interpret runs the tasks of a graph one after another on numbers: a task adds up what it
// reads, byte by byte, and writes a function of that and its name. missing is called for a
// read of what has no value.
func interpret(g *graph.Graph, mem map[string][]uint64, missing func(task, data string)) {
	for i := range g.NumTasks() {
		t := g.Task(graph.TaskID(i))
		sum := uint64(len(t.Name))
		for _, c := range t.Name {
			sum = sum*31 + uint64(c)
		}
		for _, u := range t.Uses {
			if u.Access.Reads() {
				for _, x := range mem[g.Data(u.Data).Name][u.Offset : u.Offset+u.Bytes] {
					if x == unknown {
						missing(t.Name, g.Data(u.Data).Name)
					}
					sum = sum*1_000_003 + x
				}
			}
		}
		for k, u := range t.Uses {
			if u.Access.Writes() {
				for at := u.Offset; at < u.Offset+u.Bytes; at++ {
					mem[g.Data(u.Data).Name][at] = sum + uint64(k)*7 + uint64(at)
				}
			}
		}
	}
}

// unknown stands for a byte without a value.
const unknown = 0xdeadbeefdeadbeef

// random makes a graph of random tasks.
func random(r *rand.Rand) *graph.Graph {
	for {
		var b graph.Builder
		n := 2 + r.IntN(6)
		for d := range n {
			b.Data(graph.Data{Name: fmt.Sprint("d", d), Bytes: 8, Input: d == 0 || r.IntN(3) == 0, Output: r.IntN(3) == 0})
		}
		tasks := 1 + r.IntN(30)
		for i := range tasks {
			t := graph.Task{Name: fmt.Sprint("t", i), Steps: []graph.Step{{Kernel: graph.GoKernel("k"), Launch: graph.Grid(1)}}}
			for range 1 + r.IntN(3) {
				d := graph.DataID(r.IntN(n))
				if slices.ContainsFunc(t.Uses, func(u graph.Use) bool { return u.Data == d }) {
					continue
				}
				u := graph.Use{Data: d, Bytes: 8, Access: graph.Access(r.IntN(3))}
				if r.IntN(2) == 0 {
					u.Offset, u.Bytes = int64(r.IntN(2))*4, 4
				}
				t.Uses = append(t.Uses, u)
			}
			if i > 0 && r.IntN(5) == 0 {
				t.After = append(t.After, graph.TaskID(r.IntN(i)))
			}
			b.Add(t)
		}
		if g, err := b.Build(); err == nil {
			return g
		}
	}
}

// Stages cut anywhere give what the graph gives, and so they do if between two of them
// everything is forgotten but what is live.
func TestStages(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		g := random(r)
		start := func() map[string][]uint64 {
			mem := make(map[string][]uint64)
			for d := range g.NumData() {
				h := g.Data(graph.DataID(d))
				mem[h.Name] = make([]uint64, h.Bytes)
				for i := range mem[h.Name] {
					mem[h.Name][i] = unknown
					if h.Input {
						mem[h.Name][i] = uint64(d*100 + i)
					}
				}
			}
			return mem
		}
		missing := func(task, data string) { t.Fatalf("seed %d: %s reads %s, which was forgotten", seed, task, data) }
		want := start()
		interpret(g, want, missing)
		s, got := Of(g), start()
		for lo := 0; lo < s.Tasks(); {
			hi := lo + 1 + r.IntN(min(8, s.Tasks()-lo))
			if r.IntN(2) == 0 {
				if hi = s.End(lo, hi-lo); hi <= lo || hi > s.Tasks() {
					t.Fatalf("seed %d: a stage from %d to %d", seed, lo, hi)
				}
			}
			part, bound, err := s.Graph(lo, hi)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			local := make(map[string][]uint64)
			for _, id := range bound {
				local[g.Data(id).Name] = got[g.Data(id).Name]
			}
			for d := range part.NumData() {
				h := part.Data(graph.DataID(d))
				if (local[h.Name] != nil) != h.Input {
					t.Fatalf("seed %d: tasks %d to %d: data %s is an input: %v, and bound: %v", seed, lo, hi, h.Name, h.Input, local[h.Name] != nil)
				}
				if !h.Input {
					local[h.Name] = slices.Repeat([]uint64{unknown}, int(h.Bytes))
				}
			}
			if len(local) > part.NumData() {
				t.Fatalf("seed %d: tasks %d to %d: of data %v only %d are used", seed, lo, hi, bound, part.NumData())
			}
			interpret(part, local, missing)
			lo = hi
			got = forget(g, s, got, start(), lo)
		}
		for d := range g.NumData() {
			if h := g.Data(graph.DataID(d)); h.Output && !slices.Equal(got[h.Name], want[h.Name]) {
				t.Fatalf("seed %d: %s is %v, want %v", seed, h.Name, got[h.Name], want[h.Name])
			}
		}
	}
}

// forget returns what a process that resumes has: inputs, and what was live.
func forget(g *graph.Graph, s *Stages, have, fresh map[string][]uint64, at int) map[string][]uint64 {
	for d := range g.NumData() {
		name := g.Data(graph.DataID(d)).Name
		for _, l := range s.Live(graph.DataID(d), at) {
			copy(fresh[name][l.Lo:l.Hi], have[name][l.Lo:l.Hi])
		}
	}
	return fresh
}

// Of two grids that are written in turn only one is live.
func TestLiveHalf(t *testing.T) {
	var b graph.Builder
	in := b.Data(graph.Data{Name: "in", Bytes: 8, Input: true})
	x, y := b.Data(graph.Data{Name: "x", Bytes: 8, Output: true}), b.Data(graph.Data{Name: "y", Bytes: 8})
	from := in
	for i := range 5 {
		to := []graph.DataID{x, y}[i%2]
		b.Add(graph.Task{
			Steps: []graph.Step{{Kernel: graph.GoKernel("k")}},
			Uses:  []graph.Use{{Data: from, Access: graph.Read}, {Data: to, Access: graph.Write}},
		})
		from = to
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	s := Of(g)
	for at, want := range []string{"", "x", "y", "x", "y", "x"} {
		got := ""
		for _, d := range []graph.DataID{in, x, y} {
			if len(s.Live(d, at)) > 0 {
				got += g.Data(d).Name
			}
		}
		if got != want {
			t.Errorf("after %d tasks %q is live, want %q", at, got, want)
		}
	}
}

// Stages end with levels where that is about as long.
func TestEnd(t *testing.T) {
	s := &Stages{tasks: make([]graph.TaskID, 1000), ends: []int{1, 2, 3, 4, 5, 100, 900, 1000}}
	for _, c := range []struct{ lo, n, want int }{
		{0, 1, 1}, {0, 3, 3}, {4, 1, 5}, {4, 10, 14}, {4, 60, 100}, {5, 48, 100}, {5, 5, 10}, {5, 190, 100}, {5, 191, 196}, {100, 500, 900}, {100, 300, 400},
		{850, 100, 1000}, {840, 70, 900}, {990, 50, 1000}, {0, 0, 1},
	} {
		if got := s.End(c.lo, c.n); got != c.want {
			t.Errorf("from %d with %d tasks to %d, want %d", c.lo, c.n, got, c.want)
		}
	}
}

// What a task is to come after without data is kept where both are of one stage, and dropped where
// the other has ended before.
func TestAfterWithinStages(t *testing.T) {
	var b graph.Builder
	add := func(after ...graph.TaskID) graph.TaskID {
		d := b.Data(graph.Data{Bytes: 8})
		return b.Add(graph.Task{Steps: []graph.Step{{Kernel: graph.GoKernel("k")}}, Uses: []graph.Use{{Data: d, Access: graph.Write}}, After: after})
	}
	first := add()
	second := add(first)
	add(first, second)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	s := Of(g)
	for _, c := range []struct {
		lo, hi int
		want   [][]graph.TaskID // by task of the stage
	}{
		{0, 3, [][]graph.TaskID{nil, {0}, {0, 1}}},
		{0, 2, [][]graph.TaskID{nil, {0}}},
		{1, 3, [][]graph.TaskID{nil, {0}}},
		{2, 3, [][]graph.TaskID{nil}},
	} {
		part, _, err := s.Graph(c.lo, c.hi)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range c.want {
			if got := part.Task(graph.TaskID(i)).After; !slices.Equal(got, want) {
				t.Errorf("tasks %d to %d: task %d comes after %v, want %v", c.lo, c.hi, i, got, want)
			}
		}
	}
}
