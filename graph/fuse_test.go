package graph

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// anything fuses whatever may be.
var anything = Fusion{
	From: 2, Upto: 1000, Bytes: 1 << 30, Short: time.Second, Long: time.Hour,
	Takes: func(TaskID) time.Duration { return time.Millisecond }, Where: func(TaskID) int { return 0 },
}

// drawChains draws graphs in which tasks mostly go on from the one before, on few
// data of two halves each. The parameters of a step say how it uses its arguments,
// and a last byte what it does to them.
func drawChains(t *rapid.T) *Graph {
	var b Builder
	const half = 4
	written := make([][2]bool, rapid.IntRange(2, 5).Draw(t, "data"))
	for d := range written {
		in := rapid.Bool().Draw(t, "input")
		durability := rapid.SampledFrom([]Durability{Versioned, Versioned, Versioned, Volatile, Mirrored}).Draw(t, "durability")
		b.Data(Data{Bytes: 2 * half, Input: in, Durability: durability})
		written[d] = [2]bool{in, in}
	}
	last := 0
	for i := range rapid.IntRange(1, 12).Draw(t, "tasks") {
		task := Task{Priority: rapid.SampledFrom([]int{0, 0, 0, 0, 1}).Draw(t, "priority")}
		if rapid.IntRange(0, 3).Draw(t, "scratch") == 0 {
			task.Workspace = half
		}
		var how []byte
		use := func(d, part int, a Access) {
			u := Use{Data: DataID(d), Bytes: 2 * half, Access: a}
			parts := []int{0, 1}
			if part < 2 {
				u.Offset, u.Bytes, parts = int64(part*half), half, []int{part}
			}
			for _, p := range parts {
				if a != Write && !written[d][p] {
					return
				}
			}
			if slices.ContainsFunc(task.Uses, func(v Use) bool { return u.overlaps(v) }) {
				return
			}
			if task.Uses, how = append(task.Uses, u), append(how, byte(a)); a != Read {
				for _, p := range parts {
					written[d][p] = true
				}
			}
		}
		part := rapid.SampledFrom([]int{2, 2, 2, 2, 0, 1})
		if rapid.IntRange(0, 4).Draw(t, "goes on") > 0 {
			use(last, part.Draw(t, "part"), rapid.SampledFrom([]Access{Read, Read, ReadWrite}).Draw(t, "access"))
		}
		for range rapid.IntRange(1, 2).Draw(t, "more uses") {
			last = rapid.IntRange(0, len(written)-1).Draw(t, "which")
			use(last, part.Draw(t, "part"), rapid.SampledFrom([]Access{Write, Write, Write, ReadWrite, Read}).Draw(t, "access"))
		}
		if task.Workspace > 0 {
			how = append(how, byte(Write))
		}
		for range rapid.IntRange(1, 2).Draw(t, "steps") {
			s := Step{Kernel: testKernel, Launch: Grid(1), Params: append(slices.Clone(how), byte(i), byte(len(task.Steps)))}
			if rapid.IntRange(0, 3).Draw(t, "own arguments") == 0 {
				// All of them, the last one first: who writes must write each time.
				s.Args = []int{}
				for k := len(how) - 1; k >= 0; k-- {
					s.Args = append(s.Args, k)
					s.Params[len(s.Args)-1] = how[k]
				}
			}
			task.Steps = append(task.Steps, s)
		}
		if i > 0 && rapid.IntRange(0, 5).Draw(t, "after") == 0 {
			task.After = []TaskID{TaskID(rapid.IntRange(0, i-1).Draw(t, "earlier"))}
		}
		b.Add(task)
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// evaluate runs the tasks of a graph one after another and returns what is in its
// data then. What a task writes without reading it begins as garbage.
func evaluate(g *Graph) [][]byte {
	var mem [][]byte
	for d := range g.data {
		m := make([]byte, g.data[d].Bytes)
		for i := range m {
			m[i] = byte(17*d + 3*i)
		}
		mem = append(mem, m)
	}
	garbage := byte(0)
	for i := range g.tasks {
		t := &g.tasks[i]
		var bufs [][]byte
		for _, u := range t.Uses {
			buf := slices.Clone(mem[u.Data][u.Offset : u.Offset+u.Bytes])
			if u.Access == Write {
				for k := range buf {
					garbage += 101
					buf[k] = garbage
				}
			}
			bufs = append(bufs, buf)
		}
		if t.Workspace > 0 {
			garbage += 101
			bufs = append(bufs, slices.Repeat([]byte{garbage}, int(t.Workspace)))
		}
		for _, s := range t.Steps {
			args := bufs
			if s.Args != nil {
				args = nil
				for _, a := range s.Args {
					args = append(args, bufs[a])
				}
			}
			// Everything that is written depends on everything that is read.
			h := uint32(s.Params[len(s.Params)-1]) + 31*uint32(s.Params[len(s.Params)-2])
			for k, a := range args {
				for _, x := range a {
					if Access(s.Params[k]) != Write {
						h = h*16777619 ^ uint32(x)
					}
				}
			}
			for k, a := range args {
				for n := range a {
					if Access(s.Params[k]) != Read {
						h = h*1664525 + 1013904223
						a[n] = byte(h >> 24)
					}
				}
			}
		}
		for k, u := range t.Uses {
			if u.Access != Read {
				copy(mem[u.Data][u.Offset:], bufs[k])
			}
		}
	}
	return mem
}

// order returns which task waits for which, also through others.
func order(g *Graph) [][]bool {
	n := g.NumTasks()
	waits := make([][]bool, n)
	for t := range n {
		waits[t] = make([]bool, n)
		for _, p := range g.flow.Preds(TaskID(t)) {
			waits[t][p] = true
			for q := range n {
				waits[t][q] = waits[t][q] || waits[p][q]
			}
		}
	}
	return waits
}

// Fused graphs compute the same, and nothing waits for more than it did.
func TestFuse(t *testing.T) {
	fused := 0
	rapid.Check(t, func(t *rapid.T) {
		g := drawChains(t)
		how := anything
		how.Upto = rapid.SampledFrom([]int{2, 3, 1000}).Draw(t, "upto")
		f := Fuse(g, how)
		fused += g.NumTasks() - f.NumTasks()
		if got, want := evaluate(f), evaluate(g); !slices.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("%d tasks leave\n%x\nand the %d they were made of\n%x", f.NumTasks(), got, g.NumTasks(), want)
		}
		// Which task became part of which follows from the byte that numbers it.
		part := make([]int, g.NumTasks())
		for i := range f.tasks {
			for _, s := range f.tasks[i].Steps {
				part[s.Params[len(s.Params)-2]] = i
			}
		}
		before, after := order(g), order(f)
		for a := range part {
			for b := range part {
				if part[a] != part[b] && before[a][b] != after[part[a]][part[b]] {
					t.Fatalf("task %d waits for %d: %v; what they became: %v", a, b, before[a][b], after[part[a]][part[b]])
				}
			}
		}
		for i := range f.tasks {
			if n := len(f.tasks[i].Steps); n > max(how.Upto, 2) {
				t.Fatalf("a task of %d steps, and %d are allowed", n, how.Upto)
			}
		}
	})
	if fused == 0 && !testing.Short() { // the few draws of -short may have no chain
		t.Error("nothing was ever fused")
	}
}

// Which tasks become one: letters in a row are a task of the new graph. Every step
// has the name of its task as parameter.
func TestFuseWhich(t *testing.T) {
	task := func(b *Builder, name string, change func(*Task), uses ...Use) {
		x := Task{Name: name, Steps: []Step{{Kernel: testKernel, Launch: Grid(1), Params: []byte(name)}}, Uses: uses}
		if change != nil {
			change(&x)
		}
		b.Add(x)
	}
	// chain adds tasks in a row, each on data of its own.
	chain := func(b *Builder, names string, change func(i int, t *Task)) {
		was := DataID(-1)
		for i, name := range names {
			d := b.Data(Data{Bytes: 8})
			uses := []Use{{Data: d, Access: Write}}
			if was >= 0 {
				uses = append(uses, Use{Data: was, Access: Read})
			}
			task(b, string(name), func(t *Task) {
				if change != nil {
					change(i, t)
				}
			}, uses...)
			was = d
		}
	}
	only := func(f func(*Task)) func(int, *Task) {
		return func(i int, t *Task) {
			if i >= 2 {
				f(t)
			}
		}
	}
	for _, c := range []struct {
		name  string
		build func(*Builder)
		how   func(*Fusion)
		want  string
	}{
		{"a chain", func(b *Builder) { chain(b, "abcde", nil) }, nil, "abcde"},
		{"in place", func(b *Builder) {
			x := b.Data(Data{Bytes: 8, Input: true, Output: true})
			for _, n := range "abc" {
				task(b, string(n), nil, Use{Data: x, Access: ReadWrite})
			}
		}, nil, "abc"},
		{"back and forth", func(b *Builder) {
			x, y := b.Data(Data{Bytes: 8, Input: true}), b.Data(Data{Bytes: 8, Output: true})
			task(b, "a", nil, Use{Data: x}, Use{Data: y, Access: Write})
			task(b, "b", nil, Use{Data: y}, Use{Data: x, Access: Write})
			task(b, "c", nil, Use{Data: x}, Use{Data: y, Access: Write})
		}, nil, "abc"},
		{"round three", func(b *Builder) {
			var d []DataID
			for range 3 {
				d = append(d, b.Data(Data{Bytes: 8, Input: true}))
			}
			for i, n := range "abcdef" {
				task(b, string(n), nil, Use{Data: d[i%3]}, Use{Data: d[(i+1)%3], Access: Write})
			}
		}, nil, "abcdef"},
		{"chains side by side", func(b *Builder) {
			x, y := b.Data(Data{Bytes: 8, Input: true}), b.Data(Data{Bytes: 8, Input: true})
			for i, n := range "abcdef" {
				task(b, string(n), nil, Use{Data: []DataID{x, y}[i%2], Access: ReadWrite})
			}
		}, nil, "ace bdf"},
		{"a diamond", func(b *Builder) {
			var d []DataID
			for range 4 {
				d = append(d, b.Data(Data{Bytes: 8}))
			}
			task(b, "a", nil, Use{Data: d[0], Access: Write})
			task(b, "b", nil, Use{Data: d[0]}, Use{Data: d[1], Access: Write})
			task(b, "c", nil, Use{Data: d[0]}, Use{Data: d[2], Access: Write})
			task(b, "d", nil, Use{Data: d[1]}, Use{Data: d[2]}, Use{Data: d[3], Access: Write})
		}, nil, "a b c d"},
		{"somebody else reads the middle", func(b *Builder) {
			chain(b, "abcd", nil)
			e := b.Data(Data{Bytes: 8})
			task(b, "e", nil, Use{Data: 1}, Use{Data: e, Access: Write})
		}, nil, "ab cd e"},
		{"the middle is an output", func(b *Builder) {
			chain(b, "abcd", nil)
			b.data[1].Output = true
		}, nil, "abcd"},
		{"waits for another", func(b *Builder) {
			x := b.Data(Data{Bytes: 8})
			task(b, "x", nil, Use{Data: x, Access: Write})
			var d [4]DataID
			for i, n := range "abcd" {
				d[i] = b.Data(Data{Bytes: 8})
				uses := []Use{{Data: d[i], Access: Write}}
				if i > 0 {
					uses = append(uses, Use{Data: d[i-1]})
				}
				if i == 2 {
					uses = append(uses, Use{Data: x})
				}
				task(b, string(n), nil, uses...)
			}
		}, nil, "x ab cd"},
		{"waits for what the first waits for", func(b *Builder) {
			x, y := b.Data(Data{Bytes: 8}), b.Data(Data{Bytes: 8})
			z := b.Data(Data{Bytes: 8})
			task(b, "x", nil, Use{Data: x, Access: Write})
			task(b, "z", nil, Use{Data: x}, Use{Data: z, Access: Write}) // so that x has two successors
			task(b, "a", nil, Use{Data: x}, Use{Data: y, Access: Write})
			task(b, "b", nil, Use{Data: x}, Use{Data: y, Access: ReadWrite})
		}, nil, "x z ab"},
		{"slices that overlap", func(b *Builder) {
			x, y := b.Data(Data{Bytes: 8, Input: true}), b.Data(Data{Bytes: 8})
			task(b, "a", nil, Use{Data: x, Bytes: 4, Access: ReadWrite})
			task(b, "b", nil, Use{Data: x, Access: Read}, Use{Data: y, Access: Write})
		}, nil, "a b"},
		{"a gang", func(b *Builder) { chain(b, "abcd", only(func(t *Task) { t.Gang = 2 })) }, nil, "ab c d"},
		{"priorities", func(b *Builder) { chain(b, "abcd", only(func(t *Task) { t.Priority = 2 })) }, nil, "ab cd"},
		{"retries", func(b *Builder) { chain(b, "abcd", only(func(t *Task) { t.Retries = 2 })) }, nil, "ab cd"},
		{"places", func(b *Builder) { chain(b, "abcd", only(func(t *Task) { t.On.Only = []string{"cpu"} })) }, nil, "ab cd"},
		{"hints", func(b *Builder) { chain(b, "abcd", only(func(t *Task) { t.On.Hint = "cpu" })) }, nil, "ab cd"},
		{"units", func(b *Builder) { chain(b, "abcd", only(func(t *Task) { t.Work.Unit = FP64 })) }, nil, "ab cd"},
		{"timeouts", func(b *Builder) { chain(b, "abcd", only(func(t *Task) { t.Timeout = 1 })) }, nil, "ab cd"},
		{"other devices", func(b *Builder) { chain(b, "abcd", nil) }, func(f *Fusion) {
			f.Where = func(t TaskID) int { return int(t) / 2 }
		}, "ab cd"},
		{"mirrored", func(b *Builder) {
			chain(b, "abcd", nil)
			b.data[1].Durability = Mirrored
		}, nil, "a b cd"},
		{"too few", func(b *Builder) { chain(b, "abc", nil) }, func(f *Fusion) { f.From = 4 }, "a b c"},
		{"few of many steps", func(b *Builder) {
			chain(b, "ab", func(_ int, t *Task) { t.Steps = append(t.Steps, t.Steps...) })
		}, func(f *Fusion) { f.From = 4 }, "ab"},
		{"a task of many steps", func(b *Builder) {
			chain(b, "a", func(_ int, t *Task) { t.Steps = append(t.Steps, t.Steps...) })
		}, nil, "a"},
		{"too many", func(b *Builder) { chain(b, "abcdefg", nil) }, func(f *Fusion) { f.Upto = 3 }, "abc def g"},
		{"too much memory", func(b *Builder) { chain(b, "abcd", nil) }, func(f *Fusion) { f.Bytes = 24 }, "abc d"},
		{"too much workspace", func(b *Builder) {
			chain(b, "abcd", only(func(t *Task) { t.Workspace = 80 }))
		}, func(f *Fusion) { f.Bytes = 80 }, "ab c d"},
		{"too many parameters", func(b *Builder) {
			chain(b, "abc", func(_ int, t *Task) { t.Steps[0].Params = append(t.Steps[0].Params, make([]byte, fusedParams/2-1)...) })
		}, nil, "ab c"},
		{"long ones", func(b *Builder) { chain(b, "abcdef", nil) }, func(f *Fusion) {
			f.Short, f.Takes = time.Second, func(t TaskID) time.Duration { return time.Second + time.Duration(t%3-1) }
		}, "ab c de f"},
		{"long together", func(b *Builder) { chain(b, "abcdef", nil) }, func(f *Fusion) {
			f.Long = 3 * time.Millisecond
		}, "abc def"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b Builder
			c.build(&b)
			g, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			how := anything
			if c.how != nil {
				c.how(&how)
			}
			f := Fuse(g, how)
			var got []string
			for i := range f.tasks {
				name := ""
				for _, s := range f.tasks[i].Steps {
					if n := string(s.Params[:1]); !strings.HasSuffix(name, n) {
						name += n
					}
				}
				got = append(got, name)
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("got %s, want %s", s, c.want)
			}
			if f.NumTasks() == g.NumTasks() && f != g {
				t.Error("nothing was fused and the graph is another")
			}
		})
	}
}

