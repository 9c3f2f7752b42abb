package bench

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/experimental/pipeline"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/fake"
)

// pipelineRow is the rate of one stream.
type pipelineRow struct {
	Case    string    `json:"case"`
	Where   string    `json:"where"` // cores, devices, or fake devices
	Stages  int       `json:"stages"`
	Items   int       `json:"items"`
	Workers []int     `json:"workers,omitempty"`
	StageMS []float64 `json:"stage_ms"` // of an item, alone
	// Cores is the number of cores that the machine gave to such work just before
	// and after the stream, when weft did nothing else: fewer than it has where other
	// programs run.
	Cores float64 `json:"cores,omitempty"`
	// Rate is items a second, Bound the rate that the slowest stage and those cores
	// allow, OfBound their ratio. All are medians.
	Rate    float64 `json:"items_per_second"`
	Bound   float64 `json:"bound_items_per_second"`
	OfBound float64 `json:"of_bound"`
	// Busiest is the part of the time that the busiest stage was at work. Where it is
	// near 1 the stream lost nothing, and a rate below the bound means that the
	// machine was slower than when the stage was timed alone.
	Busiest float64 `json:"busiest_stage,omitempty"`
	// Bubble is the idle part of workers or devices, Least its lower bound for S
	// equal stages: (S-1)/(S-1+items).
	Bubble float64 `json:"bubble"`
	Least  float64 `json:"least_bubble"`
}

func newPipelineBench(s Setup) *cobra.Command {
	return benchmark[pipelineRow]{
		use:   "pipeline",
		short: "How close streams come to what their stages allow",
		long: `Run streams of items through stages and compare their rate with the bound: what
the slowest stage can do, or all cores divided by what an item takes in total.
What a stage takes alone and how much all cores do is measured just before and
after each stream. The part of the time the busiest stage was at work tells a
stream that wastes time from a machine that was slower meanwhile.

  cores         stages that compute, each on a goroutine or several
  devices       four steps spread over the devices, pipeline parallel
  fake devices  four equal steps of scripted length on four devices and 64
                items, whose idle time is known: 3/67. Says nothing about
                hardware`,
		repeat: 5, measure: measurePipelines, text: writePipelines,
	}.command(s)
}

// spin computes for about units microseconds, in a chain of operations of which each
// needs the one before.
func spin(units int) uint64 {
	x := uint64(88172645463325252)
	for range units * spinSteps {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// spinSteps is the number of steps in a unit, which takes about a microsecond.
const spinSteps = 500

// spinKernel computes for some units.
const spinKernel = "bench.spin"

type spinParams struct{ units int }

func spinUnits(c *weft.Call, p spinParams, _, _ int) {
	weft.View[uint64](c.Args[1])[0] = spin(p.units) + weft.View[uint64](c.Args[0])[0]
}

// pipelineItems is the number of items of a stream. Filling and draining four stages is
// 1 % of 256 items. Tests take fewer.
var pipelineItems = 256

func measurePipelines(m *meter) (rows []pipelineRow, err error) {
	devices, err := m.several() // first, so that a mistake shows at once
	if err != nil {
		return nil, err
	}
	type stream struct {
		name    string
		units   []int
		workers []int
	}
	const unit = 1000
	streams := []stream{
		{"equal", []int{unit, unit, unit, unit}, []int{1, 1, 1, 1}},
		{"one slow", []int{unit, 4 * unit, unit, unit}, []int{1, 1, 1, 1}},
		{"slow one shared", []int{unit, 4 * unit, unit, unit}, []int{1, 4, 1, 1}},
	}
	p := m.progress("stream", (len(streams)+2)*m.repeat)
	defer p.Finish()
	for _, s := range streams {
		p.At("cores, %s", s.name)
		row := pipelineRow{Case: s.name, Where: "cores", Workers: s.workers, Least: pipeline.Bubble(len(s.units), pipelineItems)}
		busiest := 0.
		for i, n := range s.units {
			busiest = max(busiest, float64(n)/float64(s.workers[i]))
		}
		err := row.medians(m, p, s.units, busiest, func() (*pipeline.Report, float64, error) {
			rep, err := onCores(m.ctx, s.units, s.workers)
			if err != nil {
				return nil, 0, err
			}
			return rep, rep.Bubble, nil
		})
		if err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
	row, err := m.onDevices(p, devices)
	if err != nil {
		return rows, err
	}
	rows = append(rows, row)
	if row, err = m.onFakes(p); err != nil {
		return rows, err
	}
	return append(rows, row), nil
}

// medians fills a row from several runs. A unit is timed alone and on all cores before
// and after each run, since the speed of the machine changes with time. busiest is the
// number of units for each item of the worker that has most.
func (r *pipelineRow) medians(m *meter, p *terminal.Progress, units []int, busiest float64, run func() (*pipeline.Report, float64, error)) error {
	r.Stages, r.Items = len(units), pipelineItems
	total := 0
	for _, n := range units {
		total += n
	}
	var cores, rates, bounds, ratios, bubbles, busy []float64
	for range m.repeat {
		unit, all := alone(), together() // all: units a second
		rep, bubble, err := run()
		if err != nil {
			return err
		}
		unit, all = (unit+alone())/2, (all+together())/2
		bound := min(1/(unit*busiest), all/float64(total))
		rate := float64(rep.Items) / rep.Elapsed.Seconds()
		cores, bubbles = append(cores, all*unit), append(bubbles, bubble)
		rates, bounds, ratios = append(rates, rate), append(bounds, bound), append(ratios, rate/bound)
		busy = append(busy, busiestOf(rep))
		r.StageMS = r.StageMS[:0]
		for _, n := range units {
			r.StageMS = append(r.StageMS, 1e3*unit*float64(n))
		}
		p.Add()
	}
	r.Cores, r.Bubble, r.Busiest = median(cores), median(bubbles), median(busy)
	r.Rate, r.Bound, r.OfBound = median(rates), median(bounds), median(ratios)
	return nil
}

// busiestOf is the part of the time that the busiest stage worked, or the busiest
// device of a stage on devices.
func busiestOf(rep *pipeline.Report) float64 {
	most := 0.0
	for _, s := range rep.Stages {
		if len(s.Devices) == 0 {
			most = max(most, s.Busy.Seconds()/float64(s.Workers))
		}
		for _, d := range s.Devices {
			most = max(most, d.Busy.Seconds())
		}
	}
	return most / rep.Elapsed.Seconds()
}

func (r *pipelineRow) workersOf(stage int) int {
	if r.Workers == nil {
		return 1
	}
	return r.Workers[stage]
}

// alone is the time in seconds of a unit on one core while weft leaves the others idle.
func alone() float64 {
	const units = 1000
	var each []float64
	for range 25 {
		began := time.Now()
		spun.Add(spin(units))
		each = append(each, time.Since(began).Seconds()/units)
	}
	return median(each)
}

// together is the number of units that all cores do in a second.
func together() float64 {
	const units, times = 1000, 200
	var all sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	var left atomic.Int64
	left.Store(int64(times * workers))
	began := time.Now()
	for range workers {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				spun.Add(spin(units))
			}
		})
	}
	all.Wait()
	return float64(units*times*workers) / time.Since(began).Seconds()
}

