package bench

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/cmd/weft/internal/workloads"
	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/trace"
	"github.com/weft-run/weft/workload"
)

// scalingRow is one workload on one number of devices.
type scalingRow struct {
	Workload string  `json:"workload"`
	Devices  int     `json:"devices"`
	Seconds  float64 `json:"seconds"` // median
	// Speedup is the median of the ratios within each round. Where the work
	// grows with the devices it is how much more was done in the same time.
	Speedup    float64 `json:"speedup"`
	Efficiency float64 `json:"efficiency"`
	Predicted  float64 `json:"predicted_seconds"`
	// Busy is the part of the time that devices computed. Work is the time that all of
	// them computed, divided by that of one alone: above 1 is the loss by sharing memory,
	// caches and power. Busy / Work is the efficiency if one device alone is busy all the
	// time.
	Busy float64 `json:"busy"`
	Work float64 `json:"work"`
	// Limit is the efficiency of as many devices that work at the same time, each on
	// a job of its own; 0 where it was not measured.
	Limit float64 `json:"limit,omitempty"`
	Job   string  `json:"job"`
	// Size is the one of --sizes, 0 without.
	Size int `json:"size,omitempty"`
	// Verdict puts the efficiency of several devices into words.
	Verdict string `json:"verdict,omitempty"`
}

// scaling is the benchmark of that name.
type scaling struct {
	weak    bool
	only    []string
	counts  []int
	sizes   []int
	atLeast time.Duration
	limit   bool
}

func newScaling(s Setup) *cobra.Command {
	var o scaling
	c := benchmark[scalingRow]{
		use:   "scaling",
		short: "Each workload on 1 to n devices",
		long: `Run each workload on one device and on 2, 4 … n of the same kind (or the numbers
of --counts), and report the speed-up: of the same work (strong scaling), or
with --weak of work that grows with the devices. Work is made large enough that
one device takes --at-least. Rounds are interleaved, and a speed-up is the
median of the ratios within a round, so that other load on the machine counts as
little as possible. Where there is one device only, a CPU, its cores become
devices. --sizes measures every workload at each of several sizes instead, on
every number of devices; a size is the value of a flag of weft run, see below.
The other sizes grow in proportion, and multiples of 64 stay such.

A loss has two causes, whose medians follow it: devices were not busy all the
time, or computed longer, together, than one did alone (work more than 1.00),
because they share memory, caches and power. With --limit every round also has
each core do its part of the work as a job of its own, alone and while the
others do, for as long as one device and all of them take for the whole: no
schedule can avoid the loss measured so.`,
		repeat: 7, measure: o.measure, text: writeScaling,
	}.command(s)
	c.Long += "\n\n" + sizeFlags()
	c.Flags().IntSliceVar(&o.sizes, "sizes", nil, "`sizes` of the work of one device, in place of --at-least")
	c.Flags().BoolVar(&o.weak, "weak", false, "let the work grow with the devices")
	c.Flags().StringSliceVar(&o.only, "only", nil, "`workloads` to run (all)")
	c.Flags().IntSliceVar(&o.counts, "counts", nil, "`numbers` of devices to compare with one (2,4,8 up to all)")
	c.Flags().DurationVar(&o.atLeast, "at-least", time.Second, "how long one device is to take; 0 leaves sizes as weft run has them")
	c.Flags().BoolVar(&o.limit, "limit", false, "also measure what cores that share no work reach")
	terminal.Complete(c, "only", workloads.Names)
	return c
}

