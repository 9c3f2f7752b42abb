package main

import (
	"github.com/spf13/cobra"

	"github.com/weft-run/weft/cmd/weft/internal/bench"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
)

func newBench() *cobra.Command {
	var s settings
	c := &cobra.Command{
		Use:   "bench WHAT",
		Short: "Measure weft on this machine",
		Long: `Measure weft on this machine. Every benchmark checks what it computes before it
reports a time and runs what it compares in turn. What a task or a round costs
(us_per_task, us_per_round) is the best of the repetitions, followed by their
median (median_us_per_task, …); rates of copies are the best; times of workloads
and collectives are medians. Ctrl-C ends one and prints the rows that are
complete.`,
		Args: terminal.OneOf("benchmark"),
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	s.bind(c.PersistentFlags())
	s.complete(c)
	c.AddCommand(bench.Commands(bench.Setup{Options: s.options, Open: open})...)
	return c
}
