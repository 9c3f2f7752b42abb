package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/cmd/weft/internal/workloads"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/host"
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
	Why      string  `json:"why,omitempty"`     // of a size that was skipped, or not reached in time
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
	Took       domainsTime `json:"took_seconds"`
}

// domainsTime divides the time of the benchmark by purpose, in seconds.
type domainsTime struct {
	Open   float64 `json:"open"`   // devices opened and calibrated
	Inputs float64 `json:"inputs"` // of all operations and sizes
	// First is the first run of each operation and size on each device, which loads kernels and compiles
	// them where the driver does that.
	First float64 `json:"first_runs"`
	Runs  float64 `json:"runs"` // those after the first
	// Plans precede all of these runs: work is cut, and predicted for sets of devices.
	Plans  float64 `json:"plans"`
	Checks float64 `json:"checks"`
}

// String names the parts in the order in which they happen.
func (d domainsTime) String() string {
	return fmt.Sprintf("opening devices took %s, inputs %s, first runs %s, the other runs %s, cutting and predicting %s, checks %s",
		terminal.Seconds(d.Open), terminal.Seconds(d.Inputs), terminal.Seconds(d.First), terminal.Seconds(d.Runs), terminal.Seconds(d.Plans), terminal.Seconds(d.Checks))
}

// watch adds the time until the function it returns is called.
func watch(into *float64) (ended func()) {
	began := time.Now()
	return func() { *into += time.Since(began).Seconds() }
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
	longest time.Duration
	timeout time.Duration
	html    string
	asJSON  bool
}

func newDomains(s Setup) *cobra.Command {
	o := &domains{}
	c := &cobra.Command{
		Use:   "domains",
		Short: "Operations of mathematical domains, on the cpu and each device",
		Long: `Run operations of the mathematical domains in several sizes on the cpu and on
every other device, in turns. Every row says whether the device is worth it, and
for every operation and device there is the crossover: the size from which on
the device is faster, between measured sizes by interpolation. "together" is the
time of a runtime that has both and places tasks by the times it measures, and
"share" the part of their time that the device had.

A size is a number of elements: multivectors, records, events, or entries of a
matrix or a board, whose side is the root. Three runs before those that count
warm up, and the first is checked. A size that does not fit into memory is
skipped with the reason, and so is one at which a device takes longer than
--longest for a run.

Small sizes of all operations come first. Those that --timeout leaves no time
for are listed as not reached.

` + terminal.Wrap("Operations are "+strings.Join(operationsOfDomains(), ", ")+".", terminal.Width),
		Example:           `  weft bench domains --devices cpu,cuda:0 --html out.html`,
		Args:              terminal.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return o.run(c, s) },
	}
	f := c.Flags()
	f.IntVar(&o.repeat, "repeat", 10, "how often everything is measured")
	f.IntSliceVar(&o.sizes, "sizes", []int{100, 1000, 10_000, 100_000}, "`sizes`, in elements")
	f.StringSliceVar(&o.only, "only", nil, "`operations` to measure, of those above (all)")
	f.DurationVar(&o.longest, "longest", time.Second, "longest run; a size at which a device takes longer is not measured on it; 0 is no limit")
	f.DurationVar(&o.timeout, "timeout", 0, "longest time; rows complete by then are kept, and the status is 1")
	f.StringVar(&o.html, "html", "", "write a page to this `file`; - is standard output")
	f.BoolVar(&o.asJSON, "json", false, "write the report as JSON")
	terminal.Complete(c, "only", operationsOfDomains)
	return c
}

