package graph

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// program is a random list of uses that makes a valid graph, kept as written so
// that references can read it without going through the builder.
type program struct {
	data  []Data
	tasks []Task
}

var testKernel, testCombine = goKernel("k"), goKernel("combine")

func drawProgram(t *rapid.T) program {
	var p program
	written := make([][]bool, rapid.IntRange(1, 3).Draw(t, "data"))
	for d := range written {
		bytes := rapid.IntRange(1, 12).Draw(t, "bytes")
		input := rapid.Bool().Draw(t, "input")
		p.data = append(p.data, Data{
			Name: fmt.Sprint("d", d), Bytes: int64(bytes), Input: input, Combine: testCombine,
			Durability: Durability(rapid.IntRange(0, 2).Draw(t, "durability")),
		})
		written[d] = slices.Repeat([]bool{input}, bytes)
	}
	for i := range rapid.IntRange(0, 14).Draw(t, "tasks") {
		task := Task{Name: fmt.Sprint("t", i), Steps: steps(testKernel), Priority: rapid.IntRange(0, 1).Draw(t, "priority")}
		for range rapid.IntRange(0, 3).Draw(t, "uses") {
			d := rapid.IntRange(0, len(p.data)-1).Draw(t, "which")
			lo := rapid.IntRange(0, len(written[d])-1).Draw(t, "lo")
			hi := rapid.IntRange(lo+1, len(written[d])).Draw(t, "hi")
			u := Use{Data: DataID(d), Offset: int64(lo), Bytes: int64(hi - lo), Access: Access(rapid.IntRange(0, 3).Draw(t, "access"))}
			if slices.Contains(written[d][lo:hi], false) {
				u.Access = Write // everything else needs a value
			}
			if slices.ContainsFunc(task.Uses, func(v Use) bool {
				return u.Data == v.Data && u.Offset < v.Offset+v.Bytes && v.Offset < u.Offset+u.Bytes && (u.Access != Read || v.Access != Read)
			}) {
				continue
			}
			task.Uses = append(task.Uses, u)
		}
		for _, u := range task.Uses {
			if u.Access != Read {
				for k := u.Offset; k < u.Offset+u.Bytes; k++ {
					written[u.Data][k] = true
				}
			}
		}
		for range rapid.IntRange(0, 1).Draw(t, "after") {
			if i > 0 {
				task.After = append(task.After, TaskID(rapid.IntRange(0, i-1).Draw(t, "earlier")))
			}
		}
		p.tasks = append(p.tasks, task)
	}
	for d := range p.data {
		p.data[d].Output = !slices.Contains(written[d], false) && rapid.Bool().Draw(t, "output")
	}
	return p
}

// build hands the program to a Builder. A program counts tasks by position; the
// builder's own come in between.
func (p program) build(t interface{ Fatal(...any) }) *Graph {
	var b Builder
	for _, d := range p.data {
		b.Data(d)
	}
	var ids []TaskID
	for _, task := range p.tasks {
		var after []TaskID
		for _, a := range task.After {
			after = append(after, ids[a])
		}
		task.After = after
		ids = append(ids, b.Add(task))
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// closure makes before transitive, given only pairs (earlier, later).
func closure(before [][]bool) {
	for j := range before {
		for i := range j {
			for h := range i {
				before[h][j] = before[h][j] || before[h][i] && before[i][j]
			}
		}
	}
}

func square(n int) [][]bool {
	m := make([][]bool, n)
	for i := range m {
		m[i] = make([]bool, n)
	}
	return m
}

// The order between tasks is that of any two that touch a byte one of them
// writes, byte by byte, and nothing more.
func TestOrderIsThatOfConflicts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawProgram(t).build(t)
		n := g.NumTasks()
		naive, real := square(n), square(n)
		type place struct {
			d DataID
			k int64
		}
		touched := make(map[place][]int) // tasks that used a byte, in order
		writes := make(map[place][]bool) // whether they wrote it
		for j := range n {
			for _, p := range g.Task(TaskID(j)).After {
				naive[p][j] = true
			}
			for _, u := range g.Task(TaskID(j)).Uses {
				for k := u.Offset; k < u.Offset+u.Bytes; k++ {
					at := place{u.Data, k}
					for x, i := range touched[at] {
						if i != j && (writes[at][x] || u.Access != Read) {
							naive[i][j] = true
						}
					}
					touched[at] = append(touched[at], j)
					writes[at] = append(writes[at], u.Access != Read)
				}
			}
			preds := slices.Clone(g.Flow().Preds(TaskID(j)))
			for _, i := range preds {
				if int(i) >= j {
					t.Fatalf("task %d waits for %d", j, i)
				}
				real[i][j] = true
				if !slices.Contains(g.Flow().Succs(TaskID(i)), int32(j)) {
					t.Fatalf("%d is no successor of its predecessor %d", j, i)
				}
			}
			slices.Sort(preds)
			if len(slices.Compact(preds)) != len(g.Flow().Preds(TaskID(j))) {
				t.Fatalf("task %d waits for a task twice: %v", j, g.Flow().Preds(TaskID(j)))
			}
		}
		if len(g.Flow().Succ) != len(g.Flow().Pred) {
			t.Fatal("successors and predecessors differ in number")
		}
		closure(naive)
		closure(real)
		for i := range n {
			for j := range n {
				if naive[i][j] != real[i][j] {
					t.Fatalf("task %d before %d: conflicts say %v, Flow says %v\n%s", i, j, naive[i][j], real[i][j], describe(g))
				}
			}
		}
	})
}

