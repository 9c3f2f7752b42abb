package weft_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/test/poll"
)

const (
	streamPieces = 6  // of the resident data of a stream, one task each
	streamWords  = 16 // of a piece
	streamRuns   = 240
	streamers    = 4 // goroutines that submit runs
)

// streamKernels are the kernels of a stream and how often each has run.
func streamKernels() (funcs map[string]weft.Func, bumps, squares *atomic.Int64) {
	bumps, squares = new(atomic.Int64), new(atomic.Int64)
	return map[string]weft.Func{
		"bump": func(c *weft.Call, _, _ int) {
			bumps.Add(1)
			w, y := weft.View[int64](c.Args[0]), weft.View[int64](c.Args[1])
			for i := range w {
				w[i]++
				y[i] = w[i]
			}
		},
		"square": func(c *weft.Call, _, _ int) {
			squares.Add(1)
			x, y := weft.View[int64](c.Args[0]), weft.View[int64](c.Args[1])
			for i := range x {
				y[i] = x[i] * x[i]
			}
		},
	}, bumps, squares
}

// streamGraph makes a graph of one task for each piece of x, which reads or updates it, and
// writes y.
func streamGraph(t *testing.T, kernel string, access graph.Access) *graph.Graph {
	t.Helper()
	k := &graph.Kernel{Name: kernel, Impls: []graph.Impl{{Dialect: graph.Go, Entry: kernel}, {Dialect: graph.PTX, Entry: kernel}}}
	const bytes = 8 * streamWords
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: bytes * streamPieces, Input: true})
	y := b.Data(graph.Data{Name: "y", Bytes: bytes * streamPieces, Output: true})
	for i := range int64(streamPieces) {
		b.Add(graph.Task{
			Steps: []graph.Step{{Kernel: k, Launch: graph.Launch{Grid: [3]uint32{1, 1, 1}}}},
			Uses:  []graph.Use{{Data: x, Offset: i * bytes, Bytes: bytes, Access: access}, {Data: y, Offset: i * bytes, Bytes: bytes, Access: graph.Write}},
			Work:  graph.Work{Ops: 1e6},
		})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// stream has several goroutines run graphs until there were streamRuns of each kind: one
// updates resident data, whose value each run must find one higher than the run before, the
// other squares numbers, under limits of its own. It returns when all results were compared.
func stream(ctx context.Context, t *testing.T, rt *weft.Runtime) {
	t.Helper()
	w, err := weft.Alloc[int64](rt, "w", streamWords*streamPieces)
	if err != nil {
		t.Error(err)
		return
	}
	defer w.Release()
	bump, err := rt.Prepare(streamGraph(t, "bump", graph.ReadWrite), w.As("x"))
	if err != nil {
		t.Error(err)
		return
	}
	square, err := rt.Prepare(streamGraph(t, "square", graph.Read))
	if err == nil {
		square, err = square.With(weft.RunOptions{Concurrent: 2, Weight: 3, Priority: 1, Retries: 5})
	}
	if err != nil {
		t.Error(err)
		return
	}
	var seen [streamRuns + 1]atomic.Int32 // by value, how many runs found it
	var next atomic.Int64
	var wg sync.WaitGroup
	for range streamers {
		wg.Go(func() {
			x, y := make([]int64, streamWords*streamPieces), make([]int64, streamWords*streamPieces)
			for n := next.Add(1); n <= streamRuns && ctx.Err() == nil; n = next.Add(1) {
				if _, err := bump.Run(ctx, weft.Bind("y", y)); err != nil {
					t.Errorf("run %d: %v", n, err)
					return
				}
				for i, v := range y {
					if v != y[0] || v < 1 || v > streamRuns {
						t.Errorf("run %d: element %d is %d, the first is %d", n, i, v, y[0])
						return
					}
				}
				seen[y[0]].Add(1)
				for i := range x {
					x[i] = 1000*n + int64(i)
				}
				if _, err := square.Run(ctx, weft.Bind("x", x), weft.Bind("y", y)); err != nil {
					t.Errorf("run %d: %v", n, err)
					return
				}
				for i, v := range y {
					if v != x[i]*x[i] {
						t.Errorf("run %d: the square of %d is %d", n, x[i], v)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for v := 1; v <= streamRuns; v++ {
		if n := seen[v].Load(); n != 1 {
			t.Errorf("%d runs found the value %d, want one", n, v)
		}
	}
	got, err := w.Get(ctx)
	if err != nil || got[0] != streamRuns || got[len(got)-1] != streamRuns {
		t.Errorf("resident data after %d runs: %v, %v", streamRuns, got, err)
	}
}

// upset takes devices out of service and puts them back at random until the stream has
// ended, and says when there was enough of it. out says which are out; a spare is, to begin with. With kills, devices are lost
// meanwhile, and what is asked may fail.
func upset(ctx context.Context, t *testing.T, rt *weft.Runtime, ended <-chan struct{}, enough *atomic.Bool, out []bool, kill func(device int)) (drains, swaps int) {
	t.Helper()
	kills := 0
	rnd := rand.New(rand.NewPCG(7, 11))
	name := func(i int) string { return rt.Devices()[i].Name }
	for {
		select {
		case <-ended:
			return drains, swaps
		case <-time.After(time.Duration(rnd.IntN(2000)) * time.Microsecond):
		}
		if drains > 1 && swaps > 1 && (kill == nil || kills > 2) {
			enough.Store(true)
		}
		var in, off []int
		for i, o := range out {
			if o {
				off = append(off, i)
			} else {
				in = append(in, i)
			}
		}
		d := in[rnd.IntN(len(in))]
		var err error
		what := ""
		switch k := rnd.IntN(4); {
		case k == 0 && kill != nil:
			kills++
			kill(rnd.IntN(len(out)))
		case k == 0 && len(off) > 0 || k == 1 && len(in) == 1 && len(off) > 0:
			what = "undrain " + name(off[0])
			if err = rt.Undrain(name(off[0])); err == nil {
				out[off[0]] = false
			}
		case k == 1 && len(in) > 1:
			what = "drain " + name(d)
			if err = rt.Drain(ctx, name(d)); err == nil {
				drains++
				out[d] = true
				if kill == nil {
					idle(t, rt, d)
				}
			}
		case k > 1 && len(off) > 0:
			to := off[rnd.IntN(len(off))]
			what = fmt.Sprintf("swap %s with %s", name(d), name(to))
			if err = rt.Swap(ctx, name(d), name(to)); err == nil {
				swaps++
				out[d], out[to] = true, false
				if kill == nil {
					idle(t, rt, d)
				}
			}
		}
		if err != nil && kill == nil {
			t.Errorf("%s: %v", what, err)
			return drains, swaps
		}
	}
}

// idle checks that a device that was drained holds nothing and does nothing.
func idle(t *testing.T, rt *weft.Runtime, dev int) {
	t.Helper()
	before := rt.Metrics().Devices[dev]
	time.Sleep(time.Millisecond) // the stream goes on
	after := rt.Metrics().Devices[dev]
	if before.State != "drained" || after.State != "drained" || after.Queued > 0 || before.Tasks != after.Tasks {
		t.Errorf("a drained device went from %+v to %+v", before, after)
	}
	if !strings.HasPrefix(before.Name, "cpu") && after.MemUsed > 0 {
		t.Errorf("a drained device holds %d bytes", after.MemUsed)
	}
}

// Devices are drained, swapped and put back while runs go on, of which some update resident
// data: every result is right, nothing is lost, and no task runs twice.
func TestServiceDuringAStream(t *testing.T) {
	for _, kind := range []string{"cpu", "fake"} {
		t.Run(kind, func(t *testing.T) {
			funcs, bumps, squares := streamKernels()
			o := weft.Options{Funcs: funcs, Spares: kind + ":2", Concurrent: 64}
			if kind == "cpu" {
				o.Devices = "cpu/3"
			} else {
				o.Drivers = []driver.Driver{newFake(t, fake.Options{Devices: 3, MemBytes: 1 << 20, Peer: true, Funcs: funcs})}
			}
			rt := open(t, o)
			if m := rt.Metrics().Devices[2]; m.State != "spare" {
				t.Fatalf("the spare is %s", m.State)
			}
			rounds := serve(t, rt, []bool{false, false, true}, nil)
			if want := int64(rounds * streamRuns * streamPieces); bumps.Load() != want || squares.Load() != want {
				t.Errorf("kernels ran %d and %d times, want %d", bumps.Load(), squares.Load(), want)
			}
		})
	}
}

// newFake makes a driver of fake devices.
func newFake(t *testing.T, o fake.Options) *fake.Driver {
	t.Helper()
	drv, err := fake.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return drv
}

// serve runs streams while their devices are upset, until there was enough of that.
func serve(t *testing.T, rt *weft.Runtime, out []bool, kill func(int)) (rounds int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	ended := make(chan struct{})
	var enough atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(ended)
		for rounds = 1; ; rounds++ {
			if stream(ctx, t, rt); enough.Load() || t.Failed() || ctx.Err() != nil {
				return
			}
		}
	})
	drains, swaps := upset(ctx, t, rt, ended, &enough, out, kill)
	wg.Wait()
	t.Logf("%d rounds, %d drains, %d swaps", rounds, drains, swaps)
	if !enough.Load() && !t.Failed() {
		t.Error("too little was tried")
	}
	return rounds
}

// The same with devices that are killed meanwhile, one at a time, and brought back with empty
// memory: every result is right.
func TestServiceWhileDevicesAreLost(t *testing.T) {
	funcs, _, _ := streamKernels()
	drv := newFake(t, fake.Options{Devices: 3, MemBytes: 1 << 20, Funcs: funcs})
	rt := open(t, weft.Options{Funcs: funcs, Spares: "fake:2", Drivers: []driver.Driver{drv}})
	kills := 0
	serve(t, rt, []bool{false, false, true}, func(device int) {
		kills++
		name, before := rt.Devices()[device].Name, rt.Metrics().Devices[device].Losses
		if err := drv.Play(fmt.Sprintf("on %d lose", device)); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), long)
		defer cancel()
		// Until it is given work, or asked how it is.
		poll.True(t, name+" is lost", func() bool { return rt.Metrics().Devices[device].Losses != before || ctx.Err() != nil })
		if err := rt.Recover(ctx, name); err != nil { // a device lost often is broken at once
			if err = rt.Recover(ctx, name); err != nil {
				t.Error(err)
			}
		}
	})
	t.Logf("%d kills, %d losses", kills, rt.Metrics().Losses)
}

// What cannot be asked of a device is one clear line.
func TestServiceErrors(t *testing.T) {
	ctx := t.Context()
	rt := open(t, weft.Options{Devices: "cpu/2"})
	other := open(t, weft.Options{Devices: "cpu/2", Spares: "cpu:1"})
	closed, err := weft.Open(ctx, weft.Options{Devices: "cpu/2", NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	probe := func(rt *weft.Runtime, name string) error { _, err := rt.Probe(ctx, name); return err }
	for _, c := range []struct {
		err  error
		is   error
		says string
	}{
		{rt.Drain(ctx, "cpu:7"), weft.ErrDevice, `drain cpu:7: bad device: unknown device "cpu:7"; did you mean cpu:0?`},
		{rt.Undrain("nothing"), weft.ErrDevice, `undrain nothing: bad device: unknown device "nothing"; there are cpu:0, cpu:1`},
		{rt.Swap(ctx, "cpu:0", "cpu:0"), weft.ErrDevice, "swap cpu:0: bad device: it cannot take its own place"},
		{rt.Swap(ctx, "cpu:0", "gpu"), weft.ErrDevice, `unknown device "gpu"`},
		{rt.Recover(ctx, ""), weft.ErrDevice, `unknown device ""`},
		{probe(rt, "x"), weft.ErrDevice, `unknown device "x"`},
		{other.Drain(ctx, "cpu:0"), weft.ErrLastDevice, "drain cpu:0: it is the last device that takes work"},
		{rt.Drain(over, "cpu:0"), context.Canceled, "drain cpu:0: context canceled"},
		{closed.Drain(ctx, "cpu:0"), weft.ErrClosed, "drain cpu:0: the runtime is closed"},
		{closed.Undrain("cpu:0"), weft.ErrClosed, "undrain cpu:0: the runtime is closed"},
		{closed.Swap(ctx, "cpu:0", "cpu:1"), weft.ErrClosed, "swap cpu:0: the runtime is closed"},
		{closed.Recover(ctx, "cpu:0"), weft.ErrClosed, "recover cpu:0: the runtime is closed"},
		{probe(closed, "cpu:0"), weft.ErrClosed, "probe cpu:0: the runtime is closed"},
	} {
		if !errors.Is(c.err, c.is) || !strings.Contains(fmt.Sprint(c.err), c.says) || strings.Contains(c.err.Error(), "\n") {
			t.Errorf("got %v, want one line with %q", c.err, c.says)
		}
	}
	for _, c := range []struct{ spares, says string }{
		{"cpu:9", `spares: unknown device "cpu:9"`},
		{"cpu:0,cpu:1", "every device is one"},
		{"cpu", `"cpu" is not the name of a device`},
		{"cpu:0, cpu:0", "twice"},
	} {
		_, err := weft.Open(ctx, weft.Options{Devices: "cpu/2", Spares: c.spares, NoCalibrate: true, CacheDir: "off"})
		if !errors.Is(err, weft.ErrOptions) || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("spares %q: %v, want %q", c.spares, err, c.says)
		}
	}
}

// A drain that nobody waits for any more goes on, and one that is called off says so.
func TestDrainGoesOn(t *testing.T) {
	hold, begun := make(chan struct{}), make(chan struct{}, 2)
	rt := open(t, weft.Options{Devices: "cpu/2", Funcs: map[string]weft.Func{"up": func(*weft.Call, int, int) {
		begun <- struct{}{}
		<-hold
	}}})
	h := rt.Submit(row(t, "cpu:0", "up"), nil, weft.Bind("x", make([]int64, 1)))
	<-begun
	// A drain whose time is over before it begins does nothing, on a machine that is slow.
	for wait := time.Millisecond; rt.Devices()[0].State != "draining"; wait *= 2 {
		if wait > time.Minute {
			t.Fatalf("the device is %s", rt.Devices()[0].State)
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		if err := rt.Drain(ctx, "cpu:0"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a drain that is not waited for: %v", err)
		}
		cancel()
	}
	off := make(chan error, 1)
	go func() { off <- rt.Drain(t.Context(), "cpu:0") }()
	for rt.Undrain("cpu:0") == nil { // until the drain was there to be called off
		select {
		case err := <-off:
			if err == nil || !strings.Contains(err.Error(), "let in again") {
				t.Errorf("a drain that was called off: %v", err)
			}
			close(hold)
			if _, err := h.Wait(); err != nil {
				t.Error(err)
			}
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// Runs keep to their options: how many tasks are in flight, and how often one may fail.
func TestRunOptions(t *testing.T) {
	var now, most, fails atomic.Int32
	rt := open(t, weft.Options{Devices: "cpu/3", Funcs: map[string]weft.Func{
		"square": func(c *weft.Call, _, _ int) {
			for n, m := now.Add(1), most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(time.Millisecond) // another would begin meanwhile, were it let
			now.Add(-1)
			if fails.Add(-1) >= 0 {
				c.Fail(errors.New("a bad day"))
			}
		},
	}})
	p, err := rt.Prepare(streamGraph(t, "square", graph.Read))
	if err != nil {
		t.Fatal(err)
	}
	x, y := make([]int64, streamWords*streamPieces), make([]int64, streamWords*streamPieces)
	run := func(o weft.RunOptions, failing int32) error {
		q, err := p.With(o)
		if err != nil {
			t.Fatal(err)
		}
		most.Store(0)
		fails.Store(failing)
		_, err = q.Run(t.Context(), weft.Bind("x", x), weft.Bind("y", y))
		return err
	}
	if err := run(weft.RunOptions{Concurrent: 1}, 0); err != nil || most.Load() != 1 {
		t.Errorf("%d tasks ran at a time, want one: %v", most.Load(), err)
	}
	if err := run(weft.RunOptions{Retries: -1}, 1); err == nil || !strings.Contains(err.Error(), "a bad day") {
		t.Errorf("a task that may not fail: %v", err)
	}
	if err := run(weft.RunOptions{Retries: 9, Concurrent: 1}, 9); err != nil {
		t.Errorf("a task that may fail nine times: %v", err)
	}
	for _, bad := range []weft.RunOptions{{Concurrent: -1}, {Weight: math.NaN()}, {Weight: math.Inf(1)}, {Timeout: -2}, {Retries: -2}, {Priority: 1 << 40}} {
		if _, err := p.With(bad); !errors.Is(err, weft.ErrOptions) || strings.Contains(err.Error(), "\n") {
			t.Errorf("options %+v: %v", bad, err)
		}
	}
	if _, err := weft.Open(t.Context(), weft.Options{Devices: "cpu/1", PolicyWithin: "capacity"}); !errors.Is(err, weft.ErrOptions) {
		t.Errorf("policy_within without its policy: %v", err)
	}
	grouped := open(t, weft.Options{Devices: "cpu/3", Policy: "hierarchical", PolicyBetween: "leastloaded", PolicyWithin: "roundrobin", Funcs: incFuncs})
	if _, err := grouped.Run(t.Context(), small(t, 3), weft.Bind("x", make([]int64, 16)), weft.Bind("y", make([]int64, 16))); err != nil {
		t.Error(err)
	}
}
