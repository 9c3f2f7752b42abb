package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/plan"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/internal/safefile"
	"github.com/weft-run/weft/machine"
)

// recorder makes a recording, pass by pass: each pass visits every size of every workload once, in an order
// of its own, and the jobs of a visit are dealt out to the runs of the point in turn. The runs of all points
// thereby extend over the whole recording, and phases in which the machine is slower, or a clock that drifts,
// are in all of them alike, and not in the difference of neighbours in size. Points that are settled are visited
// in every third pass only, and the others with more jobs, once all runs take plan.LeastRun.
type recorder struct {
	o      *predictions
	ctx    context.Context // ends with --timeout
	rt     *weft.Runtime
	log    io.Writer
	r      *plan.Recording
	visits []*visit
	kept   float64   // bytes of inputs that visits keep
	saved  time.Time // when the recording was written last
}

// visit is a size of a workload, which is run once in each pass.
type visit struct {
	of     *ladder
	point  plan.Point
	job    subject                   // nil while it is not made
	each   int                       // jobs of a run in a visit
	passes int                       // so far
	runs   [plan.LeastRuns][]float64 // seconds of the jobs of each run, ascending
	before *plan.Point               // what the recording had already; nil for nothing
	costs  time.Duration             // of a pass, by the last one
	gone   error                     // why it is left out; nil while it is not
}

// ladder is a workload that is measured at several sizes of a flag.
type ladder struct {
	name, flag string
	// ends returns the smallest and the largest size.
	ends func(rec *recorder) (least, most int, err error)
	// near is the possible size that is nearest.
	near func(size int) (int, error)
	make func(ctx context.Context, size int) (subject, error)
}

// sizeText names a size by its flag.
func (l *ladder) sizeText(size int) string { return fmt.Sprintf("--%s %d", l.flag, size) }

// subject is a job that is measured.
type subject interface {
	// need returns what the job needs.
	need(rt *weft.Runtime) (plan.Need, error)
	// run returns the seconds of each of some jobs, one after another.
	run(ctx context.Context, rt *weft.Runtime, jobs int) (seconds []float64, err error)
}

// measure records the workloads on the devices there are.
func (o *predictions) measure(c *cobra.Command) (*plan.Recording, error) {
	ladders, err := o.ladders()
	if err != nil {
		return nil, err
	}
	if err := terminal.Writable(c, o.record); err != nil { // now, not after minutes
		return nil, err
	}
	m := &o.m
	if m.options, err = m.Options(); err != nil {
		return nil, err
	}
	m.ctx, m.stderr = c.Context(), c.ErrOrStderr()
	if o.timeout > 0 {
		var cancel context.CancelFunc
		m.ctx, cancel = context.WithTimeoutCause(m.ctx, o.timeout, errTimeout)
		defer cancel()
	}
	tooShort := fmt.Errorf("bench predict: %s before a point was complete", endedEarly(o.timeout))
	rt, err := m.open(nil)
	if errors.Is(err, errTimeout) {
		return nil, tooShort
	} else if err != nil {
		return nil, err
	}
	defer rt.Close()
	rec := &recorder{o: o, ctx: m.ctx, rt: rt, log: m.stderr}
	if o.asJSON {
		rec.log = io.Discard
	}
	if rec.r, err = o.begin(rt.Machine()); err != nil {
		return nil, err
	}
	err = rec.all(ladders)
	if saving := rec.save(true); err == nil {
		err = saving
	}
	late := m.ctx.Err() != nil && c.Context().Err() == nil
	switch {
	case err != nil && !late:
		return nil, err
	case len(rec.r.Points) == 0 && late:
		return nil, tooShort
	case len(rec.r.Points) == 0:
		return nil, errors.New("bench predict: no workload could be recorded on these devices")
	case late:
		fmt.Fprintf(m.stderr, "weft: recording %s; %s has the measurements so far; the same command continues it\n", endedEarly(o.timeout), o.record)
	}
	return rec.r, nil
}

