package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/experimental/pipeline"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/fake"
)

// mark multiplies by ten and adds one.
func mark(c *weft.Call, lo, hi int) {
	in, out := weft.View[int64](c.Args[0]), weft.View[int64](c.Args[1])
	for i := lo; i < hi; i++ {
		out[i] = in[i]*10 + 1
	}
}

var markKernel = &graph.Kernel{Name: "mark", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "mark"}}}

// chain is a program that marks a number at every step.
func chain(steps int, mode pipeline.Mode) pipeline.Program[[]int64] {
	return pipeline.Program[[]int64]{
		Name: "mark", Mode: mode, Costs: slices.Repeat([]float64{1}, steps),
		Build: func(on []graph.Constraint) (*graph.Graph, error) {
			var b graph.Builder
			at := b.Data(graph.Data{Name: "in", Bytes: 8, Input: true})
			for s := range steps {
				next := b.Data(graph.Data{Name: fmt.Sprint("after ", s), Bytes: 8, Output: s == steps-1})
				b.Add(graph.Task{
					Steps: []graph.Step{{Kernel: markKernel}}, On: on[s],
					Uses: []graph.Use{{Data: at, Access: graph.Read}, {Data: next, Access: graph.Write}},
				})
				at = next
			}
			return b.Build()
		},
		Bind: func(x *[]int64) []weft.Binding {
			return []weft.Binding{weft.Bind("in", (*x)[:1]), weft.Bind(fmt.Sprint("after ", steps-1), (*x)[1:])}
		},
	}
}

// open opens devices that follow a script, or cores as devices.
func open(t *testing.T, script string, o weft.Options) *weft.Runtime {
	t.Helper()
	o.NoCalibrate, o.CacheDir, o.Funcs = true, "off", map[string]weft.Func{"mark": mark}
	if script != "" {
		fo, err := fake.Parse(script)
		if err != nil {
			t.Fatal(err)
		}
		fo.Funcs = o.Funcs
		drv, err := fake.New(fo)
		if err != nil {
			t.Fatal(err)
		}
		o.Drivers = []driver.Driver{drv}
	}
	rt, err := weft.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return rt
}

func pairs(n int) func(yield func([]int64) bool) {
	return func(yield func([]int64) bool) {
		for i := range n {
			if !yield([]int64{int64(i), 0}) {
				return
			}
		}
	}
}

// Four equal steps on four devices and 64 items: the devices are idle for
// (S-1)/(S-1+m) = 4.5 % of the time. Time is virtual, so this can be exact but
// for what the runtime itself adds.
func TestDeviceBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := open(t, "devices 4; take 10ms kernel mark", weft.Options{HealthInterval: -1})
		defer rt.Close()
		stage, err := pipeline.OnDevices(rt, chain(4, pipeline.PipelineParallel))
		if err != nil {
			t.Fatal(err)
		}
		out, rep := run(t, pipeline.Options{Ordered: true}, pairs(64), stage)
		for i, it := range out {
			if it.Err != nil || it.Value[1] != int64(i)*10000+1111 {
				t.Fatalf("item %d: %+v", i, it)
			}
		}
		s := rep.Stages[0]
		if want := pipeline.Bubble(4, 64); math.Abs(s.DeviceBubble-want) > 0.005 {
			t.Errorf("bubble %.2f %%, want %.2f %%", 100*s.DeviceBubble, 100*want)
		}
		t.Logf("bubble %.3f %%", 100*s.DeviceBubble)
		for _, d := range s.Devices {
			if d.Tasks != 64 {
				t.Errorf("%s ran %d tasks", d.Name, d.Tasks)
			}
		}
		if took := 67 * 10 * time.Millisecond; rep.Elapsed < took || rep.Elapsed > took+20*time.Millisecond {
			t.Errorf("took %v, want about %v", rep.Elapsed, took)
		}
	})
}

// Whatever the mode and however many devices there are, items come out the same.
func TestModes(t *testing.T) {
	for parts := 1; parts <= 8; parts++ {
		rt := open(t, "", weft.Options{Devices: fmt.Sprintf("cpu/%d", parts)})
		for _, mode := range []pipeline.Mode{pipeline.DataParallel, pipeline.PipelineParallel, pipeline.Hybrid} {
			stage, err := pipeline.OnDevices(rt, chain(3, mode))
			if err != nil {
				t.Fatal(err)
			}
			out, _ := run(t, pipeline.Options{Ordered: true}, pairs(20), stage)
			for i, it := range out {
				if it.Err != nil || it.Value[1] != int64(i)*1000+111 {
					t.Errorf("%s on %d devices, item %d: %+v", mode, parts, i, it)
				}
			}
		}
		rt.Close()
	}
}

