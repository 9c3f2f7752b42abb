package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weft-run/weft/cmd/weft/internal/bench"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/experimental/sim"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/trace"
)

func newDemo() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:               "demo",
		Short:             "A short tour of what weft does, simulated",
		Args:              terminal.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			var given []string // flags of the runtime, which a simulation does not have
			c.InheritedFlags().VisitAll(func(f *pflag.Flag) {
				if f.Changed {
					given = append(given, "--"+f.Name)
				}
			})
			if len(given) > 0 {
				return terminal.Usagef("%s: the demo is simulated and has no runtime to set", strings.Join(given, ", "))
			}
			d := demo{progress: terminal.StartProgress(c.ErrOrStderr(), asJSON, "simulation", demoSimulations)}
			defer d.progress.Finish()
			var text bytes.Buffer
			if err := terminal.Abandonable(c.Context(), func() error { return d.tell(&text) }); err != nil {
				return err
			}
			d.progress.Finish()
			return terminal.Print(c, asJSON, d.told, func(b *bytes.Buffer) error {
				_, err := text.WriteTo(b)
				return err
			})
		},
	}
	c.SetUsageTemplate(terminal.OwnUsageTemplate)
	c.Flags().BoolVar(&asJSON, "json", false, "write the simulation as JSON")
	return c
}

// The JSON of weft run demo. Times are virtual nanoseconds.
type (
	demoJSON struct {
		Simulated  bool            `json:"simulated"` // always true
		Machine    string          `json:"machine"`
		Tasks      int             `json:"tasks"`
		Bound      int64           `json:"bound_ns"` // no schedule can beat it
		Placements []placementJSON `json:"placements"`
		Loss       *lossJSON       `json:"loss"`
	}
	placementJSON struct {
		Name       string             `json:"name"`
		Makespan   int64              `json:"makespan_ns"`
		Efficiency float64            `json:"efficiency"`
		Shares     map[string]float64 `json:"shares"` // of the tasks, by device
	}
	lossJSON struct {
		Device   string `json:"device"`
		Gone     int64  `json:"gone_ns"`
		Back     int64  `json:"back_ns"`
		Makespan int64  `json:"makespan_ns"`
		Moved    int    `json:"moved_tasks"`
		Replays  int    `json:"replays"`
		Results  string `json:"results"`
	}
)

// The demonstration is layers of uneven tasks on the machine "mixed".
const (
	demoMachine = "mixed"
	demoWidth   = 96
	demoSkew    = 50
	// demoSimulations is the number of simulations, for the progress.
	demoSimulations = 4
)

// demoLayers is the number of layers. Short tests take fewer.
var demoLayers = 20

// demo tells a short story in simulations.
type demo struct {
	progress *terminal.Progress
	machine  *machine.Machine
	graph    *graph.Graph
	told     demoJSON
}

// prepare makes the machine and the graph.
func (d *demo) prepare() (err error) {
	d.machine, _ = machine.Named(demoMachine)
	spec := sim.Spec{
		Kind: "dag", N: demoWidth * demoLayers, Width: demoWidth, Deps: 3,
		Ops: 2e10, Bytes: 1e7, Size: 256 << 10, Skew: demoSkew, Seed: 1,
	}
	d.graph, err = spec.Graph()
	return err
}

func (d *demo) tell(b *bytes.Buffer) error {
	if err := d.prepare(); err != nil {
		return err
	}
	d.told = demoJSON{Simulated: true, Machine: demoMachine, Tasks: d.graph.NumTasks()}
	fmt.Fprintf(b, `weft demo, simulated: virtual time on a described machine, placed and recovered
by the engine that also drives real devices. No figure here is measured.

machine  %s
work     %d tasks in %d layers, each reading three results of the layer
         before; the dearest is %d times the cheapest

`, terminal.Models(d.machine), d.graph.NumTasks(), demoLayers, demoSkew)

	calm, err := d.compare(b)
	if err != nil {
		return err
	}
	if err := d.lose(b, calm); err != nil {
		return err
	}
	fmt.Fprint(b, `
Try next:
  weft run gemm                            real work on this machine
  weft sim mixed skewed                    where the time of other work goes
  weft sim mixed skewed --trace out.json   a trace for ui.perfetto.dev
  weft sim --list                          machines, scenarios and policies
`)
	return nil
}

