package weft_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/machine"
)

// found is a driver with cores dressed up as other devices.
type found struct {
	name string
	devs []machine.Device
	err  error
	made []*dressed
}

func (f *found) Name() string { return f.name }

func (f *found) Open(ctx context.Context, _ *slog.Logger) ([]driver.Device, error) {
	var out []driver.Device
	for i, info := range f.devs {
		devs, err := cpu.New(cpu.Options{Cores: 1, Funcs: incFuncs}).Open(ctx, nil)
		if err != nil {
			return nil, err
		}
		info.Name, info.Backend, info.HostMemory = fmt.Sprintf("%s:%d", f.name, i), f.name, true
		f.made = append(f.made, &dressed{Device: devs[0], info: info})
		out = append(out, f.made[i])
	}
	return out, f.err
}

type dressed struct {
	driver.Device
	info   machine.Device
	exact  bool
	closed bool
}

func (d *dressed) Info() machine.Device { return d.info }
func (d *dressed) SetExact()            { d.exact = true }
func (d *dressed) Close() error         { d.closed = true; return d.Device.Close() }

func names(rt *weft.Runtime) string {
	var out []string
	for _, d := range rt.Devices() {
		out = append(out, d.Name)
	}
	return strings.Join(out, " ")
}

// One backend that fails is warned of and left out; one that has nothing here is
// not even that; without any device Open errs and says why.
func TestOpenGoesOn(t *testing.T) {
	broken := &found{name: "broken", err: errors.New("no cigar")}
	half := &found{name: "fake", devs: make([]machine.Device, 1), err: errors.New("second device on fire")}
	absent := &found{name: "absent", err: fmt.Errorf("no library: %w", driver.ErrUnavailable)}
	var out bytes.Buffer
	rt := open(t, weft.Options{
		Drivers: []driver.Driver{broken, half, absent, &found{name: "cpu", devs: make([]machine.Device, 2)}},
		Log:     slog.New(slog.NewTextHandler(&out, nil)),
	})
	if got := names(rt); got != "fake:0 cpu:0 cpu:1" {
		t.Errorf("opened %s", got)
	}
	for _, s := range []string{"no cigar", "second device on fire"} {
		if !strings.Contains(out.String(), s) {
			t.Errorf("no warning says %q:\n%s", s, out.String())
		}
	}
	if strings.Contains(out.String(), "no library") {
		t.Errorf("a backend that is not here is no reason to warn:\n%s", out.String())
	}
	x, y := make([]int64, 16), make([]int64, 16)
	if _, err := rt.Run(context.Background(), small(t, 3), weft.Bind("x", x), weft.Bind("y", y)); err != nil || y[0] != 3 {
		t.Errorf("run: %d, %v", y[0], err)
	}
	_, err := weft.Open(context.Background(), weft.Options{Drivers: []driver.Driver{broken, absent}})
	if !errors.Is(err, weft.ErrNoDevices) || !strings.Contains(err.Error(), "no cigar") || !strings.Contains(err.Error(), "no library") {
		t.Errorf("with nothing: %v", err)
	}
	_, err = weft.Open(context.Background(), weft.Options{Devices: "cpu:7", Drivers: []driver.Driver{&found{name: "cpu", devs: make([]machine.Device, 1)}}})
	if !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), `no device "cpu:7" here; there is cpu:0`) {
		t.Errorf("with none of those asked for: %v", err)
	}
	_, err = weft.Open(context.Background(), weft.Options{Policy: "none", Retries: -9})
	if !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), "policy") || !strings.Contains(err.Error(), "retries") {
		t.Errorf("with bad options: %v", err)
	}
}

// A device that is asked for and not there is never left out in silence, and
// nothing that was opened stays open.
func TestMissingDevice(t *testing.T) {
	for list, missing := range map[string]string{
		"cpu:0,gpu:0": "gpu:0", "cpu,gpu": "gpu", "cpu:0,cpu:7": "cpu:7", "gpu/2,cpu": "gpu/2", "cpu:0,cpu:1,cpu:2": "cpu:2",
	} {
		f := &found{name: "cpu", devs: make([]machine.Device, 2)}
		_, err := weft.Open(t.Context(), weft.Options{Devices: list, Drivers: []driver.Driver{
			f, &found{name: "gpu", err: fmt.Errorf("gpu: no library: %w", driver.ErrUnavailable)},
		}})
		if !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), fmt.Sprintf("no device %q here; there is cpu:0, cpu:1: gpu: no library", missing)) {
			t.Errorf("%s: %v", list, err)
		}
		for i, d := range f.made {
			if !d.closed {
				t.Errorf("%s: device %d stays open", list, i)
			}
		}
	}
	for list, want := range map[string]string{"cpu:0/2": "cpu:0 cpu:1", "cpu/2,cpu:1": "cpu:0 cpu:1", "cpu/1": "cpu:0"} {
		if got := names(open(t, weft.Options{Devices: list})); got != want {
			t.Errorf("%s opened %s, want %s", list, got, want)
		}
	}
}

func TestOpenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if rt, err := weft.Open(ctx, weft.Options{Devices: "cpu"}); !errors.Is(err, enough) || rt != nil {
		t.Errorf("opened with a cancelled context: %v", err)
	}
	// Cancelled while devices are opened.
	ctx, cancel = context.WithCancelCause(t.Context())
	f := &found{name: "cpu", devs: make([]machine.Device, 1)}
	late := &late{f, func() { cancel(enough) }}
	if _, err := weft.Open(ctx, weft.Options{Drivers: []driver.Driver{late}}); !errors.Is(err, enough) || !f.made[0].closed {
		t.Errorf("opened with a context cancelled meanwhile: %v", err)
	}
}

// late is a driver that something happens after the opening of.
type late struct {
	*found
	then func()
}

func (l *late) Open(ctx context.Context, log *slog.Logger) ([]driver.Device, error) {
	defer l.then()
	return l.found.Open(ctx, log)
}

func TestMaxDevicesKeepsTheBest(t *testing.T) {
	f := &found{name: "f", devs: []machine.Device{
		{Kind: machine.Integrated}, {Kind: machine.Discrete, MemBytes: 4e9}, {Kind: machine.CPU}, {Kind: machine.Discrete, MemBytes: 8e9},
	}}
	rt := open(t, weft.Options{MaxDevices: 2, Drivers: []driver.Driver{f}})
	if got := names(rt); got != "f:1 f:3" {
		t.Errorf("kept %s", got)
	}
	if best := rt.Machine().DeviceName(rt.Best(9)[0]); best != "f:3" {
		t.Errorf("the best is %s", best)
	}
	if none := rt.Best(-1); len(none) != 0 {
		t.Errorf("the best -1 devices: %v", none)
	}
	for i, d := range f.made {
		if d.closed != (i%2 == 0) {
			t.Errorf("device %d: closed is %v", i, d.closed)
		}
	}
}

// What was measured counts more than the score, once it is known of all devices:
// a GPU's driver that runs on the cores scores more than they do, and is slower.
func TestBestByMeasurement(t *testing.T) {
	rates := func(ops, bps float64) (r machine.Rates) {
		r.Ops[graph.FP32], r.MemoryBPS = ops, bps
		return r
	}
	device := func(ops, bps float64) machine.Device {
		return machine.Device{Rates: rates(ops, bps), ComputeUnits: runtime.NumCPU(), Resources: []string{machine.HostCores}}
	}
	var out bytes.Buffer
	kept := func(o weft.Options, cpuOps float64, vulkans int) string {
		out.Reset()
		gpu := &found{name: "vulkan"}
		for range vulkans {
			gpu.devs = append(gpu.devs, device(60e9, 5e9))
		}
		o.Drivers = []driver.Driver{gpu, &found{name: "cpu", devs: []machine.Device{device(cpuOps, 8e9)}}}
		o.Log = slog.New(slog.NewTextHandler(&out, nil))
		rt := open(t, o)
		if b := rt.Best(1); o.MaxDevices == 1 && (len(b) != 1 || b[0] != 0) {
			t.Errorf("the best of one device: %v", b)
		}
		return names(rt)
	}
	one, exact := weft.Options{MaxDevices: 1}, weft.Options{Exact: true}
	for _, c := range []struct {
		o       weft.Options
		ops     float64
		vulkans int
		want    string
		by      string
	}{
		{one, 100e9, 1, "cpu:0", "measured speed"},
		{one, 20e9, 1, "vulkan:0", "measured speed"},
		{one, 0, 1, "vulkan:0", "score"},             // not measured, as on the first day
		{exact, 100e9, 3, "cpu:0", "measured speed"}, // three on the same cores are no faster than one
		{exact, 20e9, 2, "vulkan:0 vulkan:1", "measured speed"},
		{exact, 0, 1, "vulkan:0", "score"},
	} {
		if got := kept(c.o, c.ops, c.vulkans); got != c.want || !strings.Contains(out.String(), c.by) {
			t.Errorf("%v ops a second beside %d: kept %s, want %s by %s; log:\n%s", c.ops, c.vulkans, got, c.want, c.by, out.String())
		}
	}
	rt := open(t, weft.Options{Drivers: []driver.Driver{&found{name: "f", devs: []machine.Device{device(1e9, 1e9), device(4e9, 4e9), device(2e9, 2e9)}}}})
	if got := rt.Best(2); !slices.Equal(got, []machine.DeviceID{1, 2}) {
		t.Errorf("the best two are %v", got)
	}
}

