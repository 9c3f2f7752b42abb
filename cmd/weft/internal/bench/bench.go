// Package bench is the benchmarks of weft: a file for each, the harness they share
// (this file), and the suite of them with its page. A benchmark checks what it
// computes before it reports a time. The command offers them; they take from it how
// settings are read and devices are opened.
//
// weft bench serve --machine (serve/simulate) runs the state machine of serve/internal/batch in virtual time, where a
// batch takes what the simulator predicts for its graph (reservoir.Model.BatchGraph) on a device that has the weights,
// and goes to the device that has it done first.
//
// weft bench domains runs the operations of cmd/weft/internal/workloads/operations.go on the CPU, on each other device, and on both
// together, in turns, so that other load affects all of them alike. The crossover is where the ratio of times is 1, on a
// line through the two measured sizes around it, in logarithms of both. Each operation runs 13 times: the result of the
// first run is checked, in memory that was overwritten before, and the last ten count. A size at which a device takes
// longer than --longest (1 s) is left out on it. Sizes go from small to large over all operations, so that --timeout costs
// the largest.
//
// weft bench failover runs tasks one after another on one device fewer than there are, and reads the time of a loss and of
// the next start of its task from the trace.
package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/workload"
)

// Setup gives benchmarks access to the runtime's settings and to devices.
type Setup struct {
	// Options returns what flags and configuration say. It is called when a
	// benchmark starts.
	Options func() (weft.Options, error)
	// Open opens devices with all Go kernels, and writes warnings to stderr.
	Open func(ctx context.Context, o weft.Options, stderr io.Writer) (*weft.Runtime, error)
}

// Commands returns a command for each benchmark, one for the suite of them, and one that
// compares what they wrote.
func Commands(s Setup) []*cobra.Command {
	return []*cobra.Command{
		newOverhead(s), newScaling(s), newBalance(s), newMemory(s), newSync(s), newCollective(s), newP2P(s),
		newPipelineBench(s), newReplicaBench(s), newProduct(s), newFaults(s), newFailover(s), newCheckpoint(s), newMigrate(s), newVerify(s), newServing(s), newPredict(s), newDomains(s), newZK(s), newSuite(s), newCompare(),
	}
}

// Funcs returns the Go kernels of the benchmarks.
func Funcs() map[string]weft.Func {
	return map[string]weft.Func{
		triangleKernel: weft.WithParams(triangleRows), spinKernel: weft.WithParams(spinUnits), evolveName: weft.WithParams(evolve),
		failoverKernel: weft.WithParams(failoverStep), wordsKernel: weft.WithParams(words), productsKernel: weft.WithParams(scalars),
	}
}

// learning is the number of runs before those that count: in them the cost model
// measures the tasks, so that later runs are cut by what they took.
const learning = 3

// meter is one call of a benchmark: on which devices, how often, shown to whom.
type meter struct {
	Setup
	ctx     context.Context
	options weft.Options
	repeat  int
	stderr  io.Writer
	quiet   bool // no progress
}

// progress shows how many of total units are done.
func (m *meter) progress(unit string, total int) *terminal.Progress {
	return terminal.StartProgress(m.stderr, m.quiet, unit, total)
}

// open opens the devices, with options that change may change.
func (m *meter) open(change func(o *weft.Options)) (*weft.Runtime, error) {
	o := m.options
	if change != nil {
		change(&o)
	}
	return m.Open(m.ctx, o, m.stderr)
}

// machine opens the devices and returns what was found and measured.
func (m *meter) machine() (*machine.Machine, error) {
	rt, err := m.open(nil)
	if err != nil {
		return nil, err
	}
	defer rt.Close()
	return rt.Machine(), nil
}

// openSilent opens devices that log nothing. They have the kernels of internal/probe
// alone. An error is taken for a mistake in the options.
func (m *meter) openSilent(o weft.Options) (*weft.Runtime, error) {
	o.Log = slog.New(slog.DiscardHandler)
	rt, err := weft.Open(m.ctx, o)
	if err != nil {
		return nil, terminal.Usage(err)
	}
	return rt, nil
}

// several makes sure that there is more than one device, and returns how many. Where
// the user named none and there is only the CPU, its cores become devices.
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

// benchmark is a command that measures rows of one kind. If measure fails it returns
// the rows that are complete, which are printed after an interrupt.
type benchmark[T any] struct {
	use, short, long string
	repeat           int
	measure          func(m *meter) ([]T, error)
	text             func(w io.Writer, rows []T)
}

func (b benchmark[T]) command(s Setup) *cobra.Command {
	var asJSON bool
	var timeout time.Duration
	m := &meter{Setup: s}
	c := &cobra.Command{
		Use: b.use, Short: b.short, Long: b.long, Args: terminal.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if m.options, err = s.Options(); err != nil {
				return err
			}
			if m.repeat < 1 {
				return terminal.Usagef("--repeat %d: run at least once", m.repeat)
			}
			if err := checkTimeout(timeout); err != nil {
				return err
			}
			m.ctx, m.stderr, m.quiet = c.Context(), c.ErrOrStderr(), asJSON
			if timeout > 0 {
				var cancel context.CancelFunc
				m.ctx, cancel = context.WithTimeoutCause(m.ctx, timeout, errTimeout)
				defer cancel()
			}
			var part partRow
			ended := part.watch()
			rows, err := b.measure(m)
			ended()
			late := err != nil && m.ctx.Err() != nil && c.Context().Err() == nil
			if late {
				part.Why = endedEarly(timeout)
				err = fmt.Errorf("bench %s: %s with %s complete", b.use, part.Why, terminal.Count(len(rows), "row"))
			}
			if err != nil && (len(rows) == 0 || !late && !errors.Is(err, context.Canceled)) {
				return err
			}
			if failed := terminal.Print(c, asJSON, rows, func(w *bytes.Buffer) error {
				b.text(w, rows)
				if note := part.note(); note != "" {
					fmt.Fprintf(w, "\n%s\n", terminal.Wrap("("+note+")", terminal.Width))
				}
				return nil
			}); failed != nil {
				return failed
			}
			return err // nil, the interrupt or --timeout
		},
	}
	c.Flags().IntVar(&m.repeat, "repeat", b.repeat, "how often everything is measured")
	c.Flags().BoolVar(&asJSON, "json", false, "write rows as JSON")
	c.Flags().DurationVar(&timeout, "timeout", 0, "longest time; rows complete by then are kept, and the status is 1")
	return c
}

// errTimeout ends a benchmark that takes longer than --timeout.
var errTimeout = errors.New("it took longer than --timeout")

func checkTimeout(d time.Duration) error {
	if d < 0 {
		return terminal.Usagef("--timeout %v: it must not be negative", d)
	}
	return nil
}

// endedEarly is why rows are missing.
func endedEarly(timeout time.Duration) string {
	return fmt.Sprintf("ended after %v (--timeout)", timeout)
}

// byteSizes parses --sizes, sizes of buffers, and rounds them down to whole elements of
// element bytes. as is the example in error texts.
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

// checked compares the result of a job with its reference.
func checked(ctx context.Context, j workload.Job) error {
	switch err := terminal.Abandonable(ctx, j.Check); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: the check of the result did not end: %w", j.Name(), err)
	default:
		return fmt.Errorf("%s: the result is wrong: %w", j.Name(), err)
	}
}

// median returns the middle one of numbers in order, of an even count the mean of the
// two in the middle.
func median(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	return (xs[(len(xs)-1)/2] + xs[len(xs)/2]) / 2
}

// best returns the smallest of numbers, which are times.
func best(xs []float64) float64 { return slices.Min(xs) }
