package weft_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// naps is a graph of n tasks of which nothing is known.
func naps(t *testing.T, n int) *graph.Graph {
	t.Helper()
	var b graph.Builder
	for range n {
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: graph.GoKernel("nap"), Launch: graph.Grid(1)}}})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// The first run of a kernel of which nothing is known uses both devices.
func TestFirstRunUsesAll(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2", NoCalibrate: true, CacheDir: "off",
		Funcs: map[string]weft.Func{"nap": func(*weft.Call, int, int) { time.Sleep(2 * time.Millisecond) }}})
	rep, err := rt.Run(t.Context(), naps(t, 100))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := rep.Devices[0].Tasks, rep.Devices[1].Tasks; min(a, b) < 10 {
		t.Errorf("devices ran %d and %d tasks", a, b)
	}
}

// A device that is drained in such a run ends with what it runs, and the other does the
// rest.
func TestDrainInFirstRun(t *testing.T) {
	began, release := make(chan struct{}, 1000), make(chan struct{})
	rt := open(t, weft.Options{Devices: "cpu/2", NoCalibrate: true, CacheDir: "off",
		Funcs: map[string]weft.Func{"nap": func(*weft.Call, int, int) {
			began <- struct{}{}
			<-release
		}}})
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	h := rt.Submit(naps(t, 100), nil)
	<-began
	drained := make(chan error, 1)
	go func() { drained <- rt.Drain(ctx, "cpu:0") }()
	for rt.Metrics().Devices[0].State != "draining" && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	close(release)
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
	rep, err := h.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if n := rep.Devices[0].Tasks; n > runtime.NumCPU() {
		t.Errorf("the drained device ran %d of 100 tasks, more than one for each core", n)
	}
}
