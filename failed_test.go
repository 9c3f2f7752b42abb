package weft_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// A launch held behind a slow one does not take a producer that failed for a good one,
// however many operations the producer's device has done since.
func TestFailureIsRemembered(t *testing.T) {
	const small = 20_000
	release := make(chan struct{})
	var makes atomic.Int32
	var ran atomic.Int64
	funcs := map[string]weft.Func{
		"slow": func(*weft.Call, int, int) { <-release },
		"make": func(c *weft.Call, _, _ int) {
			if makes.Add(1) == 1 {
				time.Sleep(5 * time.Millisecond) // the reader is issued meanwhile
				c.Args[0][0] = 0xba
				panic("half done")
			}
			c.Args[0][0] = 42
		},
		"use": func(c *weft.Call, _, _ int) { c.Args[1][0] = c.Args[0][0] },
		"small": func(*weft.Call, int, int) {
			if ran.Add(1) == small {
				close(release)
			}
		},
	}
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu/2", NoCalibrate: true, CacheDir: "off", Funcs: funcs})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	steps := func(n string) []graph.Step {
		return []graph.Step{{Kernel: &graph.Kernel{Name: n, Impls: []graph.Impl{{Dialect: graph.Go, Entry: n}}}}}
	}
	on := func(i int) graph.Constraint { return graph.Constraint{Only: []string{rt.Devices()[i].Name}} }
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 8})
	y := b.Data(graph.Data{Name: "y", Bytes: 8, Output: true})
	b.Add(graph.Task{Name: "slow", Steps: steps("slow"), On: on(0), Priority: 5})
	b.Add(graph.Task{Name: "make", Steps: steps("make"), Uses: []graph.Use{{Data: x, Access: graph.Write}}, On: on(1), Priority: 4})
	b.Add(graph.Task{Name: "use", Steps: steps("use"), Uses: []graph.Use{{Data: x, Access: graph.Read}, {Data: y, Access: graph.Write}}, On: on(0), Priority: 3})
	quick := steps("small")
	for range small {
		b.Add(graph.Task{Name: "small", Steps: quick, On: on(1)})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]byte, 8)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := rt.Run(ctx, g, weft.Bind("y", out)); err != nil {
		t.Fatal(err)
	}
	if out[0] != 42 {
		t.Errorf("y = %#x, want 42", out[0])
	}
}
