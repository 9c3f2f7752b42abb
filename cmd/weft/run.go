package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/cmd/weft/internal/workloads"
	"github.com/weft-run/weft/experimental/pipeline"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/trace"
	"github.com/weft-run/weft/workload"
)

func newRun() *cobra.Command {
	var s settings
	c := &cobra.Command{
		Use:   "run WORKLOAD|FILE",
		Short: "Run a workload or a graph of your own on this machine",
		Long: `Run a workload on this machine: find its devices, cut the work among them, run
it, check the result and report. "demo" is a short simulated tour of what weft
does on a machine with a fast GPU, a slow GPU and a CPU, one of which gets lost.

A FILE is a graph of your own in JSON. Its kernels are files in its folder (.cu
is CUDA C, .ptx, .spv is SPIR-V, .comp is GLSL, which glslc compiles), or for
CPU cores the Go functions that "weft kernels" lists, by name. Inputs come from
files and outputs go to files: .npy in NumPy's format, or .bin, the elements
alone. The beginning of an output without a file is printed.

--checkpoint DIR writes checkpoints to a folder. A run that was killed or
interrupted continues with the same command and --resume, and ends with the same
bytes (results of class X and R). weft checkpoint show DIR verifies it.
--resume-if-any begins or continues, for commands that are started by a service.
If a checkpoint cannot be written, for example on a full disk, the run goes on
with a warning, its report counts them, and its exit status is unaffected.`,
		Example: `  weft run gemm
  weft run examples/blur/blur.json \
      --bind image=examples/blur/image.npy --out smooth=smooth.npy`,
	}
	s.bind(c.PersistentFlags())
	graphFlags(c, &s)
	s.complete(c)
	for _, w := range workloads.All() {
		c.AddCommand(newWorkload(w, &s))
	}
	c.AddCommand(newFold(&s), newDemo())
	return c
}

// live is a call of `weft run` for a workload or a graph.
type live struct {
	settings *settings
	options  weft.Options
	repeat   int
	check    bool
	asJSON   bool
	explain  bool
	trace    string
	why      []sched.Explanation // of the last run
	keeping  keeping
	out      string           // --out, for jobs that are workload.Tabular
	table    *terminal.Output // what it names, nil for none
}

