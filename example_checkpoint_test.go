package weft_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// A computation in steps that outlives its process: the state is resident data, and the
// program is the same whether it begins or resumes.
func ExampleRuntime_Steps() {
	// One step: y[i] = x[i] + 1. x and y are the same resident data before and after.
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 8 * 1000, Input: true})
	y := b.Data(graph.Data{Name: "y", Bytes: 8 * 1000})
	b.Add(graph.Task{
		Steps: []graph.Step{{Kernel: graph.GoKernel("increment"), Launch: graph.Grid(1000)}},
		Uses:  []graph.Use{{Data: x, Access: graph.Read}, {Data: y, Access: graph.Write}},
	})
	g, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	increment := func(c *weft.Call, lo, hi int) {
		in, out := weft.View[int64](c.Args[0]), weft.View[int64](c.Args[1])
		for i := lo; i < hi; i++ {
			out[i] = in[i] + 1
		}
	}

	// program is what main would do. The machine fails in step fails.
	program := func(dir string, fails int) error {
		ctx := context.Background()
		rt, err := weft.Open(ctx, weft.Options{
			Devices: "cpu", Funcs: map[string]weft.Func{"increment": increment},
			Checkpoint: weft.Checkpoint{Dir: dir, Every: time.Nanosecond, ResumeIfAny: true}, // usually 10 s
		})
		if err != nil {
			return err
		}
		defer rt.Close()
		state, err := weft.Alloc[int64](rt, "state", 1000)
		if err != nil {
			return err
		}
		defer state.Release()
		keep := weft.Keep{Name: "count", Params: map[string]string{"elements": "1000"}}
		err = rt.Steps(ctx, keep, 10, []weft.Binding{state.As("state")}, func(ctx context.Context, i int) error {
			if i == fails {
				return errors.New("the machine failed")
			}
			_, err := rt.Run(ctx, g, state.As("x"), state.As("y"))
			return err
		})
		if err != nil {
			return err
		}
		values, err := state.Get(ctx)
		if err != nil {
			return err
		}
		fmt.Println("each of", len(values), "was counted to", values[0])
		return rt.Forget(ctx, keep.Name) // the checkpoints are not needed any more
	}
	folder, err := os.MkdirTemp("", "weft-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	dir := filepath.Join(folder, "checkpoints")
	fmt.Println(program(dir, 7))
	fmt.Println(program(dir, -1))
	// Output:
	// the machine failed
	// each of 1000 was counted to 10
	// <nil>
}
