package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/experimental/sim"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/trace"
)

// simulation is some work on a described machine, and its result.
type simulation struct {
	machine *machine.Machine
	work    *work
	policy  string
	seed    uint64
	noise   float64
	explain func(task string) bool // nil explains nothing

	checked      bool
	result       *sim.Result
	fixes        []trace.Fix // that were simulated; nil if none were
	analysed     *trace.Analysis
	explanations []sched.Explanation
}

// run simulates.
func (s *simulation) run() (err error) {
	s.checked = s.work.tasks <= checkedTasks
	c := sim.Config{
		Machine: s.machine, Jobs: s.work.jobs, Policy: s.policy,
		Seed: s.seed, Noise: s.noise, Faults: s.work.faults, Unchecked: !s.checked,
		Trace: trace.NewRecorder(min(max(8*s.work.tasks, minEvents), maxEvents)),
	}
	if s.explain != nil {
		c.Explain = func(e sched.Explanation) {
			if s.explain(e.Task) {
				s.explanations = append(s.explanations, e)
			}
		}
	}
	if s.result, err = sim.Run(c); err != nil {
		return err
	}
	if s.work.tasks <= whatIfTasks && s.failed() == 0 {
		s.fixes, err = sim.WhatIf(c, s.result.Makespan)
	}
	return err
}

// failure returns an error that names the runs that failed, nil if none did.
func (s *simulation) failure() error {
	var errs []error
	for _, r := range s.result.Runs {
		if r.Err != nil {
			errs = append(errs, fmt.Errorf("run %d (%s): %w", r.Run, r.Name, r.Err))
		}
	}
	return errors.Join(errs...)
}

// graph returns the graph of a run by the number traces give it.
func (s *simulation) graph(run int32) *graph.Graph {
	// Runs are numbered from 1 in the order of submission, the order of the jobs.
	if run < 1 || int(run) > len(s.work.jobs) {
		return nil
	}
	return s.work.jobs[run-1].Graph
}

func (s *simulation) names() trace.Names {
	return trace.Names{
		Task: func(run int32, t graph.TaskID) string {
			if g := s.graph(run); g != nil && t >= 0 {
				return g.TaskName(t)
			}
			return ""
		},
		Kernel: func(run int32, t graph.TaskID) string {
			if g := s.graph(run); g != nil && t >= 0 {
				return g.Task(t).Steps[0].Kernel.Name
			}
			return ""
		},
	}
}

// analysis says where the time went. It is made once: it takes long for many events.
func (s *simulation) analysis() trace.Analysis {
	if s.analysed != nil {
		return *s.analysed
	}
	a := trace.Analyze(s.machine, s.result.Trace, func(run int32, t graph.TaskID) []int32 {
		if g := s.graph(run); g != nil {
			return g.Flow().Preds(t)
		}
		return nil
	})
	a.Names = s.names()
	if s.fixes != nil {
		a.Revise(s.fixes)
	}
	s.analysed = &a
	return a
}

// saveTrace writes the trace.
func (s *simulation) saveTrace(ctx context.Context, out *terminal.Output) error {
	// The name says that the trace is no measurement.
	m := *s.machine
	m.Name += simulatedMark
	return out.Replace(func(w io.Writer) error {
		return trace.WriteChrome(&interruptible{ctx, w}, &m, s.result.Trace, s.names())
	})
}

// simulatedMark follows the machine's name in traces of simulations.
const simulatedMark = " (simulated)"

// interruptible is a writer that fails once its context has ended.
type interruptible struct {
	ctx context.Context
	w   io.Writer
}

func (i *interruptible) Write(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.w.Write(p)
}

