// Package workload is what the workloads have in common: work that can be cut
// into ranges, turned into a graph, run on a runtime and checked against an
// independent reference. Each workload is a package below this one; it brings
// its kernels as values and imports no backend.
//
// A workload also has one call that computes with a caller's data, as gemm.Mul, merkle.RootOf
// or conv.Of, on a runtime that was opened with its Go kernels:
//
//	rt, err := weft.Open(ctx, weft.Options{Funcs: gemm.Funcs()})
//	...
//	c, err := gemm.Mul(ctx, rt, a, b)
//
// [Funcs] puts the kernels of several together.
//
// A workload whose ranges need nothing of one another says what it is once, by a [Declaration]: its items, its data and
// its kernel. Its type embeds what follows from that, [Declared], and adds a check and a rate. It is offered to commands
// and servers by one row of package internal/catalog.
package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// ErrConfig is wrapped by every error about what a job or a call is to be made of: a configuration that Validate
// refuses, or parameters of a function that do not fit one another. Its text names the workload and says what there may be.
var ErrConfig = errors.New("not valid")

// Class says what stays the same however the work is cut. Bits of a NaN are excepted
// from all classes: where a result is not a number it is not a number however the work
// is cut, but its sign and payload are the hardware's. Which results become NaN is
// stated by each workload and is the same on all backends.
type Class string

const (
	Exact     Class = "X" // bitwise equal for every partition, device count and backend
	RowExact  Class = "R" // bitwise equal for every partition on devices of one backend
	Tolerance Class = "T" // within a stated tolerance
)

// Job is one instance of a workload, inputs included.
type Job interface {
	// Name says what it is with its sizes, for reports.
	Name() string
	Class() Class
	// Items are the work as it is cut into ranges.
	Items() sched.Items
	// Whole is the task that would do all of it.
	Whole() graph.Task
	// Graph builds the work as one task for each range.
	Graph(ranges []sched.Range) (*graph.Graph, error)
	// Bind ties the graph's inputs and outputs to the job's memory.
	Bind() []weft.Binding
	// Check compares the result of the last run with an independent reference.
	Check() error
	// Rate puts the speed of a run into the workload's own words.
	Rate(elapsed time.Duration) string
}

// Summarised is the optional ability of a job to say in a few words what came out.
type Summarised interface {
	// Summary says what the last run computed, for reports.
	Summary() string
}

// Tabular is the optional ability of a job to write the whole result of its last run as a table,
// which weft run does with --out.
type Tabular interface {
	// WriteTable writes CSV: a line with the names of columns, then the rows. It must follow a run
	// that has ended without an error.
	WriteTable(w io.Writer) error
}

// Bounded is the optional ability of a job, which takes a number of steps that may be too few,
// to say that they were.
type Bounded interface {
	// Unfinished is the reason why the last run did not find what was asked for, nil if it did.
	Unfinished() error
}

// Classed is the optional ability of a job to say what its own kernels keep on some devices,
// where it has other kernels for them.
type Classed interface {
	ClassOn(on []machine.Device) Class
}

// ClassOn returns the class of a job's results on some devices. The class of a job's own kernels
// becomes a tolerance where a device may use a vendor's routine instead. Class R does so also
// where devices share the work that do not round alike (machine.RoundAlike): the division of work
// differs from run to run.
func ClassOn(j Job, on []machine.Device) Class {
	class := j.Class()
	if c, ok := j.(Classed); ok {
		class = c.ClassOn(on)
	}
	steps := j.Whole().Steps
	var first *machine.Device
	for i := range on {
		d := &on[i]
		if slices.ContainsFunc(steps, func(s graph.Step) bool { return !d.CanRun(s.Kernel) }) {
			continue
		}
		if d.Runs(graph.Library) && slices.ContainsFunc(steps, func(s graph.Step) bool {
			return slices.ContainsFunc(s.Kernel.Impls, func(i graph.Impl) bool { return i.Dialect == graph.Library })
		}) {
			return Tolerance
		}
		if first == nil {
			first = d
		}
		if class == RowExact && !machine.RoundAlike(first, d) {
			class = Tolerance
		}
	}
	return class
}

// Result describes a run of a job.
type Result struct {
	Report    *weft.Report
	Partition sched.Partition
	Tasks     int
	// Prediction is the expected time of the run, made just before it, and Predicted its median.
	// Small calls (see Call) are not predicted: it is nil.
	Prediction *weft.Prediction
	Predicted  time.Duration
	// Variants are those that were compared, where the job is Varied.
	Variants []Variant
	// Rule says which devices take part at most, where the job is Ruled.
	Rule string
}

