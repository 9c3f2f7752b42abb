package weft_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// oneTask is a graph of one task that calls a Go kernel.
func oneTask(kernel string) *graph.Graph {
	var b graph.Builder
	b.Add(graph.Task{Name: kernel, Steps: []graph.Step{{Kernel: &graph.Kernel{Name: kernel, Impls: []graph.Impl{{Dialect: graph.Go, Entry: kernel}}}}}})
	g, err := b.Build()
	if err != nil {
		panic(err)
	}
	return g
}

// A task that failed for good has the history of its attempts.
func ExampleTaskError() {
	rt := start(weft.Options{Devices: "cpu/1", Retries: 2, Funcs: map[string]weft.Func{
		"flaky": func(c *weft.Call, _, _ int) { c.Fail(errors.New("no luck")) },
	}})
	defer rt.Close()
	_, err := rt.Run(context.Background(), oneTask("flaky"))
	if task := (*weft.TaskError)(nil); errors.As(err, &task) {
		fmt.Println(task.Task, "failed for good:")
		for _, a := range task.Attempts {
			fmt.Println("on", a.Device, "at some time:", a.Err) // at a.At, since the runtime was opened
		}
	}
	// Output:
	// flaky failed for good:
	// on cpu:0 at some time: kernel "flaky": no luck
	// on cpu:0 at some time: kernel "flaky": no luck
	// on cpu:0 at some time: kernel "flaky": no luck
}

// A rung of the program's own brings a device back: here it ends the kernel that hangs. The
// device is probed before it gets work again, and the task is then tried again.
func ExampleRung() {
	stuck := make(chan struct{})
	calls := 0
	rt := start(weft.Options{
		Devices: "cpu/1", TaskTimeout: time.Second, Ladder: "unstick, fail",
		Rungs: map[string]weft.Rung{"unstick": func(_ context.Context, device string) error {
			fmt.Println(device, "is stuck")
			close(stuck)
			return nil
		}},
		Funcs: map[string]weft.Func{"hangs": func(*weft.Call, int, int) {
			if calls++; calls == 1 {
				<-stuck
			}
		}},
	})
	defer rt.Close()
	_, err := rt.Run(context.Background(), oneTask("hangs"))
	fmt.Println(err, "after", calls, "calls;", rt.Devices()[0].State)
	// Output:
	// cpu:0 is stuck
	// <nil> after 2 calls; healthy
}
