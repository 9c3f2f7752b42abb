package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/trace"
)

func newTrace() *cobra.Command {
	var width int
	c := &cobra.Command{
		Use:   "trace FILE",
		Short: "Read a saved trace and say where the time went",
		Long: `Read a trace written by weft sim --trace and print its timeline and analysis.
The same file opens in ui.perfetto.dev.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("trace needs one file, as written by: weft sim mixed skewed --trace out.json")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkWidth(width); err != nil {
				return err
			}
			var saved *trace.Saved
			err := abandonable(c.Context(), func() (err error) {
				saved, err = loadTrace(args[0])
				return err
			})
			if err != nil {
				return err
			}
			return print(c, func(b *bytes.Buffer) error {
				name, simulated := strings.CutSuffix(saved.Machine.Name, simulatedMark)
				if simulated {
					fmt.Fprint(b, "simulated: ")
				}
				fmt.Fprintf(b, "trace of %s on %s\n\n", count(len(saved.Events), "event"), name)
				if err := trace.WriteTimeline(b, saved.Machine, saved.Events, width); err != nil {
					return err
				}
				fmt.Fprintln(b)
				a := trace.Analyze(saved.Machine, saved.Events, nil)
				a.Names = saved.Names
				return writeAnalysis(b, a, width)
			})
		},
	}
	c.Flags().IntVar(&width, "width", defaultWidth, "columns of the timeline")
	return c
}

func loadTrace(file string) (*trace.Saved, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, badUsage("%s: no such file; weft sim mixed skewed --trace %s writes one", file, file)
	}
	if err != nil {
		return nil, usageError{fileError(file, err)}
	}
	defer f.Close()
	saved, err := trace.ReadChrome(f)
	if err != nil {
		return nil, usageError{fileError(file, err)}
	}
	return saved, nil
}