// spun takes results, so that the compiler cannot leave the work out.
var spun atomic.Uint64

// numbers are the items of a stream.
func numbers(n int) func(yield func([2]uint64) bool) {
	return func(yield func([2]uint64) bool) {
		for i := range n {
			if !yield([2]uint64{uint64(i)}) {
				return
			}
		}
	}
}

// onCores runs a stream of stages on goroutines, and checks what it computes.
func onCores(ctx context.Context, units, workers []int) (*pipeline.Report, error) {
	var stages []pipeline.Stage[[2]uint64]
	want := uint64(0)
	for s, n := range units {
		want += spin(n)
		stages = append(stages, pipeline.Stage[[2]uint64]{Name: fmt.Sprint("stage ", s+1), Workers: workers[s], Queue: 2 * workers[s],
			Do: func(_ context.Context, x *[2]uint64) error { x[1] += spin(n); return nil }})
	}
	return runNumbers(ctx, pipelineItems, want, stages...)
}

// runNumbers runs stages over numbers and checks that each item comes to want.
func runNumbers(ctx context.Context, items int, want uint64, stages ...pipeline.Stage[[2]uint64]) (*pipeline.Report, error) {
	p, err := pipeline.New(pipeline.Options{}, stages...)
	if err != nil {
		return nil, err
	}
	return p.Run(ctx, numbers(items), func(it pipeline.Item[[2]uint64]) error {
		if it.Err == nil && it.Value[1] != want {
			return fmt.Errorf("item %d came to %d, want %d", it.Index, it.Value[1], want)
		}
		return it.Err
	})
}

// program is a chain of tasks, one for each step.
func program(units []int) pipeline.Program[[2]uint64] {
	p := pipeline.Program[[2]uint64]{Name: "steps"}
	for _, n := range units {
		p.Costs = append(p.Costs, float64(n))
	}
	kernel := graph.GoKernel(spinKernel)
	p.Build = func(on []graph.Constraint) (*graph.Graph, error) {
		var b graph.Builder
		at := b.Data(graph.Data{Name: "in", Bytes: 8, Input: true})
		for s, n := range units {
			last := s == len(units)-1
			d := graph.Data{Bytes: 8, Output: last}
			if last {
				d.Name = "out"
			}
			next := b.Data(d)
			b.Add(graph.Task{
				Steps: []graph.Step{graph.Step{Kernel: kernel}.With(spinParams{n})}, On: on[s],
				Uses: []graph.Use{{Data: at, Access: graph.Read}, {Data: next, Access: graph.Write}},
				Work: graph.Work{Ops: 6 * spinSteps * float64(n), Unit: graph.Int32},
			})
			at = next
		}
		return b.Build()
	}
	p.Bind = func(x *[2]uint64) []weft.Binding {
		return []weft.Binding{weft.Bind("in", make([]uint64, 1)), weft.Bind("out", x[1:])}
	}
	return p
}

