package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/chaos"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/cmd/weft/internal/workloads"
	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

func newChaos() *cobra.Command {
	var s settings
	c := &cobra.Command{
		Use:   "chaos WORKLOAD|serve",
		Short: "Strike worker processes while a workload runs, and check it",
		Long: `Run a workload again and again in worker processes that are struck meanwhile,
and check every result. At random, from a seed, a worker is

  killed      SIGKILL
  hung        SIGSTOP, until it is given up on after --hang-timeout
  slowed      SIGSTOP and SIGCONT in turn
  corrupted   the memory by which it talks with weft is overwritten with noise

and devices are starved: they have little more memory than one task needs. The
devices are GPUs (cuda, vulkan:0/2), cores (cpu/3) or scripted devices (fake/3,
which also fail and dawdle, and with --verify 1 the first of them lies: its
results are wrong, and must be replaced, for which two others are needed), each
in a worker process of its own. While a GPU's worker is down, its work moves to
the other devices named, or waits until it is back. Devices are opened anew for
every bout, a few rounds; processes and files that a bout leaves are counted.
Every minute a line reports progress and the memory, goroutines and descriptors
that weft uses between bouts; a table at the end has them all.

With --simulate N the first N bouts of the same seed are simulated instead:
the same faults at the same parts of a round, in virtual time, on devices that
compute nothing. There a result is right if it is what running the tasks one
after another would leave, byte range by byte range.

The account at the end counts losses (a device was given up on), recoveries (it
came back), retries (an execution failed and was tried again), replays (a task
ran again, since a loss took its result) and evictions (data was moved out of a
device's memory to make room). A strike need not cost a device: a worker that is
slowed goes on, and one that is struck twice, or as its bout ends, is lost once
or not at all. Own memory excludes pages mapped from files, such as weft's code;
heap is the memory that the garbage collector keeps.

A round ends with the right result or with an error that says what happened.
Where a device lies and no other could check a result of it, since all others
were broken or out of memory, a wrong result that was reported as not verified
counts as an error. The exit status is 1 if a result was wrong, no result was
right, something was left or a round did not end. Needs Linux.

weft chaos serve kills the workers of a service that is under load.`,
		Example: `  weft chaos gemm --for 60s --devices cpu/3 --seed 7
  weft chaos merkle --for 24h --devices fake/4
  weft chaos merkle --for 10m --devices cuda,cpu/2
  weft chaos automata --simulate 1000 --devices cpu/3 --seed 7
  weft chaos serve --rate 500 --every 3s --devices cpu/2`,
		Args: terminal.OneOf("workload"),
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	s.bind(c.PersistentFlags(), "devices", "policy", "partitioner", "concurrent", "task_timeout", "hang_timeout", "retries", "host_bytes", "max_failures", "max_losses", "ladder", "verify")
	hang := c.PersistentFlags().Lookup("hang-timeout")
	hang.DefValue, hang.Usage = chaos.HangTimeout.String(), "end a worker process that gives no sign of life for this long; 2s by weft chaos serve"
	s.complete(c)
	for _, w := range workloads.All() {
		c.AddCommand(newChaosOf(w, &s))
	}
	c.AddCommand(newChaosServe(&s))
	return c
}

// liveFlags are those that mean nothing to a simulation.
var liveFlags = []string{"for", "round-limit", "partitioner", "host-bytes", "max-failures", "max-losses", "ladder"}

// newChaosOf makes the command that strikes while a workload runs.
func newChaosOf(w catalog.Entry, s *settings) *cobra.Command {
	t := &chaos.Trial{}
	var asJSON bool
	var bouts int
	c := &cobra.Command{
		Use:               w.Name,
		Short:             strings.ToUpper(w.Short[:1]) + w.Short[1:],
		Args:              terminal.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	order := workloads.Flags(c.Flags(), w)
	c.Flags().DurationVar(&t.For, "for", time.Minute, "how long")
	seed := c.Flags().Lookup("seed") // of the inputs, where a workload has one
	if seed == nil {
		c.Flags().Uint64Var(&t.Seed, "seed", 1, "decides which worker is struck, when and how")
	} else {
		seed.Usage += ", and which worker is struck, when and how"
	}
	c.Flags().DurationVar(&t.Stuck, "round-limit", 10*time.Minute, "how long a round may take: one that does not end ends the trial")
	c.Flags().StringSliceVar(&t.Faults, "faults", chaos.Faults(), "which faults may happen: fail, dawdle and lie to scripted devices only, and lie with --verify 1 only")
	c.Flags().IntVar(&bouts, "simulate", 0, "simulate the first `N` bouts in place of running any")
	c.Flags().BoolVar(&asJSON, "json", false, "write the account as JSON")
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		if t.Options, err = s.options(); err != nil {
			return err
		}
		switch {
		case t.For <= 0:
			return terminal.Usagef("--for %v: it must be more than 0, as in 60s", t.For)
		case bouts < 0:
			return terminal.Usagef("--simulate %d: give a number of bouts, as in 1000", bouts)
		case t.Stuck <= 0:
			return terminal.Usagef("--round-limit %v: it must be more than 0, as in 10m", t.Stuck)
		}
		for _, name := range liveFlags {
			if bouts > 0 && c.Flags().Changed(name) {
				return terminal.Usagef("--%s: it says how live devices are used, which --simulate has none of; leave one of them out", name)
			}
		}
		for _, f := range t.Faults {
			if err := terminal.MustName("fault", f, chaos.Faults()); err != nil {
				return err
			}
		}
		if seed != nil {
			if t.Seed, err = strconv.ParseUint(seed.Value.String(), 0, 64); err != nil {
				return terminal.Usagef("--seed %s: chaos needs a number from 0 on", seed.Value)
			}
		}
		if t.Options.Devices == "" {
			t.Options.Devices = "cpu/3"
		}
		if c.Flags().Changed("faults") {
			if err := canHappen(t.Faults, t.Options, bouts > 0); err != nil {
				return err
			}
		}
		t.Job = func(ctx context.Context) (workload.Job, error) { return workloads.Job(ctx, order) }
		return runChaos(c, t, bouts, asJSON)
	}
	return c
}

// canHappen errs if one of the faults that were asked for cannot happen: a trial without it would pass for
// one that stood it.
func canHappen(faults []string, o weft.Options, simulated bool) error {
	for _, f := range faults {
		switch f {
		case "fail", "dawdle", "lie":
			if !strings.Contains(o.Devices, "fake") {
				return terminal.Usagef("--faults %s: it happens to scripted devices only; name some, as in --devices fake/3", f)
			}
		}
		if f == "lie" && simulated {
			return terminal.Usagef("--faults lie: simulated devices compute nothing that could be wrong; leave out --simulate, or lie")
		}
		if f == "lie" && o.Verify != 1 {
			return terminal.Usagef("--faults lie: a wrong result is found only if all results are verified; add --verify 1")
		}
	}
	return nil
}

// runChaos runs a trial, or simulates some bouts of it, prints its account and errs if that is bad.
func runChaos(c *cobra.Command, t *chaos.Trial, bouts int, asJSON bool) error {
	p := terminal.StartProgress(c.ErrOrStderr(), asJSON, "trial", 1)
	defer p.Finish()
	minutes := 0
	t.Told = func(a *chaos.Account) {
		p.At("%s: %s, %d right, %d wrong, %d errors", a.Name, terminal.Count(a.Rounds, "round"), a.Right, a.Wrong, a.Errors)
		if a.Simulated {
			part := float64(a.Bouts) / float64(bouts)
			p.Within(part, time.Duration(a.Seconds*(1-part)/part*1e9))
			return
		}
		p.Within(min(a.Seconds/t.For.Seconds(), 1), max(t.For-time.Duration(a.Seconds*1e9), 0))
		if m := int(a.Seconds / 60); m > minutes && t.For > time.Minute {
			minutes = m
			use := a.After
			fmt.Fprintf(c.ErrOrStderr(), "%d min: %s, %d right, %d wrong, %d errors, %d losses; %s, %s, %s between bouts\n", m, terminal.Count(a.Rounds, "round"), a.Right, a.Wrong, a.Errors,
				a.Losses, terminal.SI(float64(use.RSS), "B"), terminal.Count(use.Goroutines, "goroutine"), terminal.Count(use.Descriptors, "descriptor"))
		}
	}
	var a *chaos.Account
	var err error
	if bouts > 0 {
		a, err = t.Simulate(c.Context(), bouts)
	} else {
		a, err = t.Run(c.Context())
	}
	p.Finish()
	if errors.Is(err, chaos.ErrDevices) || errors.Is(err, weft.ErrOptions) || errors.Is(err, chaos.ErrSimulate) || errors.Is(err, sched.ErrUnknown) {
		return terminal.Usage(err)
	}
	if err != nil && a.Rounds == 0 {
		return err
	}
	if failed := terminal.Print(c, asJSON, a, func(b *bytes.Buffer) error { writeAccount(b, t, a); return nil }); failed != nil {
		return failed
	}
	switch {
	case err != nil:
		return err
	case a.Wrong > 0:
		return fmt.Errorf("chaos %s: %s had a wrong result (seed %d)", a.Name, terminal.Count(a.Wrong, "round"), t.Seed)
	case a.Left > 0:
		return fmt.Errorf("chaos %s: something was left after %s (seed %d)", a.Name, terminal.Count(a.Left, "bout"), t.Seed)
	case c.Context().Err() != nil:
		return c.Context().Err()
	case a.Right == 0:
		return fmt.Errorf("chaos %s: no round had a result (seed %d)", a.Name, t.Seed)
	}
	return nil
}

// writeAccount writes the account of a trial.
func writeAccount(b *bytes.Buffer, t *chaos.Trial, a *chaos.Account) {
	fmt.Fprintf(b, "%s on %s, seed %d, ", a.Name, t.Options.Devices, a.Seed)
	if a.Simulated {
		fmt.Fprintf(b, "%s simulated in %.1f s\n\n", terminal.Count(a.Bouts, "bout"), a.Seconds)
	} else {
		fmt.Fprintf(b, "%.0f s\n\n", a.Seconds)
	}
	table := [][]any{{"faults", "count"}}
	for _, name := range slices.Sorted(maps.Keys(a.Faults)) {
		table = append(table, []any{name, a.Faults[name]})
	}
	terminal.Table(b, table)
	fmt.Fprintln(b)
	terminal.Table(b, [][]any{
		{"rounds", "right", "wrong", "errors", "losses", "recoveries", "retries", "replays", "evictions"},
		{a.Rounds, a.Right, a.Wrong, a.Errors, a.Losses, a.Recoveries, a.Retries, a.Replays, a.Evictions},
	})
	if a.Verified > 0 {
		fmt.Fprintf(b, "\nVerified: %s; %s replaced by right ones.\n", terminal.Count(a.Verified, "task"), terminal.Count(a.Replaced, "wrong result"))
	}
	if !a.Simulated {
		writeUse(b, a)
	}
	for _, l := range []struct{ what, text string }{{"First wrong result", a.FirstWrong}, {"First error", a.FirstError}, {"Left", a.LastLeft}} {
		if l.text != "" {
			fmt.Fprintf(b, "\n%s: %s\n", l.what, terminal.OneLine(l.text))
		}
	}
	fmt.Fprintf(b, "\n%s\n", verdict(a))
}

// verdict says in words what came of the rounds of a trial, and whether a bout left something.
func verdict(a *chaos.Account) string {
	if a.Rounds == 0 {
		return "No round was ended."
	}
	text := "Every round had the right result"
	if a.Right < a.Rounds {
		text = fmt.Sprintf("%d of %s had the right result, %d a wrong one, and %d ended with an error", a.Right, terminal.Count(a.Rounds, "round"), a.Wrong, a.Errors)
	}
	switch {
	case a.Simulated:
		return text + "."
	case a.Left > 0:
		return fmt.Sprintf("%s; after %s something was left.", text, terminal.Count(a.Left, "bout"))
	}
	return text + "; nothing was left after a bout."
}

// maxUse is the most rows of the table of memory, goroutines and descriptors.
const maxUse = 32

// writeUse writes what the process used while no device was open: after the first bout, then each
// minute, or as many of these as are a table that can be read, after the last bout, and the growth
// from the first to the last.
func writeUse(b *bytes.Buffer, a *chaos.Account) {
	table := [][]any{{"after", "rounds", "memory", "its own", "heap", "goroutines", "descriptors", "processes"}}
	add := func(name string, rounds any, u chaos.Use) {
		table = append(table, []any{name, rounds, terminal.SI(float64(u.RSS), "B"), terminal.SI(float64(u.Own), "B"), terminal.SI(float64(u.Heap), "B"), u.Goroutines, u.Descriptors, u.Processes})
	}
	add("bout 1", "", a.Before)
	each := (len(a.Minutes) + maxUse - 1) / maxUse
	for i, m := range a.Minutes {
		if (i+1)%each == 0 {
			add(fmt.Sprintf("%d min", m.Minute), m.Rounds, m.Use)
		}
	}
	if a.Bouts > 1 {
		add(fmt.Sprintf("bout %d", a.Bouts), a.Rounds, a.After)
	}
	fmt.Fprintln(b, "\nUsed by weft between bouts, when no device is open:")
	terminal.Table(b, table)
	if a.Bouts > 1 {
		grown := func(from, to int64) string {
			if to < from {
				return "-" + terminal.SI(float64(from-to), "B")
			}
			return "+" + terminal.SI(float64(to-from), "B")
		}
		fmt.Fprintf(b, "From the first to the last: memory of its own %s, heap %s, goroutines %+d, descriptors %+d, processes %+d.\n",
			grown(a.Before.Own, a.After.Own), grown(a.Before.Heap, a.After.Heap), a.After.Goroutines-a.Before.Goroutines, a.After.Descriptors-a.Before.Descriptors, a.After.Processes-a.Before.Processes)
	}
}