// writeText prints the makespan next to the least possible one, the timeline, the share
// of every device and the analysis. The first word says that it is simulated.
func (s *simulation) writeText(b *bytes.Buffer, width int) error {
	r := s.result
	fmt.Fprintf(b, "simulated: %s on %s, policy %s", s.work.name, s.machine.Name, s.policy)
	if s.noise > 0 {
		fmt.Fprintf(b, ", noise %s, seed %d", terminal.Percent(s.noise), s.seed)
	}
	a := s.analysis()
	fmt.Fprintf(b, "\n\nmakespan     %s", terminal.Short(r.Makespan))
	if s.failed() == 0 { // the bound is for all of the work
		fmt.Fprintf(b, "; no schedule can beat %s\nefficiency   %s: %s", terminal.Short(r.Bound), terminal.Percent(r.Efficiency), trace.ScalingVerdict(r.Efficiency))
	}
	fmt.Fprintln(b)
	fmt.Fprintf(b, "utilisation  %s\n", terminal.Percent(a.Mean))
	fmt.Fprintf(b, "results      %s\n", s.verdict())
	if _, whole := s.machine.Watts(); whole {
		const label = "power        "
		fmt.Fprintln(b, label+terminal.Wrap(terminal.Power(s.machine), max(width-len(label), 40)))
	}
	for _, e := range s.explanations {
		fmt.Fprintf(b, "\n%s", e.Text(s.machine))
	}
	fmt.Fprintln(b)
	if err := trace.WriteTimeline(b, s.machine, r.Trace, width); err != nil {
		return err
	}
	fmt.Fprintln(b)
	s.writeDevices(b, a)
	if len(r.Runs) > 1 {
		fmt.Fprintln(b)
		s.writeRuns(b)
	}
	fmt.Fprintln(b)
	return writeAnalysis(b, a, width)
}

// failed counts the runs that failed.
func (s *simulation) failed() int {
	n := 0
	for _, r := range s.result.Runs {
		if r.Err != nil {
			n++
		}
	}
	return n
}

// verdict says whether the results are right.
func (s *simulation) verdict() string {
	failed := s.failed()
	text := "equal to running the tasks one after another"
	switch {
	case failed == len(s.result.Runs):
		return "none: " + terminal.Count(failed, "run") + " failed"
	case !s.checked:
		text = fmt.Sprintf("not checked, with more than %d tasks", checkedTasks)
	}
	if failed > 0 {
		text += "; " + terminal.Count(failed, "run") + " failed"
	}
	return text
}

// deviceSum is the sum of what one device did in all runs.
type deviceSum struct {
	tasks           int
	busy, predicted time.Duration
}

func (s *simulation) sums() (devs []deviceSum, tasks int) {
	devs = make([]deviceSum, len(s.machine.Devices))
	for _, r := range s.result.Runs {
		if r.Report == nil {
			continue
		}
		for d, dr := range r.Report.Devices {
			devs[d].tasks += dr.Tasks
			devs[d].busy += dr.Busy
			devs[d].predicted += dr.Predicted
			tasks += dr.Tasks
		}
	}
	return devs, tasks
}

// writeDevices prints the table of devices. Utilisation is relative to the time that a
// device was there, as in the timeline and the analysis.
func (s *simulation) writeDevices(b *bytes.Buffer, a trace.Analysis) {
	devs, total := s.sums()
	rows := [][]any{{"device", "tasks", "share", "busy", "predicted", "utilisation"}}
	for d, t := range devs[:min(len(devs), terminal.MaxRows)] {
		rows = append(rows, []any{s.machine.DeviceName(machine.DeviceID(d)), t.tasks,
			terminal.Percent(float64(t.tasks) / float64(max(total, 1))), terminal.Short(t.busy), terminal.Short(t.predicted), terminal.Percent(a.Devices[d].Utilisation())})
	}
	terminal.Table(b, rows)
	if more := len(devs) - terminal.MaxRows; more > 0 {
		fmt.Fprintf(b, "and %d more; --json has all\n", more)
	}
}

func (s *simulation) writeRuns(b *bytes.Buffer) {
	rows := [][]any{{"run", "submitted", "started", "took", "tasks", "retries", "replays", ""}}
	runs := s.result.Runs
	for _, r := range runs[:min(len(runs), terminal.MaxRows)] {
		if r.Report == nil {
			continue
		}
		fate := ""
		if r.Err != nil {
			fate = "failed"
		}
		rows = append(rows, []any{r.Name, terminal.Short(r.Submitted), terminal.Short(r.Report.Started),
			terminal.Short(r.Ended - r.Submitted), r.Report.Tasks, r.Report.Retries, r.Report.Replays, fate})
	}
	terminal.Table(b, rows)
	if more := len(runs) - terminal.MaxRows; more > 0 {
		fmt.Fprintf(b, "and %d more; --json has all\n", more)
	}
}

