package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/internal/chaos"
	"github.com/weft-run/weft/internal/terminal"
)

func newChaos() *cobra.Command {
	var s settings
	c := &cobra.Command{
		Use:   "chaos WORKLOAD",
		Short: "Strike worker processes while a workload runs, and check it",
		Long: `Run a workload again and again in worker processes that are struck meanwhile,
and check every result. At random, from a seed, a worker is

  killed      SIGKILL
  hung        SIGSTOP, until it is given up on after --hang-timeout
  slowed      SIGSTOP and SIGCONT in turn
  corrupted   the memory by which it talks with weft is overwritten with noise

and devices are starved: they have little more memory than one task needs. The
devices are cores (cpu/3) or scripted devices (fake/3, which also fail and
dawdle), each in a worker process of its own. They are opened anew every few
rounds; what is left of them then is counted. Every minute a line says what was
done and what memory, goroutines and descriptors weft uses.

A round ends with the right result or with an error that says what happened. The
exit status is 1 if a result was wrong, no result was right or something was
left. Needs Linux.`,
		Example: `  weft chaos gemm --for 60s --devices cpu/3 --seed 7
  weft chaos merkle --for 24h --devices fake/4`,
		Args: terminal.OneOf("workload"),
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	s.bind(c.PersistentFlags(), "devices", "policy", "partitioner", "concurrent", "task_timeout", "retries", "host_bytes", "max_failures", "max_losses", "ladder")
	s.complete(c)
	for _, w := range catalog.All() {
		c.AddCommand(newChaosOf(w, &s))
	}
	return c
}

// newChaosOf makes the command that strikes while a workload runs.
func newChaosOf(w catalog.Entry, s *settings) *cobra.Command {
	t := &chaos.Trial{}
	var asJSON bool
	c := &cobra.Command{
		Use:               w.Name,
		Short:             strings.ToUpper(w.Short[:1]) + w.Short[1:],
		Args:              terminal.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	order := w.Flags(c.Flags())
	c.Flags().DurationVar(&t.For, "for", time.Minute, "how long")
	seed := c.Flags().Lookup("seed") // of the inputs, where a workload has one
	if seed == nil {
		c.Flags().Uint64Var(&t.Seed, "seed", 1, "decides which worker is struck, when and how")
	} else {
		seed.Usage += ", and which worker is struck, when and how"
	}
	c.Flags().DurationVar(&t.Hang, "hang-timeout", time.Second, "how long a worker may be silent before it is given up on")
	c.Flags().StringSliceVar(&t.Faults, "faults", chaos.Faults(), "which faults may happen")
	c.Flags().BoolVar(&asJSON, "json", false, "write the account as JSON")
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		if t.Options, err = s.options(); err != nil {
			return err
		}
		switch {
		case t.For <= 0:
			return terminal.Usagef("--for %v: it must be more than 0, as in 60s", t.For)
		case t.Hang < 200*time.Millisecond:
			return terminal.Usagef("--hang-timeout %v: give a worker 200ms at least, or a busy machine passes for a hung worker", t.Hang)
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
		t.Job = order.Job
		return runChaos(c, t, asJSON)
	}
	return c
}

// runChaos runs a trial, prints its account and errs if that is bad.
func runChaos(c *cobra.Command, t *chaos.Trial, asJSON bool) error {
	p := terminal.StartProgress(c.ErrOrStderr(), asJSON, "trial", 1)
	defer p.Finish()
	minutes := 0
	t.Told = func(a *chaos.Account) {
		p.At("%s: %s, %d right, %d wrong, %d errors", a.Name, terminal.Count(a.Rounds, "round"), a.Right, a.Wrong, a.Errors)
		p.Within(min(a.Seconds/t.For.Seconds(), 1), max(t.For-time.Duration(a.Seconds*1e9), 0))
		if m := int(a.Seconds / 60); m > minutes && t.For > time.Minute {
			minutes = m
			use := a.After
			fmt.Fprintf(c.ErrOrStderr(), "%d min: %s, %d right, %d wrong, %d errors, %d losses; %s, %s, %s between sessions\n", m, terminal.Count(a.Rounds, "round"), a.Right, a.Wrong, a.Errors,
				a.Losses, terminal.SI(float64(use.RSS), "B"), terminal.Count(use.Goroutines, "goroutine"), terminal.Count(use.Descriptors, "descriptor"))
		}
	}
	a, err := t.Run(c.Context())
	p.Finish()
	if errors.Is(err, chaos.ErrDevices) || errors.Is(err, weft.ErrOptions) {
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
		return fmt.Errorf("chaos %s: something was left after %s (seed %d): %s", a.Name, terminal.Count(a.Left, "session"), t.Seed, a.LastLeft)
	case c.Context().Err() != nil:
		return c.Context().Err()
	case a.Right == 0:
		return fmt.Errorf("chaos %s: no round had a result (seed %d): %s", a.Name, t.Seed, a.FirstError)
	}
	return nil
}

// writeAccount writes the account of a trial.
func writeAccount(b *bytes.Buffer, t *chaos.Trial, a *chaos.Account) {
	fmt.Fprintf(b, "%s on %s, seed %d, %.0f s\n\n", a.Name, t.Options.Devices, a.Seed, a.Seconds)
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
	fmt.Fprintln(b)
	row := func(name string, u chaos.Use) []any {
		return []any{name, terminal.SI(float64(u.RSS), "B"), u.Goroutines, u.Descriptors, u.Processes}
	}
	terminal.Table(b, [][]any{
		{"between sessions", "memory", "goroutines", "descriptors", "processes"},
		row("after the first", a.Before), row(fmt.Sprintf("after %d", a.Sessions), a.After),
	})
	for _, l := range []struct{ what, text string }{{"First wrong result", a.FirstWrong}, {"First error", a.FirstError}, {"Left", a.LastLeft}} {
		if l.text != "" {
			fmt.Fprintf(b, "\n%s: %s\n", l.what, terminal.OneLine(l.text))
		}
	}
}