// measure runs every workload on 1, 2, 4 … n devices.
func (o *scaling) measure(m *meter) (rows []scalingRow, err error) {
	jobs, err := workloads.Choose(o.only)
	if err != nil {
		return nil, err
	}
	if err := checkAtLeast(o.atLeast); err != nil {
		return nil, err
	}
	for _, n := range o.sizes {
		for _, w := range jobs {
			if n < 1 || n > w.Growth.Most {
				return nil, terminal.Usagef("--sizes %d: %s takes 1 to %d (--%s)", n, w.Name, w.Growth.Most, w.Growth.Flags[0])
			}
		}
	}
	most, err := m.several()
	if err != nil {
		return nil, err
	}
	counts, err := o.numbers(most)
	if err != nil {
		return nil, err
	}
	// One runtime for each number of devices, all devices of equal size.
	rts := make([]*weft.Runtime, len(counts))
	for i, n := range counts {
		if rts[i], err = m.open(func(o *weft.Options) { o.MaxDevices = n }); err != nil {
			return nil, err
		}
		defer rts[i].Close()
	}
	var apart []*weft.Runtime // a device each, for the limit
	if o.limit {
		if err := canLimit(m, rts[len(rts)-1]); err != nil {
			return nil, err
		}
		for range counts[len(counts)-1] {
			rt, err := m.open(func(o *weft.Options) { o.MaxDevices = 1 })
			if err != nil {
				return nil, err
			}
			defer rt.Close()
			apart = append(apart, rt)
		}
	}
	p := m.progress("run", len(jobs)*max(len(o.sizes), 1)*len(rts)*(m.repeat+learning))
	defer p.Finish()
	sizes := o.sizes
	if len(sizes) == 0 {
		sizes = []int{0} // grow finds one
	}
	for _, w := range jobs {
		for _, size := range sizes {
			got, err := o.one(m, w, size, rts, apart, counts, p)
			if err != nil {
				return rows, err
			}
			rows = append(rows, got...)
		}
	}
	return rows, nil
}

// sizeFlags says what --sizes sets of each workload.
func sizeFlags() string {
	out := "Flags of weft run that --sizes sets:"
	for i, w := range workloads.All() {
		if i > 0 {
			out += ","
		}
		out += " " + w.Name + " --" + w.Growth.Flags[0]
	}
	return terminal.Wrap(out+".", terminal.Width)
}

// numbers returns the numbers of devices to run on, 1 first.
func (o *scaling) numbers(most int) ([]int, error) {
	if len(o.counts) > 0 {
		for _, n := range o.counts {
			if n < 1 || n > most {
				return nil, terminal.Usagef("--counts %d: there are %s", n, terminal.Count(most, "device"))
			}
		}
		all := append([]int{1}, o.counts...)
		slices.Sort(all)
		return slices.Compact(all), nil
	}
	var all []int
	for n := 1; n < most; n *= 2 {
		all = append(all, n)
	}
	return append(all, most), nil
}

func checkAtLeast(d time.Duration) error {
	if d < 0 {
		return terminal.Usagef("--at-least %v: it must not be negative", d)
	}
	return nil
}

// canLimit returns an error where --limit cannot be measured. It opens a runtime with
// one device for each device; runtimes that pin cores, or on GPUs, would all get the
// same one.
func canLimit(m *meter, rt *weft.Runtime) error {
	devs := rt.Devices()
	if len(devs) < 2 {
		return terminal.Usagef("--limit is of several devices; use larger --counts")
	}
	for _, d := range devs {
		if d.Backend != "cpu" || m.options.Pin {
			return terminal.Usagef("--limit is for cores that are not pinned; use --devices cpu/N, --pin off")
		}
	}
	return nil
}

// scaled is a workload on one number of devices: its jobs, and the figures of every
// round.
type scaled struct {
	job                   workload.Job
	parts                 []workload.Job // the part of each device, for the limit
	took, ups, busy, work []float64
	limit                 []float64
	predicted             float64
}

