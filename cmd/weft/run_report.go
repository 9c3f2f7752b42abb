package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/workload"
)

// runTable writes a row for each of the last runs.
func (r *liveReport) runTable(w io.Writer) {
	rows := [][]any{{"run", "took", "predicted", "off", "rate"}}
	first := max(len(r.Runs)-terminal.MaxRows, 0) // the last ones
	for i := first; i < len(r.Runs); i++ {
		run := r.Runs[i]
		off, predicted := "learning", terminal.Seconds(run.Predicted)
		switch {
		case run.Resumed:
			off, predicted = "resumed", "-"
		case r.learned(i):
			off = terminal.Percent(run.off())
		}
		rows = append(rows, []any{i + 1, terminal.Seconds(run.Seconds), predicted, off, run.Rate})
	}
	if len(r.Runs) > 0 {
		terminal.Table(w, rows)
		if first > 0 {
			fmt.Fprintf(w, "and %d before; --json has all\n", first)
		}
		fmt.Fprintln(w)
	}
}

func (r *liveReport) text(w io.Writer) {
	fmt.Fprintf(w, "%s on %s", r.Job, terminal.Count(len(r.Devices), "device"))
	if r.Class != "" {
		fmt.Fprintf(w, ", class %s", r.Class)
	}
	fmt.Fprint(w, "\n\n")
	if !r.Kept.finished() {
		if r.account(w); len(r.Runs) == 0 {
			return
		}
	}
	r.outcome(w)
}

// account writes what the runs took.
func (r *liveReport) account(w io.Writer) {
	r.runTable(w)
	rows := [][]any{{"device", "cores", "tasks", "busy", "used"}}
	done := 0
	if r.Kept != nil {
		done = r.Kept.From
	}
	for _, d := range r.Devices {
		done += d.Tasks
		rows = append(rows, []any{d.Name, d.Cores, d.Tasks, terminal.Seconds(d.Busy), terminal.Percent(d.Util)})
	}
	terminal.Table(w, rows)
	fmt.Fprintln(w)
	if len(r.Runs) == 0 {
		fmt.Fprintf(w, "Interrupted in the first run, after %d of %s.\n", done, terminal.Count(r.Tasks, "task"))
		if r.Kept != nil {
			r.Kept.text(w, r.Interrupted)
		}
		return
	}
	fmt.Fprintf(w, "Bottleneck of the last run: %s. Devices ran tasks %s of the time, imbalance %s.\n", r.Bottleneck, terminal.Percent(r.Utilisation), terminal.Percent(r.Imbalance))
	r.writeCondition(w)
	for _, why := range r.LeftOut {
		fmt.Fprintf(w, "Left out: %s.\n", why)
	}
	if r.learned(len(r.Runs) - 1) {
		fmt.Fprintf(w, "Predictions were off by %s in the median.\n", terminal.Percent(r.PredictionError))
	} else if r.Kept == nil {
		fmt.Fprintln(w, "The cost model is still learning; --repeat gives it more runs.")
	}
	if r.Variant != "" {
		fmt.Fprintf(w, "The last run was done with %s, which was predicted to be as fast as any; --explain compares.\n", r.Variant)
	}
}

// manyDigits are numbers too long for text; --json has all digits.
var manyDigits = regexp.MustCompile(`\d{201,}`)

// shortNumbers is a result with the first and last digits of numbers that have more than 200.
func shortNumbers(result string) string {
	return manyDigits.ReplaceAllStringFunc(result, func(n string) string {
		return fmt.Sprintf("%s…%s (%d digits; --json has all)", n[:15], n[len(n)-15:], len(n))
	})
}

// longCheck is the least time of a check, in seconds, that is told.
const longCheck = 10

// outcome writes what came of the runs.
func (r *liveReport) outcome(w io.Writer) {
	if r.Kept != nil {
		r.Kept.text(w, r.Interrupted)
	}
	r.Verified.text(w)
	if r.Retries > 0 {
		fmt.Fprintf(w, "%s failed and was tried again.\n", terminal.Count(r.Retries, "execution"))
	}
	if r.Result != "" {
		fmt.Fprintf(w, "Result: %s.\n", shortNumbers(r.Result))
	}
	for _, line := range r.outputs {
		fmt.Fprintf(w, "Output %s\n", line)
	}
	if len(r.outputs) > 0 {
		fmt.Fprintln(w, "--out NAME=FILE writes an output to a file, as in --out y=y.npy.")
	}
	if len(r.Files) > 0 {
		fmt.Fprintf(w, "Written: %s.\n", strings.Join(r.Files, ", "))
	}
	switch {
	case r.Checked:
		fmt.Fprintln(w, "The result agrees with an independent reference.")
		writeMisses(w, r.Misses)
		if r.CheckSeconds >= longCheck {
			fmt.Fprintf(w, "The check took %s; --check=false leaves it out.\n", terminal.Seconds(r.CheckSeconds))
		}
	case r.Interrupted:
		left := "no output was written" // of a graph
		if r.Class != "" {
			left = "the result was not checked"
		}
		fmt.Fprintf(w, "Interrupted after %s; %s.\n", terminal.Count(len(r.Runs), "run"), left)
	}
}

// writeMisses writes what a check may not have seen.
func writeMisses(w io.Writer, misses []workload.Miss) {
	for _, m := range misses {
		fmt.Fprintf(w, "  The chance that %s goes unseen is %s.\n", m.What, terminal.Chance(m.Chance))
	}
}
