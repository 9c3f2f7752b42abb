package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/workload"
)

func newBench() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure weft on this machine",
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newOverhead(), newScaling())
	return c
}

// overheadRow is what one task costs beside its work.
type overheadRow struct {
	Case      string  `json:"case"` // independent, chain, dag
	Trace     bool    `json:"trace"`
	Tasks     int     `json:"tasks"`
	Devices   int     `json:"devices"`
	USPerTask float64 `json:"us_per_task"` // best of the repetitions
	MedianUS  float64 `json:"median_us_per_task"`
}

func newOverhead() *cobra.Command {
	o := weft.Options{Devices: "cpu/2"}
	var asJSON bool
	var tasks, repeat int
	c := &cobra.Command{
		Use:   "overhead",
		Short: "What a task costs beside its work: empty tasks, live",
		Long: `Run empty tasks live and report what each costs: independent ones, a chain, and a
graph 64 wide in which each task reads what three others wrote, with tracing off
and on. The best and the median of the repetitions are shown.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if tasks < 1 || tasks > 10_000_000 || repeat < 1 {
				return badUsage("--tasks must be from 1 to 10000000 and --repeat at least 1")
			}
			progress := progressOn(c.ErrOrStderr())
			var rows []overheadRow
			for _, traced := range []bool{false, true} {
				for _, k := range []struct {
					name        string
					width, deps int
				}{{"independent", tasks, 0}, {"chain", 1, 1}, {"dag", 64, 3}} {
					progress(fmt.Sprintf("%s, tracing %v", k.name, traced))
					row, err := overhead(c.Context(), o, k.name, tasks, k.width, k.deps, repeat, traced)
					if err != nil {
						progress("")
						return err
					}
					rows = append(rows, row)
				}
			}
			progress("")
			return printRows(c, asJSON, rows, func(w io.Writer) {
				table := [][]any{{"case", "trace", "best µs/task", "median µs/task"}}
				for _, r := range rows {
					table = append(table, []any{r.Case, onOff(r.Trace), fmt.Sprintf("%.2f", r.USPerTask), fmt.Sprintf("%.2f", r.MedianUS)})
				}
				writeTable(w, table)
			})
		},
	}
	runtimeFlags(c.Flags(), &o)
	c.Flags().Lookup("devices").DefValue = o.Devices
	c.Flags().IntVar(&tasks, "tasks", 100_000, "tasks in each graph")
	c.Flags().IntVar(&repeat, "repeat", 20, "how often each graph is run")
	c.Flags().BoolVar(&asJSON, "json", false, "write rows as JSON")
	return c
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

// printRows writes rows as JSON or as text.
func printRows[T any](c *cobra.Command, asJSON bool, rows []T, text func(w io.Writer)) error {
	return print(c, func(b *bytes.Buffer) error {
		if !asJSON {
			text(b)
			return nil
		}
		enc := json.NewEncoder(b)
		enc.SetIndent("", "  ")
		return enc.Encode(rows)
	})
}

// overhead times one graph of empty tasks.
func overhead(ctx context.Context, o weft.Options, name string, n, width, deps, repeat int, traced bool) (overheadRow, error) {
	o.Funcs = map[string]weft.Func{"empty": func(*weft.Call, int, int) {}}
	if traced {
		o.Trace = 1 << 17
	}
	if o.Devices == "" {
		o.Devices = "cpu/2"
	}
	o.Log = slog.New(slog.DiscardHandler)
	rt, err := weft.Open(ctx, o)
	if err != nil {
		return overheadRow{}, usageError{err}
	}
	defer rt.Close()
	g, err := emptyGraph(n, width, deps)
	if err != nil {
		return overheadRow{}, err
	}
	var us []float64
	for range repeat {
		rep, err := rt.Run(ctx, g)
		if err != nil {
			return overheadRow{}, err
		}
		us = append(us, rep.Elapsed().Seconds()*1e6/float64(n))
	}
	slices.Sort(us)
	return overheadRow{Case: name, Trace: traced, Tasks: n, Devices: len(rt.Devices()), USPerTask: us[0], MedianUS: us[len(us)/2]}, nil
}

// emptyGraph has n tasks in layers of width; each writes 64 bytes of its own
// and reads those of deps tasks of the layer before.
func emptyGraph(n, width, deps int) (*graph.Graph, error) {
	var b graph.Builder
	steps := []graph.Step{{Kernel: workload.GoKernel("empty")}}
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

// scalingRow is one workload on so many devices.
type scalingRow struct {
	Workload   string  `json:"workload"`
	Devices    int     `json:"devices"`
	Seconds    float64 `json:"seconds"` // median
	Speedup    float64 `json:"speedup"` // median of the ratios within each round
	Efficiency float64 `json:"efficiency"`
	Predicted  float64 `json:"predicted_seconds"`
}

func newScaling() *cobra.Command {
	var o weft.Options
	var asJSON bool
	var repeat int
	var only []string
	c := &cobra.Command{
		Use:   "scaling",
		Short: "Each workload on 1 to n devices (strong scaling)",
		Long: `Run each workload on one device of one core and on 2 to n such devices, and
report the speed-up. Rounds are interleaved, and a speed-up is the median of the
ratios within a round, so that other load on the machine counts as little as
possible.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			rows, err := scaling(c, o, repeat, only)
			if err != nil {
				return err
			}
			return printRows(c, asJSON, rows, func(w io.Writer) {
				table := [][]any{{"workload", "devices", "median", "speed-up", "efficiency", "predicted"}}
				for _, r := range rows {
					table = append(table, []any{r.Workload, r.Devices, short(time.Duration(r.Seconds * 1e9)), fmt.Sprintf("%.2f", r.Speedup), percent(r.Efficiency), short(time.Duration(r.Predicted * 1e9))})
				}
				writeTable(w, table)
			})
		},
	}
	runtimeFlags(c.Flags(), &o)
	c.Flags().IntVar(&repeat, "repeat", 7, "rounds, each running every number of devices once")
	c.Flags().StringSliceVar(&only, "only", nil, "workloads to run (all)")
	c.Flags().BoolVar(&asJSON, "json", false, "write rows as JSON")
	return c
}