// A device that fails one item's step leaves the others alone, and one that is
// lost takes nothing with it where another can take its place.
func TestDeviceTrouble(t *testing.T) {
	rt := open(t, "devices 2; on 1 fail kernel mark times 1", weft.Options{Retries: -1})
	stage, err := pipeline.OnDevices(rt, chain(2, pipeline.PipelineParallel))
	if err != nil {
		t.Fatal(err)
	}
	_, rep := run(t, pipeline.Options{}, pairs(10), stage)
	if rep.Items != 10 || rep.Failed != 1 {
		t.Errorf("%d of %d items failed, want one of 10", rep.Failed, rep.Items)
	}
	rt.Close()
	rt = open(t, "devices 2; on 1 lose op 9", weft.Options{})
	defer rt.Close()
	p := chain(1, pipeline.PipelineParallel)
	if stage, err = pipeline.OnDevices(rt, p); err != nil {
		t.Fatal(err)
	}
	out, rep := run(t, pipeline.Options{Ordered: true}, pairs(50), stage)
	if rep.Failed != 0 {
		t.Errorf("%d items failed: %v", rep.Failed, out)
	}
}

// The five stages of a usual stream, in their order, with what fails left out of
// the aggregate.
func TestFive(t *testing.T) {
	rt := open(t, "", weft.Options{Devices: "cpu/2"})
	defer rt.Close()
	device, err := pipeline.OnDevices(rt, chain(2, pipeline.DataParallel))
	if err != nil {
		t.Fatal(err)
	}
	missing := errors.New("no such file")
	var order, values []int64
	five := pipeline.Five[[]int64]{
		Load: func(_ context.Context, x *[]int64) error {
			if (*x)[0] == 5 {
				return missing
			}
			return nil
		},
		Preprocess:  func(_ context.Context, x *[]int64) error { (*x)[0] += 100; return nil },
		Device:      device,
		Postprocess: func(_ context.Context, x *[]int64) error { (*x)[1] /= 10; return nil },
		Aggregate: func(_ context.Context, x *[]int64) error {
			order, values = append(order, (*x)[0]-100), append(values, (*x)[1])
			return nil
		},
	}
	p, err := five.New(pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rep, err := p.Run(t.Context(), pairs(40), func(it pipeline.Item[[]int64]) error {
		if it.Err != nil != (it.Index == 5) || it.Err != nil && !errors.Is(it.Err, missing) {
			t.Errorf("item %d: %v", it.Index, it.Err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var stages []string
	for _, s := range rep.Stages {
		stages = append(stages, s.Name)
	}
	if want := []string{"load", "preprocess", "mark", "postprocess", "aggregate"}; !slices.Equal(stages, want) {
		t.Errorf("stages %v, want %v", stages, want)
	}
	if len(order) != 39 || !slices.IsSorted(order) {
		t.Errorf("aggregated %v", order)
	}
	for i, v := range values {
		if want := (order[i]+100)*10 + 1; v != want {
			t.Errorf("item %d came to %d, want %d", order[i], v, want)
		}
	}
	if _, err := (pipeline.Five[int]{}).New(pipeline.Options{}); !errors.Is(err, pipeline.ErrStages) {
		t.Errorf("without a device stage: %v", err)
	}
}

func TestOnDevicesRefuses(t *testing.T) {
	rt := open(t, "", weft.Options{Devices: "cpu/1"})
	defer rt.Close()
	good := chain(2, pipeline.PipelineParallel)
	for what, spoil := range map[string]func(*pipeline.Program[[]int64]){
		"no graph":     func(p *pipeline.Program[[]int64]) { p.Build = nil },
		"no bindings":  func(p *pipeline.Program[[]int64]) { p.Bind = nil },
		"no steps":     func(p *pipeline.Program[[]int64]) { p.Costs = nil },
		"no such mode": func(p *pipeline.Program[[]int64]) { p.Mode = "all" },
		"too far":      func(p *pipeline.Program[[]int64]) { p.Ahead = 1000 },
	} {
		p := good
		spoil(&p)
		if _, err := pipeline.OnDevices(rt, p); !errors.Is(err, pipeline.ErrStages) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// When the only device of a step is gone for good, the items that need it fail,
// one by one, and the stream still ends.
func TestDeviceGone(t *testing.T) {
	rt := open(t, "devices 2; on 1 lose op 41; on 1 revive standby fails; on 1 revive restart fails; on 1 revive reopen fails", weft.Options{})
	defer rt.Close()
	stage, err := pipeline.OnDevices(rt, chain(2, pipeline.PipelineParallel))
	if err != nil {
		t.Fatal(err)
	}
	out, rep := run(t, pipeline.Options{Ordered: true}, pairs(30), stage)
	if rep.Items != 30 || rep.Failed == 0 || rep.Failed == 30 {
		t.Errorf("%d of %d items failed", rep.Failed, rep.Items)
	}
	for i, it := range out {
		if it.Err != nil && !errors.Is(it.Err, weft.ErrNoDevice) {
			t.Errorf("item %d: %v", i, it.Err)
		}
		if it.Err == nil && it.Value[1] != int64(i)*100+11 {
			t.Errorf("item %d: %v", i, it.Value)
		}
	}
}
