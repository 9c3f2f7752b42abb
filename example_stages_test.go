package weft_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// A graph that is run in stages, of which the folder has a checkpoint: ReadCheckpoints says
// what is in it, and a program that resumes it finds the parameters it was begun with.
func ExampleRuntime_RunStages() {
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 8 * 1000, Input: true})
	y := b.Data(graph.Data{Name: "y", Bytes: 8 * 1000, Output: true})
	b.Add(graph.Task{
		Steps: []graph.Step{{Kernel: graph.GoKernel("square"), Launch: graph.Grid(1000)}},
		Uses:  []graph.Use{{Data: x, Access: graph.Read}, {Data: y, Access: graph.Write}},
	})
	g, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	folder, err := os.MkdirTemp("", "weft-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	dir := filepath.Join(folder, "checkpoints")
	keep := weft.Keep{Name: "squares", Params: map[string]string{"of": "x"}}
	ctx := context.Background()
	for _, resume := range []bool{false, true} {
		rt, err := weft.Open(ctx, weft.Options{
			Devices: "cpu", Funcs: map[string]weft.Func{"square": square},
			Checkpoint: weft.Checkpoint{Dir: dir, Every: time.Nanosecond, Resume: resume}, // usually 10 s
		})
		if err != nil {
			log.Fatal(err)
		}
		params, ok, err := rt.Kept(keep)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("there is one to resume: %v, of %q\n", ok, params["of"])
		in, out := make([]float64, 1000), make([]float64, 1000)
		in[3] = 5
		if _, err := rt.RunStages(ctx, keep, g, weft.Bind("x", in), weft.Bind("y", out)); err != nil {
			log.Fatal(err)
		}
		fmt.Println(out[3])
		rt.Close()
	}
	list, err := weft.ReadCheckpoints(dir)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(list[0].Name, list[0].Done, "of", list[0].Total, list[0].Err())
	// Output:
	// there is one to resume: false, of ""
	// 25
	// there is one to resume: true, of "x"
	// 25
	// squares 1 of 1 <nil>
}
