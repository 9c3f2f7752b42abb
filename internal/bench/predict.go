package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/internal/safefile"
	"github.com/weft-run/weft/internal/terminal"
	"github.com/weft-run/weft/plan"
	"github.com/weft-run/weft/workload"
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
	tries             int
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
and writes what they took, for this and for weft plan. A job shorter than 50 ms
is repeated within a run. A point that is not stable is measured again, --tries
times in all. FILE is written after each workload. --timeout gives each workload
its share; what is measured by then is kept. Recordings of one label are taken
together, so that workloads can be recorded one by one.`,
		Example: `  weft bench predict --record here.json --devices cpu --timeout 20m
  weft bench predict here.json there.json`,
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	f := c.Flags()
	f.StringVar(&o.record, "record", "", "measure here and write a recording to `FILE`")
	f.StringVar(&o.label, "label", "", "name of the machine in the recording (its devices)")
	f.StringSliceVar(&o.only, "only", nil, "`workloads` to record (all)")
	f.IntVar(&o.sizes, "sizes", 14, "sizes of each workload")
	f.DurationVar(&o.shortest, "shortest", 4*time.Millisecond, "how long the smallest size is to take")
	f.DurationVar(&o.longest, "longest", time.Second, "how long the largest size is to take")
	f.DurationVar(&o.timeout, "timeout", 0, "longest time to record")
	f.IntVar(&o.tries, "tries", 3, "how often a point that is not stable is measured")
	f.BoolVar(&o.each, "each", false, "also list every prediction of a size")
	f.BoolVar(&o.asJSON, "json", false, "write predictions as JSON")
	terminal.Complete(c, "only", catalog.Names)
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
	case o.tries < 1:
		return terminal.Usagef("--tries %d: it must be at least 1", o.tries)
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

// measure records the workloads on the devices there are.
func (o *predictions) measure(c *cobra.Command) (*plan.Recording, error) {
	jobs, err := catalog.Choose(o.only)
	if err != nil {
		return nil, err
	}
	m := &o.m
	if m.options, err = m.Options(); err != nil {
		return nil, err
	}
	m.ctx, m.stderr, m.quiet = c.Context(), c.ErrOrStderr(), o.asJSON
	rt, err := m.open(nil)
	if err != nil {
		return nil, err
	}
	defer rt.Close()
	if o.timeout > 0 {
		var cancel context.CancelFunc
		m.ctx, cancel = context.WithTimeoutCause(m.ctx, o.timeout, errTimeout)
		defer cancel()
	}
	r := &plan.Recording{Version: plan.RecordingVersion, Label: o.label, Commit: commit(), Devices: m.options.Devices, Machine: rt.Machine()}
	if r.Label == "" {
		r.Label = fmt.Sprintf("%s, %s", terminal.Models(r.Machine), terminal.Count(r.Machine.Devices[0].ComputeUnits, "core"))
	}
	p := m.progress("point", len(jobs)*o.sizes)
	defer p.Finish()
	whole, cut := m.ctx, 0
	for i, w := range jobs {
		var done context.CancelFunc
		m.ctx, done = share(whole, len(jobs)-i)
		points, err := o.workload(w, rt, p)
		late := m.ctx.Err() != nil && c.Context().Err() == nil
		done()
		if r.Points = append(r.Points, points...); len(points) > 0 {
			if err := o.save(r); err != nil {
				return nil, err
			}
		}
		switch {
		case late:
			cut++
		case errors.Is(err, errUnable):
			fmt.Fprintf(m.stderr, "weft: %s is left out: %v\n", w.Name, err)
		case err != nil:
			return nil, err
		}
	}
	switch {
	case len(r.Points) == 0 && cut > 0:
		return nil, fmt.Errorf("bench predict: %s before a point was complete", endedEarly(o.timeout))
	case len(r.Points) == 0:
		return nil, errors.New("bench predict: no workload could be recorded on these devices")
	case cut > 0:
		p.Finish()
		fmt.Fprintf(m.stderr, "weft: %s were cut short by --timeout %v; %s has what was measured\n", terminal.Count(cut, "workload"), o.timeout, o.record)
	}
	return r, nil
}

// share limits a workload to its share of the time that is left for some.
func share(ctx context.Context, of int) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, time.Until(end)/time.Duration(of), errTimeout)
}

func (o *predictions) save(r *plan.Recording) error {
	src, err := r.Encode()
	if err != nil {
		return err
	}
	if err := safefile.Write(o.record, src); err != nil {
		return terminal.FileError(o.record, err)
	}
	return nil
}

// errUnable says that a workload cannot run on the devices there are.
var errUnable = errors.New("it cannot run here")

// workload measures one workload at sizes between those that take shortest and longest, each
// by the same factor larger than the one before.
func (o *predictions) workload(w catalog.Entry, rt *weft.Runtime, p *terminal.Progress) (points []plan.Point, err error) {
	least, err := o.find(w, rt, p, 0, o.shortest)
	if err != nil {
		return nil, err
	}
	most, err := o.find(w, rt, p, least, o.longest)
	if err != nil {
		return nil, err
	}
	last := 0
	for k := range o.sizes {
		part := 0.0
		if o.sizes > 1 {
			part = float64(k) / float64(o.sizes-1)
		}
		sizes, err := w.SizedAt(int(float64(least)*math.Pow(float64(most)/float64(least), part) + 0.5))
		if err != nil {
			return points, err
		}
		// Sizes are whole numbers, some of them multiples of 64: too near ones say nothing new.
		if size := sizes[w.Growth.Flags[0]]; float64(size) >= 1.02*float64(last) {
			point, err := o.point(w, sizes, rt, p)
			if err != nil {
				return points, err
			}
			points, last = append(points, *point), size
		}
		p.Add()
	}
	return points, nil
}

// find returns the size of a workload that takes about so long, from a size that takes less
// on, or where that is 0 from a small one; at most the largest that the workload allows.
func (o *predictions) find(w catalog.Entry, rt *weft.Runtime, p *terminal.Progress, from int, long time.Duration) (size int, err error) {
	sizes := make(map[string]int)
	first := w.Growth.Flags[0]
	if from > 0 {
		if sizes, err = w.SizedAt(from); err != nil {
			return 0, err
		}
	} else {
		if _, err := w.Sized(o.m.ctx, sizes); err != nil { // its defaults
			return 0, err
		}
		sizes = w.Growth.Times(sizes, 1./256)
	}
	for range 12 {
		job, err := w.Sized(o.m.ctx, sizes)
		if err != nil {
			return 0, err
		}
		p.At("looking for a size: %s", job.Name())
		took := math.Inf(1)
		for range learning {
			res, err := workload.Run(o.m.ctx, rt, job)
			if err != nil {
				if o.m.ctx.Err() != nil {
					return 0, err
				}
				return 0, fmt.Errorf("%w: %w", errUnable, err)
			}
			took = min(took, res.Report.Elapsed().Seconds())
		}
		// A step changes the work 16 times at most: a small size predicts a large one badly.
		off, was := long.Seconds()/took, sizes[first]
		if off > 0.8 && off < 1.25 {
			break
		}
		next, err := w.SizedAt(min(w.Growth.Times(sizes, min(max(off, 1./16), 16))[first], w.Growth.Most))
		if err != nil {
			return 0, err
		}
		if sizes = next; sizes[first] == was {
			break
		}
	}
	return max(sizes[first], from), nil
}

// point measures a workload at one size, again while it is not stable, and returns the
// most stable measurement.
func (o *predictions) point(w catalog.Entry, sizes map[string]int, rt *weft.Runtime, p *terminal.Progress) (best *plan.Point, err error) {
	job, err := w.Sized(o.m.ctx, sizes)
	if err != nil {
		return nil, err
	}
	var need plan.Need
	once := func() (float64, error) {
		res, err := workload.Run(o.m.ctx, rt, job, func(_ workload.Job, g *graph.Graph, _ *weft.Prediction) {
			need = plan.NeedOf(job.Name(), g, 1)
		})
		if err != nil {
			return 0, err
		}
		return res.Report.Elapsed().Seconds(), nil
	}
	took := math.Inf(1)
	for range learning {
		s, err := once()
		if err != nil {
			return nil, err
		}
		took = min(took, s)
	}
	repeats := max(int(math.Ceil(1.05*plan.LeastRun/took)), 1)
	for try := range o.tries {
		p.At("%s, %d runs of %d, try %d", job.Name(), plan.LeastRuns, repeats, try+1)
		var seconds []float64
		for range plan.LeastRuns {
			sum := 0.0
			for range repeats {
				s, err := once()
				if err != nil {
					return nil, err
				}
				sum += s
			}
			seconds = append(seconds, sum/float64(repeats))
		}
		need.Workload = w.Name
		now := plan.PointOf(need, sizes[w.Growth.Flags[0]], repeats, seconds)
		if best == nil || now.Spread() < best.Spread() {
			best = &now
		}
		if best.Stable() {
			break
		}
	}
	return best, nil
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
	for _, name := range catalog.Names() {
		row(name, slices.DeleteFunc(slices.Clone(sizes), func(j plan.Judged) bool { return j.Workload != name }))
	}
	fmt.Fprintln(w)
	terminal.Table(w, rows)
	if each {
		writeEach(w, sizes)
	}
	fmt.Fprintf(w, "\n%s\n", terminal.Wrap("(Covered: the part of real times that the 90 % intervals hold. Half width is the median of these, relative to the prediction; median and worst are how far predictions are off. "+unvalidated(all)+")", terminal.Width))
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
