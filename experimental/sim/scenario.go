package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
)

// Spec describes graphs to generate: one line of a scenario.
type Spec struct {
	Kind string // a generator's name
	// N is the number of tasks; for "rows" the length N of the sequence.
	N int
	// Ops, Bytes and Unit are the work of a task, on average.
	Ops, Bytes float64
	Unit       graph.Unit
	// Size is the data each task reads and writes; 0 means none where a
	// generator can do without.
	Size int64
	// Width, Deps and Steps shape "dag" and "stencil".
	Width, Deps, Steps int
	// Skew is the ratio of the work of the largest task to that of the smallest;
	// most tasks are small.
	Skew     float64
	Seed     uint64
	Priority int
	// Gang is the number of devices that each task needs at once; 0 means one.
	Gang       int
	Only       []string
	Durability graph.Durability
	// At is the time at which the first graph is submitted; Repeat of them follow
	// at intervals of Every.
	At     time.Duration
	Repeat int
	Every  time.Duration
}

// Scenario is work for a machine and the faults that occur meanwhile.
type Scenario struct {
	Specs  []Spec
	Faults Faults
}

// maxTasks and maxGang bound a generated graph, so that a slip of the pen does
// not take the machine's memory.
const (
	maxTasks = 10_000_000
	maxGang  = 10_000
)

// generator builds the tasks of a spec.
type generator struct {
	name  string
	about string
	build func(*Spec, *graph.Builder)
	zero  Spec // defaults
}

var generators = []generator{
	{"independent", "n tasks that share nothing", independent, Spec{N: 1000, Ops: 1e9, Bytes: 1e6, Size: 64 << 10}},
	{"chain", "n tasks, each updating what the one before left", chain, Spec{N: 100, Ops: 1e9, Bytes: 1e6, Size: 1 << 20}},
	{"dag", "layers of width tasks, each reading deps results of the layer before", dag, Spec{N: 1024, Ops: 1e9, Bytes: 1e6, Size: 64 << 10, Width: 64, Deps: 3}},
	{"rows", "rows of a triangle over n items: row i costs (i+2)(n−i−2)", rows, Spec{N: 500, Ops: 1e9, Bytes: 1e6}},
	{"stencil", "width strips, updated steps times from their neighbours' edges", stencil, Spec{Ops: 1e9, Bytes: 1e7, Size: 1 << 20, Width: 16, Steps: 20}},
	{"reduce", "n tasks that contribute to one sum", reduce, Spec{N: 256, Ops: 1e9, Bytes: 1e6, Size: 1 << 20}},
	{"random", "n tasks with every feature, by seed", random, Spec{N: 100}},
}

// kernel stands for any computation, on any device.
var kernel = &graph.Kernel{Name: "sim.work", Impls: []graph.Impl{{Dialect: graph.Abstract}}}

var combine = &graph.Kernel{Name: "sim.combine", Impls: kernel.Impls}

// ParseScenario reads a scenario for a machine: lines that generate graphs and
// lines of a fault script (see ParseFaults), in any order.
//
//	independent n=1000 ops=1e9 bytes=1MB size=64KB
//	at 5ms dag width=64 deps=3 n=1024 priority=2 repeat=4 every=2ms
//	at 2ms slow cuda:1 3x
//
// Generators are independent, chain, dag, rows, stencil, reduce and random;
// their settings n, ops, bytes, unit, size, width, deps, steps, skew, seed,
// priority, gang, only (selectors joined by commas), durability, repeat and
// every. An error is a *graph.SyntaxError.
func ParseScenario(src []byte, m *machine.Machine) (*Scenario, error) {
	s := &Scenario{}
	for n, fields := range lines(src) {
		if err := s.line(fields, m); err != nil {
			return nil, &graph.SyntaxError{Line: n, Reason: err.Error()}
		}
	}
	if len(s.Specs) == 0 {
		return nil, &graph.SyntaxError{Line: 1, Reason: "nothing to run; begin with a line like: independent n=1000"}
	}
	s.Faults.sort()
	return s, nil
}

