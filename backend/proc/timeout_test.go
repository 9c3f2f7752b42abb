//go:build linux

package proc_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/backend/proc"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
)

// A kernel that hangs in a worker fails its run although nobody set a timeout, and runs
// beside it end well.
func TestHungKernelIsEnded(t *testing.T) {
	const limit = time.Second // of a task that takes microseconds
	r := start(t, proc.Options{Config: []byte("lanes 2; hang kernel bad")}, engine.Options{
		Retries: 50, // of those that a busy machine keeps for longer
		Limits:  engine.Limits{Least: limit, Unknown: limit},
	})
	var b graph.Builder
	y := b.Data(graph.Data{Name: "y", Bytes: 1000})
	b.Add(graph.Task{
		Name: "stays", Steps: []graph.Step{{Kernel: kernel("bad")}}, Retries: -1,
		Uses: []graph.Use{{Data: y, Access: graph.Write}},
	})
	hangs, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := r.Run(context.Background(), hangs, engine.RunOptions{}, nil)
		ended <- err
	}()
	g, in, want := chain(t, 10_000, 4, 3)
	for waits := true; waits; {
		select {
		case err = <-ended:
			waits = false
		default:
		}
		r.mustRun(t, g, in, want)
	}
	te := (*engine.TaskError)(nil)
	if !errors.Is(err, engine.ErrTimeout) || !errors.As(err, &te) || te.Task != "stays" || !strings.Contains(err.Error(), "no task_timeout is set") {
		t.Errorf("the run that hangs: %v", err)
	}
	if st, _ := r.Status(); st[0].Losses == 0 {
		t.Error("the worker whose kernel hangs was not given up on")
	}
}
