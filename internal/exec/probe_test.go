package exec

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/test/poll"
)

// Probes show the condition of a device, and no rule that counts samples acts on them,
// however many there are; the same samples at an interval have the device drained.
func TestProbeIsNoSample(t *testing.T) {
	d := faked(t, "devices 2; on 0 set temp 95; on 0 set util 0.9", incs)
	x := open(t, Config{Drivers: []driver.Driver{d}, HealthInterval: -1})
	for range 20 {
		if err := x.Probe(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	st, _ := x.Status()
	if s := st[0]; s.State != engine.Healthy || s.Slow != 1 || s.Stats.Load != 0 {
		t.Errorf("after probes a hot device is %v, %v times slower, with a load of %v", s.State, s.Slow, s.Stats.Load)
	}
	if s := st[0]; s.Sampled == nil || s.Sampled.TempC != 95 || s.Util != 0.9 {
		t.Errorf("probes show %+v, utilisation %v", s.Sampled, s.Util)
	}
	sampled := open(t, Config{Drivers: []driver.Driver{faked(t, "devices 2; on 0 set temp 95", incs)}, HealthInterval: time.Millisecond})
	eventually(t, sampled, "drained", func(st []engine.DeviceStatus) bool { return st[0].State == engine.Draining })
}

// deaf is a device that answers no request for its condition until it is released.
type deaf struct {
	driver.Device
	asked   chan struct{}
	release chan struct{}
}

func (d deaf) Telemetry() (driver.Telemetry, error) {
	d.asked <- struct{}{}
	<-d.release
	return driver.Telemetry{TempC: 50}, nil
}

// Probes of a device that hangs end with their context and leave nothing behind: one
// request is under way, however many there were, and the next probe that is answered shows
// the device.
func TestProbeHangs(t *testing.T) {
	devs, err := faked(t, "", incs).Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	d := deaf{devs[0], make(chan struct{}, 1000), make(chan struct{})}
	x := open(t, Config{Drivers: []driver.Driver{opened{"fake", []driver.Device{d}}}, HealthInterval: -1})
	probe := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := x.Probe(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a probe of a device that hangs: %v", err)
		}
	}
	for len(d.asked) == 0 { // one may end before it is even asked for
		probe()
	}
	before := runtime.NumGoroutine()
	for range 50 {
		probe()
	}
	poll.True(t, "no goroutine is left of 50 probes of a device that hangs", func() bool { return runtime.NumGoroutine() <= before })
	if n := len(d.asked); n != 1 {
		t.Errorf("the device was asked %d times at a time", n)
	}
	close(d.release)
	if err := x.Probe(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if st, _ := x.Status(); st[0].Sampled == nil || st[0].Sampled.TempC != 50 {
		t.Errorf("the device shows %+v", st[0].Sampled)
	}
}
