package reservoir

import (
	"context"
	"fmt"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/rounding"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// streamJob is a [Stream] as a job: every run takes one more batch through the
// reservoir, and is followed by a merge of the replicas if the strategy says so.
type streamJob struct {
	c    StreamConfig
	w    *Weights
	s    *Stream // from the first run on
	last [][]float32
}

// NewStreamJob draws the weights. Without replicas in its configuration there is
// one for each device.
// The job is a [workload.Job].
func NewStreamJob(c StreamConfig) (*streamJob, error) {
	one := c
	if one.Replicas == 0 {
		one.Replicas = 1
	}
	if err := one.Validate(); err != nil {
		return nil, err
	}
	w, err := New(c.Params)
	if err != nil {
		return nil, err
	}
	return &streamJob{c: c, w: w}, nil
}

// Name says what goes on.
func (j *streamJob) Name() string {
	replicas := "a replica on each device"
	if j.c.Replicas > 0 {
		replicas = fmt.Sprintf("%d replicas", j.c.Replicas)
	}
	return fmt.Sprintf("reservoir %d neurons, %d channels, %s of %d patterns of %d steps, %v", j.c.Size, j.c.Inputs, replicas, j.c.Patterns, j.c.Steps, j.c.Strategy)
}

// Class is R: which device has a replica cannot be seen.
func (j *streamJob) Class() workload.Class { return workload.RowExact }

// Items are the replicas.
func (j *streamJob) Items() sched.Items {
	return sched.Items{
		Extent: int64(max(j.c.Replicas, 1)),
		Cost:   func(lo, hi int64) float64 { return float64(hi-lo) * j.w.Ops(j.c.Patterns, j.c.Steps) },
	}
}

// Whole is a batch of one replica.
func (j *streamJob) Whole() graph.Task {
	c := call{size: j.c.Size, inputs: j.c.Inputs, neurons: j.c.Size, batch: j.c.Patterns, block: j.c.Patterns, steps: j.c.Steps}
	return graph.Task{
		Steps: []graph.Step{graph.Step{Kernel: stepOnDevices, Launch: graph.Grid(int64(j.c.Size), int64(j.c.Patterns))}.With(c)},
		Work:  graph.Work{Ops: j.w.Ops(j.c.Patterns, j.c.Steps), Bytes: j.w.Bytes(j.c.Patterns, j.c.Steps)},
	}
}

// Begin sets the replicas up on a runtime's devices before the first run, and
// encodes the next batch.
func (j *streamJob) Begin(_ context.Context, rt *weft.Runtime) (err error) {
	if j.s == nil {
		if j.c.Replicas == 0 {
			j.c.Replicas = len(rt.Machine().Devices)
		}
		if j.s, err = newStream(rt, j.c, j.w); err != nil {
			return err
		}
	}
	return j.s.fill()
}

// End merges the replicas if it is time.
func (j *streamJob) End(ctx context.Context) error {
	if _, err := j.s.updated(ctx); err != nil {
		return err
	}
	snap, err := j.s.state.Snapshot(ctx)
	if err != nil {
		return err
	}
	j.last = snap.Replicas
	return nil
}

// Release gives up the stream, which ends with it; what came of the last run stays.
func (j *streamJob) Release() {
	if j.s != nil {
		j.s.Release()
	}
}

// Graph is the next batch, whatever the ranges.
func (j *streamJob) Graph([]sched.Range) (*graph.Graph, error) { return j.s.graph() }

// Bind ties the graph to inputs, weights and replicas.
func (j *streamJob) Bind() []weft.Binding { return j.s.bind() }

// Replicas are the replicas after the last run.
func (j *streamJob) Replicas() [][]float32 { return j.last }

// Check takes all batches so far through the formula in float64. The error is
// [errWrong] and names the neuron.
func (j *streamJob) Check() error {
	want, within, err := j.s.follow()
	if err != nil {
		return err
	}
	for r, x := range want {
		for i, v := range x {
			if !rounding.Same(j.last[r][i], v, within[r][i]) {
				return fmt.Errorf("reservoir: neuron %d of replica %d is %v, by the formula %v ± %.2g: %w", i, r, j.last[r][i], v, within[r][i], errWrong)
			}
		}
	}
	return nil
}

// Misses is nothing: every replica is compared.
func (j *streamJob) Misses() []workload.Miss {
	return []workload.Miss{{What: "one neuron off by more than its rounding", Chance: 0}}
}

// Rate is patterns a second, merges after how many batches so far, and what they
// moved between devices.
func (j *streamJob) Rate(d time.Duration) string {
	st := j.s.state.Stats()
	return fmt.Sprintf("%.0f patterns/s, %d merges in %d batches, %d bytes", float64(j.c.Replicas*j.c.Patterns)/d.Seconds(), st.Epoch, j.s.batch, st.Bytes)
}
