package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/internal/terminal"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/workload"
)

// domainRow is one operation in one size on one device.
type domainRow struct {
	Domain    string  `json:"domain"`
	Operation string  `json:"operation"`
	Size      int     `json:"size"` // elements asked for
	Job       string  `json:"job,omitempty"`
	Device    string  `json:"device"`
	Seconds   float64 `json:"seconds,omitempty"` // median
	// Speedup is the median of the ratios of the cpu's time to the device's within each round;
	// 0 of the cpu itself.
	Speedup float64 `json:"speedup,omitempty"`
	// Together is the time of a runtime that has both the cpu and the device. Share is the part of its
	// tasks' time that the device took, from 0 to 1.
	Together float64 `json:"together_seconds,omitempty"`
	Share    float64 `json:"share,omitempty"`
	Verdict  string  `json:"verdict,omitempty"` // whether the device is worth it
	Why      string  `json:"why,omitempty"`     // of a size that was skipped
}

// crossover is the size from which on a device is faster than the cpu at an operation.
type crossover struct {
	Operation string `json:"operation"`
	Device    string `json:"device"`
	// Elements is interpolated between measured sizes. It is the least measured size if the device is
	// faster at all of them, and 0 if the device is not faster at the largest.
	Elements int    `json:"elements"`
	Verdict  string `json:"verdict"`
}

// domainsReport is the result of the benchmark, as it is written to its file.
type domainsReport struct {
	Command    string      `json:"command"`
	Commit     string      `json:"commit"`
	Platform   string      `json:"platform"`
	When       time.Time   `json:"when"`
	Machine    string      `json:"machine"` // models of its devices
	Repeat     int         `json:"repeat"`
	Note       string      `json:"note,omitempty"`
	Rows       []domainRow `json:"rows"`
	Crossovers []crossover `json:"crossovers"`
	Placed     placed      `json:"placed"`
}

// placed says how well a runtime that has both the cpu and a device chooses between them.
type placed struct {
	Sizes int `json:"sizes"` // of all operations, on all devices
	// Near is the number of those at which it takes at most 10 % more than the faster of cpu and device alone.
	Near int `json:"near"`
}

// domains is the benchmark of that name.
type domains struct {
	only    []string
	sizes   []int
	repeat  int
	timeout time.Duration
	html    string
	asJSON  bool
}

func newDomains(s Setup) *cobra.Command {
	o := &domains{}
	c := &cobra.Command{
		Use:   "domains",
		Short: "Operations of the mathematical domains, cpu beside every device",
		Long: `Run operations of the mathematical domains in several sizes on the cpu and on
every other device, in turns. Every row says whether the device is worth it, and
for every operation and device there is the crossover: the size from which on
the device is faster, between measured sizes by interpolation. "together" is the
time of a runtime that has both and places tasks by the times it measures, and
"share" the part of their time that the device had.

Sizes are elements: multivectors, records, events, or those of a matrix or a
board, whose side is the root. Three runs before those that count warm up, and
the first is checked. A size that does not fit into memory is skipped with the
reason.`,
		Example:           `  weft bench domains --devices cpu,cuda:0 --html out.html`,
		Args:              terminal.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return o.run(c, s) },
	}
	f := c.Flags()
	f.IntVar(&o.repeat, "repeat", 10, "how often everything is measured")
	f.IntSliceVar(&o.sizes, "sizes", []int{100, 1000, 10_000, 100_000}, "`sizes`, in elements")
	f.StringSliceVar(&o.only, "only", nil, "`operations` to measure (all)")
	f.DurationVar(&o.timeout, "timeout", 0, "longest time; rows complete by then are kept, and the status is 1")
	f.StringVar(&o.html, "html", "", "write a page to this `file`; - is standard output")
	f.BoolVar(&o.asJSON, "json", false, "write the report as JSON")
	terminal.Complete(c, "only", operationsOfDomains)
	return c
}

