package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"

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
