package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/trace"
	"github.com/weft-run/weft/workload"
)

// runtimeFlags adds the flags every live command shares; they are the keys of
// weft.Options.
func runtimeFlags(f *pflag.FlagSet, o *weft.Options) {
	f.StringVarP(&o.Devices, "devices", "d", "", "devices to use: cpu, cpu:0, cpu/4 (cores as four devices), or a list (all)")
	f.IntVar(&o.MaxDevices, "max-devices", 0, "use at most so many devices")
	f.StringVar(&o.Policy, "policy", "", "how tasks are placed (finish)")
	f.StringVar(&o.Partitioner, "partitioner", "", "how work is cut (latency)")
	f.IntVar(&o.Concurrent, "concurrent", 0, "tasks in flight at most (no limit)")
	f.DurationVar(&o.TaskTimeout, "task-timeout", 0, "give up on a task's device after this long (never)")
	f.IntVar(&o.Retries, "retries", 0, "how often a task may fail (3)")
	f.Int64Var(&o.HostBytes, "host-bytes", 0, "host memory for data, in bytes (no limit)")
	f.BoolVar(&o.NoFaultTolerance, "no-fault-tolerance", false, "let a lost device fail its runs")
	f.BoolVar(&o.Pin, "pin", false, "tie the threads of CPU devices to their cores")
}

// openRuntime opens devices; what is wrong with the options is a usage error.
func openRuntime(ctx context.Context, o weft.Options, stderr io.Writer) (*weft.Runtime, error) {
	o.Funcs = allFuncs()
	o.Log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	rt, err := weft.Open(ctx, o)
	if errors.Is(err, weft.ErrOptions) || errors.Is(err, weft.ErrNoDevices) && o.Devices != "" {
		return nil, usageError{err}
	}
	return rt, err
}

// live is what `weft run WORKLOAD` was asked for.
type live struct {
	options weft.Options
	repeat  int
	check   bool
	asJSON  bool
	explain bool
	trace   string
}

// newWorkload makes the command that runs a workload.
func newWorkload(w entry) *cobra.Command {
	l := &live{}
	c := &cobra.Command{
		Use:   w.name,
		Short: strings.ToUpper(w.short[:1]) + w.short[1:],
		Args:  cobra.NoArgs,
	}
	make := w.flags(c.Flags())
	runtimeFlags(c.Flags(), &l.options)
	c.Flags().IntVarP(&l.repeat, "repeat", "r", 4, "how often to run; predictions need about three runs to settle")
	c.Flags().BoolVar(&l.check, "check", true, "compare the result with an independent reference")
	c.Flags().BoolVar(&l.asJSON, "json", false, "write the report as JSON")
	c.Flags().BoolVar(&l.explain, "explain", false, "say why the work was cut and placed as it was")
	c.Flags().StringVar(&l.trace, "trace", "", "write a trace of all runs, for ui.perfetto.dev and weft trace")
	_ = c.RegisterFlagCompletionFunc("policy", completePolicies)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if l.repeat < 1 {
			return badUsage("--repeat is %d; run at least once", l.repeat)
		}
		job, err := make()
		if err != nil {
			return usageError{err}
		}
		return l.run(c, job)
	}
	return c
}

