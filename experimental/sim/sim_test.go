package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/trace"
)

// simulate runs a scenario on a machine that comes with weft.
func simulate(t *testing.T, name, text string, change func(*Config)) *Result {
	t.Helper()
	m, ok := machine.Named(name)
	if !ok {
		t.Fatalf("no machine %q", name)
	}
	s, err := ParseScenario([]byte(text), m)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Jobs()
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Machine: m, Jobs: jobs, Faults: s.Faults}
	if change != nil {
		change(&c)
	}
	res, err := Run(c)
	if err != nil {
		t.Fatalf("%s on %s: %v", text, name, err)
	}
	for _, r := range res.Runs {
		if r.Err != nil {
			t.Errorf("%s on %s: run %d: %v", text, name, r.Run, r.Err)
		}
	}
	return res
}

// inOrder returns jobs in the order they are submitted, as Result.Runs is.
func inOrder(jobs []Job) []Job {
	jobs = slices.Clone(jobs)
	slices.SortStableFunc(jobs, func(a, b Job) int { return cmp.Compare(a.At, b.At) })
	return jobs
}

// TestScenarios runs everything that comes with weft on every machine that
// does: results are right, and no schedule beats the bound.
func TestScenarios(t *testing.T) {
	for _, name := range machine.Names() {
		for _, s := range Scenarios() {
			res := simulate(t, name, s.Text, nil)
			if res.Efficiency <= 0 || res.Efficiency > 1+1e-9 {
				t.Errorf("%s on %s: makespan %v beats the bound %v", s.Name, name, res.Makespan, res.Bound)
			}
			for d, u := range res.Utilisation {
				if u < 0 || u > 1+1e-9 {
					t.Errorf("%s on %s: utilisation %v of device %d", s.Name, name, u, d)
				}
			}
		}
	}
}

// TestIndependentWorkScales checks a makespan that can be worked out: equal
// tasks without data on equal devices.
func TestIndependentWorkScales(t *testing.T) {
	one := machine.Device{Backend: "cuda", Kind: machine.Discrete, MemBytes: 1 << 30, Rates: machine.Rates{Ops: [5]float64{1e9}}}
	for _, n := range []int{1, 3, 8} {
		m := &machine.Machine{}
		for i := range n {
			d := one
			d.Name = fmt.Sprintf("cuda:%d", i)
			m.Devices = append(m.Devices, d)
			m.Links = append(m.Links, machine.Link{A: machine.Host, B: machine.DeviceID(i), BPS: 1e9})
		}
		spec := Spec{Kind: "independent", N: 24 * n, Ops: 1e6}
		g, err := spec.Graph()
		if err != nil {
			t.Fatal(err)
		}
		for _, policy := range []string{"finish", "roundrobin", "leastloaded"} {
			res, err := Run(Config{Machine: m, Jobs: []Job{{Graph: g}}, Policy: policy})
			if err != nil {
				t.Fatal(err)
			}
			if want := 24 * time.Millisecond; res.Makespan != want || res.Bound != want {
				t.Errorf("%s on %d devices: makespan %v, bound %v, want %v", policy, n, res.Makespan, res.Bound, want)
			}
		}
	}
}

func TestSameSeedSameRun(t *testing.T) {
	s, _ := FindScenario("mixed")
	text := s.Text + "at 2ms lose 0\nat 4ms back 0\n"
	run := func(seed uint64, unchecked bool) *Result {
		rec := trace.NewRecorder(1 << 16)
		return simulate(t, "3x5070", text, func(c *Config) {
			c.Seed, c.Noise, c.Unchecked, c.Trace = seed, 0.1, unchecked, rec
		})
	}
	a, b, c := run(1, false), run(1, true), run(2, false)
	if len(a.Trace) == 0 || !reflect.DeepEqual(a.Trace, b.Trace) || a.Makespan != b.Makespan || a.Steps != b.Steps {
		t.Errorf("one seed gave %v in %d steps and %v in %d", a.Makespan, a.Steps, b.Makespan, b.Steps)
	}
	if a.Makespan == c.Makespan {
		t.Errorf("two seeds gave %v", a.Makespan)
	}
}

