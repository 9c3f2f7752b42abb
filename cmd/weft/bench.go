package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"

	"github.com/weft-run/weft/internal/catalog"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/terminal"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/workload"
)

func newBench() *cobra.Command {
	var s settings
	c := &cobra.Command{
		Use:   "bench WHAT",
		Short: "Measure weft on this machine",
		Long: `Measure weft on this machine. Every benchmark checks what it computes before it
reports a time and runs what it compares in turn. What a task or a round costs
(us_per_task, us_per_round) is the best of the repetitions, with their median
beside it (median_us_per_task, …); rates of copies are the best; times of
workloads and collectives are medians. Ctrl-C ends one and prints the rows that
are complete.`,
		Args: terminal.OneOf("benchmark"),
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	s.bind(c.PersistentFlags())
	s.complete(c)
	c.AddCommand(newOverhead(&s), newScaling(&s), newBalance(&s), newMemory(&s), newSync(&s), newCollective(&s), newP2P(&s), newPipelineBench(&s), newReplicaBench(&s), newProduct(&s), newFaults(&s), newSuite(&s))
	return c
}

// meter is what a benchmark needs to measure: where, how often, and who watches.
type meter struct {
	ctx     context.Context
	options weft.Options
	repeat  int
	stderr  io.Writer
	quiet   bool // no progress
}

// progress begins to show how far a benchmark is.
func (m *meter) progress(unit string, total int) *terminal.Progress {
	return terminal.StartProgress(m.stderr, m.quiet, unit, total)
}

// open opens devices with some options changed.
func (m *meter) open(change func(o *weft.Options)) (*weft.Runtime, error) {
	o := m.options
	if change != nil {
		change(&o)
	}
	return open(m.ctx, o, m.stderr)
}

// several makes sure that there is more than one device to measure: where the
// user named none and there is one, its cores become devices.
func (m *meter) several() (devices int, err error) {
	for {
		rt, err := m.open(nil)
		if err != nil {
			return 0, err
		}
		devs := rt.Devices()
		rt.Close()
		switch {
		case len(devs) > 1:
			return len(devs), nil
		case m.options.Devices != "" || devs[0].Backend != "cpu" || devs[0].ComputeUnits < 2:
			return 0, terminal.Usagef("this needs several devices; ask for them, as in --devices cpu/2")
		}
		m.options.Devices = "cpu/" + strconv.Itoa(runtime.NumCPU())
	}
}

// benchmark is a command that measures rows of one kind. measure returns the
// rows that are complete when it errs.
type benchmark[T any] struct {
	use, short, long string
	repeat           int
	measure          func(m *meter) ([]T, error)
	text             func(w io.Writer, rows []T)
}

func (b benchmark[T]) command(s *settings) *cobra.Command {
	var asJSON bool
	m := &meter{}
	c := &cobra.Command{
		Use: b.use, Short: b.short, Long: b.long, Args: terminal.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if m.options, err = s.options(); err != nil {
				return err
			}
			if m.repeat < 1 {
				return terminal.Usagef("--repeat %d: run at least once", m.repeat)
			}
			m.ctx, m.stderr, m.quiet = c.Context(), c.ErrOrStderr(), asJSON
			rows, err := b.measure(m)
			if err != nil && (len(rows) == 0 || !errors.Is(err, context.Canceled)) {
				return err
			}
			if failed := terminal.Print(c, func(w *bytes.Buffer) error {
				if asJSON {
					return terminal.JSON(w, rows)
				}
				b.text(w, rows)
				return nil
			}); failed != nil {
				return failed
			}
			return err // nil, or the interrupt
		},
	}
	c.Flags().IntVar(&m.repeat, "repeat", b.repeat, "how often everything is measured")
	c.Flags().BoolVar(&asJSON, "json", false, "write rows as JSON")
	return c
}

// byteSizes reads what --sizes says: sizes of buffers whose elements have so many
// bytes, rounded to whole elements.
func byteSizes(texts []string, element int64, as string) ([]int64, error) {
	if len(texts) == 0 {
		return nil, terminal.Usagef("--sizes is empty: a size is written such as %s", as)
	}
	var sizes []int64
	for _, s := range texts {
		n, err := text.ParseSize(s)
		if err != nil || n < element {
			return nil, terminal.Usagef("--sizes %s: a size is written such as %s and is at least %d", s, as, element)
		}
		sizes = append(sizes, n/element*element)
	}
	return sizes, nil
}

// checked compares what a job computed with its reference.
func checked(ctx context.Context, j workload.Job) error {
	if err := terminal.Abandonable(ctx, j.Check); err != nil {
		return fmt.Errorf("%s: the result is wrong: %w", j.Name(), err)
	}
	return nil
}

// median returns the middle of numbers, the upper one of two.
func median(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	return xs[len(xs)/2]
}

// best returns the least of numbers.
func best(xs []float64) float64 { return slices.Min(xs) }

// completeWorkloads makes a flag complete to names of workloads.
func completeWorkloads(c *cobra.Command, flag string) {
	if err := c.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return catalog.Names(), cobra.ShellCompDirectiveNoFileComp
	}); err != nil {
		panic(err) // the caller has just made it
	}
}
