package bench

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/cmd/weft/internal/workloads"
	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/machine"
)

// suiteReport holds the figures of all benchmarks and everything needed to repeat
// them.
type suiteReport struct {
	Command     string          `json:"command"`
	Commit      string          `json:"commit"`
	Platform    string          `json:"platform"`
	When        time.Time       `json:"when"`
	Load        string          `json:"load,omitempty"` // of the machine before it began
	Machine     json.RawMessage `json:"machine"`        // a machine file
	Policy      string          `json:"policy"`
	Partitioner string          `json:"partitioner"`
	Native      []string        `json:"native,omitempty"` // devices that take part in native collectives, with the library
	Interrupted bool            `json:"interrupted,omitempty"`
	Strong      []scalingRow    `json:"strong"`
	Weak        []scalingRow    `json:"weak"`
	Overhead    []overheadRow   `json:"overhead"`
	Sync        []syncRow       `json:"sync"`
	Memory      []memoryRow     `json:"memory"`
	Balance     []balanceRow    `json:"balance"`
	P2P         []p2pRow        `json:"p2p"`
	Collective  []collectiveRow `json:"collective"`
	Pipeline    []pipelineRow   `json:"pipeline"`
	Replica     []replicaRow    `json:"replica"`
	Product     []productRow    `json:"product"`
	Faults      []faultsRow     `json:"faults"`
	Failover    []failoverRow   `json:"failover"`
	// Parts says of each benchmark how it went, as far as the suite came.
	Parts []partRow `json:"parts"`

	here *machine.Machine
}

// suite is the benchmark of that name.
type suite struct {
	Setup
	repeat  int
	atLeast time.Duration
	timeout time.Duration
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
the machine, the commit and the command. What this machine cannot run is listed
with the reason; --timeout ends what takes too long and keeps the rows that are
complete.

It takes some minutes. Run it on a machine that does nothing else: the report
says where other programs used its cores meanwhile. Left out, for they take long
or need processes or a server: checkpoint, domains, migrate, predict, serve,
verify, zk.`,
		Example:           `  weft bench suite --html out.html`,
		Args:              terminal.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return o.run(c) },
	}
	f := c.Flags()
	f.IntVar(&o.repeat, "repeat", 7, "how often everything is measured")
	f.DurationVar(&o.atLeast, "at-least", time.Second, "how long one device is to take for a workload, in scaling; 0 leaves\nsizes as weft run has them")
	f.DurationVar(&o.timeout, "timeout", 0, "longest time for each benchmark; 0 is no limit")
	f.StringSliceVar(&o.only, "only", nil, "`workloads` whose scaling and balance to measure (all)")
	f.IntVar(&o.tasks, "tasks", 100_000, "tasks in each graph of overhead")
	f.StringSliceVar(&o.sizes, "sizes", []string{"64KiB", "1MiB", "16MiB", "256MiB"}, "`sizes` of the buffers of memory")
	f.StringVar(&o.html, "html", "", "write a page to this `file`; - is standard output")
	f.BoolVar(&o.asJSON, "json", false, "write the report as JSON")
	terminal.Complete(c, "only", workloads.Names)
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
	if _, err := workloads.Choose(o.only); err != nil {
		return err
	}
	if err := checkAtLeast(o.atLeast); err != nil {
		return err
	}
	if err := checkTimeout(o.timeout); err != nil {
		return err
	}
	if err := (&overhead{o.tasks}).check(); err != nil { // now, not after minutes
		return err
	}
	if _, err := (&memory{o.sizes}).bytes(); err != nil {
		return err
	}
	var page *terminal.Output
	if o.html != "" {
		if page, err = terminal.OpenOutput(c, o.html); err != nil {
			return err
		}
		defer page.Close()
	}
	r := &suiteReport{Command: commandLine(c), Commit: commit(), Platform: host.Platform(), When: time.Now(), Load: host.Read().Load}
	failed, interrupt := o.measure(&meter{Setup: o.Setup, ctx: c.Context(), options: opts, repeat: o.repeat, stderr: c.ErrOrStderr(), quiet: o.asJSON}, r)
	if r.here == nil {
		return interrupt
	}
	r.Interrupted = interrupt != nil
	if page != nil {
		if err := page.Replace(func(w io.Writer) error { return writePage(w, r) }); err != nil {
			return err
		}
	}
	err = terminal.Print(c, o.asJSON, r, func(b *bytes.Buffer) error {
		r.text(b)
		if page != nil && o.html != "-" {
			fmt.Fprintf(b, "\npage in %s\n", o.html)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return cmp.Or(interrupt, failed)
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

// built is the commit that this program was built from where the go command does not stamp it, as in a linked
// work tree: -ldflags "-X github.com/weft-run/weft/cmd/weft/internal/bench.built=$(git describe --always --abbrev=40)".
var built string

// commit is the commit that this program was built from, as it was linked or as the go command stamped it.
func commit() string {
	if built != "" {
		return built
	}
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
