package weft_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/test/poll"
)

// What a device reports of its condition is in metrics and reports, and failures are counted.
func TestHealth(t *testing.T) {
	var fails atomic.Int32
	funcs := map[string]weft.Func{"up": func(c *weft.Call, lo, hi int) {
		time.Sleep(2 * time.Millisecond) // so that samples are taken while it runs
		if fails.Add(-1) >= 0 {
			c.Fail(errors.New("a bad day\nand night"))
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
	if m.Failed != 2 || m.Failures != 0 || m.LastSuccess == 0 || !strings.Contains(m.LastError, "a bad day; and night") {
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
	poll.True(t, "an unresponsive device", func() bool { return rt.Devices()[0].State == "unresponsive" })
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

// lines is a log that can be read while it is written.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// count returns how many lines hold all of some texts.
func (l *lines) count(texts ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
next:
	for line := range strings.Lines(l.b.String()) {
		for _, s := range texts {
			if !strings.Contains(line, s) {
				continue next
			}
		}
		n++
	}
	return n
}

// Each rule slows and drains the device that breaks it, and lets it in again, with one line in
// the log for each; a device within all limits is left alone.
func TestHealthRules(t *testing.T) {
	for _, c := range []struct {
		key, value, rule string
		breaks, keeps    string // what the fake device reports
	}{
		{"max_temperature", "60", "temperature", "set temp 61", "set temp 50"},
		{"memory_margin", "0.5", "memory", "set memory 0.6", "set memory 0.4"},
		{"power_budget", "100", "power", "set power 120", "set power 90"},
		{"total_power", "250", `"power of all devices"`, "set power 220", "set power 90"},
		{"max_utilisation", "0.5", `"use by other programs"`, "set util 0.9", "set util 0.1"},
	} {
		t.Run(c.key, func(t *testing.T) {
			script, err := fake.Parse("devices 2; set power 80; set temp 40; set memory 0.1; set util 0")
			if err != nil {
				t.Fatal(err)
			}
			drv, log := newFake(t, script), &lines{}
			o := weft.Options{Drivers: []driver.Driver{drv}, HealthInterval: time.Millisecond, Log: slog.New(slog.NewTextHandler(log, nil))}
			if err := o.Set(c.key, c.value); err != nil {
				t.Fatal(err)
			}
			rt := open(t, o)
			state := func() string { return rt.Devices()[1].State }
			for round := range 2 {
				if err := drv.Play("on 1 " + c.breaks); err != nil {
					t.Fatal(err)
				}
				poll.True(t, "a drain", func() bool { return state() == "draining" })
				if n := log.count("a health rule acts", "device=fake:1", "rule="+c.rule, "celsius=", "watts="); n != round+1 {
					t.Errorf("%d lines say that the rule acts, want %d", n, round+1)
				}
				if err := drv.Play("on 1 " + c.keeps); err != nil {
					t.Fatal(err)
				}
				poll.True(t, "the end of it", func() bool { return state() == "healthy" })
				if n := log.count("ceases to act", "device=fake:1", "rule="+c.rule); n != round+1 {
					t.Errorf("%d lines say that the rule ceases to act, want %d", n, round+1)
				}
			}
			// What a drained device still draws counts: the total then has the next one slowed.
			if n := log.count("health rule", "fake:0"); n > 0 && c.key != "total_power" {
				t.Errorf("%d rules acted on a device within its limits", n)
			}
		})
	}
}

// A lost device is brought back by the rungs that are set, and by none when the ladder is off.
func TestLadder(t *testing.T) {
	for ladder, want := range map[string]string{"reopen": "healthy", "off": "broken", "standby:50ms, restart": "broken"} {
		script, err := fake.Parse("devices 2; revive standby fails; revive restart fails")
		if err != nil {
			t.Fatal(err)
		}
		drv := newFake(t, script)
		rt := open(t, weft.Options{Drivers: []driver.Driver{drv}, Ladder: ladder})
		if err := drv.Play("on 0 lose"); err != nil {
			t.Fatal(err)
		}
		poll.True(t, ladder+": a loss", func() bool { return rt.Metrics().Losses == 1 })
		poll.True(t, ladder+": "+want, func() bool { s := rt.Devices()[0].State; return s == want || want == "broken" && s == "unresponsive" })
	}
	for _, bad := range []string{"jump", "restart:0s", "restart:2h", "restart:x", "restart,", "off, restart"} {
		var o weft.Options
		if err := o.Set("ladder", bad); !errors.Is(err, weft.ErrOptions) || strings.Contains(err.Error(), "\n") {
			t.Errorf("ladder %q: %v", bad, err)
		}
	}
}

// Real-time threads are refused in one line, or compute as others do.
func TestRealtime(t *testing.T) {
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu/1", Realtime: true, NoCalibrate: true, CacheDir: "off", Funcs: incFuncs})
	if err != nil {
		if !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), "CAP_SYS_NICE") || strings.Contains(err.Error(), "\n") {
			t.Error(err)
		}
		t.Skip(err)
	}
	if runtime.GOOS != "linux" {
		t.Error("permitted where there is no such thing")
	}
	defer rt.Close()
	x, y := make([]int64, 16), make([]int64, 16)
	if _, err := rt.Run(t.Context(), small(t, 3), weft.Bind("x", x), weft.Bind("y", y)); err != nil || y[7] != 3 {
		t.Error(fmt.Sprint(y), err)
	}
}