func (s *Scenario) line(fields []string, m *machine.Machine) error {
	at, w, err := cutTime(fields)
	if err != nil {
		return err
	}
	if isFault(w[0]) {
		f, err := parseFault(w, m)
		f.At = at
		s.Faults = append(s.Faults, f)
		return err
	}
	i := slices.IndexFunc(generators, func(g generator) bool { return g.name == w[0] })
	if i < 0 {
		return fmt.Errorf("unknown generator or fault %q; generators are %s", w[0], strings.Join(Generators(), ", "))
	}
	spec := generators[i].zero
	spec.Kind, spec.At, spec.Repeat, spec.Skew = w[0], at, 1, 1
	for _, word := range w[1:] {
		if err := spec.set(word); err != nil {
			return err
		}
	}
	if err := spec.check(); err != nil {
		return err
	}
	s.Specs = append(s.Specs, spec)
	return nil
}

// Generators returns the names of the generators.
func Generators() []string {
	var names []string
	for _, g := range generators {
		names = append(names, g.name)
	}
	return names
}

// set takes in one key=value.
func (s *Spec) set(word string) error {
	key, val, ok := strings.Cut(word, "=")
	if !ok {
		return fmt.Errorf("unexpected %q; settings are written key=value", word)
	}
	p := &words{}
	whole := func(to *int) {
		n, err := strconv.Atoi(val)
		if err != nil || n < 0 || n > maxTasks {
			p.fail("bad number in %q; it must be 0 to %d", word, maxTasks)
		}
		*to = n
	}
	switch key {
	case "n":
		whole(&s.N)
	case "ops":
		s.Ops = p.float(val, word, 0, 1e30)
	case "bytes":
		n, err := text.ParseSize(val)
		s.Bytes, p.err = float64(n), err
	case "size":
		s.Size, p.err = text.ParseSize(val)
	case "unit":
		s.Unit = graph.NumUnits
		for u := range graph.Unit(graph.NumUnits) {
			if u.String() == val {
				s.Unit = u
			}
		}
		if s.Unit == graph.NumUnits {
			p.fail("unknown unit %q; there are fp32, fp64, tf32, fp16, int32", val)
		}
	case "width":
		whole(&s.Width)
	case "deps":
		whole(&s.Deps)
	case "steps":
		whole(&s.Steps)
	case "gang":
		whole(&s.Gang)
	case "repeat":
		whole(&s.Repeat)
	case "every":
		s.Every, p.err = text.ParseDuration(val)
	case "skew":
		s.Skew = p.float(val, word, 1, 1e9)
	case "seed":
		n, err := strconv.ParseUint(val, 10, 64)
		if err != nil {
			p.fail("bad number in %q", word)
		}
		s.Seed = n
	case "priority":
		n, err := strconv.Atoi(val)
		if err != nil || n < -1000 || n > 1000 {
			p.fail("bad number in %q; it must be -1000 to 1000", word)
		}
		s.Priority = n
	case "only":
		s.Only = strings.Split(val, ",")
	case "durability":
		i := slices.Index([]string{"versioned", "mirrored", "volatile"}, val)
		if i < 0 {
			p.fail("unknown durability %q; there are versioned, mirrored, volatile", val)
		}
		s.Durability = graph.Durability(max(i, 0))
	default:
		p.fail("unknown setting %q; there are n, ops, bytes, unit, size, width, deps, steps, skew, seed, priority, gang, only, durability, repeat, every", key)
	}
	return p.err
}

func (s *Spec) check() error {
	tasks := s.N
	switch s.Kind {
	case "stencil":
		tasks = s.Width * s.Steps
		if s.Size < 2 {
			return fmt.Errorf("a stencil needs size=2 or more")
		}
	case "chain", "reduce", "dag":
		if s.Size < 1 {
			return fmt.Errorf("%s needs size=1 or more", s.Kind)
		}
		if s.Kind == "dag" && s.Width < 1 {
			return fmt.Errorf("a dag needs width=1 or more")
		}
	case "rows":
		if s.N < 3 {
			return fmt.Errorf("rows needs n=3 or more")
		}
	}
	if s.Gang > maxGang {
		return fmt.Errorf("gang=%d; it must be 0 to %d", s.Gang, maxGang)
	}
	if tasks < 1 || tasks > graph.MaxTasks {
		return fmt.Errorf("%s of %d tasks; it must be 1 to %d", s.Kind, tasks, graph.MaxTasks)
	}
	if s.Repeat < 1 || s.Repeat > maxTasks/tasks {
		return fmt.Errorf("repeat=%d of %d tasks each; it must be 1 to %d", s.Repeat, tasks, maxTasks/tasks)
	}
	if limit := int64(1) << 50; s.Size > limit/int64(max(tasks, 1)) {
		return fmt.Errorf("%d tasks of size=%d are more than %d bytes", tasks, s.Size, limit)
	}
	return nil
}

