package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/internal/safefile"
)

// comparedRow is one figure of two sets of reports.
type comparedRow struct {
	Case   string  `json:"case"`
	Figure string  `json:"figure"`
	A      float64 `json:"a"` // median
	B      float64 `json:"b"`
	NA     int     `json:"n_a"`
	NB     int     `json:"n_b"`
	Change float64 `json:"change"` // of B from A, as a fraction
	P      float64 `json:"p"`      // of the U test
	// Verdict is "better", "worse", "missing" where B does not have the figure, or "" where
	// the test finds no difference.
	Verdict string `json:"verdict,omitempty"`
}

// compare is the command of that name.
type compare struct {
	alpha, worse float64
	missing      bool
	all, asJSON  bool
}

func newCompare() *cobra.Command {
	var o compare
	c := &cobra.Command{
		Use:   "compare A B",
		Short: "Compare two sets of reports, as a gate for CI",
		Long: `Compare what benchmarks wrote with --json before a change (A) and after it (B).
Each file has the reports of several runs, one after another; the test needs
four of each at least. A figure is taken to differ if the U test of Mann and
Whitney, which benchstat uses, gives a p below --alpha.

The exit status is 1 if a figure is worse by more than --worse, or if B lacks a
figure of A, whose benchmark may have failed; 0 otherwise, and 2 for files that
cannot be compared. --missing allows figures that B does not have.`,
		Example: `  for i in 1 2 3 4 5; do weft bench overhead --json; done > before.json
  for i in 1 2 3 4 5; do weft bench overhead --json; done > after.json
  weft bench compare before.json after.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("bench compare needs two files: weft bench compare before.json after.json")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args[0], args[1]) },
	}
	c.Flags().Float64Var(&o.alpha, "alpha", 0.05, "chance of finding a difference where there is none, for each figure")
	c.Flags().Float64Var(&o.worse, "worse", 0.05, "by what fraction a figure may be worse")
	c.Flags().BoolVar(&o.missing, "missing", false, "figures of A may be missing in B")
	c.Flags().BoolVar(&o.all, "all", false, "also show figures that do not differ")
	c.Flags().BoolVar(&o.asJSON, "json", false, "write all figures as JSON")
	return c
}

// leastReports is the number of reports the test needs: with three and three the least p is
// 0.1.
const leastReports = 4

func (o *compare) run(c *cobra.Command, fileA, fileB string) error {
	if !(o.alpha > 0 && o.alpha < 1) {
		return terminal.Usagef("--alpha %v: it must be above 0 and below 1", o.alpha)
	}
	if !(o.worse >= 0) {
		return terminal.Usagef("--worse %v: it must not be negative", o.worse)
	}
	a, err := readReports(fileA)
	if err != nil {
		return err
	}
	b, err := readReports(fileB)
	if err != nil {
		return err
	}
	rows := o.compared(a, b)
	most, worse, missing := 0, 0, 0
	for _, r := range rows {
		most = max(most, min(r.NA, r.NB))
		switch {
		case r.Verdict == "missing":
			missing++
		case r.Verdict == "worse" && max(r.Change, -r.Change) > o.worse:
			worse++
		}
	}
	switch {
	case most == 0:
		return terminal.Usagef("%s and %s have no figure in common", fileA, fileB)
	case most < leastReports:
		return terminal.Usagef("%s and %s have %s of a figure at most; the test needs %d of each", fileA, fileB, terminal.Count(most, "report"), leastReports)
	}
	if err := terminal.Print(c, o.asJSON, rows, func(b *bytes.Buffer) error { o.text(b, rows); return nil }); err != nil {
		return err
	}
	switch {
	case worse > 0:
		return fmt.Errorf("%s worse by more than %s", plural(worse, "figure is", "figures are"), terminal.Percent(o.worse))
	case missing > 0 && !o.missing:
		return fmt.Errorf("%s missing in %s", plural(missing, "figure is", "figures are"), fileB)
	}
	return nil
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// figureKey names a figure of a case.
type figureKey struct{ of, figure string }

// figures holds the figures of several reports.
type figures struct {
	values map[figureKey][]float64
	order  []figureKey // as they came
}

// maxReports is the largest file of reports that is read, in bytes: a report of the suite
// takes 50 kB.
const maxReports = 256 << 20

// readReports reads the reports of a file.
func readReports(file string) (*figures, error) {
	src, err := safefile.ReadInput(file, maxReports)
	if err != nil {
		return nil, terminal.Usage(terminal.FileError(file, err))
	}
	f := &figures{values: make(map[figureKey][]float64)}
	dec := json.NewDecoder(bytes.NewReader(src))
	for n := 1; ; n++ {
		var report any
		if err := dec.Decode(&report); err == io.EOF {
			return f, nil
		} else if err != nil {
			return nil, terminal.Usagef("%s: report %d: %w", file, n, err)
		}
		f.add("", report)
	}
}

// add takes the rows of a report: a list of rows, or an object with lists of them, as the
// suite writes it.
func (f *figures) add(part string, report any) {
	switch v := report.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if list, ok := v[name].([]any); ok {
				f.add(name, list)
			}
		}
	case []any:
		for _, row := range v {
			if fields, ok := row.(map[string]any); ok {
				f.row(part, fields)
			}
		}
	}
}

// Roles of row fields: what identifies a case, and which direction is better. Fields not listed
// are ignored.
var (
	counts = []string{"devices", "tasks", "size", "burst", "stages", "items", "replicas", "batches", "bytes", "k"}
	told   = []string{"why", "error", "rate", "algorithm", "verdict"} // texts that are no names of a case
	faster = []string{"seconds", "best_seconds", "us_per_task", "median_us_per_task", "turns_per_task", "us_per_round", "median_us_per_round", "latency_us", "p99_us", "back_ms", "reported_ms"}
	higher = []string{"bytes_per_second", "tflops", "best_tflops", "bus_gbps", "items_per_second", "speedup", "efficiency"}
)

// row takes the figures of a row.
func (f *figures) row(part string, fields map[string]any) {
	_, replica := fields["strategy"] // whose bytes are measured
	var names []string
	if part != "" {
		names = append(names, part)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch v := fields[name].(type) {
		case string:
			if v != "" && !slices.Contains(told, name) {
				names = append(names, v)
			}
		case bool:
			if v {
				names = append(names, name)
			}
		case float64:
			if slices.Contains(counts, name) && !(replica && name == "bytes") {
				names = append(names, fmt.Sprintf("%s %.0f", name, v))
			}
		}
	}
	of := strings.Join(names, ", ")
	for _, name := range slices.Concat(faster, higher) {
		if v, ok := fields[name].(float64); ok {
			k := figureKey{of, name}
			if f.values[k] == nil {
				f.order = append(f.order, k)
			}
			f.values[k] = append(f.values[k], v)
		}
	}
}

// compared tests the figures of a, in the order they came.
func (o *compare) compared(a, b *figures) []comparedRow {
	rows := []comparedRow{}
	for _, k := range a.order {
		x, y := a.values[k], b.values[k]
		if len(y) == 0 {
			rows = append(rows, comparedRow{Case: k.of, Figure: k.figure, A: median(x), NA: len(x), P: 1, Verdict: "missing"})
			continue
		}
		r := comparedRow{Case: k.of, Figure: k.figure, A: median(x), B: median(y), NA: len(x), NB: len(y), P: mannWhitney(x, y)}
		if r.A != 0 {
			r.Change = r.B/r.A - 1
		}
		if r.P < o.alpha && r.A != r.B {
			r.Verdict = "worse"
			if (r.B > r.A) == slices.Contains(higher, k.figure) {
				r.Verdict = "better"
			}
		}
		rows = append(rows, r)
	}
	return rows
}

func (o *compare) text(w io.Writer, rows []comparedRow) {
	table := [][]any{{"case", "figure", "A", "B", "change", "p", "reports", ""}}
	same, missing := 0, 0
	for _, r := range rows {
		if r.Verdict == "" {
			if same++; !o.all {
				continue
			}
		}
		if r.Verdict == "missing" {
			missing++
			table = append(table, []any{r.Case, r.Figure, fmt.Sprintf("%.4g", r.A), "", "", "", fmt.Sprintf("%d + 0", r.NA), r.Verdict})
			continue
		}
		table = append(table, []any{r.Case, r.Figure, fmt.Sprintf("%.4g", r.A), fmt.Sprintf("%.4g", r.B), fmt.Sprintf("%+.1f %%", 100*r.Change),
			fmt.Sprintf("%.3f", r.P), fmt.Sprintf("%d + %d", r.NA, r.NB), r.Verdict})
	}
	if len(table) > 1 {
		terminal.Table(w, table)
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "%d of %s differ.\n", len(rows)-missing-same, terminal.Count(len(rows)-missing, "figure"))
}
