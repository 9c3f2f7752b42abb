package main

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/probe"
)

// overheadRow is what one task costs beside its work.
type overheadRow struct {
	Case      string  `json:"case"` // independent, chain, dag
	Trace     bool    `json:"trace"`
	Tasks     int     `json:"tasks"`
	Devices   int     `json:"devices"`
	USPerTask float64 `json:"us_per_task"`        // best of the repetitions
	MedianUS  float64 `json:"median_us_per_task"` // of the repetitions
}

// overhead is the benchmark of that name.
type overhead struct{ tasks int }

func newOverhead(s *settings) *cobra.Command {
	var o overhead
	c := benchmark[overheadRow]{
		use:   "overhead",
		short: "What a task costs beside its work: empty tasks, live",
		long: `Run empty tasks live and report what each costs: independent ones, a chain, and
a graph 64 wide in which each task reads what three others wrote, with tracing
off and on. us_per_task is the best of the repetitions, what weft can do;
median_us_per_task is their median, what to expect on this machine.`,
		repeat: 20, measure: o.measure, text: writeOverhead,
	}.command(s)
	c.Flags().IntVar(&o.tasks, "tasks", 100_000, "tasks in each graph")
	return c
}

func (o *overhead) measure(m *meter) (rows []overheadRow, err error) {
	if o.tasks < 1 || o.tasks > 10_000_000 {
		return nil, badUsage("--tasks %d: it must be from 1 to 10000000", o.tasks)
	}
	if m.options.Devices == "" {
		m.options.Devices = "cpu/2"
	}
	cases := []struct {
		name        string
		width, deps int
	}{{"independent", o.tasks, 0}, {"chain", 1, 1}, {"dag", 64, 3}}
	p := m.progress("graph", 2*len(cases)*m.repeat)
	defer p.finish()
	for _, traced := range []bool{false, true} {
		for _, k := range cases {
			p.at("%s, tracing %s", k.name, onOff(traced))
			g, err := emptyGraph(o.tasks, k.width, k.deps)
			if err != nil {
				return rows, err
			}
			row, err := o.one(m, g, traced, p)
			if err != nil {
				return rows, err
			}
			row.Case = k.name
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// one times one graph of empty tasks.
func (o *overhead) one(m *meter, g *graph.Graph, traced bool, p *progress) (overheadRow, error) {
	opts := m.options
	opts.Log = slog.New(slog.DiscardHandler) // that devices share cores is intended
	if opts.Trace = 0; traced {
		opts.Trace = 1 << 17
	}
	rt, err := weft.Open(m.ctx, opts)
	if err != nil {
		return overheadRow{}, usageError{err}
	}
	defer rt.Close()
	var us []float64
	for range m.repeat {
		rep, err := rt.Run(m.ctx, g)
		if err != nil {
			return overheadRow{}, err
		}
		us = append(us, rep.Elapsed().Seconds()*1e6/float64(g.NumTasks()))
		p.add()
	}
	return overheadRow{Trace: traced, Tasks: g.NumTasks(), Devices: len(rt.Devices()), USPerTask: best(us), MedianUS: median(us)}, nil
}

func writeOverhead(w io.Writer, rows []overheadRow) {
	table := [][]any{{"case", "trace", "best µs/task", "median µs/task"}}
	for _, r := range rows {
		table = append(table, []any{r.Case, onOff(r.Trace), fmt.Sprintf("%.2f", r.USPerTask), fmt.Sprintf("%.2f", r.MedianUS)})
	}
	writeTable(w, table)
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

// emptyGraph has n tasks in layers of width; each writes 64 bytes of its own
// and reads those of deps tasks of the layer before.
func emptyGraph(n, width, deps int) (*graph.Graph, error) {
	var b graph.Builder
	steps := []graph.Step{{Kernel: probe.List()[0].Kernel}} // the empty one, which every device has
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
