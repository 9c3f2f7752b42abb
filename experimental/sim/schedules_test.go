package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// shape is a graph before the sizes of tasks and data are known: all data is of
// one size, and the length of a task is a multiple of a unit.
type shape struct {
	name  string
	input []bool // by data
	tasks []part
}

type part struct {
	ops  float64
	uses []graph.Use
}

func (s *shape) data(input bool) graph.DataID {
	s.input = append(s.input, input)
	return graph.DataID(len(s.input) - 1)
}

func (s *shape) add(ops float64, uses ...graph.Use) { s.tasks = append(s.tasks, part{ops, uses}) }

// tiles returns an n × n matrix of tiles; of a lower one those above the diagonal
// are not there.
func (s *shape) tiles(n int, lower bool) [][]graph.DataID {
	t := make([][]graph.DataID, n)
	for i := range t {
		t[i] = make([]graph.DataID, n)
		for j := range t[i] {
			if t[i][j] = -1; j <= i || !lower {
				t[i][j] = s.data(true)
			}
		}
	}
	return t
}

func reads(d ...graph.DataID) (uses []graph.Use) {
	for _, d := range d {
		uses = append(uses, graph.Use{Data: d, Access: graph.Read})
	}
	return uses
}

func updates(d graph.DataID, from ...graph.DataID) []graph.Use {
	return append(reads(from...), graph.Use{Data: d, Access: graph.ReadWrite})
}

func makes(d graph.DataID, from ...graph.DataID) []graph.Use {
	return append(reads(from...), graph.Use{Data: d, Access: graph.Write})
}

func cholesky(n int) *shape {
	s := &shape{name: "cholesky"}
	t := s.tiles(n, true)
	for c := range n {
		s.add(1.0/3, updates(t[c][c])...)
		for i := c + 1; i < n; i++ {
			s.add(1, updates(t[i][c], t[c][c])...)
		}
		for i := c + 1; i < n; i++ {
			s.add(1, updates(t[i][i], t[i][c])...)
			for j := c + 1; j < i; j++ {
				s.add(2, updates(t[i][j], t[i][c], t[j][c])...)
			}
		}
	}
	return s
}

func lu(n int) *shape {
	s := &shape{name: "lu"}
	t := s.tiles(n, false)
	for c := range n {
		s.add(2.0/3, updates(t[c][c])...)
		for i := c + 1; i < n; i++ {
			s.add(1, updates(t[i][c], t[c][c])...)
			s.add(1, updates(t[c][i], t[c][c])...)
		}
		for i := c + 1; i < n; i++ {
			for j := c + 1; j < n; j++ {
				s.add(2, updates(t[i][j], t[i][c], t[c][j])...)
			}
		}
	}
	return s
}

func halo(width, steps int) *shape {
	s := &shape{name: "stencil"}
	now := make([]graph.DataID, width)
	for i := range now {
		now[i] = s.data(true)
	}
	for range steps {
		next := make([]graph.DataID, width)
		for i := range next {
			next[i] = s.data(false)
			s.add(1, makes(next[i], now[max(i-1, 0):min(i+2, width)]...)...)
		}
		now = next
	}
	return s
}

func forkJoin(width, stages int, rnd *rand.Rand) *shape {
	s := &shape{name: "fork-join"}
	x := s.data(true)
	for range stages {
		var made []graph.DataID
		for range width {
			y := s.data(false)
			s.add(0.5+4*rnd.Float64(), makes(y, x)...)
			made = append(made, y)
		}
		x = s.data(false)
		s.add(1, makes(x, made...)...)
	}
	return s
}

// montage has the phases of the astronomers' workflow: images projected, compared
// with their neighbours, the differences fitted, and all put together.
func montage(n int, rnd *rand.Rand) *shape {
	s := &shape{name: "montage"}
	var images, fits, flat []graph.DataID
	for range n {
		y := s.data(false)
		s.add(13, makes(y, s.data(true))...)
		images = append(images, y)
	}
	for i := range n {
		for _, k := range []int{i + 1, i + 4} {
			if k < n {
				y := s.data(false)
				s.add(1+rnd.Float64(), makes(y, images[i], images[k])...)
				fits = append(fits, y)
			}
		}
	}
	model := s.data(false)
	s.add(20, makes(model, s.gathered(fits))...)
	for i := range n {
		y := s.data(false)
		s.add(1.5, makes(y, images[i], model)...)
		flat = append(flat, y)
	}
	s.add(30, makes(s.data(false), s.gathered(flat))...)
	return s
}