// Jobs builds the scenario's graphs.
func (s *Scenario) Jobs() ([]Job, error) {
	var jobs []Job
	for i := range s.Specs {
		sp := s.Specs[i]
		for k := range sp.Repeat {
			g, err := sp.Graph()
			if err != nil {
				return nil, err
			}
			name := sp.Kind
			if sp.Repeat > 1 {
				name = fmt.Sprintf("%s %d", sp.Kind, k+1)
			}
			jobs = append(jobs, Job{
				Name: name, At: sp.At + time.Duration(k)*sp.Every, Graph: g,
				Priority: sp.Priority,
			})
			sp.Seed++
		}
	}
	return jobs, nil
}

// Graph builds one graph of a spec.
func (s *Spec) Graph() (*graph.Graph, error) {
	i := slices.IndexFunc(generators, func(g generator) bool { return g.name == s.Kind })
	if i < 0 {
		return nil, fmt.Errorf("unknown generator %q; there are %s", s.Kind, strings.Join(Generators(), ", "))
	}
	var b graph.Builder
	generators[i].build(s, &b)
	g, err := b.Build()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Kind, err)
	}
	return g, nil
}

// maker makes a spec's tasks, each with its share of the work.
type maker struct {
	s    *Spec
	b    *graph.Builder
	r    *rand.Rand
	step []graph.Step // shared by all tasks without parameters
}

func (s *Spec) maker(b *graph.Builder) *maker {
	return &maker{s, b, rand.New(rand.NewPCG(s.Seed, 0x77656674)), []graph.Step{{Kernel: kernel, Launch: oneBlock}}}
}

var oneBlock = graph.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}

func (m *maker) data(name string, bytes int64, input, output bool) graph.DataID {
	return m.b.Data(graph.Data{Name: name, Bytes: bytes, Input: input, Output: output, Durability: m.s.Durability, Combine: combine})
}

// task adds a task of factor times the average work, skewed.
func (m *maker) task(factor float64, uses ...graph.Use) graph.TaskID {
	if m.s.Skew > 1 {
		u := m.r.Float64()
		// Averages to 1: the mean of u² is a third. Converted so that the
		// compiler fuses nothing and every architecture gives the same.
		factor *= (1 + float64((m.s.Skew-1)*float64(u*u))) / (1 + (m.s.Skew-1)/3)
	}
	return m.b.Add(graph.Task{
		Steps: m.step, Uses: uses,
		Work: graph.Work{Ops: m.s.Ops * factor, Bytes: m.s.Bytes * factor, Unit: m.s.Unit},
		On:   graph.Constraint{Only: m.s.Only}, Gang: m.s.Gang,
	})
}

func independent(s *Spec, b *graph.Builder) {
	m := s.maker(b)
	if s.Size == 0 {
		for range s.N {
			m.task(1)
		}
		return
	}
	in := m.data("in", s.Size*int64(s.N), true, false)
	out := m.data("out", s.Size*int64(s.N), false, true)
	for i := range int64(s.N) {
		m.task(1,
			graph.Use{Data: in, Offset: i * s.Size, Bytes: s.Size, Access: graph.Read},
			graph.Use{Data: out, Offset: i * s.Size, Bytes: s.Size, Access: graph.Write})
	}
}

func chain(s *Spec, b *graph.Builder) {
	m := s.maker(b)
	d := m.data("state", s.Size, true, true)
	for range s.N {
		m.task(1, graph.Use{Data: d, Access: graph.ReadWrite})
	}
}

func dag(s *Spec, b *graph.Builder) {
	m := s.maker(b)
	var before, layer []graph.DataID
	picked := make([]int, 0, s.Deps)
	for i := range s.N {
		if i%s.Width == 0 {
			before, layer = layer, nil
		}
		last := i >= (s.N-1)/s.Width*s.Width
		out := m.data("node "+strconv.Itoa(i), s.Size, false, last)
		layer = append(layer, out)
		uses := []graph.Use{{Data: out, Access: graph.Write}}
		picked = picked[:0]
		for len(picked) < min(s.Deps, len(before)) {
			if k := m.r.IntN(len(before)); !slices.Contains(picked, k) {
				picked = append(picked, k)
				uses = append(uses, graph.Use{Data: before[k], Access: graph.Read})
			}
		}
		m.task(1, uses...)
	}
}