// Exact means one backend and no library routines.
func TestExact(t *testing.T) {
	slow := &found{name: "cpu", devs: make([]machine.Device, 2)}
	fast := &found{name: "fake", devs: []machine.Device{{Kind: machine.Discrete}, {Kind: machine.Discrete}}}
	routine := &graph.Kernel{Name: "sgemm", Impls: []graph.Impl{{Dialect: graph.Library, Entry: "sgemm"}}}
	var b graph.Builder
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: routine}}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	rt := open(t, weft.Options{Drivers: []driver.Driver{slow, fast}})
	if got := names(rt); got != "cpu:0 cpu:1 fake:0 fake:1" {
		t.Errorf("not exact: opened %s", got)
	}
	if _, err := rt.Prepare(g); err != nil {
		t.Errorf("not exact: %v", err)
	}
	slow.made, fast.made = nil, nil
	var out bytes.Buffer
	rt = open(t, weft.Options{Exact: true, Drivers: []driver.Driver{slow, fast}, Log: slog.New(slog.NewTextHandler(&out, nil))})
	if got := names(rt); got != "fake:0 fake:1" || !fast.made[0].exact || !fast.made[1].exact || !slow.made[0].closed {
		t.Errorf("exact: opened %s", got)
	}
	if !strings.Contains(out.String(), "one backend") {
		t.Errorf("devices were left out without a word:\n%s", out.String())
	}
	if _, err := rt.Prepare(g); !errors.Is(err, weft.ErrNoDevice) {
		t.Errorf("exact: a library routine got %v", err)
	}
}

// wide builds n tasks that do not wait for one another.
func wide(t *testing.T, n int) *graph.Graph {
	t.Helper()
	kernel := &graph.Kernel{Name: "k", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "k"}}}
	var b graph.Builder
	for range n {
		d := b.Data(graph.Data{Bytes: 1 << 16})
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: kernel}}, Uses: []graph.Use{{Data: d, Access: graph.Write}}})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// With two streams a device runs two kernels at a time: each waits for the other.
func TestStreams(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	rt := open(t, weft.Options{Devices: "cpu/1", Streams: 2, Funcs: map[string]weft.Func{"k": func(*weft.Call, int, int) {
		both.Done()
		both.Wait()
	}}})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := rt.Run(ctx, wide(t, 2)); err != nil {
		t.Fatal(err)
	}
}

// concurrent limits what is in flight over all devices.
func TestConcurrent(t *testing.T) {
	var mu sync.Mutex
	now, most := 0, 0
	rt := open(t, weft.Options{Devices: "cpu/4", Concurrent: 1, Funcs: map[string]weft.Func{"k": func(*weft.Call, int, int) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		time.Sleep(100 * time.Microsecond) // long enough for another to overlap, were it let
		mu.Lock()
		now--
		mu.Unlock()
	}}})
	if _, err := rt.Run(context.Background(), wide(t, 50)); err != nil || most != 1 {
		t.Errorf("%d at a time, %v", most, err)
	}
}

func TestHostBytes(t *testing.T) {
	funcs := map[string]weft.Func{"k": func(*weft.Call, int, int) {}}
	rt := open(t, weft.Options{Devices: "cpu/1", HostBytes: 1000, Funcs: funcs})
	if _, err := rt.Run(context.Background(), wide(t, 1)); !errors.Is(err, weft.ErrOutOfMemory) {
		t.Errorf("64 KiB in 1000 bytes: %v", err)
	}
	rt = open(t, weft.Options{Devices: "cpu/1", HostBytes: 1 << 20, Funcs: funcs})
	if _, err := rt.Run(context.Background(), wide(t, 100)); err != nil {
		t.Errorf("100 times 64 KiB, one after another, in 1 MiB: %v", err)
	}
}

