package weft

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/cut"
	"github.com/weft-run/weft/internal/exec"
	"github.com/weft-run/weft/sched"
)

// Prediction is the expected duration of a run and the part of each device in it.
type Prediction = sched.Prediction

// DevicePrediction is a device's part of a prediction.
type DevicePrediction = sched.DevicePrediction

// Divisible is work that can be cut into ranges, each of which becomes a task.
type Divisible struct {
	// Items are the items to be divided: their number, the cost of ranges of them, and how they make tasks.
	Items sched.Items
	// Whole is the task that would do all of it: its kernel and work estimate say how
	// fast each device is.
	Whole graph.Task
	// Graph builds the work as one task for each range, in the order to start them.
	// Without it Plan ends with the ranges.
	Graph func(ranges []sched.Range) (*graph.Graph, error)
	// Bind ties the graph's inputs and outputs to memory. Plan looks at which of them
	// are resident and touches no memory.
	Bind []Binding
}

// Plan is a division of work among devices.
type Plan struct {
	// Partition is each device's part and why it was chosen.
	Partition sched.Partition
	// Ranges are those of the tasks, in the order to start them.
	Ranges []sched.Range
	// Graph and Prediction are nil if the work has no Graph.
	Graph      *graph.Graph
	Prediction *Prediction
}

