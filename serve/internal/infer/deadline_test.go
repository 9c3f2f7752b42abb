package infer

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/test/poll"
)

// lateRunner waits with each batch until it is let go.
type lateRunner struct {
	runner
	let chan struct{}
}

func (r *lateRunner) run(ctx context.Context, d *device, c []*call) ([][]Tensor, error) {
	<-r.let
	return r.runner.run(ctx, d, c)
}

// Requests whose contexts end at their deadlines, while the machine finds out the same, are counted
// out once each.
func TestDeadlineOfContext(t *testing.T) {
	folder := t.TempDir()
	put(t, filepath.Join(folder, "m"), "mul", 1, "")
	s := openWith(t, folder, weft.Options{Devices: "cpu", Funcs: funcs(nil)})
	v := s.models["m"]["1"]
	late := &lateRunner{v.runner, make(chan struct{})}
	v.runner = late
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(20+i)*time.Millisecond)
			defer cancel()
			_, _ = s.Infer(ctx, ask("m", 1, 2, 3)) // most have no answer in time
		})
	}
	all.Wait()
	close(late.let)
	poll.True(t, "all batches have ended", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.flights) == 0
	})
	s.mu.Lock()
	pending, n := v.pending, v.counts
	s.mu.Unlock()
	if ended := n.Succeeded + n.Failed + n.Refused + n.Expired + n.Cancelled; pending != 0 || n.Requests != 64 || ended != 64 {
		t.Errorf("%d requests are pending; of %d, %d were counted out", pending, n.Requests, ended)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Unload(ctx, "m"); err != nil {
		t.Error(err)
	}
}
