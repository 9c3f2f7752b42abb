package exec_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
	"github.com/weft-run/weft/internal/test/poll"
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
	c.Drivers = []driver.Driver{cpu.New(cpu.Options{Funcs: map[string]driver.Func{
		"inc": inc,
		"stuck": func(c *driver.Call, lo, _ int) {
			if lo == 0 {
				s.began <- struct{}{}
			}
			<-s.release
			c.Args[0][lo] = 41
		},
		"more": func(c *driver.Call, _, _ int) { c.Args[0][0]++ },
	}})}
	if s.Executor, err = exec.Open(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 8, Output: true})
	b.Add(graph.Task{Name: "forever", Steps: []graph.Step{{Kernel: kernel("stuck"), Launch: graph.Launch{Grid: [3]uint32{8, 1, 1}}}}, Uses: []graph.Use{{Data: x, Access: graph.Write}}})
	b.Add(graph.Task{Name: "after", Steps: []graph.Step{{Kernel: kernel("more")}}, Uses: []graph.Use{{Data: x, Access: graph.ReadWrite}}})
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
	for end := time.Now().Add(time.Minute); ; {
		err := s.Close(context.Background())
		if strings.HasSuffix(err.Error(), "; not closed: cpu:0") { // and the copier is
			break
		}
		if time.Now().After(end) {
			t.Fatalf("got %v, and only one device is not closed", err)
		}
	}
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

// Close returns although a run, not cancelled, has a Go kernel that does not return,
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

// Go kernels that do not return keep no other run from their device, however many cores
// they are on, nor what was behind them on it; and a run that is cancelled says which
// kernel it was. When they return after all, their runs go on.
func TestOthersGoOn(t *testing.T) {
	t.Run("sampled", func(t *testing.T) { othersGoOn(t, time.Millisecond) })
	t.Run("not sampled", func(t *testing.T) { othersGoOn(t, -1) })
	t.Run("sampled rarely", func(t *testing.T) { othersGoOn(t, time.Hour) })
}

func othersGoOn(t *testing.T, sampled time.Duration) {
	s := newStubborn(t, exec.Config{
		CancelWait: 20 * time.Millisecond, HealthInterval: sampled, Engine: engine.Options{DetachAfter: 20 * time.Millisecond},
	})
	quick := func() *graph.Graph {
		var b graph.Builder
		in := b.Data(graph.Data{Name: "in", Bytes: 4000, Input: true})
		out := b.Data(graph.Data{Name: "out", Bytes: 4000, Output: true})
		for i := range int64(4) {
			b.Add(graph.Task{
				Steps: []graph.Step{{Kernel: kernel("inc"), Launch: graph.Launch{Grid: [3]uint32{1000, 1, 1}}}},
				Uses:  []graph.Use{{Data: in, Offset: i * 1000, Bytes: 1000}, {Data: out, Offset: i * 1000, Bytes: 1000, Access: graph.Write}},
			})
		}
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return g
	}()
	others := func() {
		t.Helper()
		for range 5 {
			src, dst := make([]byte, 4000), make([]byte, 4000)
			if _, err := s.Run(context.Background(), quick, engine.RunOptions{}, memory(src, dst)); err != nil {
				t.Fatal(err)
			}
			for i := range dst {
				if dst[i] != 1 {
					t.Fatalf("byte %d of another run is %d", i, dst[i])
				}
			}
		}
	}
	others()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	results := make([][]byte, 3)
	ended := make([]chan error, len(results))
	for i := range ended {
		ended[i], results[i] = make(chan error, 1), make([]byte, 8)
		go func() {
			with := ctx
			if i > 0 {
				with = context.Background()
			}
			_, err := s.Run(with, s.graph, engine.RunOptions{}, func(graph.DataID) []byte { return results[i] })
			ended[i] <- err
		}()
		<-s.began // and runs from now on
		others()
	}
	cancel()
	isHeld(t, <-ended[0], engine.ErrCancelled)
	others()
	close(s.release)
	for i, ch := range ended[1:] {
		if err := <-ch; err != nil {
			t.Error(err)
		}
		if results[i+1][0] != 42 { // of the kernel and the task after it
			t.Errorf("result %d is %v", i+1, results[i+1])
		}
	}
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// A launch that waits for its turn behind another run is not told to end where its run
// updates resident data: it writes the caller's memory later, and the error says so.
func TestHeldByWhatHasNotBegun(t *testing.T) {
	// A kernel detached on a machine that is slow would let the launch begin.
	s := newStubborn(t, exec.Config{CancelWait: 20 * time.Millisecond, Streams: 1, Engine: engine.Options{DetachAfter: -1}})
	before := make(chan error, 1)
	go func() {
		_, err := s.Run(context.Background(), s.graph, engine.RunOptions{}, func(graph.DataID) []byte { return make([]byte, 8) })
		before <- err
	}()
	<-s.began
	var b graph.Builder
	state := b.Data(graph.Data{Name: "state", Bytes: 8, Input: true, Output: true})
	out := b.Data(graph.Data{Name: "out", Bytes: 8, Output: true})
	b.Add(graph.Task{Name: "later", Steps: []graph.Step{{Kernel: kernel("more")}}, Uses: []graph.Use{{Data: out, Access: graph.Write}, {Data: state, Access: graph.ReadWrite}}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	ref, err := s.Put("state", make([]byte, 8), graph.Versioned)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	mem := make([]byte, 8)
	ended := make(chan error, 1)
	go func() {
		_, err := s.Run(ctx, g, engine.RunOptions{Bind: []engine.Binding{{Data: state, Ref: ref}}}, func(graph.DataID) []byte { return mem })
		ended <- err
	}()
	poll.True(t, "the second run's task is issued behind both of the first", func() bool {
		st, _ := s.Status()
		return st[0].Queued == 3
	})
	cancel()
	if err := <-ended; !errors.Is(err, exec.ErrHeld) || !strings.Contains(err.Error(), `kernel "more" of task "later" has not begun`) {
		t.Errorf("got %v", err)
	}
	close(s.release)
	if err := <-before; err != nil {
		t.Error(err)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