// What the program binds or puts is its own memory and does not count, used or not.
func TestHostBytesWithoutThePrograms(t *testing.T) {
	const limit, large = 1 << 20, 2 << 20
	rt := open(t, weft.Options{Devices: "cpu/1", HostBytes: limit, Funcs: map[string]weft.Func{"k": func(*weft.Call, int, int) {}}})
	k := &graph.Kernel{Name: "k", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "k"}}}
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: large, Input: true})
	y := b.Data(graph.Data{Name: "y", Bytes: large, Output: true})
	z := b.Data(graph.Data{Name: "z", Bytes: limit})
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: k, Launch: graph.Grid(1)}}, Uses: []graph.Use{
		{Data: x, Access: graph.Read}, {Data: y, Access: graph.Write}, {Data: z, Access: graph.Write},
	}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	put, err := weft.Put(rt, "p", make([]byte, large))
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range []weft.Binding{weft.Bind("x", make([]byte, large)), put.As("x")} {
		if _, err := rt.Run(context.Background(), g, in, weft.Bind("y", make([]byte, large))); err != nil {
			t.Errorf("1 MiB of 1 MiB beside what the program brought: %v", err)
		}
	}
}

// More memory than the machine has is an error, and not the end of the program.
func TestTooMuchMemory(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2", Funcs: map[string]weft.Func{"k": func(*weft.Call, int, int) {}}})
	for _, n := range []int{1 << 46, 1 << 60, 1 << 61, math.MaxInt} { // some times 8 is 0 or less
		if _, err := weft.Alloc[float64](rt, "x", n); !errors.Is(err, weft.ErrOutOfMemory) {
			t.Errorf("alloc of %d: %v", n, err)
		}
		if _, err := weft.NewBuffer[float64](rt, n); !errors.Is(err, weft.ErrOutOfMemory) {
			t.Errorf("buffer of %d: %v", n, err)
		}
	}
	if runtime.GOOS != "linux" {
		return // nobody says how much there is
	}
	const bytes = 1 << 50
	var b graph.Builder
	k := &graph.Kernel{Name: "k", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "k"}}}
	x := b.Data(graph.Data{Name: "x", Bytes: bytes})
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: k, Launch: graph.Grid(1)}}, Uses: []graph.Use{{Data: x, Bytes: bytes, Access: graph.Write}}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Run(context.Background(), g); !errors.Is(err, weft.ErrOutOfMemory) {
		t.Errorf("data of 1 PiB: %v", err)
	}
	b = graph.Builder{}
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: k}}, Workspace: bytes})
	if g, err = b.Build(); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Run(context.Background(), g); !errors.Is(err, weft.ErrOutOfMemory) {
		t.Errorf("a workspace of 1 PiB: %v", err)
	}
}

func TestRetries(t *testing.T) {
	boom := errors.New("boom")
	for retries, want := range map[int]int{-1: 1, 0: 4, 5: 6} {
		tries := 0
		rt := open(t, weft.Options{Devices: "cpu/1", Retries: retries, Funcs: map[string]weft.Func{"k": func(c *weft.Call, _, _ int) {
			tries++
			c.Fail(boom)
		}}})
		if _, err := rt.Run(context.Background(), wide(t, 1)); !errors.Is(err, boom) || tries != want {
			t.Errorf("retries %d: tried %d times, want %d; %v", retries, tries, want, err)
		}
	}
}

// A lost device fails nothing, unless that is what was asked for.
func TestFaultTolerance(t *testing.T) {
	for _, off := range []bool{false, true} {
		s, err := fake.New(fake.Options{Devices: 2, MemBytes: 1 << 20, Funcs: incFuncs})
		if err != nil {
			t.Fatal(err)
		}
		rt := open(t, weft.Options{Drivers: []driver.Driver{s}, NoFaultTolerance: off})
		if err := s.Play("on 0 lose launches times 1"); err != nil {
			t.Fatal(err)
		}
		x, y := make([]int64, 16), make([]int64, 16)
		_, err = rt.Run(context.Background(), small(t, 8), weft.Bind("x", x), weft.Bind("y", y))
		m := rt.Metrics()
		if off && err == nil || !off && (err != nil || y[0] != 8) {
			t.Errorf("fault tolerance off is %v: %d, %v", off, y[0], err)
		}
		if m.Losses != 1 || m.CopyBytes == 0 || m.Copies == 0 {
			t.Errorf("metrics %+v", m)
		}
	}
}