// operationsOfDomains are the names of the operations.
func operationsOfDomains() (names []string) {
	for _, op := range workloads.Operations() {
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
	if o.longest < 0 {
		return terminal.Usagef("--longest %v: it must not be negative", o.longest)
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
	if late := endedEarly(o.timeout); part.Why == late {
		measured := 0
		for _, row := range r.Rows {
			if row.Seconds > 0 {
				measured++
			}
		}
		err = fmt.Errorf("bench domains: %s with %d of %s measured", late, measured, terminal.Count(len(r.Rows), "row"))
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

	took, ups, shares []float64 // of each round of an operation that counts
	warm              float64   // the fastest run that warms up, without the first
	failed            error     // why it cannot run that
}

// rivals opens the cpu, and every other device alone and together with it. A device is opened
// twice: jobs that place their tasks themselves use all devices of a runtime, so its time alone
// needs a runtime of its own.
func (o *domains) rivals(m *meter) (out []rival, err error) {
	var found *weft.Runtime // of all devices, where none are named
	defer func() {
		if found != nil {
			found.Close()
		}
		if err != nil {
			closeAll(out)
		}
	}()
	cpus, others := []string{}, []string{}
	for _, part := range strings.Split(m.options.Devices, ",") {
		if part = strings.TrimSpace(part); strings.HasPrefix(part, "cpu") {
			cpus = append(cpus, part)
		} else if part != "" {
			others = append(others, part)
		}
	}
	if m.options.Devices == "" {
		if found, err = m.open(nil); err != nil {
			return nil, err
		}
		for _, d := range found.Machine().Devices {
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
	p := m.progress("runtime", len(wanted))
	defer p.Finish()
	for _, w := range wanted {
		spec := w.device
		if w.both {
			spec = cpu + "," + spec
		}
		p.At("opening %s", spec)
		if w.both && len(others) == 1 && found != nil {
			w.rt, found = found, nil
		} else if w.rt, err = m.open(func(o *weft.Options) { o.Devices = spec }); err != nil {
			return out, err
		}
		out = append(out, w)
		p.Add()
	}
	return out, nil
}

func closeAll(all []rival) {
	for _, c := range all {
		c.rt.Close()
	}
}

func (o *domains) measure(m *meter, r *domainsReport) ([]domainRow, error) {
	opened := watch(&r.Took.Open)
	all, err := o.rivals(m)
	if err != nil {
		return nil, err
	}
	opened()
	defer closeAll(all)
	var models []string
	for _, c := range all {
		if !c.both {
			models = append(models, c.device+": "+terminal.Models(c.rt.Machine()))
		}
	}
	r.Machine = strings.Join(models, "; ")
	chosen := slices.DeleteFunc(workloads.Operations(), func(op workloads.Operation) bool {
		return len(o.only) > 0 && !slices.Contains(o.only, op.Name)
	})
	p := m.progress("run", len(chosen)*len(o.sizes)*len(all)*(m.repeat+learning))
	defer p.Finish()
	by := make([][]domainRow, len(chosen))
	// What there is no time for is the last size of all operations, not the last operations.
	for _, n := range o.sizes {
		for i, op := range chosen {
			row := domainRow{Domain: op.Domain, Operation: op.Name, Size: n}
			if err == nil {
				var got []domainRow
				got, err = row.measure(m, domainsTrial{
					job: func() (workload.Job, error) { return op.Job(m.ctx, n) }, all: all, longest: o.longest, took: &r.Took, progress: p,
				})
				if err == nil {
					by[i] = append(by[i], got...)
					continue
				}
				if m.ctx.Err() == nil {
					return slices.Concat(by...), err
				}
				row.Why = "not finished: "
			} else {
				row.Why = "not reached: "
			}
			if errors.Is(context.Cause(m.ctx), errTimeout) {
				row.Why += "the time was up (--timeout)"
			} else {
				row.Why += "it was interrupted"
			}
			by[i] = append(by[i], row.ofEach(all)...)
		}
	}
	return slices.Concat(by...), err
}

// ofEach returns the row for the cpu and every other device.
func (row domainRow) ofEach(all []rival) (rows []domainRow) {
	for _, c := range all {
		if !c.both {
			row.Device = c.device
			rows = append(rows, row)
		}
	}
	return rows
}

// cannot reports whether an error says that an operation does not fit here.
func cannot(err error) bool {
	return errors.Is(err, host.ErrMemory) || errors.Is(err, weft.ErrNoDevice)
}

// domainsTrial is an operation in a size, and who runs it.
type domainsTrial struct {
	job      func() (workload.Job, error)
	all      []rival
	longest  time.Duration // of a run; 0 is no limit
	took     *domainsTime
	progress *terminal.Progress
}

// measure runs an operation in a size on all rivals in turns, and returns a row for each device.
func (row domainRow) measure(m *meter, t domainsTrial) ([]domainRow, error) {
	skipped := func(err error) string { return "skipped: " + terminal.OneLine(err.Error()) }
	made := watch(&t.took.Inputs)
	t.progress.At("input of %s in size %d", row.Operation, row.Size)
	job, err := t.job()
	made()
	if cannot(err) {
		row.Why = skipped(err)
		return row.ofEach(t.all), nil
	} else if err != nil {
		return nil, err
	}
	row.Job = job.Name()
	at := slices.Clone(t.all)
	for round := range m.repeat + learning {
		alone := 0.
		for i := range at {
			c := &at[i]
			t.progress.At("%s on %s", row.Job, c.device)
			if t.progress.Add(); c.failed != nil {
				continue
			}
			s, share, err := t.once(m.ctx, c, job, round)
			if err != nil && cannot(err) {
				c.failed = err
				continue
			} else if err != nil {
				return nil, fmt.Errorf("%s on %s: %w", row.Operation, c.device, err)
			}
			if i == 0 {
				alone = s
			}
			switch {
			case round >= learning:
				c.took, c.ups, c.shares = append(c.took, s), append(c.ups, alone/s), append(c.shares, share)
			case round == 1:
				c.warm = s
			case round > 1:
				c.warm = min(c.warm, s)
			}
			if round == learning-1 && t.longest > 0 && c.warm > t.longest.Seconds() {
				c.failed = fmt.Errorf("a run takes %s, longer than %s (--longest)", terminal.Seconds(c.warm), terminal.Seconds(t.longest.Seconds()))
			}
		}
	}
	var rows []domainRow
	for i, c := range at {
		r := row
		r.Device = c.device
		switch {
		case c.both: // the device is the row before
			last := &rows[len(rows)-1]
			if c.failed == nil {
				last.Together, last.Share = median(c.took), median(c.shares)
			} else if last.Why == "" {
				last.Verdict += "; together " + skipped(c.failed)
			}
			continue
		case c.failed != nil:
			r.Why = skipped(c.failed)
		default:
			r.Seconds = median(c.took)
			if i > 0 && at[0].failed == nil {
				r.Speedup = median(c.ups)
				r.Verdict = worth(r.Speedup)
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// once runs the job on a rival, and checks the result of the first round: once for each rival, before anything
// counts. It returns the seconds that the run took and the device's share of its tasks' time.
func (t *domainsTrial) once(ctx context.Context, c *rival, job workload.Job, round int) (seconds, share float64, err error) {
	began := time.Now()
	res, err := workload.Run(ctx, c.rt, job, func(j workload.Job, g *graph.Graph, _ *weft.Prediction) {
		if round == 0 { // or the result of the rival before might pass for this one's
			weft.Spoil(g, j.Bind()...)
		}
	})
	if err != nil {
		return 0, 0, err
	}
	seconds = res.Report.Elapsed().Seconds()
	t.took.Plans += time.Since(began).Seconds() - seconds
	if round > 0 {
		t.took.Runs += seconds
		return seconds, c.share(res), nil
	}
	t.took.First += seconds
	defer watch(&t.took.Checks)()
	t.progress.At("check of %s on %s", job.Name(), c.device)
	return seconds, c.share(res), checked(ctx, job)
}

// share returns the part of a run's work, by the time of its tasks, that devices other than the
// cpu did.
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

// between returns the size between two measured ones at which a device is as fast as the cpu. It
// assumes that the logarithm of the speed-up is linear in the logarithm of the size.
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
	fmt.Fprintf(w, "\n%s\n", terminal.Wrap("("+r.Took.String()+")", terminal.Width))
	if len(r.Crossovers) == 0 {
		fmt.Fprintf(w, "\nThe cpu is the only device; name another, as in --devices cpu,cuda:0.\n")
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