// newWorkload makes the command that runs a workload.
func newWorkload(w catalog.Entry, s *settings) *cobra.Command {
	l := &live{settings: s}
	c := &cobra.Command{
		Use:               w.Name,
		Short:             strings.ToUpper(w.Short[:1]) + w.Short[1:],
		Args:              terminal.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	order := workloads.Flags(c.Flags(), w)
	l.keeping.params = workloadParams(w.Name, c.Flags())
	l.flags(c.Flags(), 4)
	c.Flags().BoolVar(&l.check, "check", true, "compare the result, or samples of a large one, with an independent reference")
	reads, tabular := order.Table()
	if tabular {
		c.Flags().StringVarP(&l.out, "out", "o", "", "write the result of the last run to a CSV `file`, whose first line names the columns; - is standard output, and the report goes to standard error then")
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := l.settle(); err != nil {
			return err
		}
		if l.out != "" {
			if err := l.openTable(c, reads()); err != nil {
				return err
			}
			defer l.table.Close()
		}
		// Large inputs take seconds to make.
		p := terminal.StartProgress(c.ErrOrStderr(), l.asJSON, "job", 1)
		p.At("making what %s works on", w.Name)
		job, err := workloads.Job(c.Context(), order)
		p.Finish()
		if err != nil {
			return err
		}
		return l.run(c, job)
	}
	return c
}

// openTable opens the file for the table, which must be no other file that the command reads or writes.
func (l *live) openTable(c *cobra.Command, reads string) (err error) {
	if l.out == "-" && l.trace == "-" {
		return terminal.Usagef("--out - and --trace -: standard output has room for one of them")
	}
	if l.table, err = terminal.OpenOutput(c, l.out); err != nil {
		return err
	}
	others := slices.DeleteFunc([]string{reads, l.trace}, func(name string) bool { return name == "" || name == "-" })
	if err := terminal.Distinct([]*terminal.Output{l.table}, others...); err != nil {
		return errors.Join(err, l.table.Close())
	}
	return nil
}

// workloadParams returns what tells the job of a workload from others: its name and the
// values of its own flags, which are those that are there now.
func workloadParams(name string, f *pflag.FlagSet) func() map[string]string {
	var own []*pflag.Flag
	f.VisitAll(func(flag *pflag.Flag) { own = append(own, flag) })
	return func() map[string]string {
		params := map[string]string{"workload": name}
		for _, flag := range own {
			params[flag.Name] = flag.Value.String()
		}
		return params
	}
}

// flags adds the flags that workloads and graphs have.
func (l *live) flags(f *pflag.FlagSet, repeat int) {
	f.IntVarP(&l.repeat, "repeat", "r", repeat, "how often to run; predictions need about three runs to settle")
	f.BoolVar(&l.asJSON, "json", false, "write the report as JSON")
	f.BoolVar(&l.explain, "explain", false, "say why the work was cut and placed as it was")
	f.StringVar(&l.trace, "trace", "", "write a trace of all runs to a `file`, for ui.perfetto.dev and weft trace; - is standard output")
	l.keeping.bind(f)
}

// settle makes options of the flags.
func (l *live) settle() (err error) {
	if l.repeat < 1 {
		return terminal.Usagef("--repeat %d: run at least once", l.repeat)
	}
	if l.options, err = l.settings.options(); err != nil {
		return err
	}
	l.repeat, err = l.keeping.settle(&l.options, l.repeat)
	return err
}

// open opens a runtime, and the file for a trace where one is wanted. The caller calls
// done.
func (l *live) open(c *cobra.Command) (rt *weft.Runtime, out *terminal.Output, done func(), err error) {
	done = func() {}
	if l.trace != "" {
		l.options.Trace = minEvents
		file, err := terminal.OpenOutput(c, l.trace)
		if err != nil {
			return nil, nil, done, err
		}
		out, done = file, func() { file.Close() }
	}
	if l.explain {
		l.options.Explain = func(e sched.Explanation) { l.why = append(l.why, e) }
	}
	if rt, err = open(c.Context(), l.options, c.ErrOrStderr()); err != nil {
		return nil, nil, done, checkpointError(err)
	}
	closeOutput := done
	return rt, out, func() {
		rt.Close()
		closeOutput()
	}, nil
}

// run runs a job as often as asked, checks the last result and prints the report. An
// interrupt ends it with a report of what was done until then.
func (l *live) run(c *cobra.Command, job workload.Job) (err error) {
	if l.keeping.asked() {
		if err := workload.Keepable(job); err != nil { // before there is a folder
			return terminal.Usage(fmt.Errorf("--checkpoint: %s: %w", job.Name(), err))
		}
	}
	rt, out, closeAll, err := l.open(c)
	defer closeAll()
	if err != nil {
		return err
	}
	done, err := workload.Feed(rt, job)
	if err != nil {
		return err
	}
	defer done()
	if s, ok := job.(workload.Stateful); ok {
		defer s.Release()
	}
	p := terminal.StartProgress(c.ErrOrStderr(), l.asJSON, "run", l.repeat)
	defer p.Finish()
	l.keeping.show(p, job.Name())
	rep, last, err := l.runs(c.Context(), rt, job, p)
	if err == nil {
		err = l.judge(c.Context(), job, rep, p)
	}
	if err != nil && (last == nil || !errors.Is(err, context.Canceled)) {
		return err
	}
	p.Finish()
	if t, ok := job.(workload.Tabular); ok && l.table != nil && err == nil {
		if err := l.table.Replace(t.WriteTable); err != nil {
			return err
		}
	}
	return l.report(c, rt, rep, last, out, trace.Names{
		Task:   func(run int32, t graph.TaskID) string { return fmt.Sprintf("%s task %d", job.Name(), t) },
		Kernel: func(int32, graph.TaskID) string { return job.Whole().Steps[0].Kernel.Name },
	}, err)
}

// report writes the trace, if one is wanted, and the report. interrupted is why runs ended
// early, nil if they did not.
func (l *live) report(c *cobra.Command, rt *weft.Runtime, rep *liveReport, last *workload.Result, out *terminal.Output, names trace.Names, interrupted error) error {
	rep.fill(last)
	rep.Interrupted = interrupted != nil
	if rep.Kept = l.keeping.report(rt); rep.Kept.finished() {
		rep.Bottleneck = "" // of nothing
	}
	if out != nil {
		if err := out.Replace(func(w io.Writer) error { return trace.WriteChrome(w, rt.Machine(), rt.Trace(), names) }); err != nil {
			return err
		}
	}
	if l.explain {
		rep.Explain = reasonsOf(rt, last, l.why)
	}
	if err := terminal.Print(c, l.asJSON, rep, func(b *bytes.Buffer) error {
		rep.text(b)
		if l.explain {
			l.reasons(b, rt, last)
		}
		return nil
	}); err != nil {
		return err
	}
	return interrupted
}

// shown lets runs report their progress if it is displayed. Otherwise none is computed.
func shown(ctx context.Context, p *terminal.Progress) context.Context {
	if p == nil {
		return ctx
	}
	return weft.WithProgress(ctx, func(q weft.Progress) { p.Within(q.Part, q.Left) })
}

// runs runs the job. last is the last run that ended, or the first one as far as it
// came; nil if that did nothing.
func (l *live) runs(ctx context.Context, rt *weft.Runtime, job workload.Job, p *terminal.Progress) (rep *liveReport, last *workload.Result, err error) {
	rep = newReport(rt, job.Name())
	rep.Class = string(workload.ClassOn(job, rt.Machine().Devices))
	ctx = shown(ctx, p)
	for i := range l.repeat {
		p.At("%s", job.Name())
		l.why = l.why[:0]
		res, err := l.once(ctx, rt, job, func(j workload.Job, g *graph.Graph, _ *weft.Prediction) {
			if l.check && i == l.repeat-1 { // or the result of the run before might pass for its own
				weft.Spoil(g, j.Bind()...)
			}
		})
		if err != nil {
			if errors.Is(err, pipeline.ErrStages) { // more copies were asked for than there are devices
				err = terminal.Usage(err)
			}
			if last == nil && res != nil && res.Report != nil {
				last = res
			}
			return rep, last, err
		}
		took := res.Report.Elapsed()
		rep.Runs = append(rep.Runs, l.keeping.row(runRow{Seconds: took.Seconds(), Predicted: res.Predicted.Seconds(), Samples: res.Prediction.Samples, Rate: job.Rate(took)}))
		rep.Verified = rep.Verified.with(res.Report)
		last = res
		p.Add()
	}
	return rep, last, nil
}

// once runs the job, with checkpoints where they are asked for.
func (l *live) once(ctx context.Context, rt *weft.Runtime, job workload.Job, before func(workload.Job, *graph.Graph, *weft.Prediction)) (*workload.Result, error) {
	if !l.keeping.asked() {
		return workload.Run(ctx, rt, job, before)
	}
	res, err := workload.RunStages(ctx, rt, job, l.keeping.keep(), before)
	return res, checkpointError(err)
}

// newReport returns the report of no runs yet.
func newReport(rt *weft.Runtime, job string) *liveReport {
	rep := &liveReport{Runs: []runRow{}, Job: job}
	for _, d := range rt.Devices() {
		rep.Devices = append(rep.Devices, deviceRow{Name: d.Name, Model: d.Model, Cores: d.ComputeUnits})
	}
	return rep
}

// judge puts the result and what its check says into the report.
func (l *live) judge(ctx context.Context, job workload.Job, rep *liveReport, p *terminal.Progress) error {
	if s, ok := job.(workload.Summarised); ok {
		rep.Result = s.Summary()
	}
	if b, ok := job.(workload.Bounded); ok {
		if err := b.Unfinished(); err != nil {
			return err
		}
	}
	if !l.check {
		return nil
	}
	p.At("checking the result")
	began := time.Now()
	switch err := terminal.Abandonable(ctx, job.Check); {
	case errors.Is(err, context.Canceled):
		return err
	case err != nil:
		return fmt.Errorf("the result is wrong: %w", err)
	}
	rep.Checked, rep.CheckSeconds = true, time.Since(began).Seconds()
	if i, ok := job.(workload.Inspected); ok {
		rep.Misses = i.Misses()
	}
	return nil
}

// reasons writes why the work was cut and placed as it was.
func (l *live) reasons(b *bytes.Buffer, rt *weft.Runtime, res *workload.Result) {
	fmt.Fprintln(b)
	if len(res.Partition.Ranges) > 0 { // a graph of the user's is not cut
		fmt.Fprintf(b, "Partitioner %s, predicted completion %s, balance %.2f:\n", cmp.Or(l.options.Partitioner, sched.DefaultPartitioner), terminal.Short(res.Partition.Completion), res.Partition.Balance)
	}
	for _, why := range []string{res.Rule, res.Partition.Why} {
		if why != "" {
			fmt.Fprintf(b, "  %s\n", why)
		}
	}
	for i, r := range res.Partition.Ranges {
		what := fmt.Sprintf("items %d to %d", r.Lo, r.Hi)
		if r.Len() == 0 {
			what = "nothing"
		}
		fmt.Fprintf(b, "  %s gets %s\n", rt.Machine().Devices[i].Name, what)
	}
	fmt.Fprintf(b, "Predicted: %s.\n", res.Prediction.Why)
	if len(res.Variants) > 0 {
		fmt.Fprint(b, "Variants of the job, compared by the rates of devices and links:\n")
	}
	for _, w := range res.Variants {
		taken := ""
		if w.Taken {
			taken = ", taken"
		}
		fmt.Fprintf(b, "  %s: %s%s\n", w.Name, terminal.Short(w.Predicted), taken)
	}
	for _, e := range l.why {
		fmt.Fprintf(b, "\n%s", e.Text(rt.Machine()))
	}
	writeTuning(b, rt.Tuning())
}

// writeTuning writes how devices run kernels that have several variants.
func writeTuning(b *bytes.Buffer, tuned []weft.Tuned) {
	if len(tuned) == 0 {
		return
	}
	fmt.Fprint(b, "\nFound fastest by measurement:\n")
	for _, t := range tuned {
		how := t.Entry
		if t.Block > 0 {
			how += fmt.Sprintf(" in blocks of %d threads", t.Block)
		}
		const named = 64 // driver.Tuned adds multiples of it to a class
		fmt.Fprintf(b, "  %s, kernel %s, up to 2^%d items or blocks: %s, %s\n", t.Device, t.Kernel, t.Class%named, how, terminal.Short(time.Duration(t.NS)))
	}
}

// liveReport is the report of all runs.
type liveReport struct {
	Job     string      `json:"job"`
	Class   string      `json:"class,omitempty"` // of a workload
	Devices []deviceRow `json:"devices"`
	Runs    []runRow    `json:"runs"`              // not nil, so that JSON always has a list
	Variant string      `json:"variant,omitempty"` // that the last run took, where there were several
	Result  string      `json:"result,omitempty"`  // in a few words, where the job has them
	Files   []string    `json:"files,omitempty"`   // with the outputs of a graph
	outputs []string    // a line for each output of a graph that is in no file
	Tasks   int         `json:"tasks"`
	Retries int         `json:"retries"`
	Moves   int         `json:"moves"`
	// Utilisation, Imbalance and Bottleneck describe the last run.
	Utilisation float64       `json:"utilisation"`
	Imbalance   float64       `json:"imbalance"`
	Bottleneck  trace.Verdict `json:"bottleneck"`
	LeftOut     []string      `json:"left_out,omitempty"` // devices or backends that did not open, and why
	// PredictionError is the median of |predicted − real| ÷ real over the runs
	// whose tasks had all been measured before.
	PredictionError float64 `json:"prediction_error,omitempty"`
	Checked         bool    `json:"checked"`
	CheckSeconds    float64 `json:"check_seconds,omitempty"`
	// Verified counts the tasks that --verify had executed on two devices.
	Verified *verified `json:"verified,omitempty"`
	// Misses is the errors that the check may not have seen, with the chance of each.
	Misses      []workload.Miss `json:"misses,omitempty"`
	Interrupted bool            `json:"interrupted,omitempty"` // fewer runs than asked for, or not checked
	Kept        *keptReport     `json:"checkpoints,omitempty"`
	// Explain says why the work of the last run was cut and placed as it was.
	Explain *explanation `json:"explain,omitempty"`
}

type explanation struct {
	Rule       string         `json:"rule,omitempty"` // of the workload's own
	Split      string         `json:"split,omitempty"`
	Prediction string         `json:"prediction"`
	Variants   []variantRow   `json:"variants,omitempty"` // that were compared
	Shares     []shareRow     `json:"shares"`
	Tasks      []placementRow `json:"tasks"`
	Tuned      []weft.Tuned   `json:"tuned,omitempty"` // how devices run kernels that have several variants
}

type variantRow struct {
	Name      string  `json:"name"`
	Predicted float64 `json:"predicted_seconds"`
	Taken     bool    `json:"taken"`
}

type shareRow struct {
	Device string `json:"device"`
	Lo     int64  `json:"lo"`
	Hi     int64  `json:"hi"`
}

type placementRow struct {
	Task    string      `json:"task"`
	Device  string      `json:"device,omitempty"`
	Why     string      `json:"why"`
	Devices []optionRow `json:"devices"`
}

type optionRow struct {
	Device   string  `json:"device"`
	Starts   float64 `json:"starts_seconds"`
	Transfer float64 `json:"transfer_seconds"`
	Runs     float64 `json:"runs_seconds"`
	Finishes float64 `json:"finishes_seconds"`
	Note     string  `json:"note,omitempty"`
}

// reasonsOf is the content of reasons as JSON.
func reasonsOf(rt *weft.Runtime, res *workload.Result, why []sched.Explanation) *explanation {
	m := rt.Machine()
	e := &explanation{Rule: res.Rule, Split: res.Partition.Why, Prediction: res.Prediction.Why, Tuned: rt.Tuning()}
	for _, w := range res.Variants {
		e.Variants = append(e.Variants, variantRow{w.Name, w.Predicted.Seconds(), w.Taken})
	}
	for i, r := range res.Partition.Ranges {
		e.Shares = append(e.Shares, shareRow{m.Devices[i].Name, r.Lo, r.Hi})
	}
	for _, w := range why {
		p := placementRow{Task: w.Task, Why: w.Why}
		if w.Chosen >= 0 {
			p.Device = m.DeviceName(w.Chosen)
		}
		for _, r := range w.Rows {
			p.Devices = append(p.Devices, optionRow{
				m.DeviceName(r.Device), r.Starts.Seconds(), r.Transfer.Seconds(), r.Runs.Seconds(), r.Finishes.Seconds(), r.Note,
			})
		}
		e.Tasks = append(e.Tasks, p)
	}
	return e
}

type deviceRow struct {
	Name  string  `json:"name"`
	Model string  `json:"model"`
	Cores int     `json:"cores"`
	Tasks int     `json:"tasks"`
	Busy  float64 `json:"busy_seconds"`
	Util  float64 `json:"utilisation"`
	// Failed is the executions that failed there; EnergyJ an estimate, from sampled power, of the
	// energy its tasks of the last run took, where power is known.
	Failed    int        `json:"failed,omitempty"`
	EnergyJ   float64    `json:"energy_joules,omitempty"`
	Condition *condition `json:"condition,omitempty"` // at the end, of devices that report it
}

type runRow struct {
	Seconds   float64 `json:"seconds"`
	Predicted float64 `json:"predicted_seconds"`
	Samples   int     `json:"samples"` // fewest measurements behind any of its tasks
	Rate      string  `json:"rate"`
	Resumed   bool    `json:"resumed,omitempty"` // it is the rest of a run
}

// off is the relative error of the prediction.
func (r *runRow) off() float64 {
	return max(r.Predicted-r.Seconds, r.Seconds-r.Predicted) / r.Seconds
}

func (r *liveReport) fill(last *workload.Result) {
	r.Tasks, r.Retries, r.Moves = last.Tasks, last.Report.Retries, last.Report.Moves
	r.Imbalance, r.Bottleneck, r.LeftOut = last.Report.Imbalance(), last.Report.Bottleneck(), last.Report.LeftOut
	for _, w := range last.Variants {
		if w.Taken {
			r.Variant = w.Name
		}
	}
	for i := range r.Devices {
		d := &last.Report.Devices[i]
		r.Devices[i].Tasks, r.Devices[i].Busy = d.Tasks, d.Busy.Seconds()
		r.Devices[i].Util = last.Report.Utilisation(i)
		r.Devices[i].Failed, r.Devices[i].EnergyJ = d.Failed, d.EnergyJ
		if d.Health != nil {
			c := conditionOf(d.Health)
			r.Devices[i].Condition = &c
		}
		r.Utilisation += r.Devices[i].Util / float64(len(r.Devices))
	}
	var errs []float64
	for i, run := range r.Runs {
		if r.learned(i) {
			errs = append(errs, run.off())
		}
	}
	if len(errs) > 0 {
		slices.Sort(errs)
		r.PredictionError = (errs[(len(errs)-1)/2] + errs[len(errs)/2]) / 2
	}
}

// learned reports whether the prediction of a run came from earlier runs, of this
// process or of others by the cache.
func (r *liveReport) learned(i int) bool { return r.Runs[i].Samples > 0 }