// TestLossCostsTime takes one of three devices away half-way.
func TestLossCostsTime(t *testing.T) {
	whole := simulate(t, "3x5070", "independent n=300 size=0\n", nil)
	half := simulate(t, "3x5070", fmt.Sprintf("independent n=300 size=0\nat %v lose 1\n", whole.Makespan/2), nil)
	// Half the work on three devices, half on two: 1/2 + 3/4.
	if ratio := half.Makespan.Seconds() / whole.Makespan.Seconds(); ratio < 1.2 || ratio > 1.35 {
		t.Errorf("with a loss it takes %.2f times as long, want about 1.25", ratio)
	}
}

func TestCancel(t *testing.T) {
	m, _ := machine.Named("3x5070")
	spec := Spec{Kind: "chain", N: 100, Ops: 1e9, Size: 1000}
	g, err := spec.Graph()
	if err != nil {
		t.Fatal(err)
	}
	f, err := ParseFaults([]byte("at 1ms cancel 2"), m)
	if err != nil {
		t.Fatal(err)
	}
	res, err := Run(Config{Machine: m, Jobs: []Job{{Graph: g}, {Graph: g}}, Faults: f})
	if err != nil {
		t.Fatal(err)
	}
	if res.Runs[0].Err != nil || !errors.Is(res.Runs[1].Err, engine.ErrCancelled) {
		t.Errorf("runs ended with %v and %v", res.Runs[0].Err, res.Runs[1].Err)
	}
}

func TestStuck(t *testing.T) {
	m, _ := machine.Named("3x5070")
	spec := Spec{Kind: "chain", N: 3, Ops: 1e9, Size: 1000}
	g, err := spec.Graph()
	if err != nil {
		t.Fatal(err)
	}
	hang := Faults{{Kind: Hang, Device: 0}, {Kind: Hang, Device: 1}, {Kind: Hang, Device: 2}}
	// Without a timeout the hang is never detected.
	_, err = Run(Config{Machine: m, Jobs: []Job{{Name: "stuck one", Graph: g}}, Faults: hang})
	if !errors.Is(err, ErrStuck) || !strings.Contains(err.Error(), "stuck one") || !strings.Contains(err.Error(), "hangs") {
		t.Errorf("got %v, want the run and what hangs", err)
	}
	if _, err = Run(Config{Machine: m, Jobs: []Job{{Graph: g}}, MaxSteps: 2}); !errors.Is(err, ErrStuck) {
		t.Errorf("got %v, want the limit on steps", err)
	}
	if _, err = Run(Config{Machine: m, Jobs: []Job{{Graph: g}}, MaxTime: 1}); !errors.Is(err, ErrStuck) {
		t.Errorf("got %v, want the limit on time", err)
	}
	if _, err = Run(Config{Machine: m, Jobs: []Job{{Graph: g}}, Policy: "magic"}); !errors.Is(err, sched.ErrUnknown) {
		t.Errorf("got %v, want an unknown policy", err)
	}
	if _, err = Run(Config{}); err == nil {
		t.Error("a machine without devices ran")
	}
}

// TestLowerBound compares the bound with a search over all ways to split the
// work, on machines where tasks differ in where they run well.
func TestLowerBound(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 6))
		m := &machine.Machine{}
		classes := 2 + r.IntN(2)
		var count []int
		for c := range classes {
			count = append(count, 1+r.IntN(3))
			for range count[c] {
				m.Devices = append(m.Devices, machine.Device{Name: fmt.Sprint("d", len(m.Devices)), Model: fmt.Sprint("m", c), Backend: "cuda", MemBytes: 1})
			}
		}
		// Three kinds of task, each with its own cost on each class.
		cost := table{}
		var b graph.Builder
		n := []float64{10, 20, 30}
		for k := range n {
			kernel := &graph.Kernel{Name: fmt.Sprint("k", k), Impls: []graph.Impl{{Dialect: graph.Abstract}}}
			cost[kernel.Name] = nil
			for c := range classes {
				each := time.Duration(1000 + r.IntN(9000))
				for range count[c] {
					cost[kernel.Name] = append(cost[kernel.Name], each)
				}
			}
			for range int(n[k]) {
				b.Add(graph.Task{Steps: []graph.Step{{Kernel: kernel}}})
			}
		}
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		got := LowerBound(m, cost, []Job{{Graph: g}}).Seconds()
		best := split(classes, count, n, func(k, c int) float64 {
			first := 0
			for i := range c {
				first += count[i]
			}
			return cost[fmt.Sprint("k", k)][first].Seconds()
		})
		// The search goes in steps of a twelfth, so its best is a little
		// above the optimum; the bound must be below it and close.
		if got > best*1.0001 || got < best*0.9 {
			t.Errorf("seed %d: bound %v, best split found %v", seed, got, best)
		}
	}
}