// rules returns the policy of the options and their partitioner, nil where the caller
// leaves the choice of one device or several to weft.
func (o *Options) rules() (sched.Factory, sched.Partitioner, error) {
	policy, err := sched.New(o.Policy)
	if err == nil && o.PolicyBetween+o.PolicyWithin != "" {
		if policy, err = sched.Hierarchical(o.PolicyBetween, o.PolicyWithin); err == nil && o.Policy != "hierarchical" {
			err = errors.New("policy_between and policy_within are for policy = hierarchical")
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if o.PlaceBy != nil {
		var once sync.Once // each prediction has a policy of its own, with the same mistakes
		policy = sched.Guard(o.PlaceBy, func(err error) {
			once.Do(func() {
				o.Log.Warn("the policy of Options.PlaceBy is wrong; the default one places instead", "err", err)
			})
		})
	}
	if o.CutBy != nil || o.Partitioner == "" {
		return policy, o.CutBy, nil
	}
	cut, err := sched.NewPartitioner(o.Partitioner)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return policy, cut, nil
}

// knowledge returns what is known of the devices now.
func (r *Runtime) knowledge() (*cut.Knowledge, error) {
	if r == nil {
		return nil, errNoRuntime
	}
	history, st := r.x.Snapshot()
	if history == nil {
		return nil, ErrClosed
	}
	return &cut.Knowledge{
		Machine: r.machine, Cost: history, Devices: st[:len(r.names)],
		Policy: r.policy, Partitioner: r.partitioner, Concurrent: r.o.Concurrent,
	}, nil
}

// Split cuts work for the devices by the partitioner of the options. whole is
// the task that would do all of it: its kernel and work estimate tell how fast each
// device is.
//
// Without a partitioner of the caller's choice the work goes to several devices
// when that is predicted to gain more than starting and awaiting them costs, and
// to the one that is done first otherwise; Partition.Why says so with the
// numbers. Of devices that compute on the same cores only those take part that are
// fastest together.
func (r *Runtime) Split(p sched.Items, whole graph.Task) (sched.Partition, error) {
	v, err := r.knowledge()
	if err != nil {
		return sched.Partition{}, fmt.Errorf("split: %w", err)
	}
	part, err := v.Split(p, whole)
	if err != nil {
		return part, fmt.Errorf("split: %w", err)
	}
	return part, nil
}

// Plan cuts work for the devices, builds its graph and predicts its duration. Where Split
// chose several devices, the work is cut for sets of them too and goes to the fastest set:
// by the measured durations of runs on it once there are some, until then by the prediction
// of the graph, which includes every task. Sets with few runs are tried now and then.
// The next run of the graph uses the devices it was cut for as long as they can take its
// tasks.
func (r *Runtime) Plan(ctx context.Context, w Divisible) (*Plan, error) {
	need("Plan", ctx, true)
	v, err := r.knowledge()
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	v.Stop = func() bool { return ctx.Err() != nil }
	w.Items.Streamed = w.Items.Streamed && inHost(w.Bind)
	p, err := v.Plan(cut.Divisible{
		Items: w.Items, Whole: w.Whole, Graph: w.Graph,
		Resident: func(g *graph.Graph) ([]graph.DataID, error) { return residents(g, w.Bind) },
	})
	if err != nil {
		return nil, fmt.Errorf("plan: %w", causeOf(ctx, err))
	}
	if p.Graph != nil {
		r.expect(p.Graph, p.Expected)
	}
	return &Plan{Partition: p.Partition, Ranges: p.Ranges, Graph: p.Graph, Prediction: p.Prediction}, context.Cause(ctx)
}

// expect has the next run of a graph use the devices it was cut for, and teach how far off
// its prediction was.
func (r *Runtime) expect(g *graph.Graph, e cut.Expected) {
	if e.Made != "" || e.Rather != nil || e.Trial != "" {
		r.x.Expect(g, exec.Expected(e))
	}
}

// causeOf returns why the context ended of what was stopped for it, and other errors as they are.
func causeOf(ctx context.Context, err error) error {
	if errors.Is(err, cut.ErrStopped) || errors.Is(err, graph.ErrStopped) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// inHost reports whether some data is in host memory.
func inHost(b []Binding) bool {
	return len(b) == 0 || slices.ContainsFunc(b, func(x Binding) bool { return x.res == nil })
}

// residents returns the data of a graph that is bound to resident data.
func residents(g *graph.Graph, b []Binding) (out []graph.DataID, err error) {
	if g == nil {
		return nil, errNoGraph
	}
	for _, x := range b {
		d, ok := g.Lookup(x.Name)
		if !ok {
			return nil, fmt.Errorf("%w: the graph has no data %q", ErrBinding, x.Name)
		}
		if x.res != nil {
			out = append(out, d)
		}
	}
	return out, nil
}

// Predict predicts the duration of running a graph now, without running it: it
// simulates the run on the devices in their present state, with what was learned about
// them. It ignores other runs in progress. Bindings are needed only for
// resident data, which is taken to be where the graph would leave it.
func (r *Runtime) Predict(ctx context.Context, g *graph.Graph, b ...Binding) (*Prediction, error) {
	need("Predict", ctx, true)
	v, err := r.knowledge()
	if err != nil {
		return nil, fmt.Errorf("predict: %w", err)
	}
	resident, err := residents(g, b)
	if err != nil {
		return nil, fmt.Errorf("predict: %w", err)
	}
	v.Stop = func() bool { return ctx.Err() != nil }
	p, expected, err := v.Predict(g, resident)
	if err != nil {
		return nil, fmt.Errorf("predict: %w", causeOf(ctx, err))
	}
	r.expect(g, expected)
	return p, context.Cause(ctx)
}

// Compare says what running each of several graphs alone would take by the rates
// of devices and links: it is for choosing between graphs that do the same. What was
// learned of kernels is left out, since it is known of some graphs and not of
// others and scatters by more than they differ, so that the choice is the same in
// every run; what a graph will really take Predict knows better. Data is taken to
// be bound to host memory.
func (r *Runtime) Compare(ctx context.Context, graphs ...*graph.Graph) ([]time.Duration, error) {
	need("Compare", ctx, true)
	v, err := r.knowledge()
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	v = v.Rates()
	v.Stop = func() bool { return ctx.Err() != nil }
	out := make([]time.Duration, len(graphs))
	for i, g := range graphs {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if g == nil {
			return nil, fmt.Errorf("compare: graph %d: %w", i, errNoGraph)
		}
		if out[i], err = v.Takes(g); err != nil {
			return nil, fmt.Errorf("compare: graph %d: %w", i, causeOf(ctx, err))
		}
	}
	return out, nil
}

// fuse makes short tasks that follow one another a task, by what is known of the
// devices now.
func (r *Runtime) fuse(g *graph.Graph) *graph.Graph {
	v, err := r.knowledge()
	if err != nil {
		return g // nothing runs any more
	}
	return v.Fuse(g, max(r.o.TaskTimeout, 0))
}