// operationsOfDomains are the names of the operations.
func operationsOfDomains() (names []string) {
	for _, op := range catalog.Operations() {
		names = append(names, op.Name)
	}
	return names
}

// check reports flags that make no sense.
func (o *domains) check() error {
	for _, name := range o.only {
		if err := terminal.MustName("operation", name, operationsOfDomains()); err != nil {
			return err
		}
	}
	if o.repeat < 1 {
		return terminal.Usagef("--repeat %d: run at least once", o.repeat)
	}
	for _, n := range o.sizes {
		if n < 10 || n > 1<<24 {
			return terminal.Usagef("--sizes %d: it must be 10 to %d elements", n, 1<<24)
		}
	}
	return checkTimeout(o.timeout)
}

func (o *domains) run(c *cobra.Command, s Setup) error {
	opts, err := s.Options()
	if err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	var page *terminal.Output
	if o.html != "" {
		if page, err = terminal.OpenOutput(c, o.html); err != nil {
			return err
		}
		defer page.Close()
	}
	r := &domainsReport{Command: commandLine(c), Commit: commit(), Platform: host.Platform(), When: time.Now(), Repeat: o.repeat}
	part := partRow{Part: "domains"}
	p := rowsPart("domains", "", &r.Rows, func(m *meter) ([]domainRow, error) { return o.measure(m, r) }, nil)
	part, err = p.run(&meter{Setup: s, ctx: c.Context(), options: opts, repeat: o.repeat, stderr: c.ErrOrStderr(), quiet: o.asJSON}, o.timeout)
	if len(r.Rows) == 0 {
		return err
	}
	r.Note = part.note()
	r.Crossovers, r.Placed = crossovers(r.Rows), placedOf(r.Rows)
	if page != nil {
		if err := page.Replace(func(w io.Writer) error { return writeDomainsPage(w, r) }); err != nil {
			return err
		}
	}
	failed := terminal.Print(c, o.asJSON, r, func(b *bytes.Buffer) error {
		r.text(b)
		if page != nil && o.html != "-" {
			fmt.Fprintf(b, "\npage in %s\n", o.html)
		}
		return nil
	})
	if failed != nil {
		return failed
	}
	return err
}

// rival is a runtime that runs every operation: the cpu, a device, or both together.
type rival struct {
	device string // as it is asked for
	both   bool
	rt     *weft.Runtime

	took, ups, shares []float64 // of each round of an operation
	failed            error     // why it cannot run that
}

