package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// writeText prints a simulation: that it is one, how long it took against what
// is possible, what every device did, and why it was not faster.
func (s *simulation) writeText(b *bytes.Buffer, width int) error {
	r := s.result
	fmt.Fprintf(b, "simulated: %s on %s, policy %s", s.work.name, s.machine.Name, s.policy)
	if s.noise > 0 {
		fmt.Fprintf(b, ", noise %s, seed %d", percent(s.noise), s.seed)
	}
	a := s.analysis()
	fmt.Fprintf(b, "\n\nmakespan     %s", short(r.Makespan))
	if s.failed() == 0 { // or less was done than the bound is for
		fmt.Fprintf(b, "; no schedule can beat %s\nefficiency   %s: %s", short(r.Bound), percent(r.Efficiency), trace.ScalingVerdict(r.Efficiency))
	}
	fmt.Fprintln(b)
	fmt.Fprintf(b, "utilisation  %s\n", percent(a.Mean))
	fmt.Fprintf(b, "results      %s\n", s.verdict())
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
		return "none: " + count(failed, "run") + " failed"
	case !s.checked:
		text = fmt.Sprintf("not checked, with more than %d tasks", checkedTasks)
	}
	if failed > 0 {
		text += "; " + count(failed, "run") + " failed"
	}
	return text
}

// tally adds up what devices did over all runs.
type tally struct {
	tasks           int
	busy, predicted time.Duration
}

func (s *simulation) tally() (devs []tally, tasks int) {
	devs = make([]tally, len(s.machine.Devices))
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

// tableRows is how many rows a table has at most; the rest is summed up.
const tableRows = 32

// writeDevices prints what each device did. Utilisation is of the time a device
// was there, as in the timeline and the analysis.
func (s *simulation) writeDevices(b *bytes.Buffer, a trace.Analysis) {
	devs, total := s.tally()
	rows := [][]any{{"device", "tasks", "share", "busy", "predicted", "utilisation"}}
	for d, t := range devs[:min(len(devs), tableRows)] {
		rows = append(rows, []any{s.machine.DeviceName(machine.DeviceID(d)), t.tasks,
			percent(float64(t.tasks) / float64(max(total, 1))), short(t.busy), short(t.predicted), percent(a.Devices[d].Utilisation())})
	}
	writeTable(b, rows)
	if more := len(devs) - tableRows; more > 0 {
		fmt.Fprintf(b, "and %d more; --json has all\n", more)
	}
}

func (s *simulation) writeRuns(b *bytes.Buffer) {
	rows := [][]any{{"run", "submitted", "started", "took", "tasks", "retries", "replays", ""}}
	runs := s.result.Runs
	for _, r := range runs[:min(len(runs), tableRows)] {
		if r.Report == nil {
			continue
		}
		fate := ""
		if r.Err != nil {
			fate = "failed"
		}
		rows = append(rows, []any{r.Name, short(r.Submitted), short(r.Report.Started),
			short(r.Ended - r.Submitted), r.Report.Tasks, r.Report.Retries, r.Report.Replays, fate})
	}
	writeTable(b, rows)
	if more := len(runs) - tableRows; more > 0 {
		fmt.Fprintf(b, "and %d more; --json has all\n", more)
	}
}

// writeAnalysis prints an analysis with its one long sentence in lines.
func writeAnalysis(w io.Writer, a trace.Analysis, width int) error {
	a.Sentence = wrap(a.Sentence, width)
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

func (s *simulation) writeJSON(b *bytes.Buffer) error {
	r, a := s.result, s.analysis()
	out := simJSON{
		Simulated: true, Machine: s.machine.Name, Work: s.work.name, Policy: s.policy,
		Seed: s.seed, Noise: s.noise, Checked: s.checked,
		Makespan: r.Makespan, Steps: r.Steps,
		Bottleneck: a.Bottleneck, Verdict: a.Sentence, Fixes: []fixJSON{},
	}
	if s.failed() == 0 {
		out.Bound, out.Efficiency = r.Bound, r.Efficiency
	}
	devs, _ := s.tally()
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
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}

// Text.

// writeTable aligns rows of equal length, the first column to the left and the
// others to the right.
func writeTable(w io.Writer, rows [][]any) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(fmt.Sprint(cell)))
		}
	}
	for _, row := range rows {
		line := fmt.Sprintf("%-*v", widths[0], row[0])
		for i, cell := range row[1:] {
			line += fmt.Sprintf("  %*v", widths[i+1], cell)
		}
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}

// wrap breaks text at blanks into lines of at most width columns where words
// allow it; lines after the first are indented.
func wrap(text string, width int) string {
	const indent = "  "
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// short writes a duration with three digits that count.
func short(d time.Duration) string {
	for _, u := range []struct {
		size time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "µs"}} {
		if d >= u.size {
			return fmt.Sprintf("%.3g %s", float64(d)/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%d ns", d)
}
