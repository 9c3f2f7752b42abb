package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/internal/safefile"
	"github.com/weft-run/weft/internal/terminal"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/plan"
	"github.com/weft-run/weft/workload"
)

// recorder makes a recording, point by point.
type recorder struct {
	o   *predictions
	ctx context.Context // ends with --timeout
	rt  *weft.Runtime
	log io.Writer
	r   *plan.Recording
}

// ladder is a workload and the sizes that it is measured at, in this order.
type ladder struct {
	w     catalog.Entry
	sizes []int
}

// measure records the workloads on the devices there are.
func (o *predictions) measure(c *cobra.Command) (*plan.Recording, error) {
	jobs, err := catalog.Choose(o.only)
	if err != nil {
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
	err = rec.all(jobs)
	late := m.ctx.Err() != nil && c.Context().Err() == nil
	switch {
	case err != nil && !late:
		return nil, err
	case len(rec.r.Points) == 0 && late:
		return nil, tooShort
	case len(rec.r.Points) == 0:
		return nil, errors.New("bench predict: no workload could be recorded on these devices")
	case late:
		fmt.Fprintf(m.stderr, "weft: recording %s; %s has what was measured, and the same command goes on with it\n", endedEarly(o.timeout), o.record)
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

// all measures every workload at its sizes, one size of each after the other. It then measures
// points again: those that were not stable, then those slower than their neighbours suggest, or
// all of them if there are none of either.
func (rec *recorder) all(jobs []catalog.Entry) error {
	var ladders []ladder
	for _, w := range jobs {
		sizes, err := rec.sizes(w)
		switch {
		case rec.ctx.Err() != nil:
			return rec.ctx.Err()
		case err != nil:
			fmt.Fprintf(rec.log, "%-12s left out: %v\n", w.Name, err)
			continue
		}
		ladders = append(ladders, ladder{w, sizes})
	}
	most := 0
	for _, l := range ladders {
		most = max(most, len(l.sizes))
	}
	var missing []func() error
	for k := range most {
		for _, l := range ladders {
			if k < len(l.sizes) && rec.find(l.w.Name, l.sizes[k]) == nil {
				missing = append(missing, func() error { return rec.step(l.w, l.sizes[k]) })
			}
		}
	}
	if err := each(missing); err != nil {
		return err
	}
	for range rec.o.tries - 1 {
		var again []late
		for i := range rec.r.Points {
			p := rec.r.Points[i]
			at := slices.IndexFunc(ladders, func(l ladder) bool { return l.w.Name == p.Workload })
			if at >= 0 {
				w := ladders[at].w
				again = append(again, late{rec.late(w, &p), func() error { return rec.step(w, p.Size) }})
			}
		}
		if err := each(latest(again)); err != nil {
			return err
		}
	}
	return nil
}

// late is a point that may be measured again. by is the logarithm of the ratio of its time to the time
// that its neighbours suggest.
type late struct {
	by   float64
	step func() error
}

// leastLate is the value of by above which a point is late: about 3 %, above a stable point's noise.
const leastLate = 0.03

// latest returns the points to measure again, the latest first, or all points if none is late.
func latest(points []late) (out []func() error) {
	slices.SortStableFunc(points, func(a, b late) int { return cmp.Compare(b.by, a.by) })
	for _, p := range points {
		if p.by > leastLate {
			out = append(out, p.step)
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, p := range points {
		out = append(out, p.step)
	}
	return out
}

// late returns the logarithm of a point's time over the time expected by a power law through the
// stable points on either side, or by the growth of the workload if there is only one of them. A
// point that is not stable returns infinity.
func (rec *recorder) late(w catalog.Entry, p *plan.Point) float64 {
	if !p.Stable() {
		return math.Inf(1)
	}
	var less, more *plan.Point
	for i := range rec.r.Points {
		switch q := &rec.r.Points[i]; {
		case q.Workload != w.Name || !q.Stable():
		case q.Size < p.Size && (less == nil || q.Size > less.Size):
			less = q
		case q.Size > p.Size && (more == nil || q.Size < more.Size):
			more = q
		}
	}
	over := func(a, b *plan.Point) (x, y float64) {
		return math.Log(float64(a.Size) / float64(b.Size)), math.Log(a.Median() / b.Median())
	}
	switch {
	case less == nil && more == nil:
		return 0
	case less == nil || more == nil:
		x, y := over(p, cmp.Or(less, more))
		return y - w.Growth.Power*x
	}
	x, y := over(p, less)
	dx, dy := over(more, less)
	return y - dy*x/dx
}

// each calls functions until one fails.
func each(fs []func() error) error {
	for _, f := range fs {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// step measures a workload at one size and keeps the point. It fails only if the recording
// cannot go on: one size may be too much for a device.
func (rec *recorder) step(w catalog.Entry, size int) error {
	began := time.Now()
	now, err := rec.point(w, size)
	switch {
	case rec.ctx.Err() != nil:
		return rec.ctx.Err()
	case err != nil:
		fmt.Fprintf(rec.log, "%-12s %-24s left out: %v\n", w.Name, sizeText(w, size), err)
		return nil
	}
	return rec.keep(now, time.Since(began))
}

// find returns the point of a workload at a size, nil if it was not measured.
func (rec *recorder) find(name string, size int) *plan.Point {
	at := slices.IndexFunc(rec.r.Points, func(p plan.Point) bool { return p.Workload == name && p.Size == size })
	if at < 0 {
		return nil
	}
	return &rec.r.Points[at]
}

// sizes returns those at which a workload is measured: the smallest and largest, and then
// what halves the steps between.
func (rec *recorder) sizes(w catalog.Entry) ([]int, error) {
	least, most := math.MaxInt, 0
	for i := range rec.r.Points {
		if p := &rec.r.Points[i]; p.Workload == w.Name {
			least, most = min(least, p.Size), max(most, p.Size)
		}
	}
	if least >= most { // not even both ends were measured
		var err error
		if least, most, err = rec.ends(w); err != nil {
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
			sizes, err := w.SizedAt(int(float64(least)*math.Pow(float64(most)/float64(least), part) + 0.5))
			if err != nil {
				return nil, err
			}
			if size := rec.known(w.Name, sizes[w.Growth.Flags[0]]); len(all) == 0 || float64(size) >= 1.02*float64(all[len(all)-1]) {
				all = append(all, size)
			}
		}
	}
	return halving(all), nil
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

// halving returns numbers in another order: the first, the last, the middle, and then the
// middles of what is between those that came before.
func halving(xs []int) []int {
	if len(xs) < 3 {
		return xs
	}
	type gap struct{ lo, hi int }
	out, gaps := []int{xs[0], xs[len(xs)-1]}, []gap{{0, len(xs) - 1}}
	for len(gaps) > 0 {
		g := gaps[0]
		gaps = gaps[1:]
		if mid := (g.lo + g.hi) / 2; mid > g.lo {
			out, gaps = append(out, xs[mid]), append(gaps, gap{g.lo, mid}, gap{mid, g.hi})
		}
	}
	return out
}

// longestSetup is how long it may take to make the inputs of a job that is measured.
const longestSetup = 300 * time.Millisecond

// ends returns sizes of a workload that take about shortest and longest. It tries larger and
// larger ones, up to the largest that the workload allows or that is made in longestSetup.
func (rec *recorder) ends(w catalog.Entry) (least, most int, err error) {
	first := w.Growth.Flags[0]
	sizes, err := w.Defaults()
	if err != nil {
		return 0, 0, err
	}
	usual := sizes[first]
	sizes = w.Growth.Times(sizes, 1./256)
	shortest, longest := rec.o.shortest.Seconds(), rec.o.longest.Seconds()
	wasSize, was, fixed := 0, 0.0, time.Duration(0)
	for {
		size, began := sizes[first], time.Now()
		job, err := w.Sized(rec.ctx, sizes)
		if err != nil && rec.ctx.Err() == nil && was == 0 && size < usual { // too small for its other flags
			sizes = w.Growth.Times(sizes, 2)
			continue
		}
		if err != nil {
			return 0, 0, err
		}
		setup := time.Since(began)
		if was == 0 {
			fixed = setup // whatever the size
		}
		setup -= min(fixed, setup)
		took, err := rec.took(job)
		if err != nil {
			return 0, 0, err
		}
		fmt.Fprintf(rec.log, "%-12s %-24s %10s, set up in %s\n", w.Name, sizeText(w, size), terminal.Seconds(took), terminal.Short(setup))
		switch {
		case least == 0 || took < shortest:
			least = size
		case was < shortest && took > was: // between
			least = int(float64(wasSize) * math.Pow(float64(size)/float64(wasSize), math.Log(shortest/was)/math.Log(took/was)))
		}
		// A step is 16 times the work at most: a small size predicts a large one badly.
		target := longest
		if took < 0.7*shortest {
			target = shortest
		}
		more := min(target/took, 16)
		if setup > longestSetup {
			most := w.Growth.Times(sizes, longestSetup.Seconds()/setup.Seconds())
			least := min(least, w.Growth.Times(most, 1./32)[first]) // there may be nothing that takes shortest
			return least, most[first], nil
		}
		larger, err := w.SizedAt(min(w.Growth.Times(sizes, more)[first], w.Growth.Most))
		if err != nil {
			return 0, 0, err
		}
		if target == longest && more < 1.25 || larger[first] <= size {
			return least, larger[first], nil
		}
		wasSize, was, sizes = size, took, larger
	}
}

// sizeText names a size of a workload by its flag.
func sizeText(w catalog.Entry, size int) string {
	return fmt.Sprintf("--%s %d", w.Growth.Flags[0], size)
}

// took runs a job a few times and returns the shortest time: the first ones load kernels.
func (rec *recorder) took(job workload.Job) (seconds float64, err error) {
	seconds = math.Inf(1)
	for range 4 {
		res, err := workload.Run(rec.ctx, rec.rt, job)
		switch {
		case rec.ctx.Err() != nil:
			return 0, rec.ctx.Err()
		case err != nil:
			return 0, fmt.Errorf("it cannot run here: %w", err)
		}
		seconds = min(seconds, res.Report.Elapsed().Seconds())
	}
	return seconds, nil
}

// point measures a workload at one size.
func (rec *recorder) point(w catalog.Entry, size int) (p plan.Point, err error) {
	sizes, err := w.SizedAt(size)
	if err != nil {
		return p, err
	}
	job, err := w.Sized(rec.ctx, sizes)
	if err != nil {
		return p, err
	}
	runtime.GC() // not while it is measured
	var need plan.Need
	once := func(before ...func(workload.Job, *graph.Graph, *weft.Prediction)) (float64, error) {
		res, err := workload.Run(rec.ctx, rec.rt, job, before...)
		if err != nil {
			return 0, err
		}
		return res.Report.Elapsed().Seconds(), nil
	}
	took, err := once(func(_ workload.Job, g *graph.Graph, _ *weft.Prediction) {
		need = plan.NeedOf(job.Name(), g, 1)
	})
	for i := 1; i < learning && err == nil; i++ {
		var again float64
		again, err = once()
		took = min(took, again)
	}
	if err != nil {
		return p, err
	}
	// A little more than needed: times may fall further.
	repeats := max(int(math.Ceil(1.2*plan.LeastRun/took)), 1)
	var seconds []float64
	for range plan.LeastRuns {
		sum := 0.0
		for range repeats {
			s, err := once()
			if err != nil {
				return p, err
			}
			sum += s
		}
		seconds = append(seconds, sum/float64(repeats))
	}
	need.Workload = w.Name
	return plan.PointOf(need, size, repeats, seconds), nil
}

// keep adds a point to the recording and says how long it took in all. Of two points of the
// same size a stable one is kept, of two stable ones the faster: what else a machine does
// only adds time.
func (rec *recorder) keep(now plan.Point, all time.Duration) error {
	if was := rec.find(now.Workload, now.Size); was == nil {
		rec.r.Points = append(rec.r.Points, now)
	} else if now.Stable() && (!was.Stable() || now.Median() < was.Median()) || !now.Stable() && !was.Stable() && now.Spread() < was.Spread() {
		*was = now
	}
	stable, state := 0, ""
	for i := range rec.r.Points {
		if rec.r.Points[i].Stable() {
			stable++
		}
	}
	if !now.Stable() {
		state = ", not stable"
	}
	fmt.Fprintf(rec.log, "%3d of %3d stable  %s: %s ± %.1f %%, %d × %d runs, %s in all%s\n", stable, len(rec.r.Points), now.Job,
		terminal.Seconds(now.Median()), 100*now.Spread(), plan.LeastRuns, now.Repeats, terminal.Short(all), state)
	return rec.save()
}

func (rec *recorder) save() error {
	src, err := rec.r.Encode()
	if err != nil {
		return err
	}
	if err := safefile.Write(rec.o.record, src); err != nil {
		return terminal.FileError(rec.o.record, err)
	}
	return nil
}