// A cache that cannot be made is told of once, and missed by nobody.
func TestNoCache(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	rt, err := weft.Open(context.Background(), weft.Options{
		Devices: "cpu/1", CacheDir: filepath.Join(file, "cache"), Log: slog.New(slog.NewTextHandler(&said, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(said.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, said.String())
	}
}

// A home that is not there stays so: the cache is not kept, which one line says.
func TestNoHome(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other variables say where the home and the cache are")
	}
	for name, set := range map[string]map[string]string{
		"not there":                {"HOME": "nobody"},
		"not there, cache in it":   {"HOME": "nobody", "XDG_CACHE_HOME": "nobody/deep/cache"},
		"not set":                  {"HOME": ""},
		"there":                    {"HOME": "."},
		"not there, cache outside": {"HOME": "nobody", "XDG_CACHE_HOME": "cache"},
	} {
		dir := t.TempDir()
		t.Setenv("XDG_CACHE_HOME", "")
		for key, value := range set {
			if value != "" {
				value = filepath.Join(dir, value)
			}
			t.Setenv(key, value)
		}
		var said bytes.Buffer
		rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu/1", NoCalibrate: true, Log: slog.New(slog.NewTextHandler(&said, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
		want := 1
		if strings.HasSuffix(name, "there") && set["HOME"] == "." || strings.HasSuffix(name, "outside") {
			want = 0
		}
		if n := strings.Count(said.String(), "level=WARN"); n != want {
			t.Errorf("home %s: %d warnings:\n%s", name, n, said.String())
		}
		if _, err := os.Stat(filepath.Join(dir, "nobody")); err == nil {
			t.Errorf("home %s: it was made", name)
		}
	}
}

// telling is a device that says how busy it is.
type telling struct {
	*dressed
	util float64
}

func (d *telling) Telemetry() (driver.Telemetry, error) { return driver.Telemetry{Util: d.util}, nil }

// told opens devices of a found driver as devices that say how busy they are.
type told struct {
	*found
	utils []float64
}

func (f *told) Open(ctx context.Context, log *slog.Logger) ([]driver.Device, error) {
	devs, err := f.found.Open(ctx, log)
	for i := range devs {
		devs[i] = &telling{f.made[i], f.utils[i]}
	}
	return devs, err
}

// A device that others use counts for the part of it that is free.
func TestBestByLoad(t *testing.T) {
	device := func(speed float64) (d machine.Device) {
		d.Rates.Ops[graph.FP32], d.Rates.MemoryBPS = speed, speed
		return d
	}
	f := &told{&found{name: "f", devs: []machine.Device{device(4e9), device(3e9), device(1e9)}}, []float64{0.9, 0, 0}}
	rt := open(t, weft.Options{Drivers: []driver.Driver{f}, HealthInterval: time.Millisecond})
	want := []machine.DeviceID{1, 2, 0} // 3, 1 and 0.4 of 1e9
	poll.True(t, fmt.Sprint("once it was sampled, the best are ", want), func() bool { return slices.Equal(rt.Best(3), want) })
}

// Open logs every device that opened, and reports of runs name what did not.
func TestOpenTells(t *testing.T) {
	var out bytes.Buffer
	good := &found{name: "cpu", devs: []machine.Device{{Model: "one"}, {Model: "two"}}}
	broken := &found{name: "broken", err: errors.New("broken: main does not call weft.Worker")}
	absent := &found{name: "absent", err: fmt.Errorf("absent: %w", driver.ErrUnavailable)}
	rt := open(t, weft.Options{Drivers: []driver.Driver{good, broken, absent}, Log: slog.New(slog.NewTextHandler(&out, nil))})
	for _, want := range []string{"msg=\"device opened\" device=cpu:0 model=one", "msg=\"device opened\" device=cpu:1 model=two"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log does not have %s:\n%s", want, out.String())
		}
	}
	x, y := make([]int64, 16), make([]int64, 16)
	rep, err := rt.Run(t.Context(), small(t, 1), weft.Bind("x", x), weft.Bind("y", y))
	if err != nil || !slices.Equal(rep.LeftOut, []string{"broken: main does not call weft.Worker"}) {
		t.Errorf("the report says %q was left out, %v", rep.LeftOut, err)
	}
}
