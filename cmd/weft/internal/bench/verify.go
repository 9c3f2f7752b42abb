package bench

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload/tropical"
)

// verifyRow is the cost of executing one task in some on two devices and comparing the
// results.
type verifyRow struct {
	Every    int     `json:"every"` // one task in so many
	Tasks    int     `json:"tasks"`
	Pairs    int     `json:"pairs"`
	Verified float64 `json:"verified"` // tasks of a run, mean
	// Executions is the mean number of executions of a task: the Ratio if devices were
	// always busy and comparing cost nothing.
	Executions float64 `json:"executions_per_task"`
	Plain      float64 `json:"plain_seconds"`    // without verification, median
	With       float64 `json:"verified_seconds"` // with it, median
	Ratio      float64 `json:"ratio"`            // median of With ÷ Plain over pairs
}

// checking is the benchmark of verification.
type checking struct {
	side, tasks int
	every       []int
}

func newVerify(s Setup) *cobra.Command {
	var o checking
	c := benchmark[verifyRow]{
		use:   "verify",
		short: "What it costs to verify results on a second device",
		long: `Run a max-plus product of square matrices, cut into tasks of equal size, with
one task in N verified (the setting verify) and without, in turn, and compare
the times of the two runs of each pair. Results must be right, and the same
with verification. A ratio of 2 is what N = 1 costs at least where all devices
are busy: each task is executed twice.`,
		repeat: 5, measure: o.measure, text: writeVerify,
	}.command(s)
	c.Flags().IntVar(&o.side, "size", 1024, "`rows` and columns of the matrices")
	c.Flags().IntVar(&o.tasks, "tasks", 64, "tasks that the product is cut into")
	c.Flags().IntSliceVar(&o.every, "every", []int{1, 2, 5, 10, 100}, "verify one task in `N`, for each of these")
	return c
}

func (o *checking) measure(m *meter) (rows []verifyRow, err error) {
	switch {
	case o.side < 1 || o.side > 1<<14:
		return nil, terminal.Usagef("--size %d: use 1 to %d", o.side, 1<<14)
	case o.tasks < 1 || o.tasks > o.side:
		return nil, terminal.Usagef("--tasks %d: use 1 to %d, the rows there are", o.tasks, o.side)
	case len(o.every) == 0:
		return nil, terminal.Usagef("--every is empty: name numbers of tasks, as 1,10")
	}
	for _, n := range o.every {
		if n < 1 {
			return nil, terminal.Usagef("--every %d: it must be 1 or more; one task in every N is verified", n)
		}
	}
	if _, err := m.several(); err != nil {
		return nil, err
	}
	p := m.progress("pair", len(o.every)*m.repeat)
	defer p.Finish()
	for _, n := range o.every {
		p.At("one task in %d", n)
		row, err := o.pairs(m, n, p)
		if row.Pairs > 0 {
			rows = append(rows, row)
		}
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// pairs measures one number.
func (o *checking) pairs(m *meter, every int, p *terminal.Progress) (row verifyRow, err error) {
	row = verifyRow{Every: every, Tasks: o.tasks}
	var runs [2]func() (*weft.Report, time.Duration, error) // without and with
	for i := range runs {
		rt, failed := m.open(func(c *weft.Options) { c.Verify = i * every })
		if failed != nil {
			return row, failed
		}
		defer func() { err = errors.Join(err, rt.Close()) }()
		if runs[i], failed = o.prepare(m, rt); failed != nil {
			return row, failed
		}
		for range learning {
			if _, _, err := runs[i](); err != nil {
				return row, err
			}
		}
	}
	var plain, with, ratio []float64
	verified, executed := 0, 0
	for n := 1; n <= m.repeat; n++ {
		_, a, err := runs[0]()
		if err != nil {
			return row, err
		}
		rep, b, err := runs[1]()
		if err != nil {
			return row, err
		}
		p.Add()
		plain, with, ratio = append(plain, a.Seconds()), append(with, b.Seconds()), append(ratio, b.Seconds()/a.Seconds())
		verified += rep.Verified
		for _, d := range rep.Devices {
			executed += d.Tasks
		}
		row.Pairs, row.Plain, row.With, row.Ratio = n, median(plain), median(with), median(ratio)
		row.Verified, row.Executions = float64(verified)/float64(n), float64(executed)/float64(n*o.tasks)
	}
	return row, nil
}

// prepare returns what runs the product once and checks it.
func (o *checking) prepare(m *meter, rt *weft.Runtime) (func() (*weft.Report, time.Duration, error), error) {
	j, err := tropical.New(tropical.Config{M: o.side, K: o.side, N: o.side, Seed: 1})
	if err != nil {
		return nil, err
	}
	ranges := make([]sched.Range, o.tasks)
	for i := range ranges {
		ranges[i] = sched.Range{Lo: int64(i * o.side / o.tasks), Hi: int64((i + 1) * o.side / o.tasks)}
	}
	g, err := j.Graph(ranges)
	if err != nil {
		return nil, err
	}
	ready, err := rt.Prepare(g, j.Bind()...)
	if err != nil {
		return nil, err
	}
	seen := false
	return func() (*weft.Report, time.Duration, error) {
		clear(j.Result())
		began := time.Now()
		rep, err := ready.Run(m.ctx)
		took := time.Since(began)
		if err == nil && len(rep.Wrong) > 0 {
			err = &rep.Wrong[0]
		}
		if err == nil && !seen { // each result is the same product
			seen = true
			err = checked(m.ctx, j)
		}
		return rep, took, err
	}, nil
}

func writeVerify(w io.Writer, rows []verifyRow) {
	out := [][]any{{"verify", "tasks", "verified", "executions/task", "pairs", "without", "with", "ratio"}}
	for _, r := range rows {
		out = append(out, []any{fmt.Sprintf("1 in %d", r.Every), r.Tasks, fmt.Sprintf("%.1f", r.Verified), fmt.Sprintf("%.2f", r.Executions), r.Pairs,
			terminal.Seconds(r.Plain), terminal.Seconds(r.With), fmt.Sprintf("%.2f", r.Ratio)})
	}
	terminal.Table(w, out)
	fmt.Fprintln(w, "\nVerified: tasks of a run. Ratio: with ÷ without, the median over pairs of runs.\nIt would be executions/task if devices were always busy and comparing took no time.")
}
