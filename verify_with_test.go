package weft_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/task"
)

// swaps has devices take each other's places while runs go on, and returns what run returned first
// that was not nil. Two devices of the three, and one more of others, take work at any time.
func swaps(t *testing.T, rt *weft.Runtime, devices [3]string, run func() error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	var runs atomic.Int64
	var failed error
	var loop sync.WaitGroup
	stop := make(chan struct{})
	loop.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if failed = run(); failed != nil {
				cancel()
				return
			}
			runs.Add(1)
		}
	})
	// Each is swapped out for the one that is out of service, which the last of them is first.
	for n, out := 0, 2; n < 6; n++ {
		from := n % 3
		if from == out {
			continue
		}
		if err := rt.Swap(ctx, devices[from], devices[out]); err != nil && ctx.Err() == nil {
			t.Errorf("swap %s with %s: %v", devices[from], devices[out], err)
		}
		out = from
		at := runs.Load()
		poll.True(t, "two more runs end", func() bool { return runs.Load() >= at+2 || ctx.Err() != nil })
	}
	close(stop)
	loop.Wait()
	if failed == nil {
		failed = context.Cause(ctx)
	}
	return failed
}

// Devices are swapped under load while every result is verified: all are right, all are verified,
// and the device that computes wrong bytes is found.
func TestVerifySwap(t *testing.T) {
	drv := follows(t, "devices 4; on 3 corrupt kernel add", map[string]weft.Func{"add": add3})
	rt := open(t, weft.Options{Drivers: []driver.Driver{drv}, Verify: 1, Policy: "roundrobin"})
	if err := rt.Drain(t.Context(), "fake:2"); err != nil {
		t.Fatal(err)
	}
	const tasks = 12
	wrong := 0
	err := swaps(t, rt, [3]string{"fake:0", "fake:1", "fake:2"}, func() error {
		x := make([]int64, 8*tasks)
		rep, err := rt.Run(t.Context(), tripled(t, tasks), weft.Bind("x", x))
		if err != nil {
			return err
		}
		if !all(x, 3) || rep.Verified != tasks || rep.Unverified != 0 {
			t.Errorf("x is %v; verified are %d tasks, and %d not", x, rep.Verified, rep.Unverified)
		}
		wrong += len(rep.Wrong)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if losses := rt.Metrics().Losses; wrong == 0 || losses != 0 {
		t.Errorf("%d results were found wrong, %d devices lost", wrong, losses)
	}
	if s := rt.Devices()[3].State; s != "drained" && s != "draining" {
		t.Errorf("the device that is wrong is %s", s)
	}
}

// The same in worker processes.
func TestVerifySwapIsolated(t *testing.T) {
	rt := inWorkers(t, weft.Options{Devices: "cpu/3", Spares: "cpu:2", Verify: 1})
	if err := swaps(t, rt, [3]string{"cpu:0", "cpu:1", "cpu:2"}, func() error {
		goesOn(t, rt)
		return nil
	}); err != nil {
		t.Error(err)
	}
	if m := rt.Metrics(); m.Verified == 0 || m.Wrong != 0 || m.Losses != 0 {
		t.Errorf("metrics are %+v", m)
	}
}

// Elements of a stream are computed by runs whose results are verified. A device computes wrong
// bytes, and another is lost on the way; the results are right and in order.
func TestVerifyStream(t *testing.T) {
	drv := follows(t, "devices 4; on 1 corrupt kernel add", map[string]weft.Func{"add": add3})
	rt := open(t, weft.Options{Drivers: []driver.Driver{drv}, Verify: 1, Policy: "roundrobin"})
	p, err := rt.Prepare(tripled(t, 2), weft.Bind("x", make([]int64, 16)))
	if err != nil {
		t.Fatal(err)
	}
	const n = 200
	xs := func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
	at := 0
	for sum, err := range task.Stream(t.Context(), xs, func(ctx context.Context, i int) (int64, error) {
		x := slices.Repeat([]int64{int64(i)}, 16)
		_, err := p.Run(ctx, weft.Bind("x", x))
		return x[0] + x[15], err
	}) {
		if err != nil || sum != int64(2*at+6) {
			t.Fatalf("element %d is %d, %v", at, sum, err)
		}
		if at++; at == n/2 {
			if err := drv.Play("on 2 lose"); err != nil {
				t.Fatal(err)
			}
		}
	}
	m := rt.Metrics()
	if at != n || m.Wrong == 0 || m.Losses == 0 || m.Verified+m.Unverified != 2*n {
		t.Errorf("%d elements of %d; metrics are %+v", at, n, m)
	}
}

// checkedAgain opens a runtime that keeps checkpoints and verifies every result, with three devices
// one of which computes wrong bytes. stop is called by each launch with its number.
func checkedAgain(t *testing.T, c weft.Checkpoint, stop func(n int64)) *weft.Runtime {
	t.Helper()
	var calls atomic.Int64
	drv := follows(t, "devices 3; on 1 corrupt kernel mix", map[string]weft.Func{"mix": func(call *weft.Call, lo, hi int) {
		stop(calls.Add(1))
		hashKernel(call, lo, hi)
	}})
	rt, err := weft.Open(t.Context(), weft.Options{
		Drivers: []driver.Driver{drv}, NoCalibrate: true, CacheDir: "off", Checkpoint: c, Verify: 1, Policy: "roundrobin",
	})
	if err != nil {
		t.Fatal(err)
	}
	return rt
}

// A graph whose results are verified, ended at some launches and resumed from checkpoints gives what
// one run of it gives that is not verified.
func TestVerifyResume(t *testing.T) {
	const words = 1000
	g := layered(t, 15, words)
	rt := mustKeep(t, weft.Checkpoint{}, nil)
	want, err := outputsOf(t.Context(), rt, g, words, 3)
	rt.Close()
	if err != nil {
		t.Fatal(err)
	}
	c := weft.Checkpoint{Dir: filepath.Join(t.TempDir(), "c"), Every: time.Nanosecond}
	verified, wrong := int64(0), int64(0)
	for lives := 1; ; lives++ {
		ctx, cancel := context.WithCancel(t.Context())
		rt := checkedAgain(t, c, func(n int64) {
			if n == 40 {
				cancel()
			}
		})
		got, err := outputsOf(ctx, rt, g, words, 3)
		m := rt.Metrics()
		verified, wrong = verified+m.Verified, wrong+m.Wrong
		rt.Close()
		cancel()
		if err == nil {
			if !slices.Equal(got, want) || lives < 2 {
				t.Errorf("after %d lives the outputs are those of one run: %v", lives, slices.Equal(got, want))
			}
			break
		}
		if !errors.Is(err, context.Canceled) || lives > 100 {
			t.Fatal(err)
		}
		c.Resume = has(c.Dir)
	}
	if verified < int64(g.NumTasks()) || wrong == 0 {
		t.Errorf("of %d tasks %d were verified, and %d results wrong", g.NumTasks(), verified, wrong)
	}
}

// What a verified task left in resident data is in host memory: no loss has it computed again after
// its run, and what other tasks made of it on devices is.
func TestVerifyLost(t *testing.T) {
	for _, every := range []int{1, 3} {
		drv := follows(t, "devices 3", map[string]weft.Func{"add": add3})
		rt := open(t, weft.Options{Drivers: []driver.Driver{drv}, Verify: every})
		const tasks = 12
		x, err := weft.Put(rt, "x", make([]int64, 8*tasks))
		if err != nil {
			t.Fatal(err)
		}
		p, err := rt.Prepare(tripled(t, tasks), x.As("x"))
		if err != nil {
			t.Fatal(err)
		}
		verified := 0
		for n := range int64(30) {
			rep, err := p.Run(t.Context())
			if err != nil {
				t.Fatalf("verify %d, run %d: %v", every, n, err)
			}
			if every == 1 && rep.Replays > 0 {
				t.Errorf("run %d replayed %d tasks", n, rep.Replays)
			}
			verified += rep.Verified
			if n == 5 || n == 15 {
				if err := drv.Play("lose"); err != nil {
					t.Fatal(err)
				}
			}
			if n%10 != 9 {
				continue
			}
			if got, err := x.Get(t.Context()); err != nil || !all(got, 3*(n+1)) {
				t.Fatalf("verify %d, after run %d x is %v, %v", every, n, got, err)
			}
		}
		if verified == 0 || rt.Metrics().Losses == 0 {
			t.Errorf("verify %d: %d tasks were verified; metrics are %+v", every, verified, rt.Metrics())
		}
	}
}

// Where no device is left, a run whose results are verified ends with an error that says so, and the
// process that checks is no device that was lost.
func TestVerifyNoDevice(t *testing.T) {
	drv := follows(t, "devices 2; lose kernel add", map[string]weft.Func{"add": add3})
	rt := open(t, weft.Options{Drivers: []driver.Driver{drv}, Verify: 1, Ladder: "fail"})
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	_, err := rt.Run(ctx, tripled(t, 4), weft.Bind("x", make([]int64, 32)))
	if !errors.Is(err, weft.ErrNoDevice) {
		t.Errorf("the error is %v", err)
	}
	if n := rt.Metrics().Losses; n != 2 {
		t.Errorf("%d devices were lost", n)
	}
}