// Hosted is the optional ability of a job to do the same work by another graph
// when all devices are CPUs, which share their memory: what each of them would
// prepare for itself is then prepared once for all, or items are smaller than
// others would want them.
type Hosted interface {
	// Hosted returns the job in that form, over the same memory.
	Hosted() Job
}

// form returns the job in the form that suits a runtime's devices.
func form(rt *weft.Runtime, j Job) Job {
	h, ok := j.(Hosted)
	if !ok || slices.ContainsFunc(rt.Machine().Devices, func(d machine.Device) bool { return d.Kind != machine.CPU || !d.HostMemory }) {
		return j
	}
	return h.Hosted()
}

// Placed is the optional ability of a job to say itself which device does what.
type Placed interface {
	// Place tells the job the machine before its graph is built.
	Place(m *machine.Machine) error
}

// Able returns the devices that can run all of some kernels, for jobs that place
// their tasks themselves. None is an error.
func Able(m *machine.Machine, kernels ...*graph.Kernel) ([]machine.DeviceID, error) {
	var out []machine.DeviceID
	for i := range m.Devices {
		if !slices.ContainsFunc(kernels, func(k *graph.Kernel) bool { return !m.Devices[i].CanRun(k) }) {
			out = append(out, machine.DeviceID(i))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: none has implementations of kernel %q and of the others used with it; let the CPU take part", weft.ErrNoDevice, kernels[0].Name)
	}
	return out, nil
}

// Varied is the optional ability of a job to be done in several variants with the same
// result, such as with many exchanges of little or few of much.
type Varied interface {
	// Vary takes the variant predicted to be done first and returns all there were,
	// or none when there is nothing to choose. It is called before every run.
	Vary(price Pricer) ([]Variant, error)
	// Take takes a variant by the name that Vary gave it, "" for what there is without a
	// choice, so that a job can be gone on with as another process began it.
	Take(variant string) error
}

// Pricer predicts what samples of a job, such as its first few rounds, would take
// if they were cut as all of it is.
type Pricer func(all Job, samples ...Job) ([]time.Duration, error)

// Variant is one variant of a Varied job.
type Variant struct {
	Name      string
	Predicted time.Duration
	Taken     bool
}

// pricer is the Pricer of a runtime.
func pricer(ctx context.Context, rt *weft.Runtime) Pricer {
	return func(all Job, samples ...Job) ([]time.Duration, error) {
		work := workOf(all)
		work.Graph = nil // the ranges are enough
		p, err := rt.Plan(ctx, work)
		if err != nil {
			return nil, err
		}
		graphs := make([]*graph.Graph, len(samples))
		for i, j := range samples {
			done := stopWith(ctx, j)
			graphs[i], err = graphOf(ctx, j, p.Ranges)
			done()
			if err != nil {
				return nil, err
			}
		}
		return rt.Compare(ctx, graphs...)
	}
}

// Stop is embedded in jobs whose graphs may have many tasks, and ends the building of a graph with the context of
// the run. A job that embeds it is not for several runs at a time.
//
//	b := graph.Builder{Stop: j.Stopped}
type Stop struct{ asked func() bool }

// Stopped reports whether the context of the run has ended, so that building the graph can end early.
func (s *Stop) Stopped() bool { return s.asked != nil && s.asked() }

func (s *Stop) stopWhen(asked func() bool) { s.asked = asked }

// stopWith has a job's graph be wanted as long as the context, until done is called.
func stopWith(ctx context.Context, j Job) (done func()) {
	s, ok := j.(interface{ stopWhen(asked func() bool) })
	if !ok {
		return func() {}
	}
	s.stopWhen(func() bool { return ctx.Err() != nil })
	return func() { s.stopWhen(nil) }
}

// graphOf builds the graph of a job for some ranges.
func graphOf(ctx context.Context, j Job, ranges []sched.Range) (*graph.Graph, error) {
	g, err := j.Graph(ranges)
	if errors.Is(err, graph.ErrStopped) && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return g, err
}

// Stateful is the optional ability of a job to keep state on devices from run to
// run, and to do something with it after each.
type Stateful interface {
	// Begin is called before the graph of every run is built. A job is run on
	// one runtime only.
	Begin(ctx context.Context, rt *weft.Runtime) error
	// End is called after every run that ended well.
	End(ctx context.Context) error
	// Release gives up what the job keeps on devices, after its last run and
	// before the runtime closes. Without a run it does nothing.
	Release()
}

// Fed is the optional ability of a job to have inputs, which are copied to devices
// in every run, where that is fast.
type Fed interface {
	// Feed moves inputs to memory that get returns, one call for each, until restore
	// is called.
	Feed(get func(bytes int) ([]byte, error)) (restore func(), err error)
}

// Feed moves a job's inputs, if it is Fed, to memory that the devices of a runtime
// copy from directly, where some have memory of their own. The job has them back
// where they were after done, which is called before the runtime closes.
func Feed(rt *weft.Runtime, j Job) (done func(), err error) {
	if rt == nil {
		return nil, errNoRuntime
	}
	var made []*weft.Buffer[byte]
	release := func() {
		for _, b := range made {
			b.Release()
		}
	}
	f, ok := j.(Fed)
	if !ok || !slices.ContainsFunc(rt.Machine().Devices, func(d machine.Device) bool { return !d.HostMemory }) {
		return release, nil
	}
	restore, err := f.Feed(func(bytes int) ([]byte, error) {
		b, err := weft.NewBuffer[byte](rt, bytes)
		if err != nil {
			return nil, err
		}
		made = append(made, b)
		return b.Slice(), nil
	})
	if err != nil {
		release()
		return nil, fmt.Errorf("%s: %w", j.Name(), err)
	}
	return func() {
		restore()
		release()
	}, nil
}

// Ruled is the optional ability of a job to limit the number of devices that take part by its own
// rule.
type Ruled interface {
	// Rule describes the rule and its result in a few words. It is valid after Place.
	Rule() string
}

// workOf is a job as the runtime cuts it.
func workOf(j Job) weft.Divisible {
	return weft.Divisible{Items: j.Items(), Whole: j.Whole(), Graph: j.Graph, Bind: j.Bind()}
}

// Plan cuts a job for the devices of a runtime, builds its graph and predicts it, as Run
// does before it runs the job.
func Plan(ctx context.Context, rt *weft.Runtime, j Job) (*weft.Plan, error) {
	defer stopWith(ctx, j)()
	p, err := rt.Plan(ctx, workOf(j))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", j.Name(), err)
	}
	return p, nil
}