// Values are what a byte-by-byte run sees: every read meets the last writer.
func TestValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawProgram(t).build(t)
		f := g.Flow()
		// The value of each byte, -1 before any.
		now := make([][]int32, g.NumData())
		for d := range now {
			now[d] = slices.Repeat([]int32{-1}, int(g.Data(DataID(d)).Bytes))
		}
		for v := range f.NumInitial {
			p := f.Pieces[f.Values[v].Piece]
			if !g.Data(p.Data).Input || f.Values[v].Producer != NoTask || f.Values[v].Prev != -1 {
				t.Fatalf("initial value %+v of %+v", f.Values[v], p)
			}
			for k := p.Lo; k < p.Hi; k++ {
				now[p.Data][k] = v
			}
		}
		for d := range now {
			if g.Data(DataID(d)).Input == slices.Contains(now[d], -1) {
				t.Fatalf("data %d starts as %v", d, now[d])
			}
		}
		readers := make([]int32, len(f.Values))
		made := make([]bool, len(f.Values))
		for i := range g.NumTasks() {
			uses := f.TaskUses(TaskID(i))
			if len(uses) != len(g.Task(TaskID(i)).Uses) {
				t.Fatalf("task %d has %d uses in the flow", i, len(uses))
			}
			for x := range uses {
				u, orig := &uses[x], g.Task(TaskID(i)).Uses[x]
				ps := f.Pieces[u.P0:u.P1]
				if u.Data != orig.Data || u.Access != orig.Access || u.Rank != orig.Rank ||
					ps[0].Lo != orig.Offset || ps[len(ps)-1].Hi != orig.Offset+orig.Bytes || f.UseBytes(u) != orig.Bytes {
					t.Fatalf("use %+v became %+v", orig, *u)
				}
				reads := f.Reads(u)
				if (reads != nil) != orig.Access.Reads() {
					t.Fatalf("%v reads %v", orig.Access, reads)
				}
				for k, v := range reads {
					readers[v]++
					for at := ps[k].Lo; at < ps[k].Hi; at++ {
						if now[u.Data][at] != v {
							t.Fatalf("task %d reads value %d of byte %d, which holds %d", i, v, at, now[u.Data][at])
						}
					}
				}
			}
			for x := range uses {
				u := &uses[x]
				writes := f.Writes(u)
				if (writes != nil) != u.Access.Writes() {
					t.Fatalf("%v writes %v", u.Access, writes)
				}
				for k, v := range writes {
					p, val := f.Pieces[int(u.P0)+k], f.Values[v]
					if made[v] || val.Producer != TaskID(i) || val.Piece != u.P0+int32(k) || val.Prev != now[u.Data][p.Lo] {
						t.Fatalf("task %d makes %+v", i, val)
					}
					made[v] = true
					for at := p.Lo; at < p.Hi; at++ {
						now[u.Data][at] = v
					}
				}
			}
		}
		var finals []int32
		for p, v := range f.Last {
			piece := f.Pieces[p]
			for at := piece.Lo; at < piece.Hi; at++ {
				if now[piece.Data][at] != v {
					t.Fatalf("piece %d ends as %d, byte %d as %d", p, v, at, now[piece.Data][at])
				}
			}
			if v >= 0 && made[v] && g.Data(piece.Data).Output {
				finals = append(finals, int32(p))
			}
		}
		if !slices.Equal(f.Finals, finals) {
			t.Fatalf("finals %v, want %v", f.Finals, finals)
		}
		for v, val := range f.Values {
			if val.Readers != readers[v] || made[v] == (int32(v) < f.NumInitial) {
				t.Fatalf("value %d: %+v; want %d readers", v, val, readers[v])
			}
		}
	})
}

