package automata_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/automata"
)

// cancelled is a job of which each graph is cancelled before it is built.
type cancelled struct {
	*automata.Job
	cancel context.CancelFunc
	err    error // of building it
}

func (c *cancelled) Graph(ranges []sched.Range) (g *graph.Graph, err error) {
	c.cancel()
	g, c.err = c.Job.Graph(ranges)
	return g, c.err
}

// The graph of a run that is cancelled is not built to its end, and of a later run it is.
func TestCancelWhileBuilding(t *testing.T) {
	rt := workloadtest.Open(t, 2, automata.Funcs())
	for name, run := range map[string]func(ctx context.Context, j workload.Job) error{
		"Plan": func(ctx context.Context, j workload.Job) error { _, err := workload.Plan(ctx, rt, j); return err },
		"Run":  func(ctx context.Context, j workload.Job) error { _, err := workload.Run(ctx, rt, j); return err },
		"Call": func(ctx context.Context, j workload.Job) error {
			_, err := workload.Call(ctx, rt, j, "automata")
			return err
		},
	} {
		job := workloadtest.New[*automata.Job](t)(automata.New(automata.Config{Rows: 4, Cols: 64, Steps: 3, K: 1}))
		ctx, cancel := context.WithCancel(t.Context())
		c := &cancelled{Job: job, cancel: cancel}
		if err := run(ctx, c); !errors.Is(err, context.Canceled) || !errors.Is(c.err, graph.ErrStopped) {
			t.Errorf("%s: %v, and building it: %v", name, err, c.err)
		}
		if _, err := job.Graph([]sched.Range{{Hi: job.Items().Extent}}); err != nil {
			t.Errorf("%s: outside a run: %v", name, err)
		}
		c.cancel = func() {}
		if err := run(t.Context(), c); err != nil || c.err != nil {
			t.Errorf("%s again: %v, and building it: %v", name, err, c.err)
		}
	}
}
