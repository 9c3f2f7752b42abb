package weft_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/fake"
)

// slow opens two devices on which every launch takes at least 4 ms.
func slow(t *testing.T) *weft.Runtime {
	t.Helper()
	o, err := fake.Parse("devices 2; take 4ms launches")
	if err != nil {
		t.Fatal(err)
	}
	o.Funcs = map[string]weft.Func{"inc": func(c *weft.Call, lo, hi int) { c.Args[0][0]++ }}
	d, err := fake.New(o)
	if err != nil {
		t.Fatal(err)
	}
	rt, err := weft.Open(context.Background(), weft.Options{Drivers: []driver.Driver{d}, NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	return rt
}

// incs is a graph of rows chains of tasks that add one to a byte.
func incs(t *testing.T, rows, long int) *graph.Graph {
	t.Helper()
	k := &graph.Kernel{Name: "inc", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "inc"}}}
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: int64(rows), Input: true, Output: true})
	for range long {
		for i := range rows {
			b.Add(graph.Task{Steps: []graph.Step{{Kernel: k, Launch: graph.Grid(1)}}, Uses: []graph.Use{{Data: x, Offset: int64(i), Bytes: 1, Access: graph.ReadWrite}}})
		}
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Time is virtual, so that what is predicted does not depend on what else the
// machine does.
func TestPredict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := slow(t)
		ctx := context.Background()
		g := incs(t, 2, 5)
		p, err := rt.Predict(ctx, g)
		if err != nil {
			t.Fatal(err)
		}
		if p.Samples != 0 {
			t.Errorf("%d measurements stand behind a kernel that never ran", p.Samples)
		}
		mem := make([]byte, 2)
		for range 3 {
			if _, err := rt.Run(ctx, g, weft.Bind("x", mem)); err != nil {
				t.Fatal(err)
			}
		}
		before := tasks(rt)
		if p, err = rt.Predict(ctx, g, weft.Bind("x", mem)); err != nil {
			t.Fatal(err)
		}
		if tasks(rt) != before {
			t.Error("a prediction ran something")
		}
		// Two chains of five tasks of 4 ms each fit side by side.
		if p.Samples < 3 || p.Median < 20*time.Millisecond || p.Low > p.Median || p.High < p.Median {
			t.Errorf("predicted %+v for five tasks in a row of at least 4 ms", p)
		}
		share, n := 0.0, 0
		for _, d := range p.Devices {
			share += d.Share
			n += d.Tasks
		}
		if math.Abs(share-1) > 1e-9 || n != 10 || len(p.Devices) != 2 {
			t.Errorf("devices %+v", p.Devices)
		}
		if !strings.Contains(p.Why, "on fake:0 alone") {
			t.Errorf("why: %s", p.Why)
		}
		// One device does both chains, with what is known about the same tasks.
		if len(p.Alone) != 2 {
			t.Fatalf("alone they take %v", p.Alone)
		}
		if q := float64(p.Alone[0]) / float64(p.Median); p.Alone[1] != p.Alone[0] || q < 1.5 || q > 2.5 {
			t.Errorf("alone they take %v, together %v", p.Alone, p.Median)
		}
		long, err := rt.Predict(ctx, incs(t, 2, 50))
		if err != nil {
			t.Fatal(err)
		}
		if q := float64(long.Median) / float64(p.Median); q < 5 || q > 20 {
			t.Errorf("ten times the work is predicted to take %.1f times as long", q)
		}
	})
}

func tasks(rt *weft.Runtime) (n int64) {
	for _, d := range rt.Devices() {
		n += d.Tasks
	}
	return n
}

// Compare goes by rates alone: what ran before changes nothing.
func TestCompare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := slow(t)
		ctx := context.Background()
		short, long := incs(t, 2, 5), incs(t, 2, 50)
		before, err := rt.Compare(ctx, short, long)
		if err != nil {
			t.Fatal(err)
		}
		if len(before) != 2 || before[0] <= 0 || before[1] <= before[0] {
			t.Errorf("chains of 5 and 50 tasks compare as %v", before)
		}
		for range 4 { // and take far longer
			if _, err := rt.Run(ctx, short, weft.Bind("x", make([]byte, 2))); err != nil {
				t.Fatal(err)
			}
		}
		if after, err := rt.Compare(ctx, short, long); err != nil || !slices.Equal(after, before) {
			t.Errorf("after runs they compare as %v, %v; before as %v", after, err, before)
		}
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := rt.Compare(cancelled, short); !errors.Is(err, context.Canceled) {
			t.Errorf("compare after a cancellation: %v", err)
		}
		rt.Close()
		if _, err := rt.Compare(ctx, short); !errors.Is(err, weft.ErrClosed) {
			t.Errorf("compare on a closed runtime: %v", err)
		}
	})
}

func TestPredictErrors(t *testing.T) {
	rt := slow(t)
	g := incs(t, 1, 1)
	if _, err := rt.Predict(context.Background(), g, weft.Bind("y", []byte{1})); !errors.Is(err, weft.ErrBinding) {
		t.Errorf("unknown data: %v", err)
	}
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 1, Output: true})
	k := &graph.Kernel{Name: "ptx", Impls: []graph.Impl{{Dialect: graph.PTX, Entry: "f"}}}
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: k}}, On: graph.Constraint{Only: []string{"cpu"}}, Uses: []graph.Use{{Data: x, Access: graph.Write}}})
	nowhere, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Predict(context.Background(), nowhere); !errors.Is(err, weft.ErrNoDevice) {
		t.Errorf("a task that runs nowhere: %v", err)
	}
	rt.Close()
	if _, err := rt.Predict(context.Background(), g); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// Resident data is where earlier runs left it.
func TestPredictResident(t *testing.T) {
	rt := slow(t)
	d, err := weft.Put(rt, "x", []byte{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := rt.Run(context.Background(), incs(t, 2, 2), d.As("x")); err != nil {
			t.Fatal(err)
		}
	}
	if p, err := rt.Predict(context.Background(), incs(t, 2, 2), d.As("x")); err != nil || p.Median < 8*time.Millisecond {
		t.Errorf("%+v, %v for two tasks in a row of at least 4 ms", p, err)
	}
}

// Cores that nobody measured are taken to compute side by side: what they share of
// memory is not known, and no reason to use one of them only.
func TestPredictUnmeasured(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("needs two cores")
	}
	rt, err := weft.Open(context.Background(), weft.Options{Devices: "cpu/2", NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	k := &graph.Kernel{Name: "k", Impls: []graph.Impl{{Dialect: graph.Go}}}
	var b graph.Builder
	for range 2 {
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: k}}, Work: graph.Work{Ops: 1e9, Bytes: 2e9}})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	p, err := rt.Predict(context.Background(), g)
	if err != nil {
		t.Fatal(err)
	}
	if p.Devices[0].Tasks != 1 || p.Devices[1].Tasks != 1 || p.Median > p.Alone[0]*6/10 {
		t.Errorf("predicted %s", p.Why)
	}
}
