package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/internal/safefile"
	"github.com/weft-run/weft/trace"
)

func newTrace() *cobra.Command {
	var width int
	var asJSON bool
	c := &cobra.Command{
		Use:   "trace FILE",
		Short: "Read a saved trace and say where the time went",
		Long: `Read a trace written by weft run or weft sim --trace and print its timeline and
analysis. The same file opens in ui.perfetto.dev.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("trace needs one file, as written by: weft sim mixed skewed --trace out.json")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := terminal.CheckWidth(width); err != nil {
				return err
			}
			var saved *trace.Saved
			err := terminal.Abandonable(c.Context(), func() (err error) {
				saved, err = loadTrace(args[0])
				return err
			})
			if err != nil {
				return err
			}
			name, simulated := strings.CutSuffix(saved.Machine.Name, simulatedMark)
			a := trace.Analyze(saved.Machine, saved.Events, nil)
			a.Names = saved.Names
			return terminal.Print(c, asJSON, traceOf(name, simulated, len(saved.Events), &a), func(b *bytes.Buffer) error {
				if simulated {
					fmt.Fprint(b, "simulated: ")
				}
				fmt.Fprintf(b, "trace of %s on %s\n\n", terminal.Count(len(saved.Events), "event"), name)
				if err := trace.WriteTimeline(b, saved.Machine, saved.Events, width); err != nil {
					return err
				}
				fmt.Fprintln(b)
				return writeAnalysis(b, a, width)
			})
		},
	}
	c.Flags().IntVar(&width, "width", terminal.Width, "columns of the timeline")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return c
}

// The JSON of weft trace.
type (
	traceJSON struct {
		Simulated  bool           `json:"simulated"`
		Machine    string         `json:"machine"`
		Events     int            `json:"events"`
		Missing    int64          `json:"missing_events"`
		Makespan   time.Duration  `json:"makespan_ns"`
		Tasks      int            `json:"tasks"`
		Failed     int            `json:"failed"`
		Copies     int            `json:"copies"`
		CopyBytes  int64          `json:"copy_bytes"`
		Mean       float64        `json:"utilisation"`
		Imbalance  float64        `json:"imbalance"`
		Devices    []traceUseJSON `json:"devices"`
		Bottleneck trace.Verdict  `json:"bottleneck"`
		Verdict    string         `json:"verdict"`
		Fixes      []fixJSON      `json:"fixes"`
	}
	traceUseJSON struct {
		Name        string        `json:"name"`
		Tasks       int           `json:"tasks"`
		Compute     time.Duration `json:"compute_ns"`
		Transfer    time.Duration `json:"transfer_ns"`
		Dispatch    time.Duration `json:"dispatch_ns"`
		Wait        time.Duration `json:"wait_ns"`
		Idle        time.Duration `json:"idle_ns"`
		Utilisation float64       `json:"utilisation"`
		Occupancy   float64       `json:"occupancy"` // of its lanes
	}
)

func traceOf(name string, simulated bool, events int, a *trace.Analysis) traceJSON {
	out := traceJSON{
		Simulated: simulated, Machine: name, Events: events, Missing: a.Missing, Makespan: a.Makespan,
		Tasks: a.Tasks, Failed: a.Failed, Copies: a.Copies, CopyBytes: a.Bytes, Mean: a.Mean, Imbalance: a.Imbalance,
		Bottleneck: a.Bottleneck, Verdict: a.Sentence, Devices: []traceUseJSON{}, Fixes: []fixJSON{},
	}
	for i := range a.Devices {
		d := &a.Devices[i]
		out.Devices = append(out.Devices, traceUseJSON{d.Name, d.Tasks, d.Compute, d.Transfer, d.Dispatch, d.Sync, d.Idle, d.Utilisation(), d.Occupancy()})
	}
	for _, f := range a.Fixes {
		out.Fixes = append(out.Fixes, fixJSON{f.What, f.Makespan, f.Gain})
	}
	return out
}

func loadTrace(file string) (*trace.Saved, error) {
	f, err := safefile.OpenInput(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, terminal.Usagef("%s: no such file; weft sim mixed skewed --trace %s writes one", file, file)
	}
	if err != nil {
		return nil, terminal.Usage(terminal.FileError(file, err))
	}
	defer f.Close()
	saved, err := trace.ReadChrome(f)
	if err != nil {
		return nil, terminal.Usage(terminal.FileError(file, err))
	}
	return saved, nil
}