// rivals opens the cpu, and every other device alone and beside it.
func (o *domains) rivals(m *meter) (out []rival, err error) {
	cpus, others := []string{}, []string{}
	for _, part := range strings.Split(m.options.Devices, ",") {
		if part = strings.TrimSpace(part); strings.HasPrefix(part, "cpu") {
			cpus = append(cpus, part)
		} else if part != "" {
			others = append(others, part)
		}
	}
	if m.options.Devices == "" {
		found, err := m.machine()
		if err != nil {
			return nil, err
		}
		for _, d := range found.Devices {
			if d.Backend != "cpu" {
				others = append(others, d.Name)
			}
		}
	}
	if len(cpus) == 0 {
		cpus = []string{"cpu"}
	}
	cpu := strings.Join(cpus, ",")
	wanted := []rival{{device: cpu}}
	for _, d := range others {
		wanted = append(wanted, rival{device: d}, rival{device: d, both: true})
	}
	for _, w := range wanted {
		spec := w.device
		if w.both {
			spec = cpu + "," + spec
		}
		if w.rt, err = m.open(func(o *weft.Options) { o.Devices = spec }); err != nil {
			for _, opened := range out {
				opened.rt.Close()
			}
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

func (o *domains) measure(m *meter, r *domainsReport) (rows []domainRow, err error) {
	all, err := o.rivals(m)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		defer c.rt.Close()
	}
	var models []string
	for _, c := range all {
		if !c.both {
			models = append(models, c.device+": "+terminal.Models(c.rt.Machine()))
		}
	}
	r.Machine = strings.Join(models, "; ")
	chosen := slices.DeleteFunc(catalog.Operations(), func(op catalog.Operation) bool {
		return len(o.only) > 0 && !slices.Contains(o.only, op.Name)
	})
	p := m.progress("run", len(chosen)*len(o.sizes)*len(all)*(m.repeat+learning))
	defer p.Finish()
	by := make([][]domainRow, len(chosen))
	// What there is no time for is the last size of all operations, not the last operations.
	for _, n := range o.sizes {
		for i, op := range chosen {
			row := domainRow{Domain: op.Domain, Operation: op.Name, Size: n}
			got, err := row.measure(m, func() (workload.Job, error) { return op.Job(m.ctx, n) }, all, p)
			if err != nil {
				return slices.Concat(by...), err
			}
			by[i] = append(by[i], got...)
		}
	}
	return slices.Concat(by...), nil
}

// cannot reports whether an error says that an operation does not fit here.
func cannot(err error) bool {
	return errors.Is(err, host.ErrMemory) || errors.Is(err, weft.ErrNoDevice)
}

// measure runs an operation in a size on all rivals in turns, and returns a row for each device.
func (row domainRow) measure(m *meter, make func() (workload.Job, error), all []rival, p *terminal.Progress) ([]domainRow, error) {
	skip := func(device string, err error) domainRow {
		s := row
		s.Device, s.Why = device, "skipped: "+terminal.OneLine(err.Error())
		return s
	}
	job, err := make()
	if cannot(err) {
		return []domainRow{skip(all[0].device, err)}, nil
	} else if err != nil {
		return nil, err
	}
	row.Job = job.Name()
	at := slices.Clone(all)
	for round := range m.repeat + learning {
		alone := 0.
		for i := range at {
			c := &at[i]
			p.At("%s on %s", row.Job, c.device)
			if p.Add(); c.failed != nil {
				continue
			}
			res, err := workload.Run(m.ctx, c.rt, job)
			if err != nil && cannot(err) {
				c.failed = err
				continue
			} else if err != nil {
				return nil, err
			}
			if round == 0 { // before anything counts
				if err := checked(m.ctx, job); err != nil {
					return nil, fmt.Errorf("%s on %s: %w", row.Operation, c.device, err)
				}
			}
			s := res.Report.Elapsed().Seconds()
			if i == 0 {
				alone = s
			}
			if round >= learning {
				c.took, c.ups, c.shares = append(c.took, s), append(c.ups, alone/s), append(c.shares, c.share(res))
			}
		}
	}
	var rows []domainRow
	for i, c := range at {
		switch {
		case c.failed != nil && !c.both:
			rows = append(rows, skip(c.device, c.failed))
		case c.failed != nil:
		case c.both: // the device is the row before
			last := &rows[len(rows)-1]
			last.Together, last.Share = median(c.took), median(c.shares)
		default:
			r := row
			r.Device, r.Seconds = c.device, median(c.took)
			if i > 0 && at[0].failed == nil {
				r.Speedup = median(c.ups)
				r.Verdict = worth(r.Speedup)
			}
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// share is the part of a run's work, by the time of its tasks, that devices beside the cpu did.
func (c *rival) share(res *workload.Result) float64 {
	own, all := 0., 0.
	for i, d := range res.Report.Devices {
		if all += d.Busy.Seconds(); c.rt.Devices()[i].Backend != "cpu" {
			own += d.Busy.Seconds()
		}
	}
	if all == 0 {
		return 0
	}
	return own / all
}

// even is the relative difference of times that counts as noise: runs on an idle machine differ by
// up to 5 %.
const even = 0.05

// worth says whether a device with this speed-up over the cpu is worth it.
func worth(speedup float64) string {
	switch {
	case speedup > 1+even:
		return fmt.Sprintf("worth it: %.3g times as fast", speedup)
	case speedup < 1-even:
		return fmt.Sprintf("not worth it: %.3g times as slow", 1/speedup)
	}
	return "as fast as the cpu"
}

// crossovers finds for every operation and device the size from which on the device is faster.
func crossovers(rows []domainRow) (out []crossover) {
	type key struct{ operation, device string }
	of := make(map[key][]domainRow)
	var order []key
	for _, r := range rows {
		if k := (key{r.Operation, r.Device}); r.Speedup > 0 {
			if of[k] == nil {
				order = append(order, k)
			}
			of[k] = append(of[k], r)
		}
	}
	for _, k := range order {
		c := crossover{Operation: k.operation, Device: k.device}
		at := of[k]
		slices.SortFunc(at, func(a, b domainRow) int { return a.Size - b.Size })
		last := at[len(at)-1]
		first := len(at) // the least size from which on the device is faster
		for first > 0 && at[first-1].Speedup > 1 {
			first--
		}
		switch {
		case first == len(at):
			c.Verdict = fmt.Sprintf("the cpu is faster up to %d", last.Size)
		case first == 0:
			c.Elements, c.Verdict = at[0].Size, fmt.Sprintf("the device is faster from %d or less", at[0].Size)
		default:
			c.Elements = between(at[first-1], at[first])
			c.Verdict = fmt.Sprintf("the device is faster from about %d", c.Elements)
		}
		out = append(out, c)
	}
	return out
}

// placedOf compares the times of runtimes that have both with the cpu's and the device's own.
func placedOf(rows []domainRow) (p placed) {
	for _, r := range rows {
		if r.Together == 0 || r.Speedup == 0 {
			continue
		}
		p.Sizes++
		if r.Together <= 1.1*r.Seconds*min(1, r.Speedup) {
			p.Near++
		}
	}
	return p
}

// between is the size between two measured ones at which a device is as fast as the cpu, where
// the logarithm of the speed-up is taken to grow evenly with that of the size.
func between(slower, faster domainRow) int {
	a, b := math.Log(slower.Speedup), math.Log(faster.Speedup)
	part := -a / (b - a)
	return int(math.Round(float64(slower.Size) * math.Pow(float64(faster.Size)/float64(slower.Size), part)))
}

func (r *domainsReport) text(w *bytes.Buffer) {
	fmt.Fprintf(w, "%s\n%s, %s\ncommit %s\n%s\n", r.Command, r.Platform, r.When.Format(time.DateTime), r.Commit, terminal.Wrap(r.Machine, terminal.Width))
	if r.Note != "" {
		fmt.Fprintf(w, "%s\n", terminal.Wrap("("+r.Note+")", terminal.Width))
	}
	table := [][]any{{"operation", "size", "device", "median", "together", "share", "verdict"}}
	for _, row := range r.Rows {
		took, together, share, says := "", "", "", row.Verdict
		if row.Seconds > 0 {
			took = terminal.Seconds(row.Seconds)
		}
		if row.Together > 0 {
			together, share = terminal.Seconds(row.Together), terminal.Percent(row.Share)
		}
		if row.Why != "" {
			says = row.Why
		}
		table = append(table, []any{row.Operation, row.Size, row.Device, took, together, share, says})
	}
	fmt.Fprintln(w)
	terminal.Table(w, table)
	if len(r.Crossovers) == 0 {
		fmt.Fprintf(w, "\nThere is no device beside the cpu; name one that is, as in --devices cpu,cuda:0.\n")
		return
	}
	fmt.Fprintf(w, "\ncrossovers\n\n")
	table = [][]any{{"operation", "device", "from", ""}}
	for _, c := range r.Crossovers {
		from := "none"
		if c.Elements > 0 {
			from = fmt.Sprint(c.Elements)
		}
		table = append(table, []any{c.Operation, c.Device, from, c.Verdict})
	}
	terminal.Table(w, table)
	fmt.Fprintf(w, "\nTogether, cpu and device take at most 10 %% more than the faster of them at %d of\n%s.\n", r.Placed.Near, text.Count(r.Placed.Sizes, "size"))
}
