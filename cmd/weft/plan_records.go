package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/cmd/weft/internal/plan"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/internal/safefile"
	"github.com/weft-run/weft/internal/text"
)

// newPlanDone makes the command that says how a plan ended.
func newPlanDone() *cobra.Command {
	var took string
	var spent float64
	c := &cobra.Command{
		Use:   "done FILE",
		Short: "Say how long the last plan of a file of records really took",
		Long: `Say how long the last plan that weft plan --plans kept in a file really took,
and compare all its plans with their predictions. Later plans with the same file
use the difference as a correction.`,
		Example: `  weft plan gemm --runs 20000 --deadline 2h --plans plans.jsonl
  weft plan done plans.jsonl --took 1h20m --spent 3.10`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("plan done needs the file of records: weft plan done plans.jsonl --took 1h20m")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			d, err := text.ParseDuration(took)
			if err != nil || d == 0 {
				return terminal.Usagef("--took %q: expected how long it took, as 1h20m", took)
			}
			if !(spent >= 0) {
				return terminal.Usagef("--spent %v: it must not be negative", spent)
			}
			file := args[0]
			if _, err := os.Stat(file); err != nil {
				return terminal.Usage(terminal.FileError(file, err))
			}
			records, err := loadRecords(file)
			if err != nil {
				return err
			}
			last := -1
			for i := range records {
				if records[i].Took == 0 {
					last = i
				}
			}
			if last < 0 {
				return terminal.Usagef("%s: of every plan in it is said how long it took; make one with weft plan WORKLOAD --plans %s", file, file)
			}
			records[last].Took, records[last].Spent = d.Seconds(), spent
			if err := saveRecords(file, records); err != nil {
				return err
			}
			return terminal.Print(c, false, nil, func(b *bytes.Buffer) error {
				writeOutcomes(b, plan.Compare(records))
				return nil
			})
		},
	}
	c.Flags().StringVar(&took, "took", "", "`time` from the plan until the result was here")
	c.Flags().Float64Var(&spent, "spent", 0, "US `dollars` that it cost")
	return c
}

// writeOutcomes compares plans with what happened.
func writeOutcomes(b *bytes.Buffer, outcomes []plan.Outcome) {
	rows, within := [][]any{{"plan", "predicted", "took", "ratio", "as promised"}}, 0
	for _, o := range outcomes {
		said := "no"
		if o.Within {
			said = "yes"
			within++
		}
		rows = append(rows, []any{terminal.Cut(o.Name, 36), terminal.Seconds(o.Predicted), terminal.Seconds(o.Took), fmt.Sprintf("%.2f", o.Took/o.Predicted), said})
	}
	terminal.Table(b, rows)
	fmt.Fprintf(b, "%d of %s were done in the time that was promised\n", within, terminal.Count(len(outcomes), "plan"))
}

// loadRecords reads a file of records. No name and a file that does not exist yet are no
// records.
func loadRecords(file string) ([]plan.Record, error) {
	if file == "" {
		return nil, nil
	}
	src, err := safefile.ReadInput(file, maxInput)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, terminal.Usage(terminal.FileError(file, err))
	}
	records, err := plan.DecodeRecords(src)
	if err != nil {
		return nil, located(file, err)
	}
	return records, nil
}

// saveRecords replaces a file of records as a whole, so that it is complete whatever happens.
func saveRecords(file string, records []plan.Record) error {
	src, err := plan.EncodeRecords(records)
	if err != nil {
		return err
	}
	if err := safefile.Write(file, src); err != nil {
		return terminal.FileError(file, err)
	}
	return nil
}