// gathered makes one of much data, eight at a time.
func (s *shape) gathered(from []graph.DataID) graph.DataID {
	for len(from) > 1 {
		var made []graph.DataID
		for some := range slices.Chunk(from, 8) {
			y := s.data(false)
			s.add(2, makes(y, some...)...)
			made = append(made, y)
		}
		from = made
	}
	return from[0]
}

// layered has layers of tasks of very different length, each of which reads what
// one to four tasks of the layer before it made.
func layered(layers, width int, rnd *rand.Rand) *shape {
	s := &shape{name: fmt.Sprintf("layers of %d", width)}
	var before []graph.DataID
	for range layers {
		var made []graph.DataID
		for range width/2 + rnd.IntN(width) {
			y := s.data(false)
			from := []graph.DataID{}
			if before == nil {
				from = append(from, s.data(true))
			} else {
				for _, k := range rnd.Perm(len(before))[:min(len(before), 1+rnd.IntN(4))] {
					from = append(from, before[k])
				}
			}
			s.add(math.Exp(0.8*rnd.NormFloat64()), makes(y, from...)...)
			made = append(made, y)
		}
		before = made
	}
	return s
}

// besideBulk is a chain added after independent tasks, which as such come first.
func besideBulk(chain, bulk int) *shape {
	s := &shape{name: "chain beside bulk"}
	for range bulk {
		s.add(1, makes(s.data(false))...)
	}
	x := s.data(true)
	for range chain {
		s.add(1, updates(x)...)
	}
	return s
}

