package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/internal/terminal"
	"github.com/weft-run/weft/machine"
)

// suiteReport is the figures of all benchmarks, with what is needed to repeat them.
type suiteReport struct {
	Command     string          `json:"command"`
	Commit      string          `json:"commit"`
	Platform    string          `json:"platform"`
	When        time.Time       `json:"when"`
	Load        string          `json:"load,omitempty"` // of the machine before it began
	Machine     json.RawMessage `json:"machine"`        // a machine file
	Interrupted bool            `json:"interrupted,omitempty"`
	Strong      []scalingRow    `json:"strong"`
	Weak        []scalingRow    `json:"weak"`
	Overhead    []overheadRow   `json:"overhead"`
	Sync        []syncRow       `json:"sync"`
	Memory      []memoryRow     `json:"memory"`
	Balance     []balanceRow    `json:"balance"`

	here *machine.Machine
}

// suite is the benchmark of that name.
type suite struct {
	Setup
	repeat  int
	atLeast time.Duration
	only    []string
	tasks   int
	sizes   []string
	html    string
	asJSON  bool
}

func newSuite(s Setup) *cobra.Command {
	o := &suite{Setup: s}
	c := &cobra.Command{
		Use:   "suite",
		Short: "All benchmarks in one report, as a page if you like",
		Long: `Run all benchmarks, and strong and weak scaling of each workload. --html writes
a page that needs nothing but a browser: speed-up against the ideal, all tables,
the machine, the commit and the command.

It takes some minutes. Run it on a machine that does nothing else.`,
		Example:           `  weft bench suite --html out.html`,
		Args:              terminal.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return o.run(c) },
	}
	f := c.Flags()
	f.IntVar(&o.repeat, "repeat", 7, "how often everything is measured")
	f.DurationVar(&o.atLeast, "at-least", time.Second, "how long one device is to take for a workload, in scaling; 0 leaves\nsizes as weft run has them")
	f.StringSliceVar(&o.only, "only", nil, "`workloads` whose scaling and balance to measure (all)")
	f.IntVar(&o.tasks, "tasks", 100_000, "tasks in each graph of overhead")
	f.StringSliceVar(&o.sizes, "sizes", []string{"64KiB", "1MiB", "16MiB", "256MiB"}, "`sizes` of the buffers of memory")
	f.StringVar(&o.html, "html", "", "write a page to this `file`")
	f.BoolVar(&o.asJSON, "json", false, "write the report as JSON")
	terminal.Complete(c, "only", catalog.Names)
	return c
}

func (o *suite) run(c *cobra.Command) error {
	opts, err := o.Options()
	if err != nil {
		return err
	}
	if o.repeat < 1 {
		return terminal.Usagef("--repeat %d: run at least once", o.repeat)
	}
	if _, err := catalog.Choose(o.only); err != nil {
		return err
	}
	if err := checkAtLeast(o.atLeast); err != nil {
		return err
	}
	if err := (&overhead{o.tasks}).check(); err != nil { // now, not after minutes
		return err
	}
	if _, err := (&memory{o.sizes}).bytes(); err != nil {
		return err
	}
	var page *os.File
	if o.html != "" {
		if page, err = terminal.OpenOutput(o.html); err != nil {
			return err
		}
		defer page.Close()
	}
	r := &suiteReport{Command: commandLine(c), Commit: commit(), Platform: host.Platform(), When: time.Now(), Load: host.Read().Load}
	interrupt := o.measure(&meter{Setup: o.Setup, ctx: c.Context(), options: opts, repeat: o.repeat, stderr: c.ErrOrStderr(), quiet: o.asJSON}, r)
	if interrupt != nil && (r.here == nil || !errors.Is(interrupt, context.Canceled)) {
		return interrupt
	}
	r.Interrupted = interrupt != nil
	if page != nil {
		if err := terminal.Replace(page, func(w io.Writer) error { return writePage(w, r) }); err != nil {
			return err
		}
	}
	err = terminal.Print(c, o.asJSON, r, func(b *bytes.Buffer) error {
		r.text(b)
		if page != nil {
			fmt.Fprintf(b, "\npage in %s\n", o.html)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return interrupt
}

// measure fills the report. After an error the report has the parts that are complete.
func (o *suite) measure(m *meter, r *suiteReport) (err error) {
	if _, err := m.several(); err != nil {
		return err
	}
	if r.here, err = m.machine(); err != nil {
		return err
	}
	r.Machine = machine.Encode(r.here)
	strong := scaling{only: o.only, atLeast: o.atLeast}
	uneven := balance{only: o.only}
	weak := scaling{only: o.only, atLeast: o.atLeast, weak: true}
	for _, part := range []func() error{
		func() (err error) { r.Overhead, err = (&overhead{o.tasks}).measure(m); return err },
		func() (err error) { r.Sync, err = measureSync(m); return err },
		func() (err error) { r.Memory, err = (&memory{o.sizes}).measure(m); return err },
		func() (err error) { r.Balance, err = uneven.measure(m); return err },
		func() (err error) { r.Strong, err = strong.measure(m); return err },
		func() (err error) { r.Weak, err = weak.measure(m); return err },
	} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

func (r *suiteReport) text(w *bytes.Buffer) {
	fmt.Fprintf(w, "%s\n%s, %s\ncommit %s\n\n", r.Command, r.Platform, r.When.Format(time.DateTime), r.Commit)
	terminal.Machine(w, r.here)
	for _, s := range []struct {
		title string
		rows  int
		write func(io.Writer)
	}{
		{"strong scaling: the same work on more devices", len(r.Strong), func(w io.Writer) { writeScaling(w, r.Strong) }},
		{"weak scaling: work that grows with the devices", len(r.Weak), func(w io.Writer) { writeScaling(w, r.Weak) }},
		{"overhead of a task", len(r.Overhead), func(w io.Writer) { writeOverhead(w, r.Overhead) }},
		{"synchronisation", len(r.Sync), func(w io.Writer) { writeSync(w, r.Sync) }},
		{"memory", len(r.Memory), func(w io.Writer) { writeMemory(w, r.Memory) }},
		{"balance", len(r.Balance), func(w io.Writer) { writeBalance(w, r.Balance) }},
	} {
		if s.rows > 0 {
			fmt.Fprintf(w, "\n%s\n\n", s.title)
			s.write(w)
		}
	}
}

// commandLine is the command with the flags that the user gave.
func commandLine(c *cobra.Command) string {
	out := c.CommandPath()
	c.Flags().Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		if s, ok := f.Value.(pflag.SliceValue); ok {
			value = strings.Join(s.GetSlice(), ",")
		}
		if value == "true" && f.Value.Type() == "bool" {
			out += " --" + f.Name
		} else {
			out += " --" + f.Name + " " + value
		}
	})
	return out
}

// commit is the commit that this program was built from, as the go command stamped it.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, changed := "", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				changed = ", with changes"
			}
		}
	}
	if revision == "" {
		return "unknown (go build stamps it, go run does not)"
	}
	return revision + changed
}