// onDevices runs four steps on n devices.
func (m *meter) onDevices(p *terminal.Progress, n int) (pipelineRow, error) {
	rt, err := m.open(nil)
	if err != nil {
		return pipelineRow{}, err
	}
	defer rt.Close()
	units := []int{1000, 1000, 1000, 1000}
	row := pipelineRow{Case: fmt.Sprintf("equal, %d devices", n), Where: "devices"}
	prog := program(units)
	for _, d := range rt.Devices() {
		prog.Devices = append(prog.Devices, d.Name)
	}
	place, err := pipeline.Place(pipeline.PipelineParallel, prog.Devices, prog.Costs, 0)
	if err != nil {
		return row, err
	}
	stage, err := pipeline.OnDevices(rt, prog)
	if err != nil {
		return row, err
	}
	p.At("%s", row.Case)
	err = row.medians(m, p, units, 1/place.Rate(prog.Costs), func() (*pipeline.Report, float64, error) {
		rep, err := runNumbers(m.ctx, pipelineItems, 4*spin(units[0]), stage)
		if err != nil {
			return nil, 0, err
		}
		return rep, rep.Stages[0].DeviceBubble, nil
	})
	depth := 0
	last := ""
	for _, d := range place.Copies[0] {
		if d[0] != last {
			depth, last = depth+1, d[0]
		}
	}
	row.Least = pipeline.Bubble(depth, pipelineItems)
	return row, err
}

// onFakes runs the case whose bubble is known: 4 equal steps and 64 items.
func (m *meter) onFakes(p *terminal.Progress) (pipelineRow, error) {
	const steps, items, each = 4, 64, 20 * time.Millisecond
	row := pipelineRow{Case: "known bubble", Where: "fake devices", Stages: steps, Items: items, Least: pipeline.Bubble(steps, items)}
	row.StageMS = slices.Repeat([]float64{each.Seconds() * 1e3}, steps)
	row.Bound = 1 / each.Seconds()
	o, err := fake.Parse(fmt.Sprintf("devices %d; take %v kernel %s", steps, each, spinKernel))
	if err != nil {
		return row, err
	}
	o.Funcs = Funcs()
	drv, err := fake.New(o)
	if err != nil {
		return row, err
	}
	rt, err := weft.Open(m.ctx, weft.Options{Drivers: []driver.Driver{drv}, NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		return row, err
	}
	defer rt.Close()
	stage, err := pipeline.OnDevices(rt, program([]int{1, 1, 1, 1}))
	if err != nil {
		return row, err
	}
	p.At("fake devices")
	var rates, bubbles, busy []float64
	for range m.repeat {
		rep, err := runNumbers(m.ctx, items, steps*spin(1), stage)
		if err != nil {
			return row, err
		}
		rates, bubbles = append(rates, items/rep.Elapsed.Seconds()), append(bubbles, rep.Stages[0].DeviceBubble)
		busy = append(busy, busiestOf(rep))
		p.Add()
	}
	row.Rate, row.Bubble, row.Busiest = median(rates), median(bubbles), median(busy)
	row.OfBound = row.Rate / row.Bound
	return row, nil
}

func writePipelines(w io.Writer, rows []pipelineRow) {
	table := [][]any{{"case", "where", "stage ms", "cores", "items/s", "bound", "of bound", "busiest", "bubble", "at least"}}
	for _, r := range rows {
		ms := ""
		for s, x := range r.StageMS {
			if s > 0 {
				ms += " "
			}
			ms += fmt.Sprint(math.Round(x*100) / 100)
			if n := r.workersOf(s); n > 1 {
				ms += fmt.Sprintf("÷%d", n)
			}
		}
		cores := "-"
		if r.Cores > 0 {
			cores = fmt.Sprintf("%.2f", r.Cores)
		}
		table = append(table, []any{r.Case, r.Where, ms, cores, fmt.Sprintf("%.1f", r.Rate), fmt.Sprintf("%.1f", r.Bound), terminal.Percent(r.OfBound), terminal.Percent(r.Busiest), terminal.Percent(r.Bubble), terminal.Percent(r.Least)})
	}
	terminal.Table(w, table)
}
