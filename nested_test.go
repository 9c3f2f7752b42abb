package weft_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/task"
)

// A kernel that would wait for its own runtime is told so at once, on one core and on several,
// whichever call it makes; another runtime works.
func TestNestedRun(t *testing.T) {
	var inner *weft.Runtime
	var nested func(ctx context.Context) error
	funcs := map[string]weft.Func{
		"outer": func(c *weft.Call, _, _ int) {
			if err := nested(c.Context()); err != nil {
				c.Fail(err)
			}
		},
		"inner": func(c *weft.Call, _, _ int) { weft.View[int64](c.Args[0])[0] = 7 },
	}
	one := func(name string) *graph.Graph {
		var b graph.Builder
		x := b.Data(graph.Data{Name: "x", Bytes: 8, Output: true})
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: graph.GoKernel(name), Launch: graph.Grid(1)}}, Uses: []graph.Use{{Data: x, Access: graph.Write}}})
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	double := &weft.Kernel[struct{}]{Name: "nested", Go: func(c *weft.Call, _ struct{}, lo, hi int) { clear(weft.View[int64](c.Args[0])[lo:hi]) }}
	for _, devices := range []string{"cpu/1", "cpu/2"} {
		open := func() *weft.Runtime {
			rt, err := weft.Open(t.Context(), weft.Options{Devices: devices, NoCalibrate: true, CacheDir: "off", Funcs: funcs, Checkpoint: weft.Checkpoint{Dir: t.TempDir()}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = rt.Close() })
			return rt
		}
		rt := open()
		inner = rt
		data, err := weft.Put(rt, "resident", []int64{1})
		if err != nil {
			t.Fatal(err)
		}
		prepared, err := rt.Prepare(one("inner"))
		if err != nil {
			t.Fatal(err)
		}
		x := make([]int64, 1)
		calls := map[string]func(ctx context.Context) error{
			"Run": func(ctx context.Context) error {
				_, err := inner.Run(ctx, one("inner"), weft.Bind("x", x))
				return err
			},
			"Prepared.Run": func(ctx context.Context) error {
				_, err := prepared.Run(ctx, weft.Bind("x", x))
				return err
			},
			"Apply": func(ctx context.Context) error {
				_, err := weft.Apply(ctx, inner, double, struct{}{}, weft.Out(x))
				return err
			},
			"RunStages": func(ctx context.Context) error {
				_, err := inner.RunStages(ctx, weft.Keep{Name: "stages"}, one("inner"), weft.Bind("x", x))
				return err
			},
			"Steps": func(ctx context.Context) error {
				return inner.Steps(ctx, weft.Keep{Name: "steps"}, 1, []weft.Binding{weft.Bind("x", x)}, func(context.Context, int) error { return nil })
			},
			"Drain": func(ctx context.Context) error { return inner.Drain(ctx, "cpu:0") },
			"Swap":  func(ctx context.Context) error { return inner.Swap(ctx, "cpu:0", "cpu:1") },
			"Get": func(ctx context.Context) error {
				_, err := data.Get(ctx)
				return err
			},
			"Each": func(ctx context.Context) error {
				return task.Each(ctx, []int{1, 2}, func(ctx context.Context, _ int) error {
					_, err := prepared.Run(ctx, weft.Bind("x", x))
					return err
				})
			},
		}
		for name, call := range calls {
			if name == "Swap" && len(rt.Devices()) == 1 {
				continue
			}
			nested = call
			_, err := rt.Run(t.Context(), one("outer"), weft.Bind("x", make([]int64, 1)))
			if !errors.Is(err, weft.ErrDeadlock) {
				t.Errorf("%s in a kernel of %s gives %v", name, devices, err)
			}
		}
		inner, nested = open(), calls["Run"]
		x[0] = 0
		if _, err := rt.Run(t.Context(), one("outer"), weft.Bind("x", make([]int64, 1))); err != nil || x[0] != 7 {
			t.Errorf("another runtime in a kernel of %s gives %d, %v", devices, x[0], err)
		}
	}
}

// The context of a kernel ends with its run, and when it has returned.
func TestKernelContext(t *testing.T) {
	began := make(chan context.Context, 1)
	waits := true
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu/1", NoCalibrate: true, CacheDir: "off", Funcs: map[string]weft.Func{
		"wait": func(c *weft.Call, _, _ int) {
			ctx := c.Context()
			began <- ctx
			if waits {
				<-ctx.Done()
			}
			if c.Context() != ctx {
				c.Fail(errors.New("another context in the same launch"))
			}
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 8, Output: true})
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: graph.GoKernel("wait"), Launch: graph.Grid(1)}}, Uses: []graph.Use{{Data: x, Access: graph.Write}}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	h := rt.Submit(g, nil, weft.Bind("x", make([]int64, 1)))
	<-began
	h.Cancel()
	if _, err := h.Wait(); !errors.Is(err, weft.ErrCancelled) || errors.Is(err, weft.ErrHeld) {
		t.Errorf("the run ends with %v", err)
	}
	cancel()
	if _, err := rt.Run(ctx, g, weft.Bind("x", make([]int64, 1))); !errors.Is(err, weft.ErrCancelled) {
		t.Errorf("a run whose context has ended gives %v", err)
	}
	waits = false
	if _, err := rt.Run(t.Context(), g, weft.Bind("x", make([]int64, 1))); err != nil {
		t.Error(err)
	}
	if ctx := <-began; ctx.Err() == nil {
		t.Error("the context of a kernel that has returned goes on")
	}
	if new(weft.Call).Context() == nil {
		t.Error("a Call without a device has no context")
	}
}
