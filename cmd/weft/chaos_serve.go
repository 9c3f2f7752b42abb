package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/chaos"
	"github.com/weft-run/weft/cmd/weft/internal/chaos/siege"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/serve/load"
)

// leastSuccess is the part of requests that has to succeed while workers are killed.
const leastSuccess = 0.999

func newChaosServe(s *settings) *cobra.Command {
	g := &siege.Siege{}
	var asJSON, standby bool
	c := &cobra.Command{
		Use:   "serve",
		Short: "Kill the workers of a service that is under load",
		Long: `Start the service of weft serve in this process, send it predictions over HTTP
at a rate that does not depend on its answers, and kill its worker processes
(SIGKILL) at random times from a seed. A worker is killed when the device that
was struck last is back, so that another device, or a standby, lives.

Latencies count from when a request was due. They are reported for all requests,
for requests that came within a second after a kill, and as the 99th percentile
of each of these seconds. Detection is the time from a kill until
weft knows, the answer from then until all requests that were under way have
theirs. Other answers are compared all the while with one from before the first
kill.

The devices are cores (cpu/2), scripted devices (fake/2) or a GPU (cuda:0/2),
each in a worker process of its own; with --standby each has a second worker
that waits. The exit status is 1 if less than 99.9 % of the requests succeeded
or an answer was wrong. Needs Linux.`,
		Example: `  weft chaos serve --rate 500 --every 3s --for 60s --devices cpu/2
  weft chaos serve --devices cuda:0/2 --json
  weft chaos serve --devices cuda:0 --standby`,
		Args: terminal.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if g.Options, err = s.options(); err != nil {
				return err
			}
			g.Options.Devices = cmp.Or(g.Options.Devices, "cpu/2")
			g.Options.Standby, g.Options.Funcs = standby, kernels()
			return runSiege(c, g, asJSON)
		},
	}
	f := c.Flags()
	f.DurationVar(&g.For, "for", 30*time.Second, "how long requests are sent")
	f.Float64Var(&g.Rate, "rate", 500, "requests a second")
	f.DurationVar(&g.Every, "every", 3*time.Second, "mean time between two kills")
	f.Uint64Var(&g.Seed, "seed", 1, "decides which worker is killed, and when requests come")
	f.StringVar(&g.Models, "models", "", "`folder` with one model (the reservoir of weft serve)")
	f.IntVar(&g.Connections, "connections", 64, "connections of the load")
	f.DurationVar(&g.Timeout, "timeout", 10*time.Second, "after which an answer is of no use")
	f.BoolVar(&standby, "standby", false, "keep a second worker warm for each device")
	f.BoolVar(&asJSON, "json", false, "write the account as JSON")
	return c
}

// runSiege runs a siege, prints its account and errs if that is bad.
func runSiege(c *cobra.Command, g *siege.Siege, asJSON bool) error {
	p := terminal.StartProgress(c.ErrOrStderr(), asJSON, "siege", 1)
	defer p.Finish()
	g.Told = func(kills int, since time.Duration) {
		p.At("%s", terminal.Count(kills, "kill"))
		p.Within(min(since.Seconds()/g.For.Seconds(), 1), max(g.For-since, 0))
	}
	a, err := g.Run(c.Context())
	p.Finish()
	if errors.Is(err, siege.ErrOption) {
		why := strings.TrimPrefix(err.Error(), siege.ErrOption.Error()+": ")
		return terminal.Usage(errors.New(strings.TrimPrefix(why, load.ErrOption.Error()+": ")))
	}
	if errors.Is(err, chaos.ErrDevices) || errors.Is(err, weft.ErrOptions) {
		return terminal.Usage(err)
	}
	if a == nil {
		return err
	}
	if failed := terminal.Print(c, asJSON, a, func(b *bytes.Buffer) error { writeSiege(b, a); return nil }); failed != nil {
		return failed
	}
	switch {
	case err != nil:
		return err
	case a.Wrong > 0:
		return fmt.Errorf("chaos serve: %s differed (seed %d)", terminal.Count(a.Wrong, "answer"), a.Seed)
	case a.Success < leastSuccess:
		return fmt.Errorf("chaos serve: %.3f %% of the requests succeeded (seed %d): %s", 100*a.Success, a.Seed, terminal.OneLine(a.Said))
	}
	return nil
}

// writeSiege writes the account of a siege.
func writeSiege(b *bytes.Buffer, a *siege.Account) {
	standby := ""
	if a.Standby {
		standby = " with standbys"
	}
	fmt.Fprintf(b, "%s on %s%s, %.0f requests/s for %.0f s, seed %d\n\n", a.Model, strings.Join(a.Devices, ", "), standby, a.Rate, a.Seconds, a.Seed)
	terminal.Table(b, [][]any{
		{"sent", "succeeded", "failed", "kills", "losses", "checked", "wrong"},
		{a.Sent, fmt.Sprintf("%d (%.3f %%)", a.Succeeded, 100*a.Success), a.Sent - a.Succeeded, a.Kills, a.Losses, a.Checked, a.Wrong},
	})
	fmt.Fprintln(b)
	table := [][]any{{"time of", "count", "p50", "p99", "max"}}
	for _, r := range []struct {
		what string
		s    chaos.Spread
	}{
		{"all answers", a.LatencyMS}, {"answers in the second after a kill", a.StruckMS}, {"other answers", a.QuietMS}, {"p99 of each such second", a.SecondsMS},
		{"detection", a.DetectMS}, {"detection to answer", a.AnswerMS}, {"device back", a.BackMS},
	} {
		ms := func(x float64) string { return fmt.Sprintf("%.2f ms", x) }
		if r.s.N > 0 {
			table = append(table, []any{r.what, r.s.N, ms(r.s.P50), ms(r.s.P99), ms(r.s.Max)})
		}
	}
	terminal.Table(b, table)
	for _, kind := range slices.Sorted(maps.Keys(a.Failed)) {
		fmt.Fprintf(b, "\n%s: %d", terminal.OneLine(kind), a.Failed[kind])
	}
	if len(a.Failed) > 0 {
		fmt.Fprintln(b)
	}
	if a.Said != "" {
		fmt.Fprintf(b, "\nFirst failure: %s\n", terminal.OneLine(a.Said))
	}
	if a.Bottleneck {
		fmt.Fprintln(b, "\nThe load generator was late by itself: latencies are as much its own as the service's.")
	}
}
