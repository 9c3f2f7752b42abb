package bench

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/automata"
)

// syncRow is the time of one synchronisation.
type syncRow struct {
	Case       string  `json:"case"`    // chain, ping-pong, barrier, fork-join, automata
	Devices    string  `json:"devices"` // which took part
	Tasks      int     `json:"tasks_per_round"`
	USPerRound float64 `json:"us_per_round"`        // best of the repetitions
	MedianUS   float64 `json:"median_us_per_round"` // of the repetitions
	// Overhead is the part of the devices' time in which they did not compute but
	// waited for each other and for tasks to start: the median of the repetitions.
	// Only automata has it, whose tasks do something.
	Overhead float64 `json:"overhead,omitempty"`
	// K is the number of steps in a round of automata, as the last run chose.
	K int `json:"k,omitempty"`
}

// syncRounds is the number of rounds in a graph.
const syncRounds = 2000

func newSync(s Setup) *cobra.Command {
	return benchmark[syncRow]{
		use:   "sync",
		short: "What synchronising costs: hops between devices, barriers",
		long: `Run graphs of tasks that do nothing and depend on one another, and report what a
round of each costs, the best and the median of the repetitions:

  chain      a task after another on one device
  ping-pong  a task on one device, then one on another that reads its 64 bytes
  barrier    a task on every device, each reading what all wrote before
  fork-join  one task, eight on every device that read it, one that reads those

Then run the workload automata, whose devices exchange halo rows after every
round of k steps, and report which part of their time they did not compute.`,
		repeat: 9, measure: measureSync, text: writeSync,
	}.command(s)
}

// nothing is a kernel that every backend can run.
var nothing = &graph.Kernel{Name: "nothing", Impls: []graph.Impl{{Dialect: graph.Go}, {Dialect: graph.PTX}, {Dialect: graph.SPIRV}}}

// rounds builds a graph of n times the layers in names. A layer has a task on each
// device named, and each task reads all that the layer before wrote.
func rounds(n int, names ...[]string) (*graph.Graph, error) {
	var b graph.Builder
	steps := []graph.Step{{Kernel: nothing}}
	var before []graph.DataID
	for i := range n * len(names) {
		var made []graph.DataID
		for _, device := range names[i%len(names)] {
			d := b.Data(graph.Data{Bytes: 64})
			uses := []graph.Use{{Data: d, Access: graph.Write}}
			for _, r := range before {
				uses = append(uses, graph.Use{Data: r, Access: graph.Read})
			}
			b.Add(graph.Task{Steps: steps, Uses: uses, On: graph.Constraint{Only: []string{device}}})
			made = append(made, d)
		}
		before = made
	}
	return b.Build()
}

func measureSync(m *meter) (rows []syncRow, err error) {
	if _, err := m.several(); err != nil {
		return nil, err
	}
	rt, err := m.open(nil)
	if err != nil {
		return nil, err
	}
	defer rt.Close()
	var devs, wide []string
	for _, d := range rt.Devices() {
		devs = append(devs, d.Name)
		for range 8 {
			wide = append(wide, d.Name)
		}
	}
	type kase struct {
		name, devices string
		layers        [][]string
	}
	cases := []kase{{"chain", devs[0], [][]string{{devs[0]}}}}
	for _, other := range devs[1:] {
		cases = append(cases, kase{"ping-pong", devs[0] + ", " + other, [][]string{{devs[0]}, {other}}})
	}
	all := fmt.Sprintf("all %d", len(devs))
	cases = append(cases, kase{"barrier", all, [][]string{devs}}, kase{"fork-join", all, [][]string{{devs[0]}, wide}})
	p := m.progress("graph", (len(cases)+1)*(m.repeat+1))
	defer p.Finish()
	for _, k := range cases {
		p.At("%s, %s", k.name, k.devices)
		row, err := syncOf(m, rt, p, k.layers)
		if err != nil {
			return rows, err
		}
		row.Case, row.Devices = k.name, k.devices
		rows = append(rows, row)
	}
	p.At("automata")
	row, err := haloOf(m, rt, p)
	if err != nil {
		return rows, err
	}
	row.Devices = all
	return append(rows, row), nil
}

// haloSide is the number of rows and of columns of the automata. Tests take fewer.
var haloSide = 8192

// haloOf measures a workload that synchronises.
func haloOf(m *meter, rt *weft.Runtime, p *terminal.Progress) (row syncRow, err error) {
	c := automata.Config{Rows: haloSide, Cols: haloSide, Steps: 64, Seed: 1}
	j, err := automata.New(c)
	if err != nil {
		return row, err
	}
	var us, idle []float64
	for i := range m.repeat + 1 {
		res, err := workload.Run(m.ctx, rt, j)
		if err != nil {
			return row, err
		}
		p.Add()
		if i == 0 { // warms up
			continue
		}
		took, busy := res.Report.Elapsed(), 0.0
		for _, d := range res.Report.Devices {
			busy += d.Busy.Seconds()
		}
		us = append(us, took.Seconds()*1e6/float64(j.Rounds()))
		idle = append(idle, 1-busy/(took.Seconds()*float64(len(res.Report.Devices))))
		row.Tasks = res.Tasks / j.Rounds()
	}
	if err := j.Check(); err != nil {
		return row, fmt.Errorf("the result is wrong: %w", err)
	}
	row.Case, row.K = fmt.Sprintf("automata %d²", haloSide), j.K()
	row.USPerRound, row.MedianUS, row.Overhead = best(us), median(us), median(idle)
	return row, nil
}

func syncOf(m *meter, rt *weft.Runtime, p *terminal.Progress, layers [][]string) (syncRow, error) {
	g, err := rounds(syncRounds, layers...)
	if err != nil {
		return syncRow{}, err
	}
	var us []float64
	for i := range m.repeat + 1 {
		rep, err := rt.Run(m.ctx, g)
		if err != nil {
			return syncRow{}, err
		}
		p.Add()
		if i > 0 { // the first warms up
			us = append(us, rep.Elapsed().Seconds()*1e6/syncRounds)
		}
	}
	return syncRow{Tasks: g.NumTasks() / syncRounds, USPerRound: best(us), MedianUS: median(us)}, nil
}

func writeSync(w io.Writer, rows []syncRow) {
	table := [][]any{{"case", "devices", "tasks", "best µs/round", "median µs/round", "overhead", "k"}}
	for _, r := range rows {
		overhead, k := "-", "-"
		if r.K > 0 {
			overhead, k = terminal.Percent(r.Overhead), fmt.Sprint(r.K)
		}
		table = append(table, []any{r.Case, r.Devices, r.Tasks, fmt.Sprintf("%.2f", r.USPerRound), fmt.Sprintf("%.2f", r.MedianUS), overhead, k})
	}
	terminal.Table(w, table)
}
