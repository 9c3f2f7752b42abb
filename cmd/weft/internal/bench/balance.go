package bench

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/cmd/weft/internal/workloads"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// balanceRow says how evenly devices shared uneven work. Figures are medians.
type balanceRow struct {
	Workload    string  `json:"workload"`
	Partitioner string  `json:"partitioner"`
	Policy      string  `json:"policy"` // "fixed": each device ran its own part and nothing else
	Devices     int     `json:"devices"`
	Seconds     float64 `json:"seconds"`
	// Imbalance is the largest deviation of a device's busy time from the
	// mean, divided by the mean; Spread is the highest less the lowest
	// utilisation.
	Imbalance   float64 `json:"imbalance"`
	Spread      float64 `json:"utilisation_spread"`
	Utilisation float64 `json:"utilisation"` // mean over devices
}

// fixed is the policy of a row whose parts stay where the partitioner put them.
const fixed = "fixed"

// balance is the benchmark of that name.
type balance struct {
	only []string // of balanceNames; empty means all
}

// balanceNames are the kinds of work that the benchmark has.
var balanceNames = []string{triangleName, "landscape", "automata"}

const triangleName = "triangle"

func newBalance(s Setup) *cobra.Command {
	var o balance
	c := benchmark[balanceRow]{
		use:   "balance",
		short: "How evenly devices share uneven work",
		long: `Run work whose items cost differently and report how evenly the devices shared
it: imbalance is the largest deviation of a device's busy time from the mean,
over the mean. First each device runs the part a partitioner gave it and nothing
else (policy fixed); then parts are cut finer and each policy places them. The
partitioner equal counts items, all others their cost: what it loses is what
knowing the cost is worth.

  triangle   row i of a triangle: cost grows from nothing to the last row
  landscape  rows of an energy landscape: those in the middle are the dearest
  automata   blocks of a game of Life that exchange their edges: equal cost`,
		repeat: 7, text: writeBalance,
		measure: func(m *meter) ([]balanceRow, error) {
			for _, name := range o.only {
				if err := terminal.MustName("work", name, balanceNames); err != nil {
					return nil, err
				}
			}
			return o.measure(m)
		},
	}.command(s)
	c.Flags().StringSliceVar(&o.only, "only", nil, "`work` to run: "+strings.Join(balanceNames, ", ")+" (all)")
	return c
}

// jobs makes the jobs of the benchmark.
func (o *balance) jobs(ctx context.Context) (names []string, jobs []workload.Job, err error) {
	for _, name := range balanceNames {
		if len(o.only) > 0 && !slices.Contains(o.only, name) {
			continue
		}
		job := workload.Job(newTriangle(4096, 40))
		if w, ok := workloads.Find(name); ok {
			if job, err = workloads.Sized(ctx, w, map[string]int{}); err != nil {
				return nil, nil, err
			}
		}
		names, jobs = append(names, name), append(jobs, job)
	}
	return names, jobs, nil
}

