package bench

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/probe"
)

// overheadRow is the overhead of one task: its time without that of its work.
type overheadRow struct {
	Case      string  `json:"case"` // independent, chain, dag, prepared chain, round trip
	Trace     bool    `json:"trace"`
	Tasks     int     `json:"tasks"`
	Devices   int     `json:"devices"`
	USPerTask float64 `json:"us_per_task"`        // best of the repetitions
	MedianUS  float64 `json:"median_us_per_task"` // of the repetitions
	P99US     float64 `json:"p99_us,omitempty"`   // round trip: what one in a hundred takes or exceeds
}

// overhead is the benchmark of that name.
type overhead struct{ tasks int }

func newOverhead(s Setup) *cobra.Command {
	var o overhead
	c := benchmark[overheadRow]{
		use:   "overhead",
		short: "What running a task costs: empty tasks, live",
		long: `Run empty tasks live and report what each costs: independent ones, a chain,
a graph 64 wide in which each task reads what three others wrote, and the chain
prepared, where tasks in a row become one; with tracing off and on. us_per_task
is the best of the repetitions, what weft can do; median_us_per_task is their
median, what to expect on this machine. A round trip is a prepared graph of one
task, run by itself: 4 KB in, a small kernel, 4 KB out, timed by the program
that runs it, some thousand times.`,
		repeat: 20, measure: o.measure, text: writeOverhead,
	}.command(s)
	c.Flags().IntVar(&o.tasks, "tasks", 100_000, "tasks in each graph")
	return c
}

// check refuses numbers of tasks that cannot be measured.
func (o *overhead) check() error {
	if o.tasks < 1 || o.tasks > 10_000_000 {
		return terminal.Usagef("--tasks %d: it must be from 1 to 10000000", o.tasks)
	}
	return nil
}

func (o *overhead) measure(m *meter) (rows []overheadRow, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if m.options.Devices == "" {
		m.options.Devices = "cpu/2"
	}
	cases := []struct {
		name        string
		width, deps int
		prepared    bool
	}{{"independent", o.tasks, 0, false}, {"chain", 1, 1, false}, {"dag", 64, 3, false}, {"prepared chain", 1, 1, true}}
	p := m.progress("graph", 2*len(cases)*m.repeat+1)
	defer p.Finish()
	for _, traced := range []bool{false, true} {
		for _, k := range cases {
			p.At("%s, tracing %s", k.name, terminal.OnOff(traced))
			g, err := emptyGraph(o.tasks, k.width, k.deps)
			if err != nil {
				return rows, err
			}
			row, err := o.one(m, g, k.prepared, traced, p)
			if err != nil {
				return rows, err
			}
			row.Case = k.name
			rows = append(rows, row)
		}
	}
	p.At("round trip")
	row, err := roundTrip(m)
	if err != nil {
		return rows, err
	}
	p.Add()
	return append(rows, row), nil
}

// The round trip copies tripBytes each way. The slowest hundredth of trips is 40, enough
// for a steady 99th percentile; tripsBefore come first and are not counted.
const (
	tripBytes   = 4 << 10
	trips       = 4000
	tripsBefore = 500
)

// roundTrip times runs of a single small task, from the call until its result is back.
func roundTrip(m *meter) (row overheadRow, err error) {
	opts := m.options
	opts.Trace = 0
	rt, err := m.openSilent(opts)
	if err != nil {
		return row, err
	}
	defer rt.Close()
	in, err := weft.NewBuffer[byte](rt, tripBytes)
	if err != nil {
		return row, err
	}
	defer in.Release()
	out, err := weft.NewBuffer[byte](rt, tripBytes)
	if err != nil {
		return row, err
	}
	defer out.Release()
	g, err := streamGraph(tripBytes)
	if err != nil {
		return row, err
	}
	prepared, err := rt.Prepare(g, weft.Bind("from", in.Slice()), weft.Bind("to", out.Slice()))
	if err != nil {
		return row, err
	}
	var us []float64
	for i := range tripsBefore + trips {
		in.Slice()[i%tripBytes]++
		began := time.Now()
		if _, err := prepared.Run(m.ctx); err != nil {
			return row, err
		}
		if i >= tripsBefore {
			us = append(us, time.Since(began).Seconds()*1e6)
		}
		if out.Slice()[i%tripBytes] != in.Slice()[i%tripBytes] {
			return row, fmt.Errorf("round trip %d came back with other bytes", i)
		}
	}
	slices.Sort(us)
	return overheadRow{
		Case: "round trip", Tasks: 1, Devices: len(rt.Devices()), USPerTask: us[0], MedianUS: median(us), P99US: us[len(us)*99/100],
	}, nil
}

