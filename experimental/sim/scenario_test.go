package sim

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
)

func TestParseScenario(t *testing.T) {
	src := `# two kinds of work and a fault
independent n=10 ops=1e9 bytes=1MB size=64KiB unit=tf32 only=cuda,cpu durability=mirrored
at 5ms dag n=7 width=3 deps=2 priority=4 gang=2 repeat=2 every=2ms seed=9 skew=10
at 2ms slow cuda:1 3x
`
	s, err := ParseScenario([]byte(src), testMachine())
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Faults) != 1 || s.Faults[0].Kind != Slow || s.Faults[0].At != 2*time.Millisecond {
		t.Errorf("faults: %s", s.Faults.Text(testMachine()))
	}
	jobs, err := s.Jobs()
	if err != nil {
		t.Fatal(err)
	}
	if len(jobs) != 3 || jobs[1].At != 5*time.Millisecond || jobs[2].At != 7*time.Millisecond || jobs[1].Priority != 4 {
		t.Fatalf("jobs: %+v", jobs)
	}
	first := jobs[0].Graph.Task(0)
	if first.Work != (graph.Work{Ops: 1e9, Bytes: 1e6, Unit: graph.TF32}) || len(first.On.Only) != 2 || first.Uses[0].Bytes != 64<<10 ||
		jobs[0].Graph.Data(0).Durability != graph.Mirrored {
		t.Errorf("first task: %+v", first)
	}
	if got := jobs[1].Graph.Task(1).Gang; got != 2 {
		t.Errorf("the gang is of %d", got)
	}
	if a, b := jobs[1].Graph.Task(1).Work, jobs[2].Graph.Task(1).Work; a == b {
		t.Errorf("repeats have equal work %v", a)
	}
}

// TestGenerators checks the shapes and the total work of what is generated.
func TestGenerators(t *testing.T) {
	cases := []struct {
		line       string
		tasks      int
		chain      int // tasks on the longest path
		ops, slack float64
	}{
		{"independent n=100 ops=10", 100, 1, 1000, 0},
		{"independent n=100 ops=10 size=0", 100, 1, 1000, 0},
		{"chain n=50 ops=10", 50, 50, 500, 0},
		{"dag n=100 width=10 deps=3 ops=10", 100, 10, 1000, 0},
		{"dag n=95 width=10 deps=3 ops=10", 95, 10, 950, 0},
		{"rows n=102 ops=10", 100, 1, 1000, 1e-9},
		{"rows n=102 ops=10 size=8", 100, 1, 1000, 1e-9},
		{"stencil width=8 steps=5 ops=10", 40, 5, 400, 0},
		{"independent n=20000 ops=10 skew=50", 20000, 1, 200000, 0.02},
	}
	for _, c := range cases {
		s, err := ParseScenario([]byte(c.line), testMachine())
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		g, err := s.Specs[0].Graph()
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		depth := make([]int, g.NumTasks())
		longest, sum := 0, 0.0
		for i := range depth {
			for _, p := range g.Flow().Preds(graph.TaskID(i)) {
				depth[i] = max(depth[i], depth[p])
			}
			depth[i]++
			longest = max(longest, depth[i])
			sum += g.Task(graph.TaskID(i)).Work.Ops
		}
		if g.NumTasks() != c.tasks || longest != c.chain || math.Abs(sum/c.ops-1) > c.slack {
			t.Errorf("%s: %d tasks, %d deep, %v operations; want %d, %d, %v", c.line, g.NumTasks(), longest, sum, c.tasks, c.chain, c.ops)
		}
	}
	// Rows cost (i+2)(N−i−2) relative to one another.
	s := Spec{Kind: "rows", N: 500, Ops: 1e9}
	g, err := s.Graph()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := g.Task(100).Work.Ops/g.Task(0).Work.Ops, 102.0*398/(2*498); math.Abs(got/want-1) > 1e-12 {
		t.Errorf("row 100 costs %v of row 0, want %v", got, want)
	}
	// A reduction keeps its contributions apart and combines them.
	s = Spec{Kind: "reduce", N: 64, Ops: 1, Size: 16}
	if g, err = s.Graph(); err != nil {
		t.Fatal(err)
	}
	if g.NumTasks() <= 64 || len(g.Flow().Preds(63)) != 0 {
		t.Errorf("%d tasks, the last contribution waits for %v", g.NumTasks(), g.Flow().Preds(63))
	}
}

func TestParseScenarioMistakes(t *testing.T) {
	cases := []struct{ line, want string }{
		{"indepandent n=3", `unknown generator or fault "indepandent"; generators are independent, chain`},
		{"independent 3", `unexpected "3"`},
		{"independent n=", "bad number"},
		{"independent n=0", "0 tasks"},
		{"independent n=99999999999", "bad number"},
		{"independent colour=red", `unknown setting "colour"`},
		{"independent ops=-1", `bad number "ops=-1"`},
		{"independent ops=inf", `bad number`},
		{"independent size=many", `bad size "many"`},
		{"independent size=1000TB", "more than"},
		{"independent skew=0.5", "bad number"},
		{"independent unit=fp8", `unknown unit "fp8"`},
		{"independent durability=eternal", `unknown durability "eternal"`},
		{"independent priority=2000", "-1000 to 1000"},
		{"independent repeat=0", "repeat=0"},
		{"independent gang=40000", "gang=40000"},
		{"independent n=1000000 repeat=11", "repeat=11"},
		{"independent every=often", `bad duration "often"`},
		{"rows n=2", "n=3 or more"},
		{"stencil size=1", "size=2 or more"},
		{"chain size=0", "size=1 or more"},
		{"dag width=0", "width=1 or more"},
		{"at 3ms lose cuda:9", `no device "cuda:9"`},
	}
	for _, c := range cases {
		_, err := ParseScenario([]byte("chain n=1\n"+c.line), testMachine())
		var syntax *graph.SyntaxError
		if !errors.As(err, &syntax) || syntax.Line != 2 || !strings.Contains(syntax.Reason, c.want) {
			t.Errorf("%q: got %v, want line 2: … %s", c.line, err, c.want)
		}
	}
	if _, err := ParseScenario([]byte("# nothing\n"), testMachine()); err == nil {
		t.Error("a scenario without work is no scenario")
	}
}

func FuzzParseScenario(f *testing.F) {
	for _, s := range Scenarios() {
		f.Add(s.Text)
	}
	f.Add("random n=30 seed=4\nat 1ms hang 0\n")
	f.Add("reduce n=9 gang=2\nstencil width=3 steps=2 gang=3\n")
	m := testMachine()
	f.Fuzz(func(t *testing.T, src string) {
		s, err := ParseScenario([]byte(src), m)
		if err != nil {
			var syntax *graph.SyntaxError
			if !errors.As(err, &syntax) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("error %q", err)
			}
			return
		}
		for i := range s.Specs {
			sp := &s.Specs[i]
			if sp.N > 1000 || sp.Width > 100 || sp.Steps > 100 {
				continue // right, and too large to build here
			}
			if _, err := sp.Graph(); err != nil {
				t.Fatalf("%q parses and does not build: %v", src, err)
			}
		}
	})
}