// writeAnalysis prints an analysis, with its sentence in lines of at most width columns.
func writeAnalysis(w io.Writer, a trace.Analysis, width int) error {
	a.Sentence = terminal.Wrap(a.Sentence, width)
	return trace.WriteAnalysis(w, a)
}

// The JSON of weft sim. Times are virtual nanoseconds.
type (
	simJSON struct {
		Simulated    bool          `json:"simulated"` // always true
		Machine      string        `json:"machine"`
		Work         string        `json:"work"`
		Policy       string        `json:"policy"`
		Seed         uint64        `json:"seed"`
		Noise        float64       `json:"noise"`
		Checked      bool          `json:"checked"`
		Makespan     time.Duration `json:"makespan_ns"`
		Bound        time.Duration `json:"bound_ns,omitempty"`   // 0 when a run failed
		Efficiency   float64       `json:"efficiency,omitempty"` // likewise
		Steps        int           `json:"steps"`
		Watts        float64       `json:"watts,omitempty"` // at full load, where all figures are known
		Budget       float64       `json:"budget_watts,omitempty"`
		Devices      []deviceJSON  `json:"devices"`
		Runs         []runJSON     `json:"runs"`
		Bottleneck   trace.Verdict `json:"bottleneck"`
		Verdict      string        `json:"verdict"`
		Fixes        []fixJSON     `json:"fixes"`
		Explanations []explainJSON `json:"explanations,omitempty"`
	}
	deviceJSON struct {
		Name        string        `json:"name"`
		Tasks       int           `json:"tasks"`
		Busy        time.Duration `json:"busy_ns"`
		Predicted   time.Duration `json:"predicted_ns"`
		Utilisation float64       `json:"utilisation"`
	}
	runJSON struct {
		Name      string        `json:"name"`
		Submitted time.Duration `json:"submitted_ns"`
		Ended     time.Duration `json:"ended_ns"`
		Tasks     int           `json:"tasks"`
		Executed  int           `json:"executed"`
		Retries   int           `json:"retries"`
		Replays   int           `json:"replays"`
		Copies    int           `json:"copies"`
		CopyBytes int64         `json:"copy_bytes"`
		Error     string        `json:"error,omitempty"`
	}
	fixJSON struct {
		What     string        `json:"what"`
		Makespan time.Duration `json:"makespan_ns"`
		Gain     float64       `json:"gain"`
	}
	explainJSON struct {
		Task   string `json:"task"`
		Device string `json:"device,omitempty"`
		Why    string `json:"why"`
	}
)

func (s *simulation) json() simJSON {
	r, a := s.result, s.analysis()
	out := simJSON{
		Simulated: true, Machine: s.machine.Name, Work: s.work.name, Policy: s.policy,
		Seed: s.seed, Noise: s.noise, Checked: s.checked,
		Makespan: r.Makespan, Steps: r.Steps,
		Bottleneck: a.Bottleneck, Verdict: a.Sentence, Fixes: []fixJSON{},
	}
	if watts, whole := s.machine.Watts(); whole {
		out.Watts, out.Budget = watts, s.machine.BudgetWatts
	}
	if s.failed() == 0 {
		out.Bound, out.Efficiency = r.Bound, r.Efficiency
	}
	devs, _ := s.sums()
	for d, t := range devs {
		out.Devices = append(out.Devices, deviceJSON{s.machine.DeviceName(machine.DeviceID(d)), t.tasks, t.busy, t.predicted, a.Devices[d].Utilisation()})
	}
	for _, x := range r.Runs {
		j := runJSON{Name: x.Name, Submitted: x.Submitted, Ended: x.Ended}
		if rep := x.Report; rep != nil {
			j.Tasks, j.Executed, j.Retries, j.Replays = rep.Tasks, rep.Executed, rep.Retries, rep.Replays
			j.Copies, j.CopyBytes = rep.Copies, rep.CopyBytes
		}
		if x.Err != nil {
			j.Error = x.Err.Error()
		}
		out.Runs = append(out.Runs, j)
	}
	for _, f := range a.Fixes {
		out.Fixes = append(out.Fixes, fixJSON{f.What, f.Makespan, f.Gain})
	}
	for _, e := range s.explanations {
		j := explainJSON{Task: e.Task, Why: e.Why}
		if e.Chosen >= 0 {
			j.Device = s.machine.DeviceName(e.Chosen)
		}
		out.Explanations = append(out.Explanations, j)
	}
	return out
}