// Pieces are cut at every boundary of a use and nowhere else.
func TestPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawProgram(t).build(t)
		f := g.Flow()
		for d := range g.NumData() {
			want := []int64{0, g.Data(DataID(d)).Bytes}
			for i := range g.NumTasks() {
				for _, u := range g.Task(TaskID(i)).Uses {
					if u.Data == DataID(d) {
						want = append(want, u.Offset, u.Offset+u.Bytes)
					}
				}
			}
			slices.Sort(want)
			want = slices.Compact(want)
			got := []int64{0}
			for _, p := range f.Pieces[f.PieceOff[d]:f.PieceOff[d+1]] {
				if p.Data != DataID(d) || p.Lo != got[len(got)-1] {
					t.Fatalf("piece %+v of data %d after %v", p, d, got)
				}
				got = append(got, p.Hi)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("data %d is cut at %v, want %v", d, got, want)
			}
		}
	})
}

// machineState runs uses on bytes that are integers: a write stores a number of
// its own, an update adds it, a combine adds up its arguments.
type machineState struct {
	bytes map[DataID][]int64
	seen  []string // what reads saw
}

func (m *machineState) slice(d DataID, u Use, size int64) []int64 {
	if m.bytes[d] == nil {
		m.bytes[d] = make([]int64, size)
	}
	return m.bytes[d][u.Offset : u.Offset+u.Bytes]
}

func (m *machineState) use(task string, x int, u Use, access Access, size int64) {
	s := m.slice(u.Data, u, size)
	if access.Reads() {
		m.seen = append(m.seen, fmt.Sprintf("%s use %d: %v", task, x, s))
	}
	for k := range s {
		var name int64
		for _, c := range task {
			name = name*31 + int64(c)
		}
		v := name*1000 + int64(x)*100 + int64(k)
		if access == Write {
			s[k] = v
		} else if access != Read {
			s[k] += v
		}
	}
}

// A graph with reductions gives the result of adding each contribution at once,
// in the order of the program, whatever slices overlap.
func TestReduceMeansAdd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProgram(t)
		want := machineState{bytes: make(map[DataID][]int64)}
		for _, task := range p.tasks {
			for x, u := range task.Uses {
				want.use(task.Name, x, u, u.Access, p.data[u.Data].Bytes)
			}
		}
		g := p.build(t)
		got := machineState{bytes: make(map[DataID][]int64)}
		for i := range g.NumTasks() {
			task := g.Task(TaskID(i))
			if task.Steps[0].Kernel == testCombine {
				into := got.slice(task.Uses[0].Data, task.Uses[0], g.Data(task.Uses[0].Data).Bytes)
				for _, u := range task.Uses[1:] {
					for k, v := range got.slice(u.Data, u, g.Data(u.Data).Bytes) {
						into[k] += v
					}
				}
				continue
			}
			for x, u := range task.Uses {
				got.use(task.Name, x, u, u.Access, g.Data(u.Data).Bytes)
			}
		}
		if !slices.Equal(got.seen, want.seen) {
			t.Fatalf("reads saw %v, want %v\n%s", got.seen, want.seen, describe(g))
		}
		for d := range p.data {
			if !slices.Equal(got.bytes[DataID(d)], want.bytes[DataID(d)]) {
				t.Fatalf("data %d: %v, want %v\n%s", d, got.bytes[DataID(d)], want.bytes[DataID(d)], describe(g))
			}
		}
	})
}

