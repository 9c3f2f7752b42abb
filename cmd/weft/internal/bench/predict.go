package bench

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/cmd/weft/internal/plan"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/internal/safefile"
)

// predictions is the benchmark predict: it records runs, or says how well recorded ones
// are predicted.
type predictions struct {
	m                 meter
	record, label     string
	only              []string
	sizes             int
	shortest, longest time.Duration
	timeout           time.Duration
	passes            int
	asJSON, each      bool
}

func newPredict(s Setup) *cobra.Command {
	o := &predictions{m: meter{Setup: s}}
	c := &cobra.Command{
		Use:   "predict [FILE...]",
		Short: "How well recorded runs are predicted by others",
		Long: `Predict recorded runs without knowing them, and compare: sizes of a workload
that are left out, from the others; a workload that is left out, from the other
ones; a machine that is left out, from the others. A table says how many
predictions are within 10 %, how many real times the 90 % intervals hold, and
how wide these are. Only stable points count, which are medians of 5 runs of 50
ms or more whose standard deviation is below 5 %; the others are counted.

--record FILE runs the workloads at --sizes sizes each on the devices there are
and writes what they took, for this and for weft plan. Every size of every
workload is visited once, in an order drawn by chance, then every one again,
--passes times in all. The jobs of each visit are dealt out to 5 runs in turn,
so that each run has jobs of all passes and takes 50 ms or more: phases in which
the machine is slower are in all sizes alike. After the first 6 passes sizes
that are stable with margin are visited in every third pass only, and others
with more jobs.
Sizes for which --timeout leaves no time are left out, the largest first. FILE
is written as it goes; a recording that is there already is gone on with.`,
		Example: `  weft bench predict --record here.json --devices cpu --timeout 5m
  weft bench predict here.json there.json`,
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	f := c.Flags()
	f.StringVar(&o.record, "record", "", "measure here and write a recording to `FILE`")
	f.StringVar(&o.label, "label", "", "name of the machine in the recording (its devices)")
	f.StringSliceVar(&o.only, "only", nil, "`workloads` to record (all)")
	f.IntVar(&o.sizes, "sizes", 15, "sizes of each workload")
	f.DurationVar(&o.shortest, "shortest", 2*time.Millisecond, "how long the smallest size is to take")
	f.DurationVar(&o.longest, "longest", 110*time.Millisecond, "how long the largest size is to take")
	f.DurationVar(&o.timeout, "timeout", 0, "longest time to record")
	f.IntVar(&o.passes, "passes", leastPasses, "passes over all sizes")
	f.BoolVar(&o.each, "each", false, "also list every prediction of a size")
	f.BoolVar(&o.asJSON, "json", false, "write predictions as JSON")
	terminal.Complete(c, "only", Recorded)
	return c
}

// maxRecording bounds a file of recorded runs.
const maxRecording = 1 << 26

func (o *predictions) run(c *cobra.Command, files []string) (err error) {
	switch {
	case o.record == "" && len(files) == 0:
		return terminal.Usagef("name recordings, or make one with --record FILE")
	case o.record != "" && len(files) > 0:
		return terminal.Usagef("--record makes a recording, and %s is one: do one after the other", files[0])
	case o.sizes < 1 || o.sizes > 1000:
		return terminal.Usagef("--sizes %d: it must be from 1 to 1000", o.sizes)
	case o.passes < leastPasses:
		return terminal.Usagef("--passes %d: it must be at least %d", o.passes, leastPasses)
	case o.shortest <= 0 || o.longest < o.shortest:
		return terminal.Usagef("--shortest %v and --longest %v: they must be above 0, in this order", o.shortest, o.longest)
	}
	if err := checkTimeout(o.timeout); err != nil {
		return err
	}
	var all []*plan.Recording
	if o.record != "" {
		r, err := o.measure(c)
		if err != nil {
			return err
		}
		all = []*plan.Recording{r}
	}
	read, err := LoadRecordings(files)
	if err != nil {
		return err
	}
	all = append(all, read...)
	judged := append([]plan.Judged{}, plan.Evaluate(all)...) // none is an empty list in JSON
	return terminal.Print(c, o.asJSON, judged, func(b *bytes.Buffer) error {
		writePredictions(b, all, judged, o.each)
		return nil
	})
}

// LoadRecordings reads files that weft bench predict --record wrote.
func LoadRecordings(files []string) (out []*plan.Recording, err error) {
	for _, file := range files {
		src, err := safefile.ReadInput(file, maxRecording)
		if err != nil {
			return nil, terminal.Usage(terminal.FileError(file, err))
		}
		r, err := plan.DecodeRecording(src)
		if err != nil {
			return nil, terminal.Usagef("%s: %w", file, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// writePredictions prints what was recorded, and how well it is predicted.
func writePredictions(w io.Writer, all []*plan.Recording, judged []plan.Judged, each bool) {
	table := [][]any{{"recording", "workloads", "points", "stable", "not stable"}}
	total := 0
	for _, r := range all {
		stable, names := 0, make(map[string]bool)
		for i := range r.Points {
			names[r.Points[i].Workload] = true
			if r.Points[i].Stable() {
				stable++
			}
		}
		total += stable
		table = append(table, []any{r.Label, len(names), len(r.Points), stable, len(r.Points) - stable})
	}
	terminal.Table(w, table)
	fmt.Fprintf(w, "\n%s count.\n", terminal.Count(total, "stable point"))
	if len(judged) == 0 {
		fmt.Fprintf(w, "\nNothing can be predicted from others: four stable sizes of a workload are needed.\n")
		return
	}
	pick := func(keep func(j *plan.Judged) bool) (out []plan.Judged) {
		for i := range judged {
			if keep(&judged[i]) {
				out = append(out, judged[i])
			}
		}
		return out
	}
	rows := [][]any{{"held out", "count", "in 10 %", "covered", "half width", "median", "worst"}}
	row := func(name string, some []plan.Judged) {
		if s := plan.Summarise(some); s.Predictions > 0 {
			rows = append(rows, []any{name, s.Predictions, terminal.Percent(s.Within), terminal.Percent(s.Covered),
				terminal.Percent(s.HalfWidth), terminal.Percent(s.Median), terminal.Percent(s.Worst)})
		}
	}
	sizes := pick(func(j *plan.Judged) bool { return j.Kind == plan.HeldSize || j.Kind == plan.HeldEnd })
	row("one size", sizes)
	for _, kind := range []plan.Held{plan.HeldSize, plan.HeldEnd} {
		row("  "+string(kind), pick(func(j *plan.Judged) bool { return j.Kind == kind }))
	}
	for _, kind := range []plan.Held{plan.HeldHalf, plan.HeldWorkload, plan.HeldMachine} {
		row(string(kind), pick(func(j *plan.Judged) bool { return j.Kind == kind }))
	}
	fmt.Fprintln(w)
	terminal.Table(w, rows)
	rows = [][]any{{"one size of", "count", "in 10 %", "covered", "half width", "median", "worst"}}
	for _, r := range all {
		row(r.Label, slices.DeleteFunc(slices.Clone(sizes), func(j plan.Judged) bool { return j.Label != r.Label }))
	}
	for _, name := range Recorded() {
		row(name, slices.DeleteFunc(slices.Clone(sizes), func(j plan.Judged) bool { return j.Workload != name }))
	}
	fmt.Fprintln(w)
	terminal.Table(w, rows)
	writeGrid(w, all, sizes)
	if each {
		writeEach(w, sizes)
	}
	fmt.Fprintf(w, "\n%s\n", terminal.Wrap("(Covered: the part of real times that the 90 % intervals hold. Half width is the median of these, relative to the prediction; median and worst are how far predictions are off. "+unvalidated(all)+")", terminal.Width))
}

// writeGrid says of each workload and machine how many predictions of sizes are within 10 %.
func writeGrid(w io.Writer, all []*plan.Recording, sizes []plan.Judged) {
	var labels []string
	table := [][]any{{"in 10 %"}}
	for _, r := range all {
		if !slices.Contains(labels, r.Label) {
			labels, table[0] = append(labels, r.Label), append(table[0], r.Label)
		}
	}
	for _, name := range Recorded() {
		row, judged := []any{name}, false
		for _, label := range labels {
			some := slices.DeleteFunc(slices.Clone(sizes), func(j plan.Judged) bool { return j.Workload != name || j.Label != label })
			near := slices.DeleteFunc(slices.Clone(some), func(j plan.Judged) bool { return j.Off() > 0.1 })
			row, judged = append(row, fmt.Sprintf("%d of %d", len(near), len(some))), judged || len(some) > 0
		}
		if judged {
			table = append(table, row)
		}
	}
	if len(labels) > 1 {
		fmt.Fprintln(w)
		terminal.Table(w, table)
	}
}

// writeEach lists predictions.
func writeEach(w io.Writer, some []plan.Judged) {
	table := [][]any{{"job", "took", "predicted", "from", "to", "off"}}
	for i := range some {
		j := &some[i]
		table = append(table, []any{j.Job, terminal.Seconds(j.Seconds), terminal.Seconds(j.Median), terminal.Seconds(j.Low), terminal.Seconds(j.High), terminal.Percent(j.Off())})
	}
	fmt.Fprintln(w)
	terminal.Table(w, table)
}

// unvalidated says what these recordings cannot show.
func unvalidated(all []*plan.Recording) string {
	var gpus []string
	for _, r := range all {
		for i := range r.Machine.Devices {
			if d := &r.Machine.Devices[i]; d.Backend != "cpu" && !slices.Contains(gpus, d.Model) {
				gpus = append(gpus, d.Model)
			}
		}
	}
	const rest = "predictions for a GPU that was never measured are scaled by data sheets and were compared with no run there"
	if len(gpus) == 0 {
		return "Not validated: no GPU is in these recordings, so " + rest + "."
	}
	return "Validated on " + strings.Join(gpus, " and ") + " alone of all GPUs: " + rest + "."
}
