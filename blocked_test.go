package weft_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/task"
)

// inProcess runs the test alone in a process with a number of processors, and reports whether this
// is that process. Package task has as many slots as there are processors when it starts its first task.
func inProcess(t *testing.T, processors int) bool {
	t.Helper()
	const key = "WEFT_TEST_PROCESSORS"
	if os.Getenv(key) != "" {
		return true
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run", "^"+t.Name()+"$", "-test.v", "-test.timeout", "2m")
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", processors), key+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+" ") {
		t.Errorf("with %d processors: %v\n%s", processors, err, out)
	}
	return false
}

// spin keeps all processors busy until the test ends. The pool of package task does not find them idle,
// and adds no goroutines for tasks that block without a word.
func spin(t *testing.T) {
	var end atomic.Bool
	over := make(chan struct{})
	n := 2 * runtime.GOMAXPROCS(0)
	for range n {
		go func() {
			for !end.Load() {
				runtime.Gosched()
			}
			over <- struct{}{}
		}()
	}
	t.Cleanup(func() {
		end.Store(true)
		for range n {
			<-over
		}
	})
}

// blocks is a runtime with a graph whose kernel blocks until release is closed.
type blocks struct {
	rt      *weft.Runtime
	hold    *graph.Graph
	began   chan string // the device on which the kernel began, of the first run
	release chan struct{}
}

func newBlocks(t *testing.T, devices string) *blocks {
	t.Helper()
	b := &blocks{began: make(chan string, 1), release: make(chan struct{})}
	var err error
	b.rt, err = weft.Open(t.Context(), weft.Options{Devices: devices, NoCalibrate: true, CacheDir: "off", Checkpoint: weft.Checkpoint{Dir: t.TempDir()},
		Funcs: map[string]weft.Func{"hold": func(*weft.Call, int, int) {
			select {
			case b.began <- b.rt.Running()[0].Device:
			default:
			}
			<-b.release
		}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.rt.Close() })
	var g graph.Builder
	x := g.Data(graph.Data{Name: "x", Bytes: 8, Input: true, Output: true})
	g.Add(graph.Task{Steps: []graph.Step{{Kernel: graph.GoKernel("hold"), Launch: graph.Grid(1)}}, Uses: []graph.Use{{Data: x, Access: graph.ReadWrite}}})
	if b.hold, err = g.Build(); err != nil {
		t.Fatal(err)
	}
	return b
}

// Many more tasks than processors call Run at the same time, and the kernel of the first run waits
// until all of them have: each gives up its slot to the next.
func TestRunGivesUpSlot(t *testing.T) {
	for _, processors := range []int{1, 2} {
		if !inProcess(t, processors) {
			continue
		}
		spin(t)
		b := newBlocks(t, "cpu/1")
		const n = 40
		var handed atomic.Int32 // tasks that have begun while those before them are in Run
		err := task.Scope(t.Context(), func(ctx context.Context) error {
			for range n {
				task.Do(ctx, func(ctx context.Context) error {
					if handed.Add(1) == n {
						close(b.release)
					}
					_, err := b.rt.Run(ctx, b.hold, weft.Bind("x", make([]int64, 1)))
					return err
				})
			}
			return nil
		})
		if err != nil || handed.Load() != n {
			t.Errorf("%d of %d tasks, %v", handed.Load(), n, err)
		}
		return
	}
}

// openLate is a driver that has no device, and says so when release is closed.
type openLate struct{ release chan struct{} }

func (d *openLate) Name() string { return "late" }

func (d *openLate) Open(context.Context, *slog.Logger) ([]driver.Device, error) {
	<-d.release
	return nil, driver.ErrUnavailable
}

// Every call that waits gives up the slot of the task whose context it has: there is one slot, and what
// the call waits for is done by a task that is queued behind.
func TestCallsGiveUpSlot(t *testing.T) {
	if !inProcess(t, 1) {
		return
	}
	spin(t)
	x := make([]int64, 1)
	for name, call := range map[string]func(ctx context.Context, b *blocks) error{
		"Run": func(ctx context.Context, b *blocks) error {
			_, err := b.rt.Run(ctx, b.hold, weft.Bind("x", x))
			return err
		},
		"Prepared.Run": func(ctx context.Context, b *blocks) error {
			p, err := b.rt.Prepare(b.hold)
			if err == nil {
				_, err = p.Run(ctx, weft.Bind("x", x))
			}
			return err
		},
		"Apply": func(ctx context.Context, b *blocks) error {
			k := &weft.Kernel[struct{}]{Name: "held", Go: func(*weft.Call, struct{}, int, int) { <-b.release }}
			_, err := weft.Apply(ctx, b.rt, k, struct{}{}, weft.InOut(x))
			return err
		},
		"RunStages": func(ctx context.Context, b *blocks) error {
			_, err := b.rt.RunStages(ctx, weft.Keep{Name: "stages"}, b.hold, weft.Bind("x", x))
			return err
		},
		"Get": func(ctx context.Context, b *blocks) error {
			d, err := weft.Put(b.rt, "d", x)
			if err != nil {
				return err
			}
			h := b.rt.Submit(b.hold, nil, d.As("x"))
			<-b.began
			if _, err = d.Get(ctx); err == nil {
				_, err = h.Wait()
			}
			return err
		},
		"Drain": func(ctx context.Context, b *blocks) error {
			b.rt.Submit(b.hold, nil, weft.Bind("x", x))
			return b.rt.Drain(ctx, <-b.began)
		},
		"Swap": func(ctx context.Context, b *blocks) error {
			b.rt.Submit(b.hold, nil, weft.Bind("x", x))
			from, to := <-b.began, "cpu:0"
			if from == to {
				to = "cpu:1"
			}
			return b.rt.Swap(ctx, from, to)
		},
		"Checkpoint": func(ctx context.Context, b *blocks) error {
			began, end := make(chan struct{}), make(chan error)
			go func() {
				end <- b.rt.Steps(context.Background(), weft.Keep{Name: "steps"}, 2, []weft.Binding{weft.Bind("x", x)}, func(_ context.Context, i int) error {
					if i == 0 {
						close(began)
						<-b.release
					}
					return nil
				})
			}()
			<-began
			if err := b.rt.Checkpoint(ctx); err != nil {
				return err
			}
			return <-end
		},
		"Events": func(ctx context.Context, b *blocks) error {
			events := b.rt.Events(ctx, weft.EventRunEnded)
			b.rt.Submit(b.hold, nil, weft.Bind("x", x))
			for e := range events {
				return e.Err
			}
			return errors.New("no event")
		},
		"Open": func(ctx context.Context, b *blocks) error {
			_, err := weft.Open(ctx, weft.Options{Drivers: []driver.Driver{&openLate{b.release}}})
			if !errors.Is(err, weft.ErrNoDevices) {
				return fmt.Errorf("opened with %w", err)
			}
			return nil
		},
		"Handle.Wait by Block": func(ctx context.Context, b *blocks) (err error) {
			h := b.rt.Submit(b.hold, nil, weft.Bind("x", x))
			task.Block(ctx, func() { _, err = h.Wait() })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBlocks(t, "cpu/2")
			_, err := task.Do(t.Context(), func(ctx context.Context) error {
				task.Do(ctx, func(context.Context) error { close(b.release); return nil })
				return call(ctx, b)
			}).Wait(t.Context())
			if err != nil {
				t.Error(err)
			}
		})
	}
}