// graph gives tasks a mean of 1 ms on the fastest device, and data such a size that
// a copy of it takes ratio times as long.
func (s *shape) graph(t *testing.T, m *machine.Machine, ratio float64, priority []int) *graph.Graph {
	t.Helper()
	best, sum := 0.0, 0.0
	for i := range m.Devices {
		best = max(best, m.Devices[i].Rates.Ops[graph.FP32])
	}
	for i := range s.tasks {
		sum += s.tasks[i].ops
	}
	from, to := machine.Host, machine.DeviceID(0)
	if !m.Devices[0].HostMemory && !m.Devices[1].HostMemory {
		from, to = 0, 1
	}
	bytes, cost := int64(64), machine.NewRoofline(m)
	for !m.Devices[0].HostMemory && bytes < 1<<31 && cost.Copy(2*bytes, from, to).Median <= time.Duration(ratio*1e6) {
		bytes *= 2
	}
	var b graph.Builder
	for _, input := range s.input {
		b.Data(graph.Data{Bytes: bytes, Input: input})
	}
	for i, p := range s.tasks {
		task := graph.Task{Steps: []graph.Step{{Kernel: kernel, Launch: oneBlock}}, Uses: p.uses, Work: graph.Work{Ops: p.ops * best * 1e-3 * float64(len(s.tasks)) / sum}}
		if priority != nil {
			task.Priority = priority[i]
		}
		b.Add(task)
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// lagFinish and lagAdaptive are the goals: how many percent finish may be behind the
// best of HEFT and every other policy, and adaptive behind finish. docs/RATIONALE.md
// names graphs of other sizes that miss them, and why.
const lagFinish, lagAdaptive = 5.0, 2.0

// schedule is a row of the table: the makespans of one graph on one machine.
type schedule struct {
	machine, graph string
	ratio          float64
	took           map[string]time.Duration // by policy, HEFT among them
	bound          time.Duration
}

// measure executes HEFT and every policy.
func (s *shape) measure(t *testing.T, m *machine.Machine, ratio float64) *schedule {
	t.Helper()
	r := &schedule{machine: m.Name, graph: s.name, ratio: ratio, took: make(map[string]time.Duration)}
	c := Config{Machine: m, Unchecked: true}
	var err error
	r.took["HEFT"], err = executed(c, func(priority []int) *graph.Graph { return s.graph(t, m, ratio, priority) })
	if err != nil {
		t.Fatal(err)
	}
	c.Jobs = []Job{{Graph: s.graph(t, m, ratio, nil)}}
	for _, c.Policy = range sched.Names() {
		res, err := Run(c)
		if err != nil || res.Runs[0].Err != nil {
			t.Fatal(c.Policy, err, res.Runs[0].Err)
		}
		r.took[c.Policy], r.bound = res.Makespan, res.Bound
	}
	return r
}

// best returns who took least, adaptive apart, the first by name of equals.
func (r *schedule) best() string {
	best := "HEFT"
	for _, name := range sched.Names() {
		if name != "adaptive" && r.took[name] < r.took[best] {
			best = name
		}
	}
	return best
}

// lag is how many percent longer than another a policy took.
func (r *schedule) lag(policy, than string) float64 {
	return 100 * (float64(r.took[policy])/float64(r.took[than]) - 1)
}

// goals checks that the row meets them.
func (r *schedule) goals(t *testing.T) {
	t.Helper()
	best := r.best()
	lag, more := r.lag("finish", best), r.lag("adaptive", "finish")
	if lag > lagFinish || more > lagAdaptive {
		t.Errorf("%s, %s, %v: finish is %.1f %% behind %s, the goal is %v; adaptive %.1f %% behind finish, the goal is %v",
			r.machine, r.graph, r.ratio, lag, best, lagFinish, more, lagAdaptive)
	}
}

// TestSchedules compares the policies with HEFT, executed in the simulator as they
// are, and with what no schedule can beat, on graphs that are known for being hard to
// schedule, with copies that take a tenth of a task, as long, and ten times as long.
// Every row must meet the goals. testdata/schedules.golden has the makespans as multiples
// of the bound; -rewrite takes new ones over.
func TestSchedules(t *testing.T) {
	const file = "testdata/schedules.golden"
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "machine\tgraph\tcopies\tHEFT\tfinish\tadaptive\tbest\tof\tfinish behind\t")
	rows, missed, worst := 0, 0, 0.0
	for _, name := range []string{"3x5070", "8xh100", "mixed", "2xcpu"} {
		m, _ := machine.Named(name)
		for _, ratio := range []float64{0.1, 1, 10} {
			if name == "2xcpu" && ratio != 1 {
				continue // nothing is copied there
			}
			rnd := rand.New(rand.NewPCG(7, 7))
			for _, s := range []*shape{
				cholesky(8), lu(6), halo(16, 12), forkJoin(24, 4, rnd), montage(24, rnd),
				layered(12, 12, rnd), layered(5, 32, rnd), besideBulk(50, 50*len(m.Devices)),
			} {
				r := s.measure(t, m, ratio)
				r.goals(t)
				best := r.best()
				lag := r.lag("finish", best)
				of := func(policy string) float64 { return float64(r.took[policy]) / float64(r.bound) }
				fmt.Fprintf(w, "%s\t%s\t%v\t%.2f\t%.2f\t%.2f\t%.2f\t%s\t%.0f %%\t\n", name, s.name, ratio, of("HEFT"), of("finish"), of("adaptive"), of(best), best, lag)
				if rows++; lag > lagFinish {
					missed++
				}
				worst = max(worst, lag)
			}
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&text, "finish is more than 5 %% behind in %d of %d, at most %.0f %%\n", missed, rows, worst)
	if *rewrite {
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := text.String(); got != string(want) {
		t.Errorf("got:\n%s\nwant:\n%s\n(go test ./experimental/sim -run TestSchedules -rewrite takes it over)", got, want)
	}
}

// TestChainBesideBulk: a chain of 100 tasks beside 800 independent ones, whichever were
// added first, takes at most 5 % longer on 8 GPUs than no schedule can beat.
func TestChainBesideBulk(t *testing.T) {
	m, _ := machine.Named("8xh100")
	for _, last := range []bool{false, true} {
		s := besideBulk(100, 800)
		if !last {
			slices.Reverse(s.tasks) // all of the chain are alike
		}
		c := Config{Machine: m, Unchecked: true, Jobs: []Job{{Graph: s.graph(t, m, 0.1, nil)}}}
		for _, c.Policy = range []string{"finish", "adaptive"} {
			res, err := Run(c)
			if err != nil || res.Runs[0].Err != nil {
				t.Fatal(c.Policy, err, res.Runs[0].Err)
			}
			if lag := 100 * (float64(res.Makespan)/float64(res.Bound) - 1); lag > 5 {
				t.Errorf("chain last %v: %s takes %.1f %% longer than the bound", last, c.Policy, lag)
			}
		}
	}
}