// begin returns the recording that is in the file already, or an empty one.
func (o *predictions) begin(m *machine.Machine) (*plan.Recording, error) {
	r := &plan.Recording{Version: plan.RecordingVersion, Label: o.label, Commit: commit(), Devices: o.m.options.Devices, Machine: m}
	if r.Label == "" {
		r.Label = fmt.Sprintf("%s, %s", terminal.Models(m), terminal.Count(m.Devices[0].ComputeUnits, "core"))
	}
	there, err := LoadRecordings([]string{o.record})
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	} else if err != nil {
		return nil, err
	}
	was := there[0]
	same := slices.EqualFunc(was.Machine.Devices, m.Devices, func(a, b machine.Device) bool {
		return a.Model == b.Model && a.ComputeUnits == b.ComputeUnits
	})
	if was.Label != r.Label || !same {
		return nil, terminal.Usagef("%s is a recording of %s, and this is %s: record to another file", o.record, was.Label, r.Label)
	}
	was.Commit = r.Commit
	return was, nil
}

// all measures every workload at its sizes in --passes passes.
func (rec *recorder) all(ladders []*ladder) error {
	for _, l := range ladders {
		sizes, err := rec.sizes(l)
		switch {
		case rec.ctx.Err() != nil:
			return rec.ctx.Err()
		case err != nil:
			fmt.Fprintf(rec.log, "%-12s left out: %v\n", l.name, err)
			continue
		}
		for _, size := range sizes {
			v := &visit{of: l, point: plan.Point{Workload: l.name, Size: size}}
			if was := rec.find(l.name, size); was == nil || !was.Stable() {
				if was != nil && len(was.Seconds) == plan.LeastRuns {
					p := *was
					v.before = &p
				}
				rec.visits = append(rec.visits, v)
			}
		}
	}
	for pass := 1; pass <= rec.o.passes; pass++ {
		began, due := time.Now(), rec.due(pass)
		for _, v := range due {
			if err := rec.visit(v); err != nil {
				return err
			}
		}
		if len(due) > 0 {
			fmt.Fprintf(rec.log, "pass %d: %s in %s, %d stable\n", pass, terminal.Count(len(due), "size"), terminal.Short(time.Since(began)), rec.stable())
		}
		if pass < rec.o.passes {
			rec.thin(pass)
		}
	}
	return nil
}

// rarely is the number of passes of which one visits a point that is settled.
const rarely = 3

// due returns the visits that can run and are not settled, and every third of the settled ones, in
// an order drawn for the pass.
func (rec *recorder) due(pass int) (out []*visit) {
	for i, v := range rec.visits {
		if v.gone == nil && (!v.settled() || (i+pass)%rarely == 0) {
			out = append(out, v)
		}
	}
	rand.New(rand.NewPCG(uint64(pass), 0)).Shuffle(len(out), func(i, k int) { out[i], out[k] = out[k], out[i] })
	return out
}

// leastPasses is the number of passes after which the runs of a point take plan.LeastRun. A machine that others
// share is slower for seconds at a time, so that many short visits say more than few long ones.
const leastPasses = 6

// leastSizes is the number of sizes that a workload keeps when there is not time for all.
const leastSizes = 5

// thin leaves out sizes for which there is no time: the largest of the workload whose sizes take most
// time, as often as needed for the passes to come up to leastPasses. Once each has leastSizes it leaves
// out the workload that takes most.
func (rec *recorder) thin(pass int) {
	until, limited := rec.ctx.Deadline()
	for limited && pass < leastPasses {
		all, sums, byName := time.Duration(0), make(map[string]time.Duration), make(map[string][]*visit)
		for _, v := range rec.visits {
			if v.gone == nil {
				all += v.costs
				sums[v.of.name] += v.costs
				byName[v.of.name] = append(byName[v.of.name], v)
			}
		}
		if all*time.Duration(leastPasses-pass) <= time.Until(until) || len(byName) == 1 {
			return
		}
		var drop []*visit
		for name, vs := range byName {
			many, was := len(vs) > leastSizes, len(drop) > leastSizes
			if drop == nil || many && !was || many == was && sums[name] > sums[drop[0].of.name] {
				drop = vs
			}
		}
		if len(drop) > leastSizes {
			slices.SortFunc(drop, func(a, b *visit) int { return cmp.Compare(b.point.Size, a.point.Size) })
			drop = drop[:1]
		}
		for _, v := range drop {
			v.gone, v.job = errTimeout, nil
			fmt.Fprintf(rec.log, "%-12s %-24s left out: there is no time for it\n", v.of.name, v.of.sizeText(v.point.Size))
		}
	}
}

