package weft_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// square is a kernel in Go: it computes items lo to hi of a launch.
func square(c *weft.Call, lo, hi int) {
	in, out := weft.View[float64](c.Args[0]), weft.View[float64](c.Args[1])
	for i := lo; i < hi; i++ {
		out[i] = in[i] * in[i]
	}
}

func Example_graph() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu/2", Funcs: map[string]weft.Func{"square": square}})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	const n, half = 1_000_000, 500_000 // numbers in all, and of each of two tasks
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 8 * n, Input: true})
	y := b.Data(graph.Data{Name: "y", Bytes: 8 * n, Output: true})
	for lo := int64(0); lo < n; lo += half {
		b.Add(graph.Task{
			Steps: []graph.Step{{Kernel: graph.GoKernel("square"), Launch: graph.Grid(half)}},
			Uses: []graph.Use{
				{Data: x, Offset: 8 * lo, Bytes: 8 * half, Access: graph.Read},
				{Data: y, Offset: 8 * lo, Bytes: 8 * half, Access: graph.Write},
			},
			Work: graph.Work{Ops: half, Bytes: 16 * half},
		})
	}
	g, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	in, out := make([]float64, n), make([]float64, n)
	in[999_999] = 3
	_, err = rt.Run(ctx, g, weft.Bind("x", in), weft.Bind("y", out))
	fmt.Println(out[999_999], err)
	// Output: 9 <nil>
}
