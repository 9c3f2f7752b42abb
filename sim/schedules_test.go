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
// one size, and tasks are so many times as long as others.
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

// TestSchedules compares the policies with HEFT, executed in the simulator as they
// are, and with what no schedule can beat, on graphs that are known for being hard to
// schedule, with copies that take a tenth of a task, as long, and ten times as long.
// testdata/schedules.golden has the makespans as multiples of the bound; -rewrite
// takes new ones over.
func TestSchedules(t *testing.T) {
	const file = "testdata/schedules.golden"
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "machine\tgraph\tcopies\tHEFT\tfinish\tadaptive\tbest\tof\tfinish behind\t")
	rows, behind, worst := 0, 0, 0.0
	for _, name := range []string{"3x5070", "8xh100", "mixed", "2xcpu"} {
		m, _ := machine.Named(name)
		for _, ratio := range []float64{0.1, 1, 10} {
			rnd := rand.New(rand.NewPCG(7, 7))
			for _, s := range []*shape{
				cholesky(8), lu(6), halo(16, 12), forkJoin(24, 4, rnd), montage(24, rnd),
				layered(12, 12, rnd), layered(5, 32, rnd), besideBulk(50, 50*len(m.Devices)),
			} {
				if name == "2xcpu" && ratio != 1 {
					continue // nothing is copied there
				}
				c := Config{Machine: m, Unchecked: true}
				heft, err := executed(c, func(priority []int) *graph.Graph { return s.graph(t, m, ratio, priority) })
				if err != nil {
					t.Fatal(err)
				}
				c.Jobs = []Job{{Graph: s.graph(t, m, ratio, nil)}}
				took := make(map[string]time.Duration)
				best, least, bound := "HEFT", heft, time.Duration(0)
				for _, c.Policy = range sched.Names() {
					res, err := Run(c)
					if err != nil || res.Runs[0].Err != nil {
						t.Fatal(c.Policy, err, res.Runs[0].Err)
					}
					took[c.Policy], bound = res.Makespan, res.Bound
					if res.Makespan < least && c.Policy != "adaptive" {
						best, least = c.Policy, res.Makespan
					}
				}
				of := func(d time.Duration) float64 { return float64(d) / float64(bound) }
				lag := 100 * (float64(took["finish"])/float64(least) - 1)
				fmt.Fprintf(w, "%s\t%s\t%v\t%.2f\t%.2f\t%.2f\t%.2f\t%s\t%.0f %%\t\n", name, s.name, ratio, of(heft), of(took["finish"]), of(took["adaptive"]), of(least), best, lag)
				if rows++; lag > 5 {
					behind++
				}
				worst = max(worst, lag)
			}
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&text, "finish is more than 5 %% behind in %d of %d, at most %.0f %%\n", behind, rows, worst)
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
		t.Errorf("got:\n%s\nwant:\n%s\n(go test ./sim -run TestSchedules -rewrite takes it over)", got, want)
	}
}