// longestMade is the longest time to make inputs that are made anew for each visit. Others are kept while there
// is memory, a quarter of the machine's: making them would take much of a recording.
const longestMade = 10 * time.Millisecond

// visit runs a size. It fails only if the recording cannot go on: one size may be too much for a device.
func (rec *recorder) visit(v *visit) error {
	began := time.Now()
	err := rec.measured(v)
	switch {
	case rec.ctx.Err() != nil:
		return rec.ctx.Err()
	case err != nil:
		v.gone, v.job = err, nil
		fmt.Fprintf(rec.log, "%-12s %-24s left out: %v\n", v.of.name, v.of.sizeText(v.point.Size), err)
		return nil
	}
	rec.keep(v, time.Since(began))
	return rec.save(false)
}

// measured adds jobs to the runs of a visit's point.
func (rec *recorder) measured(v *visit) (err error) {
	p, began, made := &v.point, time.Now(), time.Duration(0)
	if v.job == nil {
		if v.job, err = v.of.make(rec.ctx, p.Size); err != nil {
			return err
		}
		made = time.Since(began)
	}
	runtime.GC() // not while it is measured
	warming := time.Now()
	took, err := rec.warm(v)
	if err != nil {
		return err
	}
	warmed := time.Since(warming)
	seconds, err := v.job.run(rec.ctx, rec.rt, v.jobs()*plan.LeastRuns)
	if err != nil {
		return err
	}
	v.add(seconds)
	v.costs = time.Since(began) - warmed + time.Duration(took*1e9)
	switch {
	case made == 0: // it was kept by an earlier visit
	case made <= longestMade || rec.kept+p.Upload+p.Download > float64(host.Read().Memory)/4:
		v.job = nil
	default:
		rec.kept += p.Upload + p.Download
		v.costs -= made
	}
	return nil
}

// warmTime is the least time for which a job runs before it is measured: short ones run several times, as caches
// and clocks of a device need some milliseconds.
const warmTime = 0.004

// warm runs the job of a visit until it may be measured, and returns the shortest time. In the first visit the
// runtime learns, and the point is made.
func (rec *recorder) warm(v *visit) (took float64, err error) {
	times := 1
	if v.passes == 0 {
		times = learning
	}
	took = math.Inf(1)
	for all, n := 0.0, 0; n < times || all < warmTime; n++ {
		seconds, err := v.job.run(rec.ctx, rec.rt, 1)
		if err != nil {
			return 0, err
		}
		took, all = min(took, seconds[0]), all+seconds[0]
	}
	if v.passes > 0 {
		return took, nil
	}
	need, err := v.job.need(rec.rt)
	if err != nil {
		return 0, err
	}
	need.Workload = v.of.name
	v.point = plan.PointOf(need, v.point.Size, 0, nil)
	if was := v.before; was != nil && (was.Ops != v.point.Ops || was.Bytes != v.point.Bytes) {
		v.before = nil // the job of another weft
	}
	v.each = eachOf(took)
	return took, nil
}

// eachOf returns the number of jobs of a run in a visit with which leastPasses visits make a run, for jobs of some
// seconds. It is 10 % more than needed, since later jobs may be faster.
func eachOf(took float64) int { return max(int(math.Ceil(1.1*plan.LeastRun/leastPasses/took)), 1) }

// settled reports whether a point is stable by half as much again as it must be.
func (v *visit) settled() bool {
	return v.passes >= leastPasses && v.point.Stable() && v.point.Spread() < plan.MostSpread/1.5
}

// mostMore is the most jobs of a visit, as a multiple of those that make a run in leastPasses visits.
const mostMore = 6

// jobs returns the number of jobs of a run in the next visit: each, and once all points have their runs as many
// more as the spread needs, which falls with the root of their number.
func (v *visit) jobs() int {
	if v.passes < leastPasses {
		return v.each
	}
	ratio := v.point.Spread() / (plan.MostSpread / 2)
	more := float64(v.point.Repeats) * (ratio*ratio - 1)
	return int(min(max(more, float64(v.each)), float64(mostMore*v.each)))
}