// streamProbe copies its first argument to its second, on any device.
func streamProbe() *probe.Probe {
	for _, p := range probe.List(nil) {
		if p.Kind == probe.Stream {
			return &p
		}
	}
	panic("no probe copies")
}

// streamStep is a step of streamProbe over a number of bytes.
func streamStep(bytes int64) graph.Step { return streamProbe().Step(bytes / probe.ItemBytes) }

// streamGraph copies the input "from" to the output "to" by a kernel.
func streamGraph(bytes int64) (*graph.Graph, error) {
	var b graph.Builder
	from := b.Data(graph.Data{Name: "from", Bytes: bytes, Input: true})
	to := b.Data(graph.Data{Name: "to", Bytes: bytes, Output: true})
	b.Add(graph.Task{
		Name: "copy", Steps: []graph.Step{streamStep(bytes)}, Work: graph.Work{Bytes: 2 * float64(bytes)},
		Uses: []graph.Use{{Data: from, Access: graph.Read}, {Data: to, Access: graph.Write}},
	})
	return b.Build()
}

// one times one graph of empty tasks.
func (o *overhead) one(m *meter, g *graph.Graph, prepared, traced bool, p *terminal.Progress) (overheadRow, error) {
	opts := m.options
	if opts.Trace = 0; traced {
		opts.Trace = 1 << 17
	}
	rt, err := m.openSilent(opts) // that devices share cores is intended
	if err != nil {
		return overheadRow{}, err
	}
	defer rt.Close()
	run := func() (*weft.Report, error) { return rt.Run(m.ctx, g) }
	if prepared {
		ready, err := rt.Prepare(g)
		if err != nil {
			return overheadRow{}, err
		}
		run = func() (*weft.Report, error) { return ready.Run(m.ctx) }
	}
	var us []float64
	for range m.repeat {
		rep, err := run()
		if err != nil {
			return overheadRow{}, err
		}
		us = append(us, rep.Elapsed().Seconds()*1e6/float64(g.NumTasks()))
		p.Add()
	}
	return overheadRow{Trace: traced, Tasks: g.NumTasks(), Devices: len(rt.Devices()), USPerTask: best(us), MedianUS: median(us)}, nil
}

func writeOverhead(w io.Writer, rows []overheadRow) {
	table := [][]any{{"case", "trace", "best µs/task", "median µs/task", "p99 µs"}}
	for _, r := range rows {
		late := "-"
		if r.P99US > 0 {
			late = fmt.Sprintf("%.2f", r.P99US)
		}
		table = append(table, []any{r.Case, terminal.OnOff(r.Trace), fmt.Sprintf("%.2f", r.USPerTask), fmt.Sprintf("%.2f", r.MedianUS), late})
	}
	terminal.Table(w, table)
}

// emptyGraph has n tasks in layers of width. Each writes 64 bytes and reads the output
// of deps tasks of the layer before.
func emptyGraph(n, width, deps int) (*graph.Graph, error) {
	var b graph.Builder
	steps := []graph.Step{{Kernel: probe.List(nil)[0].Kernel}} // the empty one, which every device has
	data := make([]graph.DataID, n)
	for i := range n {
		data[i] = b.Data(graph.Data{Bytes: 64})
		uses := []graph.Use{{Data: data[i], Access: graph.Write}}
		if layer := i / width; layer > 0 {
			for k := range deps {
				uses = append(uses, graph.Use{Data: data[(layer-1)*width+(i+k)%width], Access: graph.Read})
			}
		}
		b.Add(graph.Task{Steps: steps, Uses: uses})
	}
	return b.Build()
}