// scaling measures every workload on 1, 2, 4 … n devices of one core each.
func scaling(c *cobra.Command, o weft.Options, repeat int, only []string) ([]scalingRow, error) {
	if repeat < 1 {
		return nil, badUsage("--repeat is %d; run at least once", repeat)
	}
	probe, err := openRuntime(c.Context(), o, c.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	most := len(probe.Devices())
	probe.Close()
	if most < 2 {
		return nil, badUsage("scaling needs several devices; ask for them, as in --devices cpu/2")
	}
	for _, name := range only {
		if !slices.ContainsFunc(workloads, func(w entry) bool { return w.name == name }) {
			return nil, badUsage("unknown workload %q; there are %s", name, strings.Join(workloadNames(), ", "))
		}
	}
	var counts []int
	for n := 1; n < most; n *= 2 {
		counts = append(counts, n)
	}
	counts = append(counts, most)
	progress := progressOn(c.ErrOrStderr())
	defer progress("")
	// One runtime for each number of devices, all devices of equal size.
	rts := make([]*weft.Runtime, len(counts))
	for i, n := range counts {
		on := o
		on.MaxDevices = n
		if rts[i], err = openRuntime(c.Context(), on, c.ErrOrStderr()); err != nil {
			return nil, err
		}
		defer rts[i].Close()
	}
	var rows []scalingRow
	for _, w := range workloads {
		if len(only) > 0 && !slices.Contains(only, w.name) {
			continue
		}
		got, err := scaleOne(c, w, rts, counts, repeat, progress)
		if err != nil {
			return nil, err
		}
		rows = append(rows, got...)
	}
	return rows, nil
}

func scaleOne(c *cobra.Command, w entry, rts []*weft.Runtime, counts []int, repeat int, progress func(string)) ([]scalingRow, error) {
	scratch := &cobra.Command{}
	job, err := w.flags(scratch.Flags())()
	if err != nil {
		return nil, err
	}
	took := make([][]float64, len(rts))
	ratio := make([][]float64, len(rts))
	predicted := make([]float64, len(rts))
	for round := range repeat + learning {
		for i, rt := range rts {
			progress(fmt.Sprintf("%s on %s, round %d of %d", w.name, count(counts[i], "device"), round+1, repeat+learning))
			res, err := workload.Run(c.Context(), rt, job)
			if err != nil {
				return nil, err
			}
			if round < learning {
				continue
			}
			s := res.Report.Elapsed().Seconds()
			took[i] = append(took[i], s)
			ratio[i] = append(ratio[i], took[0][len(took[0])-1]/s)
			predicted[i] = res.Predicted.Seconds()
		}
	}
	if err := job.Check(); err != nil {
		return nil, fmt.Errorf("the result is wrong: %w", err)
	}
	var rows []scalingRow
	for i, n := range counts {
		slices.Sort(took[i])
		slices.Sort(ratio[i])
		up := ratio[i][len(ratio[i])/2]
		rows = append(rows, scalingRow{Workload: w.name, Devices: n, Seconds: took[i][len(took[i])/2], Speedup: up, Efficiency: up / float64(n), Predicted: predicted[i]})
	}
	return rows, nil
}

func workloadNames() []string {
	var names []string
	for _, w := range workloads {
		names = append(names, w.name)
	}
	return names
}
