package exec_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/backend/cpu"
	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
)

// stubborn is an executor with a kernel that runs until it is let go, whatever it is
// told.
type stubborn struct {
	*exec.Executor
	began, release chan struct{}
	graph          *graph.Graph
}

func newStubborn(t *testing.T, c exec.Config) *stubborn {
	t.Helper()
	s := &stubborn{began: make(chan struct{}, 16), release: make(chan struct{})}
	copier, err := cpu.New(cpu.Options{Cores: 1}).Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Copier = copier[0]
	c.Drivers = []driver.Driver{cpu.New(cpu.Options{Funcs: map[string]cpu.Func{
		"inc": inc,
		"stuck": func(*cpu.Call, int, int) {
			s.began <- struct{}{}
			<-s.release
		},
	}})}
	if s.Executor, err = exec.Open(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 8, Output: true})
	b.Add(graph.Task{Name: "forever", Steps: []graph.Step{{Kernel: kernel("stuck")}}, Uses: []graph.Use{{Data: x, Access: graph.Write}}})
	b.Add(graph.Task{Name: "after", Steps: []graph.Step{{Kernel: kernel("inc")}}, Uses: []graph.Use{{Data: x, Access: graph.ReadWrite}}})
	if s.graph, err = b.Build(); err != nil {
		t.Fatal(err)
	}
	return s
}

// isHeld checks an error that is to name the kernel that runs on.
func isHeld(t *testing.T, err error, also error) {
	t.Helper()
	if !errors.Is(err, exec.ErrHeld) || !errors.Is(err, also) || !strings.Contains(err.Error(), `kernel "stuck" of task "forever"`) {
		t.Errorf("got %v", err)
	}
}

// A run whose Go kernel does not return ends after its context, and says so; and so
// does Close. What the kernel uses is kept until it returns.
func TestHeldMemory(t *testing.T) {
	s := newStubborn(t, exec.Config{CancelWait: 20 * time.Millisecond, CloseWait: 200 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	mem := make([]byte, 8)
	ended := make(chan error, 1)
	go func() {
		_, err := s.Run(ctx, s.graph, engine.RunOptions{}, func(graph.DataID) []byte { return mem })
		ended <- err
	}()
	<-s.began
	cancel()
	err := <-ended // the kernel runs: nothing was let go
	isHeld(t, err, engine.ErrCancelled)
	isHeld(t, err, context.Canceled)
	if _, counts := s.Status(); counts.Cancelled != 1 || counts.Failed+counts.Completed != 0 {
		t.Errorf("the counts are %+v", counts)
	}
	isHeld(t, s.Close(context.Background()), exec.ErrHeld)
	if st, _ := s.Status(); len(st) != 1 {
		t.Error("there is no status while a device is being closed")
	}
	if _, err := s.Run(context.Background(), s.graph, engine.RunOptions{}, nil); !errors.Is(err, exec.ErrClosed) {
		t.Errorf("a run after Close: %v", err)
	}
	close(s.release)
	<-s.Ended()
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// Close returns although a run nobody cancelled has a Go kernel that does not return,
// and the run ends with the error that names it.
func TestCloseLeavesKernelBehind(t *testing.T) {
	s := newStubborn(t, exec.Config{CloseWait: 200 * time.Millisecond})
	ended := make(chan error, 1)
	go func() {
		_, err := s.Run(context.Background(), s.graph, engine.RunOptions{}, func(graph.DataID) []byte { return make([]byte, 8) })
		ended <- err
	}()
	<-s.began
	if err := s.Close(context.Background()); !errors.Is(err, exec.ErrHeld) && !errors.Is(err, engine.ErrTimeout) {
		t.Errorf("close: %v", err)
	}
	isHeld(t, <-ended, engine.ErrCancelled)
	close(s.release)
	<-s.Ended()
}
