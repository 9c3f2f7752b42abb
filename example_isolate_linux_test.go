package weft_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// A Go kernel in a worker process can end that process, and not the program. main begins with
// weft.Worker(isolated), so that workers have the kernels: here "isolated.exit", which calls
// os.Exit(3), and "isolated.square".
func ExampleOptions_isolate() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu/2", Isolate: true, Funcs: isolated, NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	x, y := []int64{1, 2, 3, 4}, make([]int64, 4)
	for _, kernel := range []string{"isolated.exit", "isolated.square"} {
		var b graph.Builder
		in := b.Data(graph.Data{Name: "x", Bytes: 32, Input: true})
		out := b.Data(graph.Data{Name: "y", Bytes: 32, Output: true})
		b.Add(graph.Task{
			Steps: []graph.Step{{Kernel: graph.GoKernel(kernel), Launch: graph.Grid(4)}},
			Uses:  []graph.Use{{Data: in, Access: graph.Read}, {Data: out, Access: graph.Write}},
		})
		g, err := b.Build()
		if err != nil {
			fmt.Println(err)
			return
		}
		_, err = rt.Run(ctx, g, weft.Bind("x", x), weft.Bind("y", y))
		if q := (*weft.Quarantine)(nil); errors.As(err, &q) {
			fmt.Println("lost", len(q.Losses), "workers:", strings.HasSuffix(q.Losses[0].Err.Error(), "exit status 3"))
			continue
		}
		fmt.Println(y, err)
	}
	// Output:
	// lost 3 workers: true
	// [1 4 9 16] <nil>
}