var errNoRuntime = errors.New("the runtime is nil; weft.Open returns one")

// Run plans, builds and runs a job. Just before it runs, it calls what else is given
// with the job in the form that is run, its graph, and what that is expected to take.
func Run(ctx context.Context, rt *weft.Runtime, j Job, before ...func(Job, *graph.Graph, *weft.Prediction)) (*Result, error) {
	if rt == nil {
		return nil, fmt.Errorf("%s: %w", j.Name(), errNoRuntime)
	}
	j = form(rt, j)
	res, err := run(ctx, rt, j, before, false, nil)
	if err != nil && res == nil {
		return nil, fmt.Errorf("%s: %w", j.Name(), err)
	}
	return res, err
}

// run plans a job as it is and runs it, by staged if that is given and takes it; quick means without comparing variants and
// predicting.
func run(ctx context.Context, rt *weft.Runtime, j Job, before []func(Job, *graph.Graph, *weft.Prediction), quick bool, staged func(*weft.Plan, *Result) (taken bool, err error)) (*Result, error) {
	defer stopWith(ctx, j)()
	if p, ok := j.(Placed); ok {
		if err := p.Place(rt.Machine()); err != nil {
			return nil, err
		}
	}
	var res Result
	if r, ok := j.(Ruled); ok {
		res.Rule = r.Rule()
	}
	if v, ok := j.(Varied); ok && !quick {
		var err error
		if res.Variants, err = v.Vary(pricer(ctx, rt)); err != nil {
			return nil, err
		}
	}
	st, stateful := j.(Stateful)
	if stateful {
		if err := st.Begin(ctx, rt); err != nil {
			return nil, err
		}
	}
	work := workOf(j)
	if quick {
		work.Graph = nil // the ranges are enough
	}
	p, err := rt.Plan(ctx, work)
	if quick && err == nil {
		p.Graph, err = graphOf(ctx, j, p.Ranges)
	}
	if err != nil {
		return nil, err
	}
	for _, f := range before {
		f(j, p.Graph, p.Prediction)
	}
	res.Partition, res.Tasks = p.Partition, p.Graph.NumTasks()
	if p.Prediction != nil {
		res.Prediction, res.Predicted = p.Prediction, p.Prediction.Median
	}
	taken := false
	if staged != nil {
		taken, err = staged(p, &res)
	}
	if !taken {
		res.Report, err = rt.Run(ctx, p.Graph, j.Bind()...)
	}
	if err != nil {
		// A device that has no function may be seen first by what its task did not write.
		if _, missing := rt.Prepare(p.Graph); errors.Is(missing, weft.ErrNoFunc) {
			err = missing
		}
	} else if stateful {
		if err = st.End(ctx); err != nil {
			err = fmt.Errorf("%s: %w", j.Name(), err)
		}
	}
	return &res, err
}
