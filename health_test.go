package weft_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/internal/backend/fake"
)

// until polls for what must come to be true.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(long); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s never came", what)
		}
	}
}

// What a device reports of its condition is in metrics and reports, and failures are counted.
func TestHealth(t *testing.T) {
	var fails atomic.Int32
	funcs := map[string]weft.Func{"up": func(c *weft.Call, lo, hi int) {
		time.Sleep(2 * time.Millisecond)
		if fails.Add(-1) >= 0 {
			c.Fail(errors.New("a bad day"))
			return
		}
		countUp(c, lo, hi)
	}}
	script, err := fake.Parse("devices 1; memory 1048576; set temp 61; set power 200; set clock 1500; set memory 0.25; set errors 4; set util 0.5")
	if err != nil {
		t.Fatal(err)
	}
	script.Funcs = funcs
	drv := newFake(t, script)
	rt := open(t, weft.Options{Drivers: []driver.Driver{drv}, HealthInterval: -1})
	if h := rt.Metrics().Devices[0].Health; h.Sampled != 0 || h.TempC != -1 || h.MemErrors != -1 {
		t.Errorf("health before the first sample: %+v", h)
	}
	m, err := rt.Probe(t.Context(), "fake:0")
	want := weft.Health{Sampled: m.Health.Sampled, Util: 0.5, TempC: 61, PowerW: 200, ClockMHz: 1500, MemUsed: 1 << 18, MemBytes: 1 << 20, MemErrors: 4}
	if err != nil || m.Health != want || m.Health.Sampled == 0 || m.State != "healthy" || m.LastSuccess != 0 || m.LastError != "" {
		t.Fatalf("probe: %+v, %v; want health %+v", m, err, want)
	}
	fails.Store(2)
	rep, err := rt.Run(t.Context(), row(t, "", "up"), weft.Bind("x", make([]int64, 1)))
	if err != nil {
		t.Fatal(err)
	}
	d := rep.Devices[0]
	if d.Failed != 2 || d.Health == nil || *d.Health != want {
		t.Errorf("report: %+v, health %+v", d, d.Health)
	}
	if joules := 200 * d.Busy.Seconds(); math.Abs(rep.EnergyJ()-joules) > 1e-9 || joules == 0 {
		t.Errorf("%g J, want %g: 200 W for %v", rep.EnergyJ(), joules, d.Busy)
	}
	m = rt.Metrics().Devices[0]
	if m.Failed != 2 || m.Failures != 0 || m.LastSuccess == 0 || !strings.Contains(m.LastError, "a bad day") {
		t.Errorf("metrics after failures: %+v", m)
	}
}

// A device that no longer answers is said to be unresponsive, is broken when it cannot be
// brought back, and is brought back on request.
func TestRecoverUnresponsive(t *testing.T) {
	script, err := fake.Parse("devices 2; revive standby fails times 1; revive restart fails times 1; revive reopen fails times 1")
	if err != nil {
		t.Fatal(err)
	}
	drv := newFake(t, script)
	rt := open(t, weft.Options{Drivers: []driver.Driver{drv}})
	if err := drv.Play("on 0 lose"); err != nil {
		t.Fatal(err)
	}
	until(t, "an unresponsive device", func() bool { return rt.Devices()[0].State == "unresponsive" })
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	for err = rt.Recover(ctx, "fake:0"); err != nil; err = rt.Recover(ctx, "fake:0") {
		if !strings.Contains(err.Error(), "cannot be brought back at present") {
			t.Fatal(err)
		}
	}
	if m := rt.Metrics().Devices[0]; m.State != "healthy" || !strings.Contains(m.LastError, "lost") {
		t.Errorf("after it was brought back: %+v", m)
	}
}
