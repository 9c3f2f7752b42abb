package weft_test

import (
	"context"
	"fmt"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// Squares of a million numbers, on every core of the machine: two tasks over
// halves of the data, placed, run and collected by weft.
func Example() {
	square := &graph.Kernel{Name: "square", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "square"}}}
	rt, err := weft.Open(context.Background(), weft.Options{
		Devices: "cpu/2",
		Funcs: map[string]weft.Func{"square": func(c *weft.Call, lo, hi int) {
			in, out := weft.View[float64](c.Args[0]), weft.View[float64](c.Args[1])
			for i := lo; i < hi; i++ {
				out[i] = in[i] * in[i]
			}
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()

	const n, half = 1_000_000, 500_000
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 8 * n, Input: true})
	y := b.Data(graph.Data{Name: "y", Bytes: 8 * n, Output: true})
	for lo := int64(0); lo < n; lo += half {
		b.Add(graph.Task{
			Steps: []graph.Step{{Kernel: square, Launch: graph.Launch{Grid: [3]uint32{half, 1, 1}}}},
			Uses: []graph.Use{
				{Data: x, Offset: 8 * lo, Bytes: 8 * half, Access: graph.Read},
				{Data: y, Offset: 8 * lo, Bytes: 8 * half, Access: graph.Write},
			},
			Work: graph.Work{Ops: half, Bytes: 16 * half},
		})
	}
	g, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}

	in, out := make([]float64, n), make([]float64, n)
	for i := range in {
		in[i] = float64(i)
	}
	rep, err := rt.Run(context.Background(), g, weft.Bind("x", in), weft.Bind("y", out))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(out[3], out[999_999], rep.Executed, "tasks")
	// Output: 9 9.99998000001e+11 2 tasks
}

// Resident data stays on its device between runs: here it is updated in place
// of being sent and fetched every time.
func ExamplePut() {
	bump := &graph.Kernel{Name: "bump", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "bump"}}}
	rt, err := weft.Open(context.Background(), weft.Options{Funcs: map[string]weft.Func{
		"bump": func(c *weft.Call, lo, hi int) {
			for i, x := range weft.View[int32](c.Args[0])[lo:hi] {
				weft.View[int32](c.Args[0])[lo+i] = x + 1
			}
		}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()

	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 12, Input: true})
	b.Add(graph.Task{
		Steps: []graph.Step{{Kernel: bump, Launch: graph.Launch{Grid: [3]uint32{3, 1, 1}}}},
		Uses:  []graph.Use{{Data: x, Access: graph.ReadWrite}},
	})
	g, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	data, err := weft.Put(rt, "counter", []int32{10, 20, 30})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		if _, err := rt.Run(context.Background(), g, data.As("x")); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(data.Get(context.Background()))
	// Output: [13 23 33] <nil>
}
