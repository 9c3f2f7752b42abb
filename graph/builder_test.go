package graph

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func goKernel(name string) *Kernel {
	return &Kernel{Name: name, Impls: []Impl{{Dialect: Go, Entry: name}}}
}

func steps(k *Kernel) []Step { return []Step{{Kernel: k, Launch: Grid(1)}} }

// Every kind of mistake, with the words a caller gets to read.
func TestMistakes(t *testing.T) {
	k, hollow := goKernel("k"), &Kernel{Name: "hollow"}
	// Each case gets a builder that holds one written 8-byte input, data 0.
	cases := []struct {
		name string
		do   func(b *Builder)
		is   error
		want string
	}{
		{"data without bytes", func(b *Builder) { b.Data(Data{Name: "y"}) },
			ErrSize, `data "y": bad size: 0 bytes; a handle needs at least 1`},
		{"data of negative size, unnamed", func(b *Builder) { b.Data(Data{Bytes: -3}) },
			ErrSize, `data "data 1": bad size: -3 bytes; a handle needs at least 1`},
		{"durability", func(b *Builder) { b.Data(Data{Name: "y", Bytes: 1, Durability: 9}) },
			ErrValue, `data "y": bad value: durability 9`},
		{"hollow combine kernel", func(b *Builder) { b.Data(Data{Name: "y", Bytes: 1, Combine: hollow}) },
			ErrKernel, `data "y": missing implementation: combine kernel "hollow"`},
		{"no steps", func(b *Builder) { b.Add(Task{Name: "a"}) },
			ErrKernel, `task "a": missing implementation: no steps`},
		{"unnamed task", func(b *Builder) { b.Add(Task{}) },
			ErrKernel, `task 0: missing implementation: no steps`},
		{"step without kernel", func(b *Builder) { b.Add(Task{Name: "a", Steps: []Step{{Kernel: k}, {}}}) },
			ErrKernel, `task "a": missing implementation: step 1 has no kernel`},
		{"hollow kernel", func(b *Builder) { b.Add(Task{Name: "a", Steps: steps(hollow)}) },
			ErrKernel, `task "a": missing implementation: kernel "hollow" has no implementation for any device`},
		{"shared bytes", func(b *Builder) {
			b.Add(Task{Name: "a", Steps: []Step{{Kernel: k, Launch: Launch{SharedBytes: -1}}}})
		}, ErrSize, `task "a": bad size: step 0 wants -1 shared bytes`},
		{"more items than can be counted", func(b *Builder) {
			b.Add(Task{Name: "a", Steps: []Step{{Kernel: k, Launch: Launch{Grid: [3]uint32{1 << 31, 1 << 31, 4}}}}})
		}, ErrSize, `task "a": bad size: the grid of step 0 has 2147483648 × 2147483648 × 4 items`},
		{"too many items", func(b *Builder) {
			b.Add(Task{Name: "a", Steps: []Step{{Kernel: k, Launch: Grid(1<<32, 2)}}})
		}, ErrSize, `task "a": bad size: the grid of step 0 has 4294967296 items in a dimension, more than 4294967295: make several tasks of it`},
		{"no items", func(b *Builder) { b.Add(Task{Name: "a", Steps: []Step{{Kernel: k, Launch: Grid(7, 0)}}}) },
			ErrSize, `task "a": bad size: the grid of step 0 has 0 items in a dimension: there must be one at least`},
		{"fewer than no items", func(b *Builder) { b.Add(Task{Name: "a", Steps: []Step{{Kernel: k, Launch: Grid(int64(-1))}}}) },
			ErrSize, `task "a": bad size: the grid of step 0 has -1 items in a dimension: there must be one at least`},
		{"part without a launch", func(b *Builder) {
			b.Add(Task{Name: "a", Steps: []Step{{Kernel: k}}, Uses: []Use{{Data: 0, Offset: 4, Access: Read}}})
		}, ErrSize, `task "a": bad size: step 0 has no launch, and the task uses a part of data "x": say how many items it computes, as graph.Grid(n)`},
		{"argument", func(b *Builder) { b.Add(Task{Name: "a", Steps: []Step{{Kernel: k}, {Kernel: k, Args: []int{0}}}}) },
			ErrUnknown, `task "a": unknown reference: step 1 has argument 0, and the task has 0 buffers`},
		{"negative argument", func(b *Builder) {
			b.Add(Task{Name: "a", Workspace: 1, Steps: []Step{{Kernel: k, Args: []int{0, -1}}}})
		}, ErrUnknown, `task "a": unknown reference: step 0 has argument -1, and the task has 1 buffer`},
		{"arguments in a gang", func(b *Builder) { b.Add(Task{Name: "a", Gang: 2, Steps: []Step{{Kernel: k, Args: []int{}}}}) },
			ErrValue, `task "a": bad value: step 0 chooses arguments, and steps of a gang have all of their rank`},
		{"workspace", func(b *Builder) { b.Add(Task{Name: "a", Steps: steps(k), Workspace: -1}) },
			ErrSize, `task "a": bad size: workspace of -1 bytes`},
		{"gang", func(b *Builder) { b.Add(Task{Name: "a", Steps: steps(k), Gang: 40000}) },
			ErrSize, `task "a": bad size: gang of 40000 devices`},
		{"timeout", func(b *Builder) { b.Add(Task{Name: "a", Steps: steps(k), Timeout: -time.Second}) },
			ErrValue, `task "a": bad value: timeout -1s`},
		{"negative work", func(b *Builder) { b.Add(Task{Name: "a", Steps: steps(k), Work: Work{Ops: -1}}) },
			ErrValue, `task "a": bad value: work estimate {-1 0 fp32}`},
		{"endless work", func(b *Builder) { b.Add(Task{Name: "a", Steps: steps(k), Work: Work{Bytes: math.Inf(1)}}) },
			ErrValue, `task "a": bad value: work estimate {0 +Inf fp32}`},
		{"unit", func(b *Builder) { b.Add(Task{Name: "a", Steps: steps(k), Work: Work{Unit: 77}}) },
			ErrValue, `task "a": bad value: work estimate {0 0 unknown(77)}`},
		{"unknown data", func(b *Builder) { b.Add(Task{Name: "a", Steps: steps(k), Uses: []Use{{Data: 5}}}) },
			ErrUnknown, `task "a": unknown reference: data 5`},
		{"slice past the end", func(b *Builder) {
			b.Add(Task{Name: "a", Steps: steps(k), Uses: []Use{{Data: 0, Offset: 4, Bytes: 5}}})
		}, ErrSize, `task "a": bad size: bytes 4 to 9 of data "x", which has 8`},
		{"slice from before the start", func(b *Builder) {
			b.Add(Task{Name: "a", Steps: steps(k), Uses: []Use{{Data: 0, Offset: -1, Bytes: 4}}})
		}, ErrSize, `task "a": bad size: bytes -1 to 3 of data "x", which has 8`},
		{"empty rest", func(b *Builder) {
			b.Add(Task{Name: "a", Steps: steps(k), Uses: []Use{{Data: 0, Offset: 8}}})
		}, ErrSize, `task "a": bad size: bytes 8 to 8 of data "x", which has 8`},
		{"slice whose end overflows", func(b *Builder) {
			b.Add(Task{Name: "a", Steps: steps(k), Uses: []Use{{Data: 0, Offset: 4, Bytes: math.MaxInt64}}})
		}, ErrSize, `task "a": bad size: bytes 4 to -9223372036854775805 of data "x", which has 8`},
		{"access", func(b *Builder) { b.Add(Task{Name: "a", Steps: steps(k), Uses: []Use{{Data: 0, Access: 7}}}) },
			ErrValue, `task "a": bad value: access 7 of data "x"`},
		{"rank", func(b *Builder) {
			b.Add(Task{Name: "a", Steps: steps(k), Gang: 2, Uses: []Use{{Data: 0, Rank: 2}}})
		}, ErrValue, `task "a": bad value: rank 2 of a gang of 2`},
		{"rank without gang", func(b *Builder) {
			b.Add(Task{Name: "a", Steps: steps(k), Uses: []Use{{Data: 0, Rank: 1}}})
		}, ErrValue, `task "a": bad value: rank 1 of a gang of 1`},
		{"overlap", func(b *Builder) {
			b.Add(Task{Name: "a", Steps: steps(k), Uses: []Use{{Data: 0, Bytes: 5}, {Data: 0, Offset: 4, Access: Write}}})
		}, ErrOverlap, `task "a": overlapping uses: read and write of data "x" share bytes; use one read-write`},
		{"overlapping contributions", func(b *Builder) {
			y := b.Data(Data{Name: "y", Bytes: 8, Input: true, Combine: k})
			b.Add(Task{Name: "a", Steps: steps(k), Uses: []Use{{Data: y, Bytes: 5, Access: Reduce}, {Data: y, Access: Reduce}}})
		}, ErrOverlap, `task "a": overlapping uses: reduce and reduce of data "y" share bytes; use one read-write`},
		{"reduce without combine", func(b *Builder) {
			b.Add(Task{Name: "a", Steps: steps(k), Uses: []Use{{Data: 0, Access: Reduce}}})
		}, ErrKernel, `task "a": missing implementation: data "x" is reduced into but has no combine kernel`},
		{"after a negative task", func(b *Builder) { b.Add(Task{Name: "a", Steps: steps(k), After: []TaskID{-1}}) },
			ErrUnknown, `task "a": unknown reference: after task -1`},
		{"after a task that never comes", func(b *Builder) { b.Add(Task{Name: "a", Steps: steps(k), After: []TaskID{7}}) },
			ErrUnknown, `task "a": unknown reference: after task 7, and the graph has 1 task`},
		{"after a later task", func(b *Builder) {
			b.Add(Task{Name: "a", Steps: steps(k), After: []TaskID{1}})
			b.Add(Task{Name: "b", Steps: steps(k)})
		}, ErrUnknown, `task "a": unknown reference: after task "b", which is added later; add it first`},
		{"after itself", func(b *Builder) { b.Add(Task{Name: "a", Steps: steps(k), After: []TaskID{0}}) },
			ErrCycle, `tasks wait for each other in a cycle: task "a" after task "a"`},
		{"cycle", func(b *Builder) {
			b.Add(Task{Name: "a", Steps: steps(k), After: []TaskID{2}})
			b.Add(Task{Steps: steps(k), After: []TaskID{0}})
			b.Add(Task{Name: "c", Steps: steps(k), After: []TaskID{1}})
		}, ErrCycle, `tasks wait for each other in a cycle: task "a" after task "c" after task 1 after task "a"`},
		{"read of unwritten data", func(b *Builder) {
			y := b.Data(Data{Name: "y", Bytes: 8})
			b.Add(Task{Name: "w", Steps: steps(k), Uses: []Use{{Data: y, Bytes: 3, Access: Write}, {Data: y, Offset: 5, Access: Write}}})
			b.Add(Task{Name: "a", Steps: steps(k), Uses: []Use{{Data: y}}})
		}, ErrUnwritten, `task "a": read before anything was written: data "y" is no input and no earlier task writes it`},
		{"reduction without a start", func(b *Builder) {
			y := b.Data(Data{Name: "y", Bytes: 8, Combine: k})
			b.Add(Task{Name: "a", Steps: steps(k), Uses: []Use{{Data: y, Access: Reduce}}})
		}, ErrUnwritten, `task "combine y": read before anything was written: data "y" is no input and no earlier task writes it`},
		{"output nothing writes whole", func(b *Builder) {
			y := b.Data(Data{Name: "y", Bytes: 8, Output: true})
			b.Add(Task{Name: "w", Steps: steps(k), Uses: []Use{{Data: y, Bytes: 7, Access: Write}}})
		}, ErrUnwritten, `data "y": read before anything was written: it is an output but nothing writes all of it`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var b Builder
			b.Data(Data{Name: "x", Bytes: 8, Input: true})
			c.do(&b)
			g, err := b.Build()
			if g != nil || err == nil {
				t.Fatal("Build accepted it")
			}
			if err.Error() != c.want {
				t.Errorf("got:  %s\nwant: %s", err, c.want)
			}
			if !errors.Is(err, c.is) {
				t.Errorf("not a %q", c.is)
			}
		})
	}
}

