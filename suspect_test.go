package weft_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/test/poll"
)

// probed opens fake devices that have the kernels of probes, of which so many as bad says give
// a wrong answer.
func probed(t *testing.T, script string, bad *atomic.Int32, o weft.Options) (*weft.Runtime, *fake.Driver) {
	t.Helper()
	fo, err := fake.Parse(script)
	if err != nil {
		t.Fatal(err)
	}
	fo.Funcs = maps.Clone(cpu.Probes())
	fo.Funcs["up"] = countUp
	check := fo.Funcs["weft.probe.check"]
	fo.Funcs["weft.probe.check"] = func(c *driver.Call, lo, hi int) {
		check(c, lo, hi)
		if bad.Add(-1) >= 0 {
			c.Args[1][0] ^= 1
		}
	}
	drv := newFake(t, fo)
	o.Drivers = []driver.Driver{drv}
	return open(t, o), drv
}

// statesOf collects the states of devices until one is reached.
func statesOf(t *testing.T, rt *weft.Runtime, do func(), last string) (states []string, why string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	events := rt.Events(ctx, weft.EventDevice)
	do()
	for e := range events {
		states = append(states, e.From+" "+e.To)
		if e.To == "suspect" && e.Err != nil {
			why = e.Err.Error()
		}
		if e.To == last {
			return states, why
		}
	}
	t.Fatalf("never %s: %q", last, states)
	return nil, ""
}

// A device whose probe gives a wrong byte is suspect, and trusted again after good ones: what
// is told of it says why. Probes are in no count of tasks or runs.
func TestProbeInterval(t *testing.T) {
	var bad atomic.Int32
	rt, _ := probed(t, "devices 2", &bad, weft.Options{ProbeInterval: 10 * time.Millisecond})
	states, why := statesOf(t, rt, func() { bad.Store(1) }, "healthy")
	if got := strings.Join(states, ", "); got != "healthy suspect, suspect healthy" || !strings.Contains(why, "wrong answer: 1 of 4096 bytes") {
		t.Errorf("%s: %s", got, why)
	}
	m := rt.Metrics()
	if m.Runs.Submitted != 0 || m.Runs.Completed != 0 || m.Devices[0].Tasks+m.Devices[1].Tasks != 0 || m.Losses != 0 {
		t.Errorf("probes are counted: %+v", m)
	}
	if e := m.Devices[0].LastError + m.Devices[1].LastError; !strings.Contains(e, "probe") {
		t.Errorf("last errors: %q", e)
	}
}

// A device that comes back is suspect until its probe was good; one whose probe is not is lost
// again, and the next rung is tried.
func TestProbeAfterRecovery(t *testing.T) {
	var bad atomic.Int32
	bad.Store(1)
	rt, drv := probed(t, "devices 2", &bad, weft.Options{})
	states, _ := statesOf(t, rt, func() {
		if err := drv.Play("on 0 lose"); err != nil {
			t.Error(err)
		}
	}, "healthy")
	if got := strings.Join(states, ", "); got != "healthy lost, lost suspect, suspect lost, lost suspect, suspect healthy" {
		t.Error(got)
	}
	if _, err := rt.Run(t.Context(), row(t, "fake:0", "up"), weft.Bind("x", make([]int64, 1))); err != nil {
		t.Error(err)
	}
}

// A rung of the program's own is called with the device, which is opened anew after it; where
// it errs the next is tried, and fail leaves the device broken until it is asked for.
func TestOwnRung(t *testing.T) {
	var bad, works atomic.Int32
	called := make(chan string, 100)
	rt, drv := probed(t, "devices 2", &bad, weft.Options{
		Ladder: "reset:1m, fail", Rungs: map[string]weft.Rung{"reset": func(_ context.Context, device string) error {
			called <- device
			if works.Load() == 0 {
				return errors.New("nobody answers")
			}
			return nil
		}},
	})
	if err := drv.Play("on 1 lose"); err != nil {
		t.Fatal(err)
	}
	poll.True(t, "a broken device", func() bool { return rt.Metrics().Losses == 1 && rt.Devices()[1].State != "lost" })
	if s := rt.Devices()[1].State; s != "broken" && s != "unresponsive" {
		t.Errorf("state %s", s)
	}
	if name := <-called; name != "fake:1" || len(called) > 0 {
		t.Errorf("called for %s, %d times more", name, len(called))
	}
	works.Store(1)
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	if err := rt.Recover(ctx, "fake:1"); err != nil || rt.Devices()[1].State != "healthy" {
		t.Errorf("%v: %s", err, rt.Devices()[1].State)
	}
	reset := map[string]weft.Rung{"reset": func(context.Context, string) error { return nil }}
	for _, o := range []weft.Options{
		{Ladder: "reset"}, {Ladder: "fail, reset", Rungs: reset}, {Ladder: "rest", Rungs: reset},
		{Rungs: map[string]weft.Rung{"x": nil}}, {Rungs: map[string]weft.Rung{"restart": reset["reset"]}}, {Rungs: map[string]weft.Rung{"a b": reset["reset"]}},
		{ProbeInterval: time.Millisecond},
	} {
		if err := o.Validate(); !errors.Is(err, weft.ErrOptions) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// A device without kernels for probes is taken at its word.
func TestNoProbe(t *testing.T) {
	rt, drv := scripted(t, "devices 1", weft.Options{ProbeInterval: 10 * time.Millisecond})
	states, _ := statesOf(t, rt, func() {
		if err := drv.Play("on 0 lose"); err != nil {
			t.Error(err)
		}
	}, "healthy")
	if got := strings.Join(states, ", "); got != "healthy lost, lost suspect, suspect healthy" {
		t.Error(got)
	}
}

// A device that has no room for a probe has answered: a task that is verified and waits for it goes
// on, although nothing but that is in flight.
func TestProbeWithoutRoom(t *testing.T) {
	drv := follows(t, "devices 2; memory 100", map[string]weft.Func{"add": add3})
	rt := open(t, weft.Options{Drivers: []driver.Driver{drv}, Verify: 1, HealthInterval: -1})
	if err := drv.Play("on 1 lose"); err != nil {
		t.Fatal(err)
	}
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 40, Input: true, Output: true})
	for range 3 {
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: graph.GoKernel("add"), Launch: graph.Grid(5)}}, Uses: []graph.Use{{Data: x, Access: graph.ReadWrite}}})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	y := make([]int64, 5)
	rep, err := rt.Run(ctx, g, weft.Bind("x", y))
	if err != nil || !all(y, 9) || rep.Verified != 3 {
		t.Errorf("x is %v, the report %+v, %v; devices %+v", y, rep, err, rt.Metrics().Devices)
	}
	poll.True(t, "a device that is trusted", func() bool { return rt.Devices()[1].State == "healthy" })
}