// jobs makes the job of a workload for every number of devices, from sizes for one
// device, and where apart is set the part of each device as a job of its own.
func (o *scaling) jobs(m *meter, w catalog.Entry, sizes map[string]int, counts []int, apart bool) (at []scaled, err error) {
	at = make([]scaled, len(counts))
	for i, n := range counts {
		whole, part := sizes, sizes
		if o.weak {
			whole = w.Growth.Times(sizes, float64(n))
		} else {
			part = w.Growth.Times(sizes, 1/float64(n))
		}
		if at[i].job = at[0].job; i == 0 || o.weak {
			if at[i].job, err = workloads.Sized(m.ctx, w, whole); err != nil {
				return nil, err
			}
		}
		for apart && i > 0 && len(at[i].parts) < n {
			j, err := workloads.Sized(m.ctx, w, part)
			if err != nil {
				return nil, err
			}
			at[i].parts = append(at[i].parts, j)
		}
	}
	return at, nil
}

// one measures one workload on every number of devices, and its parts apart, at a size or
// for 0 at one that grow finds.
func (o *scaling) one(m *meter, w catalog.Entry, size int, rts, apart []*weft.Runtime, counts []int, p *terminal.Progress) ([]scalingRow, error) {
	sizes, err := workloads.SizedAt(w, size)
	if size == 0 {
		sizes, err = o.grow(m, w, rts[0], p)
	}
	if err != nil {
		return nil, err
	}
	at, err := o.jobs(m, w, sizes, counts, len(apart) > 0)
	if err != nil {
		return nil, err
	}
	for round := range m.repeat + learning {
		var alone, computed float64
		for i, rt := range rts {
			sc := &at[i]
			p.At("%s on %s", sc.job.Name(), terminal.Count(counts[i], "device"))
			res, err := workload.Run(m.ctx, rt, sc.job)
			if err != nil {
				return nil, err
			}
			p.Add()
			s, all := res.Report.Elapsed().Seconds(), 0.0
			for _, d := range res.Report.Devices {
				all += d.Busy.Seconds()
			}
			if i == 0 {
				alone, computed = s, all
			}
			limit := 0.0
			if len(sc.parts) > 0 && round >= learning-1 { // once before it counts: the first run allocates
				p.At("%s, parts of it apart", sc.job.Name())
				if limit, err = independentSpeedup(m.ctx, apart, sc.parts); err != nil {
					return nil, err
				}
			}
			if round < learning {
				continue
			}
			more := sc.job.Whole().Work.Ops / at[0].job.Whole().Work.Ops
			sc.took, sc.ups = append(sc.took, s), append(sc.ups, more*alone/s)
			sc.busy, sc.work = append(sc.busy, all/s/float64(counts[i])), append(sc.work, all/computed/more)
			sc.limit, sc.predicted = append(sc.limit, limit), res.Predicted.Seconds()
		}
	}
	return o.rows(m, w, size, at, counts, p)
}

