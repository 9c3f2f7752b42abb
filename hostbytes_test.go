package weft_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/test/poll"
)

// summed is a graph whose result is that of as many tasks in a row, each of which adds one to what
// it reads: with large results between them, of which two are needed at a time.
func summed(t *testing.T, tasks int, bytes int64) *graph.Graph {
	t.Helper()
	var b graph.Builder
	last := b.Data(graph.Data{Name: "in", Bytes: 8, Input: true})
	for i := range tasks {
		next := graph.Data{Name: fmt.Sprint("x", i), Bytes: bytes}
		if i == tasks-1 {
			next = graph.Data{Name: "out", Bytes: 8, Output: true}
		}
		x := b.Data(next)
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: graph.GoKernel("next"), Launch: graph.Grid(1)}}, Uses: []graph.Use{{Data: last}, {Data: x, Access: graph.Write}}})
		last = x
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// nextFuncs has the kernel of summed, which looks at all of what it reads.
var nextFuncs = map[string]weft.Func{"next": func(c *weft.Call, _, _ int) {
	in, out := weft.View[int64](c.Args[0]), weft.View[int64](c.Args[1])
	for _, x := range in {
		if x != in[0] {
			c.Fail(errors.New("the input is not what one task wrote"))
			return
		}
	}
	for i := range out {
		out[i] = in[0] + 1
	}
}}

// Runs that each fit into HostBytes end well when many are submitted at a time, by every way to run
// a graph, on devices that use host memory and on others, and verified.
func TestHostBytesOfManyRuns(t *testing.T) {
	const bytes, runs = 40_000, 12
	fake := func(n int) weft.Options {
		return weft.Options{Drivers: []driver.Driver{follows(t, fmt.Sprintf("devices %d; memory 100000", n), nextFuncs)}}
	}
	for name, o := range map[string]weft.Options{
		"cpu": {Devices: "cpu/2", Funcs: nextFuncs}, "fake": fake(2),
		"cpu, verified": {Devices: "cpu/2", Funcs: nextFuncs, Verify: 1}, "fake, some verified": func() weft.Options { o := fake(3); o.Verify = 2; return o }(),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), long)
			defer cancel()
			limit := int64(100_000)
			if o.Verify > 0 { // which also holds what a device's result would be made from again
				limit = 140_000
			}
			o.HostBytes, o.Checkpoint = limit, weft.Checkpoint{Dir: t.TempDir(), Every: time.Microsecond} // a task for each stage
			rt := open(t, o)
			var all sync.WaitGroup
			for k := range runs {
				tasks := 3 + 3*(k%2) // 6 may take more than the limit, and do not
				g, out := summed(t, tasks, bytes), make([]int64, 1)
				bind := []weft.Binding{weft.Bind("in", []int64{int64(100 * k)}), weft.Bind("out", out)}
				all.Go(func() {
					var err error
					switch k % 4 {
					case 0:
						_, err = rt.Run(ctx, g, bind...)
					case 1:
						_, err = rt.RunStages(ctx, weft.Keep{Name: fmt.Sprint(k)}, g, bind...)
					case 2:
						_, err = rt.Submit(g, nil, bind...).Wait()
					case 3:
						p, fault := rt.Prepare(g, bind[0])
						for range 3 {
							if err = fault; err == nil {
								_, err = p.Run(ctx, bind[1])
							}
						}
					}
					if err != nil || out[0] != int64(100*k+tasks) {
						t.Errorf("run %d: %d, %v", k, out[0], err)
					}
				})
			}
			all.Wait()
		})
	}
}

// A run that waits for host memory ends when its context does, and those behind it go on.
func TestHostBytesCancelled(t *testing.T) {
	held, release := make(chan bool), make(chan bool)
	funcs := map[string]weft.Func{"next": nextFuncs["next"], "hold": func(c *weft.Call, _, _ int) {
		held <- true
		<-release
	}}
	rt := open(t, weft.Options{Devices: "cpu/2", Funcs: funcs, HostBytes: 100_000})
	var b graph.Builder
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: graph.GoKernel("hold"), Launch: graph.Grid(1)}}, Uses: []graph.Use{{Data: b.Data(graph.Data{Bytes: 60_000}), Access: graph.Write}}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	let := sync.OnceFunc(func() { close(release) })
	defer let() // or closing the runtime would wait
	first := rt.Submit(g, nil)
	<-held
	ctx, cancel := context.WithCancel(t.Context())
	out := []int64{0}
	bind := []weft.Binding{weft.Bind("in", []int64{1}), weft.Bind("out", out)}
	waits := make(chan error)
	go func() {
		_, err := rt.Run(ctx, summed(t, 2, 60_000), bind...)
		waits <- err
	}()
	poll.True(t, "a second run", func() bool { return rt.Metrics().Runs.Submitted == 2 })
	cancel()
	if err := <-waits; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "while it waited for host memory: it may need 60kB, and 60kB of 100kB are promised to other runs") {
		t.Errorf("the error is %v", err)
	}
	if _, err := rt.Run(t.Context(), summed(t, 2, 40_000), bind...); err != nil || !slices.Equal(out, []int64{3}) {
		t.Errorf("a run that fits: %v, %v", out, err)
	}
	let()
	if _, err := first.Wait(); err != nil {
		t.Error(err)
	}
}