func TestShapes(t *testing.T) {
	k, l := goKernel("k"), goKernel("l")
	tasks := []struct {
		task  Task
		shape int32
	}{
		{Task{Steps: steps(k), Work: Work{Ops: 5}}, 0},
		{Task{Steps: steps(k), Work: Work{Ops: 5}, Name: "named", Priority: 3, Retries: 2}, 0},
		{Task{Steps: steps(l), Work: Work{Ops: 5}}, 1},
		{Task{Steps: steps(k), Work: Work{Ops: 6}}, 2},
		{Task{Steps: steps(k), Work: Work{Ops: 5, Unit: FP64}}, 3},
		{Task{Steps: steps(k), Work: Work{Ops: 5}, Workspace: 1}, 4},
		{Task{Steps: steps(k), Work: Work{Ops: 5}, Gang: 2}, 5},
		{Task{Steps: steps(k), Work: Work{Ops: 5}, On: Constraint{Hint: "cpu"}}, 6},
		{Task{Steps: steps(k), Work: Work{Ops: 5}, On: Constraint{Only: []string{"cpu"}}}, 7},
		{Task{Steps: []Step{{Kernel: k, Launch: Launch{Grid: [3]uint32{2, 1, 1}}}}, Work: Work{Ops: 5}}, 8},
		{Task{Steps: []Step{{Kernel: k}, {Kernel: k}}, Work: Work{Ops: 5}}, 9},
		{Task{Steps: []Step{{Kernel: k}, {Kernel: l}}, Work: Work{Ops: 5}}, 10},
		{Task{Steps: []Step{{Kernel: k}, {Kernel: l}}, Work: Work{Ops: 5}}, 10},
		{Task{Steps: []Step{{Kernel: k, Launch: Grid(1), Params: []byte{1}}}, Work: Work{Ops: 5}}, 0},
	}
	var b Builder
	for _, c := range tasks {
		b.Add(c.task)
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range tasks {
		if got := g.Flow().Rows[i].Shape; got != c.shape {
			t.Errorf("task %d has shape %d, want %d", i, got, c.shape)
		}
	}
	for shape, task := range g.Flow().ShapeTask {
		if tasks[task].shape != int32(shape) {
			t.Errorf("shape %d is shown by task %d, which has shape %d", shape, task, tasks[task].shape)
		}
	}
}

func TestPrioritised(t *testing.T) {
	for _, c := range []struct {
		priorities []int
		want       bool
	}{
		{nil, false}, {[]int{7}, false}, {[]int{7, 7, 7}, false}, {[]int{7, 7, 8}, true}, {[]int{0, 1, 0}, true},
	} {
		var b Builder
		for _, p := range c.priorities {
			b.Add(Task{Steps: steps(testKernel), Priority: p}) // all of one shape
		}
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if g.Flow().Prioritised != c.want {
			t.Errorf("%v: %v", c.priorities, g.Flow().Prioritised)
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	const n = 10_000
	k := goKernel("k")
	for b.Loop() {
		var gb Builder
		x := gb.Data(Data{Name: "x", Bytes: n, Input: true})
		for i := range int64(n) {
			y := gb.Data(Data{Bytes: 8})
			gb.Add(Task{Steps: steps(k), Uses: []Use{{Data: x, Offset: i, Bytes: 1}, {Data: y, Access: Write}}})
		}
		if _, err := gb.Build(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/task")
}

// needOf returns what one data needs of host memory: counted from the uses, and by bytes.
func needOf(g *Graph, d DataID) (n Need, twice bool) {
	f := g.Flow()
	made := make([]int64, g.Data(d).Bytes)
	var whole, read, written int64
	several := false
	for i := range f.Uses {
		u := &f.Uses[i]
		if u.Data != d {
			continue
		}
		several = several || u.P1-u.P0 > 1
		switch {
		case u.Access.Writes():
			written += f.UseBytes(u)
			for k := f.Pieces[u.P0].Lo; k < f.Pieces[u.P1-1].Hi; k++ {
				made[k]++
			}
		case u.P1-u.P0 > 1:
			read += f.UseBytes(u)
		}
	}
	for _, m := range made {
		n.Shared += min(m, 2)
		n.Apart += m
		twice = twice || m > 1
		whole++
	}
	if n.Apart == 0 {
		return n, twice
	}
	if several {
		n.Shared = written + read
	}
	n.Apart += whole + read
	return n, twice
}

// What a graph needs of host memory is the sum over its data, without outputs that go into memory
// of the caller's.
func TestHostNeed(t *testing.T) {
	var outputs, others int
	rapid.Check(t, func(t *rapid.T) {
		p := drawProgram(t)
		for i := range p.tasks {
			p.tasks[i].Workspace = int64(rapid.IntRange(0, 2).Draw(t, "workspace"))
			p.tasks[i].Gang = rapid.IntRange(0, 3).Draw(t, "gang")
		}
		if rapid.Bool().Draw(t, "made once") { // which few of the outputs are that were drawn so far
			bytes := int64(rapid.IntRange(1, 5).Draw(t, "bytes"))
			p.tasks = append(p.tasks, Task{Steps: steps(testKernel), Uses: []Use{{Data: DataID(len(p.data)), Bytes: bytes, Access: Write}}})
			p.data = append(p.data, Data{Name: "once", Bytes: bytes, Output: true})
		}
		g := p.build(t)
		f := g.Flow()
		var want, got Need
		var work int64
		for d := range DataID(g.NumData()) {
			n, twice := needOf(g, d)
			k := slices.IndexFunc(f.Outputs, func(o OutputNeed) bool { return o.Data == d })
			if data := g.Data(d); (k >= 0) != (data.Output && !data.Input && !twice) {
				t.Fatalf("data %d is listed as an output: %t", d, k >= 0)
			}
			if k >= 0 {
				outputs++
				if f.Outputs[k].Need != n {
					t.Fatalf("output %d needs %v, want %v", d, f.Outputs[k].Need, n)
				}
				continue
			}
			others++
			want = want.Plus(n)
		}
		if got = f.HostNeed; got != want {
			t.Fatalf("the graph needs %v, want %v", got, want)
		}
		for i := range g.NumTasks() {
			task := g.Task(TaskID(i))
			work = max(work, task.Workspace*int64(max(task.Gang, 1)))
		}
		if f.Workspace != work {
			t.Fatalf("workspace %d, want %d", f.Workspace, work)
		}
	})
	if outputs == 0 || others == 0 {
		t.Errorf("%d outputs and %d other data were drawn", outputs, others)
	}
}

// Needs that pass the largest number are that number.
func TestHostNeedEndsAtTheLargestNumber(t *testing.T) {
	most := Need{math.MaxInt64, math.MaxInt64}
	for name, build := range map[string]func(b *Builder){
		"versions": func(b *Builder) {
			d := b.Data(Data{Bytes: math.MaxInt64/2 + 1})
			for range 3 {
				b.Add(Task{Steps: steps(testKernel), Uses: []Use{{Data: d, Access: Write}}})
			}
		},
		"data": func(b *Builder) {
			for range 5 {
				b.Add(Task{Steps: steps(testKernel), Uses: []Use{{Data: b.Data(Data{Bytes: math.MaxInt64 / 2}), Access: Write}}})
			}
		},
		"reads": func(b *Builder) {
			d := b.Data(Data{Bytes: math.MaxInt64 / 2, Input: true})
			b.Add(Task{Steps: steps(testKernel), Uses: []Use{{Data: d, Bytes: 1, Access: ReadWrite}}})
			for range 5 {
				b.Add(Task{Steps: steps(testKernel), Uses: []Use{{Data: d, Access: Read}}})
			}
		},
	} {
		var b Builder
		build(&b)
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if got := g.Flow().HostNeed; got != most {
			t.Errorf("%s: %v", name, got)
		}
	}
	var b Builder
	b.Add(Task{Steps: steps(testKernel), Workspace: math.MaxInt64 / 2, Gang: 3})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if got := g.Flow().Workspace; got != math.MaxInt64 {
		t.Errorf("workspace %d", got)
	}
}
