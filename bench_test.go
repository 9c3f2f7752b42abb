package weft_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// small builds a chain of n tasks that add one to every number of x into y.
func small(tb testing.TB, n int) *graph.Graph {
	tb.Helper()
	inc := &graph.Kernel{Name: "inc", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "inc"}}}
	const bytes = 8 * 16
	var b graph.Builder
	at := b.Data(graph.Data{Name: "x", Bytes: bytes, Input: true})
	for i := range n {
		next := graph.Data{Name: fmt.Sprintf("t%d", i), Bytes: bytes}
		if i == n-1 {
			next.Name, next.Output = "y", true
		}
		to := b.Data(next)
		b.Add(graph.Task{
			Steps: []graph.Step{{Kernel: inc, Launch: graph.Launch{Grid: [3]uint32{1, 1, 1}}}},
			Uses:  []graph.Use{{Data: at, Access: graph.Read}, {Data: to, Access: graph.Write}},
		})
		at = to
	}
	g, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

var incFuncs = map[string]weft.Func{"inc": func(c *weft.Call, _, _ int) {
	in, out := weft.View[int64](c.Args[0]), weft.View[int64](c.Args[1])
	for i, x := range in {
		out[i] = x + 1
	}
}}

// open opens a runtime for a test: devices are not measured, and nothing is kept.
func open(tb testing.TB, o weft.Options) *weft.Runtime {
	tb.Helper()
	o.NoCalibrate, o.CacheDir = true, "off"
	rt, err := weft.Open(context.Background(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := rt.Close(); err != nil {
			tb.Error(err)
		}
	})
	return rt
}

// What a run of a small graph costs, from the call to the answer.
func BenchmarkSmallRun(b *testing.B) {
	for _, n := range []int{1, 16, 256} {
		rt := open(b, weft.Options{Devices: "cpu/2", Funcs: incFuncs})
		g := small(b, n)
		p, err := rt.Prepare(g)
		if err != nil {
			b.Fatal(err)
		}
		bench := func(name string, run func(bind ...weft.Binding) (*weft.Report, error)) {
			b.Run(fmt.Sprintf("%s/tasks=%d", name, n), func(b *testing.B) {
				x, y := make([]int64, 16), make([]int64, 16)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := run(weft.Bind("x", x), weft.Bind("y", y)); err != nil {
						b.Fatal(err)
					}
				}
				if y[0] != int64(n) {
					b.Fatalf("the result is %d, want %d", y[0], n)
				}
			})
		}
		bench("run", func(bind ...weft.Binding) (*weft.Report, error) { return rt.Run(context.Background(), g, bind...) })
		bench("prepared", func(bind ...weft.Binding) (*weft.Report, error) { return p.Run(context.Background(), bind...) })
	}
}