// add deals the times of jobs out to the runs, in turn. The time of a run is the mean of the middle half of its
// jobs: one that had to wait for a core says nothing about the others. What a run had before the recording was
// gone on with counts by its number of jobs.
func (v *visit) add(seconds []float64) {
	p := &v.point
	p.Repeats, p.Seconds = 0, make([]float64, len(v.runs))
	for i := range v.runs {
		for k := i; k < len(seconds); k += len(v.runs) {
			v.runs[i] = append(v.runs[i], seconds[k])
		}
		slices.Sort(v.runs[i])
		p.Seconds[i] = middleHalf(v.runs[i])
		p.Repeats = len(v.runs[i])
		if was := v.before; was != nil {
			here, before := float64(p.Repeats), float64(was.Repeats)
			p.Seconds[i] = (p.Seconds[i]*here + was.Seconds[i]*before) / (here + before)
			p.Repeats += was.Repeats
		}
	}
	v.passes++
	if p.Seconds[0]*float64(v.each)*leastPasses < plan.LeastRun { // faster than when it was new
		v.each = eachOf(p.Seconds[0])
	}
}

// middleHalf is the mean of ascending numbers without the lowest and the highest quarter.
func middleHalf(xs []float64) float64 {
	quarter := len(xs) / 4
	sum := 0.0
	for _, x := range xs[quarter : len(xs)-quarter] {
		sum += x
	}
	return sum / float64(len(xs)-2*quarter)
}

// find returns the point of a workload at a size, nil if it was not measured.
func (rec *recorder) find(name string, size int) *plan.Point {
	at := slices.IndexFunc(rec.r.Points, func(p plan.Point) bool { return p.Workload == name && p.Size == size })
	if at < 0 {
		return nil
	}
	return &rec.r.Points[at]
}

// sizes returns those at which a workload is measured: the smallest and largest, and others between
// them in equal steps of their logarithm.
func (rec *recorder) sizes(l *ladder) ([]int, error) {
	least, most := math.MaxInt, 0
	for i := range rec.r.Points {
		if p := &rec.r.Points[i]; p.Workload == l.name {
			least, most = min(least, p.Size), max(most, p.Size)
		}
	}
	if least >= most { // not even both ends were measured
		var err error
		if least, most, err = l.ends(rec); err != nil {
			return nil, err
		}
	}
	// Sizes are whole numbers, some of them multiples of 64, and too near ones say nothing
	// new: steps are made smaller until there are enough.
	var all []int
	for n := rec.o.sizes; n <= 4*rec.o.sizes && len(all) < rec.o.sizes; n++ {
		all = all[:0]
		for k := range n {
			part := float64(k) / float64(max(n-1, 1))
			size, err := l.near(int(float64(least)*math.Pow(float64(most)/float64(least), part) + 0.5))
			if err != nil {
				return nil, err
			}
			if size = rec.known(l.name, size); len(all) == 0 || float64(size) >= 1.02*float64(all[len(all)-1]) {
				all = append(all, size)
			}
		}
	}
	return all, nil
}

// known returns the nearest size that was measured already if it is within 2 %, else size.
func (rec *recorder) known(name string, size int) int {
	near, off := size, 0.02
	for i := range rec.r.Points {
		if p := &rec.r.Points[i]; p.Workload == name {
			if d := math.Abs(float64(p.Size)/float64(size) - 1); d < off {
				near, off = p.Size, d
			}
		}
	}
	return near
}

// keep puts the point of a visit into the recording, and logs it with the time that all of the visit took.
func (rec *recorder) keep(v *visit, all time.Duration) {
	p := &v.point
	if was := rec.find(p.Workload, p.Size); was != nil {
		*was = *p
	} else {
		rec.r.Points = append(rec.r.Points, *p)
	}
	fmt.Fprintf(rec.log, "%s: %s ± %.1f %%, %d × %d jobs, pass %d, %s in all\n", p.Job, terminal.Seconds(p.Median()), 100*p.Spread(),
		len(p.Seconds), p.Repeats, v.passes, terminal.Short(all))
}

// stable counts the points that count.
func (rec *recorder) stable() (n int) {
	for i := range rec.r.Points {
		if rec.r.Points[i].Stable() {
			n++
		}
	}
	return n
}

// save writes the recording, at most every second unless it must.
func (rec *recorder) save(must bool) error {
	if len(rec.r.Points) == 0 || !must && time.Since(rec.saved) < time.Second {
		return nil
	}
	rec.saved = time.Now()
	src, err := rec.r.Encode()
	if err != nil {
		return err
	}
	if err := safefile.Write(rec.o.record, src); err != nil {
		return terminal.FileError(rec.o.record, err)
	}
	return nil
}