// measure runs the workloads named in o.only that it knows. It ignores the others,
// which a suite may name.
func (o *balance) measure(m *meter) (rows []balanceRow, err error) {
	if _, err := m.several(); err != nil {
		return nil, err
	}
	names, jobs, err := o.jobs(m.ctx)
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	defer func() { // rows of one workload stand together
		slices.SortStableFunc(rows, func(a, b balanceRow) int {
			return slices.Index(names, a.Workload) - slices.Index(names, b.Workload)
		})
	}()
	cuts, policies := sched.PartitionerNames(), sched.Names()
	p := m.progress("run", len(jobs)*(len(cuts)+len(policies))*(m.repeat+learning))
	defer p.Finish()
	try := func(cut, policy string) error {
		rt, err := m.open(func(o *weft.Options) {
			if o.Partitioner = cut; policy != fixed {
				o.Policy = policy
			}
		})
		if err != nil {
			return err
		}
		defer rt.Close()
		for i, job := range jobs {
			p.At("%s, partitioner %s, policy %s", names[i], cut, policy)
			row, err := balanceOf(m, rt, job, policy == fixed, p)
			if err != nil {
				return err
			}
			row.Workload, row.Partitioner, row.Policy = names[i], cut, policy
			rows = append(rows, row)
		}
		return nil
	}
	for _, cut := range cuts {
		if err := try(cut, fixed); err != nil {
			return rows, err
		}
	}
	for _, policy := range policies {
		if err := try("latency", policy); err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// balanceOf measures one job on one runtime.
func balanceOf(m *meter, rt *weft.Runtime, job workload.Job, fix bool, p *terminal.Progress) (balanceRow, error) {
	row := balanceRow{Devices: len(rt.Devices())}
	var took, imbalance, spread, mean []float64
	for round := range m.repeat + learning {
		var rep *weft.Report
		var err error
		if fix {
			rep, err = runFixed(m.ctx, rt, job)
		} else {
			var res *workload.Result
			if res, err = workload.Run(m.ctx, rt, job); err == nil {
				rep = res.Report
			}
		}
		if err != nil {
			return row, err
		}
		p.Add()
		if round < learning {
			continue
		}
		var busy []float64
		for i := range rep.Devices {
			busy = append(busy, rep.Devices[i].Busy.Seconds())
		}
		s := rep.Elapsed().Seconds()
		low, high, avg, worst := deviation(busy)
		took, imbalance = append(took, s), append(imbalance, worst)
		spread, mean = append(spread, (high-low)/s), append(mean, avg/s)
	}
	if err := checked(m.ctx, job); err != nil {
		return row, err
	}
	row.Seconds, row.Imbalance, row.Spread, row.Utilisation = median(took), median(imbalance), median(spread), median(mean)
	return row, nil
}

// deviation returns the smallest, the largest and the mean of numbers, and the largest
// deviation from the mean divided by the mean.
func deviation(xs []float64) (low, high, mean, worst float64) {
	low, high = xs[0], xs[0]
	for _, x := range xs {
		low, high, mean = min(low, x), max(high, x), mean+x/float64(len(xs))
	}
	if mean > 0 {
		worst = max(high-mean, mean-low) / mean
	}
	return low, high, mean, worst
}

// runFixed runs a job with one part for each device and no other task to move.
func runFixed(ctx context.Context, rt *weft.Runtime, job workload.Job) (*weft.Report, error) {
	part, err := rt.Split(job.Items(), job.Whole())
	if err != nil {
		return nil, err
	}
	var ranges []sched.Range
	var names []string
	for i, r := range part.Ranges {
		if r.Len() > 0 {
			ranges = append(ranges, r)
			names = append(names, rt.Machine().Devices[i].Name)
		}
	}
	g, err := job.Graph(ranges)
	if err != nil {
		return nil, err
	}
	if g.NumTasks()%len(ranges) != 0 {
		return nil, fmt.Errorf("%s has %d tasks for %d parts: it cannot be tied to devices", job.Name(), g.NumTasks(), len(ranges))
	}
	// Jobs add the tasks of a round in the order of the parts.
	if g, err = Pinned(g, func(task int) string { return names[task%len(names)] }); err != nil {
		return nil, err
	}
	return rt.Run(ctx, g, job.Bind()...)
}

// Pinned returns a copy of a graph in which every task may run on one device only.
func Pinned(g *graph.Graph, device func(task int) string) (*graph.Graph, error) {
	var b graph.Builder
	for i := range g.NumData() {
		b.Data(*g.Data(graph.DataID(i)))
	}
	for i := range g.NumTasks() {
		t := *g.Task(graph.TaskID(i))
		t.On.Only = []string{device(i)}
		b.Add(t)
	}
	return b.Build()
}

func writeBalance(w io.Writer, rows []balanceRow) {
	table := [][]any{{"workload", "partitioner", "policy", "median", "imbalance", "spread", "used"}}
	for _, r := range rows {
		table = append(table, []any{r.Workload, r.Partitioner, r.Policy, terminal.Seconds(r.Seconds),
			terminal.Percent(r.Imbalance), terminal.Percent(r.Spread), terminal.Percent(r.Utilisation)})
	}
	terminal.Table(w, table)
}

// triangle is work whose row i costs i units. A unit is a number of steps of a random
// generator.
type triangle struct {
	rows, unit int
	out        []uint64
}

// Multiplier and increment of the generator, Knuth's MMIX.
const genMul, genAdd = 6364136223846793005, 1442695040888963407

const triangleKernel = "bench.triangle"

func newTriangle(rows, unit int) *triangle {
	return &triangle{rows: rows, unit: unit, out: make([]uint64, rows)}
}

type triangleParams struct {
	first int // row
	unit  int // its steps
}

// triangleRows is the kernel.
func triangleRows(c *weft.Call, p triangleParams, lo, hi int) {
	first, unit := p.first, p.unit
	out := weft.View[uint64](c.Args[0])
	for i := lo; i < hi; i++ {
		x := uint64(first + i)
		for range (first + i) * unit {
			x = x*genMul + genAdd
		}
		out[i] = x
	}
}

func (t *triangle) Name() string          { return fmt.Sprintf("triangle of %d rows", t.rows) }
func (t *triangle) Class() workload.Class { return workload.Exact }

// cost is the number of units in rows lo to hi-1.
func (t *triangle) cost(lo, hi int64) float64 {
	return (float64(hi)*float64(hi-1) - float64(lo)*float64(lo-1)) / 2
}

func (t *triangle) Items() sched.Items {
	return sched.Items{Extent: int64(t.rows), Cost: t.cost}
}

func (t *triangle) Whole() graph.Task { return t.task(0, int64(t.rows)) }

func (t *triangle) task(lo, hi int64) graph.Task {
	step := graph.Step{Kernel: graph.GoKernel(triangleKernel), Launch: graph.Grid(hi - lo)}
	return graph.Task{
		Steps: []graph.Step{step.With(triangleParams{int(lo), t.unit})},
		Work:  graph.Work{Ops: 2 * float64(t.unit) * t.cost(lo, hi), Bytes: 8 * float64(hi-lo), Unit: graph.Int32},
	}
}

func (t *triangle) Graph(ranges []sched.Range) (*graph.Graph, error) {
	var b graph.Builder
	out := b.Data(graph.Data{Name: "out", Bytes: int64(8 * t.rows), Output: true})
	for _, r := range ranges {
		task := t.task(r.Lo, r.Hi)
		task.Uses = []graph.Use{{Data: out, Offset: 8 * r.Lo, Bytes: 8 * r.Len(), Access: graph.Write}}
		b.Add(task)
	}
	return b.Build()
}

func (t *triangle) Bind() []weft.Binding { return []weft.Binding{weft.Bind("out", t.out)} }

// Check computes the end of every row by repeated squaring instead of stepping.
func (t *triangle) Check() error {
	for i, got := range t.out {
		mul, add := uint64(genMul), uint64(genAdd)
		allMul, allAdd := uint64(1), uint64(0)
		for n := i * t.unit; n > 0; n >>= 1 {
			if n&1 == 1 {
				allMul, allAdd = allMul*mul, allAdd*mul+add
			}
			mul, add = mul*mul, add*mul+add
		}
		if want := uint64(i)*allMul + allAdd; got != want {
			return fmt.Errorf("triangle: row %d is %d, want %d", i, got, want)
		}
	}
	return nil
}

func (t *triangle) Rate(d time.Duration) string {
	return fmt.Sprintf("%.2f Gstep/s", t.cost(0, int64(t.rows))*float64(t.unit)/math.Max(d.Seconds(), 1e-9)/1e9)
}
