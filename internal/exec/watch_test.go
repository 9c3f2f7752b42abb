package exec

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// eventually waits for something to become true of the devices.
func eventually(t *testing.T, x *Executor, what string, is func(st []engine.DeviceStatus) bool) {
	t.Helper()
	poll.True(t, what, func() (ok bool) {
		x.Look(func(_ machine.Cost, st []engine.DeviceStatus) { ok = is(st) })
		return ok
	})
}

func TestTelemetryReachesEngine(t *testing.T) {
	d := faked(t, "devices 2; on 1 set util 0.7; on 1 set temp 50; on 0 set temp 50", incs)
	x := open(t, Config{Drivers: []driver.Driver{d}, HealthInterval: 5 * time.Millisecond})
	eventually(t, x, "device 1 is used to 0.7, by others", func(st []engine.DeviceStatus) bool {
		return st[1].Util == 0.7 && st[1].Others == 0.7 && st[0].Util != 0.7
	})
	if err := d.Play("on 1 set temp 91"); err != nil {
		t.Fatal(err)
	}
	eventually(t, x, "the hot device is drained", func(st []engine.DeviceStatus) bool {
		return st[1].State == engine.Draining && st[0].State == engine.Healthy
	})
	runs(t, x)
	if err := d.Play("on 1 set temp 60"); err != nil {
		t.Fatal(err)
	}
	eventually(t, x, "it is let in again when it is cool", func(st []engine.DeviceStatus) bool { return st[1].State == engine.Healthy })
	if err := d.Play("on 0 set errors 1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, x, "a device with a new memory error is given up, and back", func(st []engine.DeviceStatus) bool { return st[0].Losses == 1 && st[0].State == engine.Healthy })
	runs(t, x)
}

// That a device's memory changed is said when it has, once.
func TestMemoryChangeIsSaid(t *testing.T) {
	var log lines
	x := open(t, Config{
		Drivers:        []driver.Driver{faked(t, "devices 1", incs)},
		HealthInterval: time.Hour, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	var said []int
	done := make(chan struct{})
	x.do(func(l *loop) {
		defer close(done)
		for _, more := range []int64{0, 0, 0, 1, 0} { // than the last sample had
			d := l.devs[0]
			d.memory += more
			l.sample(d, &engine.Sample{Util: -1, MemUsed: -1, TempC: -1, PowerW: -1, MemErrors: -1, Faults: -1})
			said = append(said, log.count("memory of device that may be used changed"))
		}
	})
	<-done
	if want := []int{0, 0, 0, 1, 1}; !slices.Equal(said, want) {
		t.Errorf("said %v times, want %v", said, want)
	}
}

// How busy cores are follows from what they ran.
func TestUtilisationOfCores(t *testing.T) {
	hold := make(chan struct{})
	x := open(t, Config{
		Drivers: []driver.Driver{cpu.New(cpu.Options{Parts: 2, Cores: 2, Funcs: map[string]driver.Func{
			"inc": func(*driver.Call, int, int) { <-hold },
		}})},
		HealthInterval: 5 * time.Millisecond,
	})
	eventually(t, x, "both idle", func(st []engine.DeviceStatus) bool { return st[0].Util == 0 && st[1].Util == 0 })
	mem := make([]byte, 1)
	done := make(chan error, 1)
	x.Start(&Job{
		Graph: inc(t, 1), Memory: func(graph.DataID) []byte { return mem },
		Done: func(_ *engine.Report, err error) { done <- err },
	})
	eventually(t, x, "one is busy and one is not, neither with others' work", func(st []engine.DeviceStatus) bool {
		return st[0].Util+st[1].Util == 1 && st[0].Others+st[1].Others == 0
	})
	close(hold)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	eventually(t, x, "both idle again", func(st []engine.DeviceStatus) bool { return st[0].Util == 0 && st[1].Util == 0 })
}

// What a device says of its use is others' only as far as it is not ours.
func TestUtilisationByOthers(t *testing.T) {
	d := faked(t, "hang launches; set util 0.9", incs)
	x := open(t, Config{Drivers: []driver.Driver{d}, HealthInterval: 5 * time.Millisecond})
	eventually(t, x, "others use it", func(st []engine.DeviceStatus) bool { return st[0].Others == 0.9 })
	mem := make([]byte, 1)
	done := make(chan error, 1)
	x.Start(&Job{
		Graph: inc(t, 1), Memory: func(graph.DataID) []byte { return mem },
		Done: func(_ *engine.Report, err error) { done <- err },
	})
	eventually(t, x, "we use it", func(st []engine.DeviceStatus) bool { return st[0].Util == 0.9 && st[0].Others == 0 })
	if err := d.Play("release"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	// The driver's figure lags behind, so that ours counts for some time.
	eventually(t, x, "others do again", func(st []engine.DeviceStatus) bool { return st[0].Others > 0.8 })
}

// Tasks queued on a device that is far behind move to one that is idle.
func TestRebalanceLive(t *testing.T) {
	roundrobin, err := sched.New("roundrobin")
	if err != nil {
		t.Fatal(err)
	}
	x := open(t, Config{
		Drivers:        []driver.Driver{faked(t, "devices 2; on 0 take 50ms launches", incs)},
		HealthInterval: 10 * time.Millisecond,
		Engine:         engine.Options{Policy: roundrobin, Depth: 2, Rebalance: sched.RebalanceOptions{Interval: -1}},
	})
	mem := make([]byte, 60)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	rep, err := x.Run(ctx, inc(t, 60), engine.RunOptions{}, func(graph.DataID) []byte { return mem })
	if err != nil {
		t.Fatal(err)
	}
	if rep.Moves == 0 || rep.Devices[1].Tasks <= 30 {
		t.Errorf("%d tasks moved; the fast device ran %d of 60", rep.Moves, rep.Devices[1].Tasks)
	}
}

// mute is a device that shows no life from a time on.
type mute struct {
	driver.Device
	seen time.Time
}

func (d mute) LastSeen() time.Time { return d.seen }

// opened is a driver of devices that are there already.
type opened struct {
	name string
	devs []driver.Device
}

func (d opened) Name() string { return d.name }

func (d opened) Open(context.Context, *slog.Logger) ([]driver.Device, error) { return d.devs, nil }

// A device that hangs with work on it is dropped and the work done elsewhere,
// what waits for it on other devices included.
func TestHungDeviceIsDropped(t *testing.T) {
	d := faked(t, "hang launches", incs)
	devs, err := d.Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	roundrobin, err := sched.New("roundrobin")
	if err != nil {
		t.Fatal(err)
	}
	quiet := opened{"fake", []driver.Device{mute{devs[0], time.Now()}}}
	x := open(t, Config{
		Drivers:        []driver.Driver{quiet, cpu.New(cpu.Options{Funcs: incs})},
		HealthInterval: 5 * time.Millisecond, HangAfter: 50 * time.Millisecond,
		Engine: engine.Options{Policy: roundrobin},
	})
	// A chain, dealt out in turns: it begins on the device that hangs.
	var b graph.Builder
	data := b.Data(graph.Data{Name: "x", Bytes: 1, Input: true, Output: true})
	k := &graph.Kernel{Name: "inc", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "inc"}}}
	for range 6 {
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: k}}, Uses: []graph.Use{{Data: data, Access: graph.ReadWrite}}})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	mem := []byte{10}
	if _, err := x.Run(ctx, g, engine.RunOptions{}, func(graph.DataID) []byte { return mem }); err != nil {
		t.Fatal(err)
	}
	if mem[0] != 16 {
		t.Errorf("got %d, want 16", mem[0])
	}
	eventually(t, x, "the device that hangs is given up", func(st []engine.DeviceStatus) bool { return st[0].State != engine.Healthy })
}
