package weft_test

import (
	"context"
	"fmt"
	"log"
	"sync/atomic"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// One task in N is executed on two devices, and the results are compared. Here the first
// execution of a kernel has a wrong byte, as from a faulty core.
func ExampleOptions_verify() {
	var calls atomic.Int64
	double := func(c *weft.Call, _, _ int) {
		for i := range c.Args[0] {
			c.Args[0][i] *= 2
		}
		if calls.Add(1) == 1 {
			c.Args[0][3]++
		}
	}
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{
		Devices: "cpu/3", Verify: 1, // every task
		Funcs: map[string]weft.Func{"double": double},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 4, Input: true, Output: true})
	b.Add(graph.Task{
		Name: "double", Steps: []graph.Step{{Kernel: graph.GoKernel("double"), Launch: graph.Grid(1)}},
		Uses: []graph.Use{{Data: x, Access: graph.ReadWrite}},
	})
	g, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	bytes := []byte{1, 2, 3, 4}
	rep, err := rt.Run(ctx, g, weft.Bind("x", bytes))
	if err != nil {
		log.Fatal(err)
	}
	w := rep.Wrong[0]
	fmt.Println(bytes, rep.Verified, "verified")
	fmt.Printf("%q: byte %d of %s is %s, and %d other devices have %s\n", w.Task, w.Byte, w.Data, w.Got, len(w.Against), w.Want)
	// Output:
	// [2 4 6 8] 1 verified
	// "double": byte 3 of x is 0x09, and 2 other devices have 0x08
}