func (l *live) run(c *cobra.Command, job workload.Job) error {
	if l.trace != "" {
		l.options.Trace = 1 << 18
	}
	var why []sched.Explanation
	if l.explain {
		l.options.Explain = func(e sched.Explanation) { why = append(why, e) }
	}
	var out *os.File
	if l.trace != "" { // before anything is computed that could be lost with it
		var err error
		if out, err = os.Create(l.trace); err != nil {
			return err
		}
		defer out.Close()
	}
	rt, err := openRuntime(c.Context(), l.options, c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer rt.Close()
	progress := progressOn(c.ErrOrStderr())
	rep := liveReport{Job: job.Name(), Class: string(job.Class())}
	for _, d := range rt.Devices() {
		rep.Devices = append(rep.Devices, deviceRow{Name: d.Name, Model: d.Model, Cores: d.ComputeUnits})
	}
	var last *workload.Result
	for i := range l.repeat {
		progress(fmt.Sprintf("%s: run %d of %d", job.Name(), i+1, l.repeat))
		why = why[:0]
		res, err := workload.Run(c.Context(), rt, job)
		if err != nil {
			progress("")
			return err
		}
		took := res.Report.Elapsed()
		rep.Runs = append(rep.Runs, runRow{Seconds: took.Seconds(), Predicted: res.Predicted.Seconds(), Rate: job.Rate(took)})
		last = res
	}
	rep.fill(last)
	if l.check {
		progress("checking the result")
		if err := job.Check(); err != nil {
			progress("")
			return fmt.Errorf("the result is wrong: %w", err)
		}
		rep.Checked = true
	}
	progress("")
	if out != nil {
		if err := saveTrace(out, rt, job); err != nil {
			return err
		}
	}
	return print(c, func(b *bytes.Buffer) error {
		if l.asJSON {
			enc := json.NewEncoder(b)
			enc.SetIndent("", "  ")
			return enc.Encode(rep)
		}
		rep.text(b)
		if l.explain {
			l.reasons(b, rt, last, why)
		}
		return nil
	})
}

// reasons says why the work was cut and placed as it was.
func (l *live) reasons(b *bytes.Buffer, rt *weft.Runtime, res *workload.Result, why []sched.Explanation) {
	name := l.options.Partitioner
	if name == "" {
		name = "latency"
	}
	fmt.Fprintf(b, "\nPartitioner %s, predicted completion %s, balance %.2f:\n", name, short(res.Partition.Completion), res.Partition.Balance)
	for i, r := range res.Partition.Ranges {
		what := fmt.Sprintf("items %d to %d", r.Lo, r.Hi)
		if r.Len() == 0 {
			what = "nothing: the others are done before it would be worth starting"
		}
		fmt.Fprintf(b, "  %s gets %s\n", rt.Machine().Devices[i].Name, what)
	}
	for _, e := range why {
		fmt.Fprintf(b, "\n%s", e.Text(rt.Machine()))
	}
}

func saveTrace(w io.Writer, rt *weft.Runtime, job workload.Job) error {
	names := trace.Names{
		Task:   func(run int32, t graph.TaskID) string { return fmt.Sprintf("%s task %d", job.Name(), t) },
		Kernel: func(int32, graph.TaskID) string { return job.Whole().Steps[0].Kernel.Name },
	}
	return trace.WriteChrome(w, rt.Machine(), rt.Trace(), names)
}

// liveReport is what a live run came to.
type liveReport struct {
	Job     string      `json:"job"`
	Class   string      `json:"class"`
	Devices []deviceRow `json:"devices"`
	Runs    []runRow    `json:"runs"`
	Tasks   int         `json:"tasks"`
	Retries int         `json:"retries"`
	Moves   int         `json:"moves"`
	// PredictionError is the median over the runs after the first three of
	// |predicted − real| ÷ real.
	PredictionError float64 `json:"prediction_error,omitempty"`
	Checked         bool    `json:"checked"`
}

type deviceRow struct {
	Name  string  `json:"name"`
	Model string  `json:"model"`
	Cores int     `json:"cores"`
	Tasks int     `json:"tasks"`
	Busy  float64 `json:"busy_seconds"`
	Util  float64 `json:"utilisation"`
}

type runRow struct {
	Seconds   float64 `json:"seconds"`
	Predicted float64 `json:"predicted_seconds"`
	Rate      string  `json:"rate"`
}

// learning is how many runs the cost model gets before predictions count.
const learning = 3

func (r *liveReport) fill(last *workload.Result) {
	r.Tasks, r.Retries, r.Moves = last.Tasks, last.Report.Retries, last.Report.Moves
	for i := range r.Devices {
		d := &last.Report.Devices[i]
		r.Devices[i].Tasks, r.Devices[i].Busy = d.Tasks, d.Busy.Seconds()
		r.Devices[i].Util = d.Busy.Seconds() / max(last.Report.Elapsed().Seconds(), 1e-9)
	}
	var errs []float64
	for i, run := range r.Runs {
		if r.learned(i) {
			errs = append(errs, max(run.Predicted-run.Seconds, run.Seconds-run.Predicted)/run.Seconds)
		}
	}
	if len(errs) > 0 {
		slices.Sort(errs)
		r.PredictionError = errs[len(errs)/2]
	}
}

// learned reports whether the prediction of a run came from enough earlier ones.
// A cost model that has not seen enough answers as before the first.
func (r *liveReport) learned(i int) bool {
	return i >= learning && r.Runs[i].Predicted != r.Runs[0].Predicted
}

func (r *liveReport) text(w io.Writer) {
	fmt.Fprintf(w, "%s on %s, class %s\n\n", r.Job, count(len(r.Devices), "device"), r.Class)
	rows := [][]any{{"run", "took", "predicted", "rate"}}
	for i, run := range r.Runs {
		predicted := short(time.Duration(run.Predicted * 1e9))
		if !r.learned(i) {
			predicted += " (learning)"
		}
		rows = append(rows, []any{i + 1, short(time.Duration(run.Seconds * 1e9)), predicted, run.Rate})
	}
	writeTable(w, rows)
	fmt.Fprintln(w)
	rows = [][]any{{"device", "cores", "tasks", "busy", "used"}}
	for _, d := range r.Devices {
		rows = append(rows, []any{d.Name, d.Cores, d.Tasks, short(time.Duration(d.Busy * 1e9)), percent(d.Util)})
	}
	writeTable(w, rows)
	fmt.Fprintln(w)
	if r.learned(len(r.Runs) - 1) {
		fmt.Fprintf(w, "Prediction was off by %s after %d runs.\n", percent(r.PredictionError), learning)
	} else {
		fmt.Fprintln(w, "The cost model is still learning; --repeat gives it more runs.")
	}
	if r.Retries > 0 {
		fmt.Fprintf(w, "%s failed and was tried again.\n", count(r.Retries, "execution"))
	}
	if r.Checked {
		fmt.Fprintln(w, "The result agrees with an independent reference.")
	}
}
