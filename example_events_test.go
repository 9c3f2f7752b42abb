package weft_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// squares is a graph of n tasks, each of which squares a part of x into y.
func squares(n int64) *graph.Graph {
	k := &graph.Kernel{Name: "square", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "square"}}}
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 8 * n, Input: true})
	y := b.Data(graph.Data{Name: "y", Bytes: 8 * n, Output: true})
	for i := range n {
		b.Add(graph.Task{
			Name:  fmt.Sprintf("square %d", i),
			Steps: []graph.Step{{Kernel: k, Launch: graph.Launch{Grid: [3]uint32{1, 1, 1}}}},
			Uses:  []graph.Use{{Data: x, Offset: 8 * i, Bytes: 8, Access: graph.Read}, {Data: y, Offset: 8 * i, Bytes: 8, Access: graph.Write}},
		})
	}
	g, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	return g
}

func ExampleWithProgress() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu/2", NoCalibrate: true, CacheDir: "off",
		Funcs: map[string]weft.Func{"square": func(c *weft.Call, lo, hi int) {
			weft.View[float64](c.Args[1])[0] = weft.View[float64](c.Args[0])[0] * weft.View[float64](c.Args[0])[0]
		}}})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	var last weft.Progress
	ended := 0
	watched := weft.WithProgress(ctx, func(p weft.Progress) { // at most 20 times a second
		last = p
		ended += len(p.Ended) // each has the task, its device and how long it took
	})
	y := make([]float64, 4)
	if _, err := rt.Run(watched, squares(4), weft.Bind("x", []float64{1, 2, 3, 4}), weft.Bind("y", y)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(y, last.Done, "of", last.Tasks, "tasks,", ended, "told,", last.Left, "left")
	// Output: [1 4 9 16] 4 of 4 tasks, 4 told, 0s left
}

func ExampleRuntime_Events() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", NoCalibrate: true, CacheDir: "off", Checksums: true,
		Funcs: map[string]weft.Func{"square": func(c *weft.Call, lo, hi int) { c.Fail(fmt.Errorf("no squares today")) }}})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	events := rt.Events(ctx, weft.EventRunBegan, weft.EventTaskRetried, weft.EventRunEnded) // from here on
	rt.Submit(squares(1), nil, weft.Bind("x", []float64{1}), weft.Bind("y", make([]float64, 1)))
	for e := range events {
		fmt.Printf("run %d: %v\n", e.Run, e.Kind)
		if e.Kind == weft.EventRunEnded {
			break
		}
	}
	// Output:
	// run 1: run began
	// run 1: task retried
	// run 1: task retried
	// run 1: task retried
	// run 1: run ended
}

func ExampleRuntime_Running() {
	ctx := context.Background()
	began, finish := make(chan struct{}), make(chan struct{})
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", NoCalibrate: true, CacheDir: "off",
		Funcs: map[string]weft.Func{"square": func(*weft.Call, int, int) {
			close(began)
			<-finish
		}}})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	run := rt.Submit(squares(1), nil, weft.Bind("x", []float64{1}), weft.Bind("y", make([]float64, 1)))
	<-began
	for _, r := range rt.Running() {
		fmt.Printf("run %d: %s on %s\n", r.Run, r.Task, r.Device)
	}
	close(finish)
	if _, err := run.Wait(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(rt.Running()), "left")
	// Output:
	// run 1: square 0 on cpu:0
	// 0 left
}
