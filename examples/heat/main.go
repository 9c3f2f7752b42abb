// Command heat spreads heat over a plate and can be killed at any moment: started again by the same
// command, it goes on from its last checkpoint and ends with the same bytes. Its kernel runs in worker
// processes; where one is killed, its work is done again by another.
//
//	go run ./examples/heat -dir /tmp/heat
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// funcs are the kernels, by name. Workers have them too.
var funcs = map[string]weft.Func{"spread": weft.WithParams(spread)}

// band says which part of the plate a task computes: it begins at row Row of a plate with Rows rows of Size numbers.
type band struct{ Row, Rows, Size int }

// spread makes the next temperatures of rows lo to hi-1 of a band. The first and the last row of the plate
// and its sides stay as they are.
func spread(c *weft.Call, b band, lo, hi int) {
	now, next := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[1])
	for row := lo; row < hi; row++ {
		at := (b.Row + row) * b.Size
		out := next[row*b.Size:][:b.Size]
		copy(out, now[at:][:b.Size])
		if b.Row+row == 0 || b.Row+row == b.Rows-1 {
			continue
		}
		for x := 1; x < b.Size-1; x++ {
			out[x] = (now[at+x-1] + now[at+x+1] + now[at-b.Size+x] + now[at+b.Size+x]) / 4
		}
	}
}

// step is the graph of one step, from the plate as it is to the plate as it will be, in bands.
func step(size, bands int) (*graph.Graph, error) {
	var b graph.Builder
	bytes := int64(4 * size * size)
	now := b.Data(graph.Data{Name: "now", Bytes: bytes, Input: true})
	next := b.Data(graph.Data{Name: "next", Bytes: bytes, Output: true})
	for i := range bands {
		lo, hi := i*size/bands, (i+1)*size/bands
		kernel := graph.Step{Kernel: graph.GoKernel("spread"), Launch: graph.Grid(int64(hi - lo))}
		b.Add(graph.Task{
			Steps: []graph.Step{kernel.With(band{lo, size, size})},
			Uses: []graph.Use{
				{Data: now, Access: graph.Read},
				{Data: next, Access: graph.Write, Offset: int64(4 * size * lo), Bytes: int64(4 * size * (hi - lo))},
			},
		})
	}
	return b.Build()
}

// plate is heated at its first row.
func plate(size int) []float32 {
	p := make([]float32, size*size)
	for i := range size {
		p[i] = 100
	}
	return p
}

// run returns how much heat the plate holds after some steps.
func run(ctx context.Context, dir string, size, steps int, every time.Duration) (heat float64, err error) {
	rt, err := weft.Open(ctx, weft.Options{
		Devices: "cpu/2", Isolate: runtime.GOOS == "linux", Funcs: funcs,
		Checkpoint: weft.Checkpoint{Dir: dir, Every: every, ResumeIfAny: true, Saved: func(s weft.Saved) {
			if s.Resumed {
				log.Printf("going on after %d of %d steps", s.Done, s.Total)
			}
		}},
	})
	if err != nil {
		return 0, err
	}
	defer rt.Close()
	g, err := step(size, 8)
	if err != nil {
		return 0, err
	}
	// A step reads rows beside those that it writes: two plates take turns.
	var state [2]*weft.Data[float32]
	for i := range state {
		if state[i], err = weft.Put(rt, "plate", plate(size)); err != nil {
			return 0, err
		}
		defer state[i].Release()
	}
	keep := weft.Keep{Name: "heat", Params: map[string]string{"size": strconv.Itoa(size)}}
	err = rt.Steps(ctx, keep, steps, []weft.Binding{state[0].As("even"), state[1].As("odd")}, func(ctx context.Context, i int) error {
		_, err := rt.Run(ctx, g, state[i%2].As("now"), state[(i+1)%2].As("next"))
		return err
	})
	if err != nil {
		return 0, err
	}
	all, err := state[steps%2].Get(ctx)
	for _, t := range all {
		heat += float64(t)
	}
	return heat, err
}

func main() {
	weft.Worker(funcs) // a worker process is this program, started again
	dir := flag.String("dir", "", "folder for checkpoints; none are kept without it")
	size := flag.Int("size", 512, "rows and columns of the plate")
	steps := flag.Int("steps", 5000, "steps")
	every := flag.Duration("every", time.Second, "least time between two checkpoints")
	flag.Parse()
	if *size < 2 {
		log.Fatalf("-size %d: a plate has two rows at least", *size)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt) // after Ctrl-C a last checkpoint is written
	defer stop()
	heat, err := run(ctx, *dir, *size, *steps, *every)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("after %d steps the plate holds %.3f\n", *steps, heat)
}