// What a fused task has of the tasks it was made of.
func TestFusedTask(t *testing.T) {
	var b Builder
	x := b.Data(Data{Name: "x", Bytes: 8, Input: true})
	y := b.Data(Data{Name: "y", Bytes: 16})
	z := b.Data(Data{Name: "z", Bytes: 8, Output: true})
	before := b.Add(Task{Name: "before", Steps: steps(testKernel)})
	other := b.Add(Task{Name: "other", Steps: steps(testKernel), After: []TaskID{before}})
	one, two := goKernel("one"), goKernel("two")
	first := b.Add(Task{
		Steps: []Step{{Kernel: one, Params: []byte{1}}, {Kernel: two, Args: []int{2, 0}}}, Workspace: 100,
		Uses: []Use{{Data: x}, {Data: y, Access: Write}}, Work: Work{Ops: 1, Bytes: 10}, Timeout: time.Second, After: []TaskID{before},
	})
	second := b.Add(Task{
		Steps: steps(testKernel), After: []TaskID{first, before}, Timeout: 2 * time.Second,
		Uses: []Use{{Data: z, Access: Write}, {Data: y}}, Work: Work{Ops: 2, Bytes: 20},
	})
	b.Add(Task{
		Steps: []Step{{Kernel: two, Args: []int{1}}}, Workspace: 50, After: []TaskID{second}, Timeout: 3 * time.Second,
		Uses: []Use{{Data: z, Access: ReadWrite}, {Data: x, Access: Write}}, Work: Work{Ops: 4, Bytes: 40},
	})
	b.Add(Task{Name: "after", Steps: steps(testKernel), After: []TaskID{other}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	f := Fuse(g, anything)
	if f.NumTasks() != 3 || f.NumData() != 3 || f.tasks[1].Name != "other … after" {
		t.Fatalf("tasks are %v", f.tasks)
	}
	want := Task{
		Name: "task 2 … task 4",
		Steps: []Step{
			{Kernel: one, Params: []byte{1}, Args: []int{0, 1, 3}}, {Kernel: two, Args: []int{3, 0}},
			{Kernel: testKernel, Launch: Grid(1), Args: []int{2, 1}}, {Kernel: two, Args: []int{0}},
		},
		Uses: []Use{
			{Data: x, Bytes: 8, Access: ReadWrite}, {Data: y, Bytes: 16, Access: Write}, {Data: z, Bytes: 8, Access: Write},
		},
		After: []TaskID{0, 0}, Work: Work{Ops: 7, Bytes: 70}, Workspace: 100, Timeout: 6 * time.Second,
	}
	if got := f.tasks[2]; fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	// With a bound for those that have none, each adds its own.
	b = Builder{}
	w := b.Data(Data{Bytes: 8})
	b.Add(Task{Steps: steps(testKernel), Uses: []Use{{Data: w, Access: Write}}})
	b.Add(Task{Steps: steps(testKernel), Uses: []Use{{Data: w, Access: ReadWrite}}})
	if g, err = b.Build(); err != nil {
		t.Fatal(err)
	}
	how := anything
	how.Timeout = time.Minute
	if got := Fuse(g, how).Task(0).Timeout; got != 2*time.Minute {
		t.Errorf("two tasks that may take a minute each may take %v", got)
	}
}