// compare simulates the same work under three placements and returns the best.
func (d *demo) compare(b *bytes.Buffer) (*simulation, error) {
	split, err := d.equalSplit()
	if err != nil {
		return nil, err
	}
	var sims []*simulation
	head := []any{"placement", "makespan", "efficiency"}
	for i := range d.machine.Devices {
		head = append(head, "on "+d.machine.Devices[i].Name)
	}
	rows := [][]any{head}
	for _, placement := range []struct {
		name, policy string
		graph        *graph.Graph
	}{
		{"equal split", sched.Default, split},
		{"roundrobin", "roundrobin", d.graph},
		{"finish", "finish", d.graph},
	} {
		s, err := d.simulate(placement.name, placement.policy, placement.graph, nil)
		if err != nil {
			return nil, err
		}
		// The bound holds for tasks that may run anywhere.
		bound := sim.LowerBound(d.machine, machine.NewRoofline(d.machine), []sim.Job{{Graph: d.graph}})
		told := placementJSON{placement.name, int64(s.result.Makespan), float64(bound) / float64(s.result.Makespan), make(map[string]float64)}
		row := []any{placement.name, terminal.Short(s.result.Makespan), terminal.Percent(told.Efficiency)}
		devs, total := s.sums()
		for i := range devs {
			share := float64(devs[i].tasks) / float64(total)
			told.Shares[d.machine.Devices[i].Name] = share
			row = append(row, fmt.Sprintf("%.0f %%", 100*share))
		}
		rows = append(rows, row)
		d.told.Placements, d.told.Bound = append(d.told.Placements, told), int64(bound)
		sims = append(sims, s)
	}
	fmt.Fprintln(b, "1. Who gets what: an equal part of every layer for each device, tasks in turn\n   (roundrobin), or where each is predicted to end first (finish, the default).")
	fmt.Fprintln(b)
	terminal.Table(b, rows)
	fmt.Fprintf(b, "\nfinish is %.1f times as fast as the equal split and %.1f times as fast as\nroundrobin. No schedule can beat %s.\n\n",
		ratio(sims[0], sims[2]), ratio(sims[1], sims[2]), terminal.Short(sims[2].result.Bound))
	return sims[2], nil
}

// ratio returns the makespan of a divided by that of b.
func ratio(a, b *simulation) float64 {
	return float64(a.result.Makespan) / float64(b.result.Makespan)
}

// lose repeats a run with its fastest device gone for a while.
func (d *demo) lose(b *bytes.Buffer, calm *simulation) error {
	const fastest = machine.DeviceID(0)
	gone, back := calm.result.Makespan*3/10, calm.result.Makespan*6/10
	s, err := d.simulate("with a loss", "finish", d.graph, sim.Faults{
		{At: gone, Kind: sim.Lose, Device: fastest},
		{At: back, Kind: sim.Back, Device: fastest},
	})
	if err != nil {
		return err
	}
	report := s.result.Runs[0].Report
	d.told.Loss = &lossJSON{d.machine.DeviceName(fastest), int64(gone), int64(back), int64(s.result.Makespan), moved(s.result.Trace), report.Replays, s.verdict()}
	fmt.Fprintf(b, "2. %s, the fastest, is lost at %s with all that its memory holds, and\n   comes back empty at %s.\n\n",
		d.machine.DeviceName(fastest), terminal.Short(gone), terminal.Short(back))
	if err := trace.WriteTimeline(b, d.machine, s.result.Trace, terminal.Width); err != nil {
		return err
	}
	fmt.Fprintf(b, "\nmakespan  %s instead of %s\n", terminal.Short(s.result.Makespan), terminal.Short(calm.result.Makespan))
	fmt.Fprintf(b, "recovery  %s in flight put back at once; %s whose results were lost\n          run again, %d in a row at most\n",
		terminal.Count(moved(s.result.Trace), "task"), terminal.Count(report.Replays, "task"), report.LongestReplay)
	fmt.Fprintf(b, "results   %s,\n          with the loss and without\n", s.verdict())
	return nil
}

// moved counts the executions that the loss ended.
func moved(evs []trace.Event) int {
	n := 0
	for i := range evs {
		if evs[i].Kind == trace.Exec && evs[i].Failed {
			n++
		}
	}
	return n
}

// simulate runs one variant. A run that fails is an error.
func (d *demo) simulate(name, policy string, g *graph.Graph, faults sim.Faults) (*simulation, error) {
	d.progress.At("simulating: %s", name)
	defer d.progress.Add()
	s := &simulation{machine: d.machine, policy: policy, work: &work{
		name: name, jobs: []sim.Job{{Name: name, Graph: g}}, faults: faults, tasks: g.NumTasks(),
	}}
	if err := s.run(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := s.failure(); err != nil {
		return nil, err
	}
	return s, nil
}

// equalSplit is the graph with every layer cut into equal parts, one for each device,
// as a program without a scheduler would do.
func (d *demo) equalSplit() (*graph.Graph, error) {
	shares := make([]sched.Share, len(d.machine.Devices))
	for i := range shares {
		shares[i] = sched.Share{Device: machine.DeviceID(i), Rate: 1}
	}
	cut, err := sched.Equal(sched.Items{Extent: demoWidth}, shares)
	if err != nil {
		return nil, err
	}
	return bench.Pinned(d.graph, func(task int) string {
		column := int64(task % demoWidth)
		k := slices.IndexFunc(cut.Ranges, func(r sched.Range) bool { return column >= r.Lo && column < r.Hi })
		return d.machine.Devices[k].Name
	})
}