func TestBuildReportsAllMistakes(t *testing.T) {
	var b Builder
	x := b.Data(Data{Name: "x", Bytes: 8, Input: true})
	b.Data(Data{Name: "y"})
	b.Add(Task{Name: "a", Uses: []Use{{Data: x, Bytes: 99}}, Workspace: -1})
	b.Add(Task{Name: "b", Steps: steps(goKernel("k")), Uses: []Use{{Data: 42}}, After: []TaskID{9}})
	_, err := b.Build()
	want := strings.Join([]string{
		`data "y": bad size: 0 bytes; a handle needs at least 1`,
		`task "a": missing implementation: no steps`,
		`task "a": bad size: workspace of -1 bytes`,
		`task "a": bad size: bytes 0 to 99 of data "x", which has 8`,
		`task "b": unknown reference: data 42`,
		`task "b": unknown reference: after task 9, and the graph has 2 tasks`,
	}, "\n")
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
	for _, is := range []error{ErrSize, ErrKernel, ErrUnknown} {
		if !errors.Is(err, is) {
			t.Errorf("not a %q", is)
		}
	}
}

func TestBuildBoundsItsReport(t *testing.T) {
	var b Builder
	for range 50 {
		b.Add(Task{})
	}
	_, err := b.Build()
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != maxErrors+1 || lines[maxErrors] != "and 30 more" {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

func TestUsesOfTheCallerAreLeftAlone(t *testing.T) {
	var b Builder
	x := b.Data(Data{Bytes: 8, Input: true, Combine: goKernel("add")})
	uses := []Use{{Data: x, Offset: 2, Access: Reduce}}
	b.Add(Task{Steps: steps(goKernel("k")), Uses: uses})
	if uses[0] != (Use{Data: x, Offset: 2, Access: Reduce}) {
		t.Errorf("Add changed the caller's slice to %v", uses)
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if got := g.Task(1).Uses[0]; got != (Use{Data: x, Offset: 2, Bytes: 6, Access: ReadWrite}) {
		t.Errorf("combined into %v", got)
	}
}

// What a task writes that reads secret data is secret, and so are parts of a reduction; what comes
// before the secret, or does not read it, is not.
func TestSecrets(t *testing.T) {
	var b Builder
	data := func(name string, secret bool) DataID {
		return b.Data(Data{Name: name, Bytes: 4, Input: true, Secret: secret, Combine: goKernel("add")})
	}
	key, open, early, sum := data("key", true), data("open", false), data("early", false), data("sum", false)
	task := func(uses ...Use) { b.Add(Task{Steps: steps(goKernel("k")), Uses: uses}) }
	x, y, z := data("x", false), data("y", false), data("z", false)
	task(Use{Data: x, Access: Read}, Use{Data: early, Access: Write})
	task(Use{Data: open, Access: Read}, Use{Data: key, Access: ReadWrite})
	task(Use{Data: key, Access: Read}, Use{Data: x, Access: Write})
	task(Use{Data: x, Access: Read}, Use{Data: y, Access: ReadWrite}, Use{Data: open, Access: Read})
	task(Use{Data: y, Access: Read}, Use{Data: sum, Access: Reduce})
	task(Use{Data: open, Access: Read}, Use{Data: sum, Access: Reduce})
	task(Use{Data: open, Access: Read}, Use{Data: z, Access: Write})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	secret := ""
	for d := range g.NumData() {
		if h := g.Data(DataID(d)); h.Secret {
			secret += h.Name + " "
		}
	}
	if want := "key sum x y sum part 0 "; secret != want {
		t.Errorf("secret are %q, want %q", secret, want)
	}
}

// describe lists tasks with their uses, as the reduction tests read them.
func describe(g *Graph) string {
	var s strings.Builder
	for i := range g.NumTasks() {
		fmt.Fprintf(&s, "%s:", g.TaskName(TaskID(i)))
		for _, u := range g.Task(TaskID(i)).Uses {
			fmt.Fprintf(&s, " %s %s[%d:%d]", u.Access, g.Data(u.Data).Name, u.Offset, u.Offset+u.Bytes)
		}
		s.WriteString("\n")
	}
	return s.String()
}

func TestReduceTree(t *testing.T) {
	// Ten contributions: a level of 8 and 2, then two parts into the data. The
	// tree is part of the result's bytes, so it is spelled out.
	var b Builder
	sum := b.Data(Data{Name: "sum", Bytes: 4, Input: true, Combine: goKernel("add")})
	for i := range 10 {
		b.Add(Task{Name: fmt.Sprint("t", i), Steps: steps(goKernel("k")), Uses: []Use{{Data: sum, Access: Reduce}}})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for i := range 10 {
		want += fmt.Sprintf("t%d: write sum part %d[0:4]\n", i, i)
	}
	want += "combine sum: readwrite sum part 0[0:4]"
	for i := 1; i < 8; i++ {
		want += fmt.Sprintf(" read sum part %d[0:4]", i)
	}
	want += "\ncombine sum: readwrite sum part 8[0:4] read sum part 9[0:4]\n" +
		"combine sum: readwrite sum[0:4] read sum part 0[0:4] read sum part 8[0:4]\n"
	if got := describe(g); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	for i := range 10 {
		if p := g.Flow().Preds(TaskID(i)); len(p) != 0 {
			t.Errorf("contribution %d waits for %v", i, p)
		}
	}
}

func TestReduceEndsWhereItIsUsed(t *testing.T) {
	var b Builder
	k := goKernel("k")
	sum := b.Data(Data{Name: "sum", Bytes: 8, Input: true, Combine: goKernel("add")})
	add := func(name string, uses ...Use) { b.Add(Task{Name: name, Steps: steps(k), Uses: uses}) }
	lo, hi := Use{Data: sum, Bytes: 4, Access: Reduce}, Use{Data: sum, Offset: 4, Access: Reduce}
	add("both", lo, hi)
	add("lo", lo)
	add("hi", hi)
	add("read hi", Use{Data: sum, Offset: 6, Bytes: 1})                // ends hi, leaves lo open
	add("hi again", hi)                                                // starts a second one
	add("middle", Use{Data: sum, Offset: 2, Bytes: 4, Access: Reduce}) // shares bytes with both
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	want := `both: write sum part 0[0:4] write sum part 1[0:4]
lo: write sum part 2[0:4]
hi: write sum part 3[0:4]
combine sum: readwrite sum[4:8] read sum part 1[0:4] read sum part 3[0:4]
read hi: read sum[6:7]
hi again: write sum part 4[0:4]
combine sum: readwrite sum[0:4] read sum part 0[0:4] read sum part 2[0:4]
combine sum: readwrite sum[4:8] read sum part 4[0:4]
middle: write sum part 5[0:4]
combine sum: readwrite sum[2:6] read sum part 5[0:4]
`
	if got := describe(g); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestGraphLookups(t *testing.T) {
	var b Builder
	k, l := goKernel("k"), goKernel("l")
	x := b.Data(Data{Name: "x", Bytes: 8, Input: true})
	y := b.Data(Data{Bytes: 8, Input: true})
	b.Add(Task{Name: "first", Steps: []Step{{Kernel: l}, {Kernel: k}}})
	b.Add(Task{Steps: steps(l)})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if id, ok := g.Lookup("x"); id != x || !ok {
		t.Errorf("Lookup(x) = %d, %v", id, ok)
	}
	if id, ok := g.Lookup("data 1"); id != y || !ok {
		t.Errorf("Lookup(data 1) = %d, %v", id, ok)
	}
	if _, ok := g.Lookup("z"); ok {
		t.Error("Lookup found z")
	}
	if g.TaskName(0) != "first" || g.TaskName(1) != "task 1" {
		t.Errorf("names %q, %q", g.TaskName(0), g.TaskName(1))
	}
	if ks := g.Kernels(); len(ks) != 2 || ks[0] != l || ks[1] != k {
		t.Errorf("kernels %v", ks)
	}
	if g.NumTasks() != 2 || g.NumData() != 2 {
		t.Errorf("%d tasks, %d data", g.NumTasks(), g.NumData())
	}
}

// All clashes are found, whatever the order, also where there are many uses.
func TestClashes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for trial := range 2000 {
		n := 1 + rnd.IntN(40)
		uses := make([]Use, n)
		for i := range uses {
			uses[i] = Use{Data: DataID(rnd.IntN(3)), Offset: rnd.Int64N(60), Bytes: 1 + rnd.Int64N(3), Access: Read}
			if rnd.IntN(4) == 0 {
				uses[i].Access = Write
			}
		}
		want := false
		for i := range uses {
			for j := range i {
				want = want || (uses[i].Access.Writes() || uses[j].Access.Writes()) && uses[i].overlaps(uses[j])
			}
		}
		got := false
		eachClash(uses, func(a, b Use) {
			got = true
			if !a.overlaps(b) || !a.Access.Writes() && !b.Access.Writes() {
				t.Fatalf("trial %d: %v and %v do not clash", trial, a, b)
			}
		})
		if got != want {
			t.Fatalf("trial %d: clash %v, want %v: %v", trial, got, want, uses)
		}
	}
}

// Data is bound by name, so no two may have one.
func TestNameTwice(t *testing.T) {
	var b Builder
	b.Data(Data{Name: "x", Bytes: 8, Input: true})
	b.Data(Data{Bytes: 8})
	b.Data(Data{Bytes: 8})
	b.Data(Data{Name: "y", Bytes: 8, Input: true})
	b.Data(Data{Name: "x", Bytes: 16})
	if _, err := b.Build(); !errors.Is(err, ErrName) || !strings.Contains(err.Error(), `data "x": name given twice: to data 0 and to data 4; rename it`) {
		t.Errorf("two data of one name: %v", err)
	}
	b = Builder{}
	b.Data(Data{Bytes: 8})
	b.Data(Data{Name: "data 0", Bytes: 8})
	if _, err := b.Build(); !errors.Is(err, ErrName) {
		t.Errorf("a name that data has without one: %v", err)
	}
}

// Grids are what they say, and steps that need none are launched without.
func TestGrid(t *testing.T) {
	for _, c := range []struct {
		launch Launch
		want   [3]uint32
	}{
		{Grid(5), [3]uint32{5, 1, 1}}, {Grid(int64(2), 3), [3]uint32{2, 3, 1}},
		{Grid(1, 2, 1<<32-1), [3]uint32{1, 2, 1<<32 - 1}}, {Grid[int](), [3]uint32{1, 1, 1}},
	} {
		if c.launch.Grid != c.want || c.launch.wrong != 0 {
			t.Errorf("%+v, want %v", c.launch, c.want)
		}
	}
	defer func() {
		if p := recover(); p == nil {
			t.Error("a grid of four dimensions")
		}
	}()
	var b Builder
	d := b.Data(Data{Bytes: 8, Input: true})
	for _, k := range []*Kernel{{Name: "a", Impls: []Impl{{Dialect: Abstract}}}, {Name: "l", Impls: []Impl{{Dialect: Library, Entry: "r"}}}} {
		b.Add(Task{Steps: []Step{{Kernel: k}}, Uses: []Use{{Data: d, Bytes: 4, Access: Read}}})
	}
	b.Add(Task{Steps: []Step{{Kernel: testKernel}}, Uses: []Use{{Data: d, Bytes: 8, Access: Read}}})
	if _, err := b.Build(); err != nil {
		t.Error(err)
	}
	Grid(1, 2, 3, 4)
}

// Tasks past the most that a graph may have are not kept, nor what they would use, and Build says one line.
func TestMostTasks(t *testing.T) {
	for n := range 5 {
		b := Builder{mostTasks: 3}
		for range n {
			d := b.Data(Data{Bytes: 8})
			b.Add(Task{Steps: []Step{{Kernel: testKernel, Launch: Grid(1)}}, Uses: []Use{{Data: d, Access: Write}}})
		}
		for range 100 * max(n-3, 0) { // of a caller that does not look
			b.Add(Task{Name: "wrong", Uses: []Use{{Data: b.Data(Data{}), Bytes: -1}}, After: []TaskID{7}})
		}
		g, err := b.Build()
		switch {
		case n <= 3 && (err != nil || g.NumTasks() != n):
			t.Errorf("%d of 3 tasks: %v", n, err)
		case n > 3 && (!errors.Is(err, ErrSize) || strings.Contains(err.Error(), "\n") || len(b.tasks) != 3 || len(b.data) != 4):
			t.Errorf("%d of 3 tasks: %d tasks and %d data are kept: %v", n, len(b.tasks), len(b.data), err)
		}
	}
}

// A builder that is asked to stop keeps no further tasks and builds no graph: while tasks are added,
// and in each part of Build.
func TestStop(t *testing.T) {
	const tasks = 4 * stopTasks
	asked := 0
	build := func(at int) (b *Builder, err error) {
		asked = 0
		b = &Builder{Stop: func() bool { asked++; return asked >= at }}
		for range tasks {
			b.Add(Task{Steps: steps(testKernel), Uses: []Use{{Data: b.Data(Data{Bytes: 8}), Access: Write}}})
		}
		g, err := b.Build()
		if (g == nil) != (err != nil) {
			t.Fatalf("a graph: %t, and the error is %v", g != nil, err)
		}
		return b, err
	}
	if _, err := build(math.MaxInt); err != nil {
		t.Fatal(err)
	}
	times := asked
	if least := tasks/stopTasks + 3; times < least {
		t.Errorf("asked %d times, want %d at least", times, least)
	}
	for at := 1; at <= times; at++ {
		b, err := build(at)
		if !errors.Is(err, ErrStopped) {
			t.Errorf("asked %d times: %v", at, err)
		}
		if most := min(tasks, (at-1)*stopTasks); len(b.tasks) != most {
			t.Errorf("asked %d times: %d tasks were kept, want %d", at, len(b.tasks), most)
		}
		if asked != at {
			t.Errorf("asked %d times, and again %d times after it was stopped", at, asked-at)
		}
	}
}