// table is a cost model by kernel and device.
type table map[string][]time.Duration

func (c table) Task(t *graph.Task, on machine.DeviceID) machine.Estimate {
	return machine.Estimate{Median: c[t.Steps[0].Kernel.Name][on]}
}
func (c table) Copy(int64, machine.DeviceID, machine.DeviceID) machine.Estimate {
	return machine.Estimate{}
}
func (c table) Epoch() uint64 { return 0 }

// split tries all shares of each kind of task for each class, in twelfths.
func split(classes int, count []int, n []float64, cost func(k, c int) float64) float64 {
	const parts = 12
	best := math.Inf(1)
	load := make([]float64, classes)
	var try func(k, c, left int)
	try = func(k, c, left int) {
		if k == len(n) {
			best = min(best, slices.Max(load))
			return
		}
		if c == classes-1 {
			share := n[k] * float64(left) / parts * cost(k, c) / float64(count[c])
			load[c] += share
			if load[c] < best {
				try(k+1, 0, parts)
			}
			load[c] -= share
			return
		}
		for x := range left + 1 {
			share := n[k] * float64(x) / parts * cost(k, c) / float64(count[c])
			load[c] += share
			if load[c] < best {
				try(k, c+1, left-x)
			}
			load[c] -= share
		}
	}
	try(0, 0, parts)
	return best
}

// On a team of four, tasks of one item run four at a time: the bound must not count them as
// if each took the whole device.
func TestLowerBoundOfTeam(t *testing.T) {
	m := &machine.Machine{Devices: []machine.Device{{
		Name: "cpu", Kind: machine.CPU, Backend: "cpu", HostMemory: true, ComputeUnits: 4, Lanes: 4, Team: true,
	}}}
	kernel := &graph.Kernel{Name: "k", Impls: []graph.Impl{{Dialect: graph.Abstract}}}
	for _, c := range []struct {
		items uint32
		want  time.Duration
	}{{1, 2000}, {2, 4000}, {4, 8000}, {99, 8000}} {
		var b graph.Builder
		for range 8 {
			b.Add(graph.Task{Steps: []graph.Step{{Kernel: kernel, Launch: graph.Grid(int64(c.items))}}})
		}
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if got := LowerBound(m, table{"k": {1000}}, []Job{{Graph: g}}); got != c.want {
			t.Errorf("8 tasks of %d items and 1000 ns: %d ns, want %d", c.items, got, c.want)
		}
	}
}

func TestLowerBoundCountsChainsAndSubmissions(t *testing.T) {
	m := testMachine()
	graphOf := func(line string) *graph.Graph {
		s, err := ParseScenario([]byte(line), m)
		if err != nil {
			t.Fatal(err)
		}
		g, err := s.Specs[0].Graph()
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	chain, loose := graphOf("chain n=10 ops=100 size=1"), graphOf("independent n=30 ops=100 size=0")
	cases := []struct {
		jobs []Job
		want time.Duration
	}{
		{nil, 0},
		{[]Job{{Graph: chain}}, 1000},
		{[]Job{{Graph: loose}}, 1000},                                   // 3000 over three devices
		{[]Job{{Graph: loose}, {Graph: chain}}, 1333},                   // 4000 over three
		{[]Job{{Graph: loose}, {Graph: chain, At: 5000}}, 6000},         // the chain begins late
		{[]Job{{Graph: chain, At: 500}, {Graph: loose}}, 1500},          // in any order
		{[]Job{{Graph: loose, At: 700}, {Graph: loose, At: 800}}, 2000}, // from the first submission
	}
	for i, c := range cases {
		if got := LowerBound(m, plain{}, c.jobs); got != c.want {
			t.Errorf("case %d: bound %v, want %v", i, got, c.want)
		}
	}
}

// A job without a graph is an error.
func TestNilGraph(t *testing.T) {
	m, _ := machine.Named("mixed")
	if _, err := Run(Config{Machine: m, Jobs: []Job{{Name: "empty"}}}); !errors.Is(err, graph.ErrValue) {
		t.Errorf("a nil graph: %v", err)
	}
	if d := LowerBound(m, machine.NewRoofline(m), []Job{{}}); d != 0 {
		t.Errorf("a nil graph takes %v", d)
	}
}
