package graph_test

import (
	"fmt"

	"github.com/weft-run/weft/graph"
)

// Two tiles of a vector are scaled side by side; their sums meet in one number.
// The order of tasks follows from the data they use; no edge is stated.
func Example() {
	scale, sum, add := graph.GoKernel("scale"), graph.GoKernel("sum"), graph.GoKernel("add")

	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 8 << 20, Input: true})
	total := b.Data(graph.Data{Name: "total", Bytes: 4, Input: true, Output: true, Combine: add})
	for i := range int64(2) {
		tile := graph.Use{Data: x, Offset: i * 4 << 20, Bytes: 4 << 20}
		inPlace := tile
		inPlace.Access = graph.ReadWrite
		b.Add(graph.Task{
			Name:  fmt.Sprint("scale ", i),
			Steps: []graph.Step{{Kernel: scale, Launch: graph.Grid(1 << 20)}},
			Uses:  []graph.Use{inPlace},
			Work:  graph.Work{Ops: 1 << 20, Bytes: 8 << 20},
		})
		b.Add(graph.Task{
			Name:  fmt.Sprint("sum ", i),
			Steps: []graph.Step{{Kernel: sum, Launch: graph.Grid(1 << 20)}},
			Uses:  []graph.Use{tile, {Data: total, Access: graph.Reduce}},
			Work:  graph.Work{Ops: 1 << 20, Bytes: 4 << 20},
		})
	}
	g, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	for t := range graph.TaskID(g.NumTasks()) {
		fmt.Printf("%d %s, after %v\n", t, g.TaskName(t), g.Flow().Preds(t))
	}
	// Output:
	// 0 scale 0, after []
	// 1 sum 0, after [0]
	// 2 scale 1, after []
	// 3 sum 1, after [2]
	// 4 combine total, after [1 3]
}

// A mistake is reported with its line.
func ExampleDecode() {
	_, err := graph.Decode([]byte(`{
  "data": [{"name": "x", "bytes": "8MB", "input": true}],
  "tasks": [
    {"name": "scale", "kernel": "scale", "grid": 1, "uses": [{"data": "x", "access": "readwrite"}]},
    {"name": "sum", "kernel": "sum", "uses": [{"data": "y", "access": "write"}]}
  ]
}`), nil)
	fmt.Println(err)
	// Output:
	// line 5: unknown data "y": define it under "data"
}