func rows(s *Spec, b *graph.Builder) {
	m := s.maker(b)
	n := float64(s.N)
	sum := 0.0
	cost := func(i int) float64 { return float64((i+2)*(s.N-i-2)) / (n * n) }
	for i := range s.N - 2 {
		sum += cost(i)
	}
	mean := sum / (n - 2)
	var out graph.DataID
	if s.Size > 0 {
		out = m.data("rows", s.Size*int64(s.N-2), false, true)
	}
	for i := range s.N - 2 {
		var uses []graph.Use
		if s.Size > 0 {
			uses = []graph.Use{{Data: out, Offset: int64(i) * s.Size, Bytes: s.Size, Access: graph.Write}}
		}
		m.task(cost(i)/mean, uses...)
	}
}

func stencil(s *Spec, b *graph.Builder) {
	m := s.maker(b)
	total := s.Size * int64(s.Width)
	edge := max(s.Size/16, 1)
	now := m.data("even", total, true, s.Steps%2 == 0)
	next := m.data("odd", total, false, s.Steps%2 == 1)
	for range s.Steps {
		for i := range int64(s.Width) {
			uses := []graph.Use{
				{Data: next, Offset: i * s.Size, Bytes: s.Size, Access: graph.Write},
				{Data: now, Offset: i * s.Size, Bytes: s.Size, Access: graph.Read},
			}
			if i > 0 {
				uses = append(uses, graph.Use{Data: now, Offset: i*s.Size - edge, Bytes: edge, Access: graph.Read})
			}
			if i < int64(s.Width)-1 {
				uses = append(uses, graph.Use{Data: now, Offset: (i + 1) * s.Size, Bytes: edge, Access: graph.Read})
			}
			m.task(1, uses...)
		}
		now, next = next, now
	}
}

func reduce(s *Spec, b *graph.Builder) {
	m := s.maker(b)
	in := m.data("in", s.Size*int64(s.N), true, false)
	sum := m.data("sum", s.Size, true, true)
	for i := range int64(s.N) {
		m.task(1,
			graph.Use{Data: in, Offset: i * s.Size, Bytes: s.Size, Access: graph.Read},
			graph.Use{Data: sum, Access: graph.Reduce})
	}
}

func random(s *Spec, b *graph.Builder) {
	randomTasks(rand.New(rand.NewPCG(s.Seed, uint64(s.N))), b, randomOptions{Tasks: s.N})
}

// NamedScenario is a scenario that comes with weft.
type NamedScenario struct {
	Name, About, Text string
}

var named = []NamedScenario{
	{"uniform", "a thousand equal tasks", "independent n=1000\n"},
	{"mixed", "a graph, a chain and loose tasks at once", "dag n=512 width=32 deps=3\nchain n=50\nindependent n=500 ops=2e8\n"},
	{"skewed", "a thousand tasks, the dearest a hundred times the cheapest", "independent n=1000 skew=100\n"},
	{"bursty", "bursts of urgent work over a long background", "independent n=1000 ops=2e9\nat 1ms independent n=50 ops=2e8 priority=5 repeat=10 every=5ms\n"},
	{"slowdevice", "a device becomes three times slower under way", "independent n=1000\nat 500us slow 0 3x\n"},
	{"stencil", "strips that exchange their edges every step", "stencil width=32 steps=25\n"},
	{"reduce", "contributions to one sum", "reduce n=256\n"},
	{"rows", "rows of a triangle, dear in the middle", "rows n=500\n"},
}

// Scenarios returns the scenarios that come with weft, by name.
func Scenarios() []NamedScenario {
	out := slices.Clone(named)
	slices.SortFunc(out, func(a, b NamedScenario) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// FindScenario returns the scenario with a name.
func FindScenario(name string) (NamedScenario, bool) {
	i := slices.IndexFunc(named, func(s NamedScenario) bool { return s.Name == name })
	if i < 0 {
		return NamedScenario{}, false
	}
	return named[i], true
}