// rows checks what was computed and makes the rows of it.
func (o *scaling) rows(m *meter, w catalog.Entry, size int, at []scaled, counts []int, p *terminal.Progress) ([]scalingRow, error) {
	var rows []scalingRow
	for i, n := range counts {
		sc := &at[i]
		if i == 0 || o.weak {
			p.At("checking %s", sc.job.Name())
			if err := checked(m.ctx, sc.job); err != nil {
				return nil, err
			}
		}
		if len(sc.parts) > 0 { // the parts are equal, and the last one only ran beside others
			p.At("checking %s", sc.parts[n-1].Name())
			if err := checked(m.ctx, sc.parts[n-1]); err != nil {
				return nil, err
			}
		}
		up := median(sc.ups)
		row := scalingRow{
			Workload: w.Name, Job: sc.job.Name(), Size: size, Devices: n, Seconds: median(sc.took), Speedup: up, Efficiency: up / float64(n),
			Predicted: sc.predicted, Busy: median(sc.busy), Work: median(sc.work), Limit: median(sc.limit),
		}
		if n > 1 {
			row.Verdict = trace.ScalingVerdict(row.Efficiency)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// independentSpeedup returns how fast equal jobs run at the same time, one runtime each,
// relative to one alone; 1 is as fast. It is the upper limit of the efficiency of scaling
// on this machine. The one alone runs as often as there are jobs, so that each state of
// the machine lasts about as long as in scaling: a core that works alone for long gets a
// higher clock than one whose neighbours have just stopped.
func independentSpeedup(ctx context.Context, rts []*weft.Runtime, jobs []workload.Job) (float64, error) {
	alone := 0.0
	for range jobs {
		res, err := workload.Run(ctx, rts[0], jobs[0])
		if err != nil {
			return 0, err
		}
		alone += res.Report.Elapsed().Seconds() / float64(len(jobs))
	}
	took, errs := make([]float64, len(jobs)), make([]error, len(jobs))
	var wg sync.WaitGroup
	for i := range jobs {
		wg.Go(func() {
			var res *workload.Result
			if res, errs[i] = workload.Run(ctx, rts[i], jobs[i]); errs[i] == nil {
				took[i] = res.Report.Elapsed().Seconds()
			}
		})
	}
	wg.Wait()
	sum := 0.0
	for i := range jobs {
		if errs[i] != nil {
			return 0, errs[i]
		}
		sum += alone / took[i]
	}
	return sum / float64(len(jobs)), nil
}

// scalingFrom has the sizes to begin with where they are not a workload's defaults. Tests
// begin with less.
var scalingFrom = make(map[string]int)

// grow finds sizes at which one device takes at least atLeast, or the largest that the
// workload allows. A step grows the work at most 8 times, since the time of a small size
// is a poor prediction for a much larger one.
func (o *scaling) grow(m *meter, w catalog.Entry, rt *weft.Runtime, p *terminal.Progress) (map[string]int, error) {
	sizes := maps.Clone(scalingFrom)
	for {
		job, err := workloads.Sized(m.ctx, w, sizes)
		if err != nil {
			return nil, err
		}
		var took time.Duration
		for range 2 { // the first allocates
			p.At("looking for a size: %s", job.Name())
			res, err := workload.Run(m.ctx, rt, job)
			if err != nil {
				return nil, err
			}
			took = res.Report.Elapsed()
		}
		more := min(1.1*o.atLeast.Seconds()/took.Seconds(), 8)
		if took >= o.atLeast || !w.Growth.By(sizes, more, w.Growth.Most) {
			return sizes, nil
		}
	}
}

func writeScaling(w io.Writer, rows []scalingRow) {
	limits := slices.ContainsFunc(rows, func(r scalingRow) bool { return r.Limit > 0 })
	sizes := slices.ContainsFunc(rows, func(r scalingRow) bool { return r.Size > 0 })
	table := [][]any{{"workload", "size", "devices", "median", "speed-up", "efficiency", "limit", "busy", "work", "predicted"}}
	for _, r := range rows {
		limit := ""
		if r.Limit > 0 {
			limit = terminal.Percent(r.Limit)
		}
		table = append(table, []any{r.Workload, r.Size, r.Devices, terminal.Seconds(r.Seconds), fmt.Sprintf("%.2f", r.Speedup),
			terminal.Percent(r.Efficiency), limit, terminal.Percent(r.Busy), fmt.Sprintf("%.2f", r.Work), terminal.Seconds(r.Predicted)})
	}
	for i := range table {
		if !limits {
			table[i] = slices.Delete(table[i], 6, 7)
		}
		if !sizes {
			table[i] = slices.Delete(table[i], 1, 2)
		}
	}
	terminal.Table(w, table)
	fmt.Fprintln(w)
	for i, r := range rows {
		if i == 0 || r.Job != rows[i-1].Job {
			fmt.Fprintln(w, r.Job)
		}
		if last := i == len(rows)-1 || rows[i+1].Devices <= r.Devices; last && r.Verdict != "" {
			fmt.Fprintf(w, "  on %s: %s\n", terminal.Count(r.Devices, "device"), r.Verdict)
		}
	}
}
