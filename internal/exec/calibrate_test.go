package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/probe"
	"github.com/weft-run/weft/machine"
)

// logged is what was logged; loggers write it at the same time as tests read it.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func open(t *testing.T, c Config) *Executor {
	t.Helper()
	copier, err := cpu.New(cpu.Options{Cores: 1}).Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Copier = copier[0]
	x, err := Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close(context.Background()) })
	return x
}

func faked(t *testing.T, script string, funcs map[string]driver.Func) *fake.Driver {
	t.Helper()
	o, err := fake.Parse(script)
	if err != nil {
		t.Fatal(err)
	}
	o.Funcs = cpu.Probes()
	for name, fn := range funcs {
		o.Funcs[name] = fn
	}
	d, err := fake.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// inc is a graph of n tasks that each add one to a byte.
func inc(t *testing.T, n int64) *graph.Graph {
	t.Helper()
	var b graph.Builder
	d := b.Data(graph.Data{Name: "x", Bytes: n, Input: true, Output: true})
	k := &graph.Kernel{Name: "inc", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "inc"}}}
	for i := range n {
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: k, Launch: graph.Grid(1)}}, Uses: []graph.Use{{Data: d, Offset: i, Bytes: 1, Access: graph.ReadWrite}}})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

var incs = map[string]driver.Func{"inc": func(c *driver.Call, lo, hi int) { c.Args[0][0]++ }}

// runs checks that an executor computes.
func runs(t *testing.T, x *Executor) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	mem := []byte{0, 1, 2, 3, 4, 5, 6, 7}
	if _, err := x.Run(ctx, inc(t, int64(len(mem))), engine.RunOptions{}, func(graph.DataID) []byte { return mem }); err != nil {
		t.Fatal(err)
	}
	if want := []byte{1, 2, 3, 4, 5, 6, 7, 8}; !bytes.Equal(mem, want) {
		t.Fatalf("got %v, want %v", mem, want)
	}
}

func TestCalibrateCores(t *testing.T) {
	x := open(t, Config{Drivers: []driver.Driver{cpu.New(cpu.Options{Parts: 2, Funcs: incs})}, Calibrate: true})
	for _, d := range x.Machine.Devices {
		r := d.Rates
		if r.LaunchNS <= 0 || r.ReplyNS < r.LaunchNS || r.MemoryBPS <= 0 || r.Ops[graph.FP32] <= 0 || r.Ops[graph.FP64] <= 0 || r.Ops[graph.Int32] <= 0 {
			t.Errorf("%s was not measured: %+v", d.Name, r)
		}
		if r.Ops[graph.TF32] != 0 || r.Ops[graph.FP16] != 0 {
			t.Errorf("%s has no tensor cores, yet %+v", d.Name, r)
		}
	}
	if c := x.Machine.Classes(); c[0] != c[1] {
		t.Error("two halves of the cores cost differently")
	}
	rs := x.Machine.Resources
	if len(rs) != 2 || rs[0].BPS <= 0 || rs[1] != (machine.Resource{Name: machine.HostCores, Cores: runtime.NumCPU()}) || x.Machine.HostBPS <= 0 {
		t.Errorf("what they share was not measured: %+v, host %v", x.Machine.Resources, x.Machine.HostBPS)
	}
	runs(t, x) // the lanes go on where measuring left them
}

func TestCalibrateLinks(t *testing.T) {
	x := open(t, Config{Drivers: []driver.Driver{faked(t, "devices 2; peer", incs)}, Calibrate: true, HangAfter: time.Minute})
	m := x.Machine
	for _, ends := range [][2]machine.DeviceID{{machine.Host, 0}, {machine.Host, 1}, {0, 1}} {
		l, ok := m.LinkBetween(ends[0], ends[1])
		if !ok || m.Links[l].BPS <= 0 || m.Links[l].LatencyNS < 10 {
			t.Errorf("link %v was not measured: %+v", ends, m.Links)
		}
	}
	if len(m.Links) != 3 {
		t.Errorf("there are three links, and not %+v", m.Links)
	}
	runs(t, x)
	x = open(t, Config{Drivers: []driver.Driver{faked(t, "devices 2", incs)}, Calibrate: true, HangAfter: time.Minute})
	if len(x.Machine.Links) != 2 {
		t.Errorf("without copies between devices there are two links, and not %+v", x.Machine.Links)
	}
}

// booked is a device that writes down which buffers it has.
type booked struct {
	driver.Device
	has   map[driver.Buffer]bool
	wrong []string
	ever  int
}

func (b *booked) Submit(batch []driver.Op) error {
	for i := range batch {
		op := &batch[i]
		switch {
		case op.Kind == driver.Alloc && b.has[op.Buf]:
			b.wrong = append(b.wrong, fmt.Sprintf("buffer %d is made twice", op.Buf))
		case op.Kind == driver.Free && !b.has[op.Buf]:
			b.wrong = append(b.wrong, fmt.Sprintf("buffer %d is freed and was not made", op.Buf))
		case op.Kind == driver.Alloc:
			b.has[op.Buf] = true
			b.ever++
		case op.Kind == driver.Free:
			delete(b.has, op.Buf)
		}
	}
	return b.Device.Submit(batch)
}

// Measuring frees the buffers that it made, and no others.
func TestCalibrateFrees(t *testing.T) {
	for name, funcs := range map[string]map[string]driver.Func{"probes": cpu.Probes(), "no probes": incs} {
		drv, err := fake.New(fake.Options{Funcs: funcs})
		if err != nil {
			t.Fatal(err)
		}
		devs, err := drv.Open(context.Background(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		b := &booked{Device: devs[0], has: make(map[driver.Buffer]bool)}
		open(t, Config{Drivers: []driver.Driver{opened{"fake", []driver.Device{b}}}, Calibrate: true, HangAfter: time.Minute})
		if len(b.wrong) > 0 || len(b.has) > 0 || b.ever == 0 {
			t.Errorf("%s: of %d buffers %d are left; %v", name, b.ever, len(b.has), b.wrong)
		}
	}
}

// A link that cannot be measured stays as the device describes it, and what is measured
// of the device is used.
func TestCalibrateKeepsLinks(t *testing.T) {
	x := open(t, Config{Drivers: []driver.Driver{faked(t, "devices 2; peer; fail copies", incs)}, Calibrate: true, HangAfter: time.Minute})
	if want := describe([]driver.Device{x.devs[0], x.devs[1]}, Config{}).Links; !reflect.DeepEqual(x.Machine.Links, want) {
		t.Errorf("links are %+v, want %+v", x.Machine.Links, want)
	}
	if r := x.Machine.Devices[1].Rates; r.LaunchNS <= 0 {
		t.Errorf("the device was not measured: %+v", r)
	}
}

func TestCalibrateSlowDevice(t *testing.T) {
	// Every launch takes 5 ms: an empty one is as slow, and copies are not.
	x := open(t, Config{Drivers: []driver.Driver{faked(t, "take 5ms launches", incs)}, Calibrate: true, HangAfter: time.Minute})
	if ns := x.Machine.Devices[0].Rates.LaunchNS; ns < 4.9e6 {
		t.Errorf("a launch was measured at %v, and it takes 5 ms", time.Duration(ns))
	}
}

// late is a device whose first completions are long in coming, as all are on a
// machine that is busy with something else.
type late struct {
	driver.Device
	begun *time.Time
}

func (d late) Completions(dst []driver.Completion) int {
	if d.begun.IsZero() {
		*d.begun = time.Now()
	}
	if time.Since(*d.begun) < 100*time.Millisecond {
		return 0
	}
	return d.Device.Completions(dst)
}

// Slow is not hung: cores are never given up, nor the last device there is.
func TestCalibrateKeepsSlowDevices(t *testing.T) {
	cores, err := cpu.New(cpu.Options{Parts: 2, Funcs: incs}).Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range cores {
		cores[i] = late{cores[i], &time.Time{}}
	}
	for name, d := range map[string]driver.Driver{
		"cores": opened{"cpu", cores},
		"last":  faked(t, "take 100ms op 3", incs),
	} {
		var log logged
		x := open(t, Config{
			Drivers: []driver.Driver{d}, Calibrate: true, HangAfter: 10 * time.Millisecond,
			HealthInterval: -1, Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		for i := range x.Machine.Devices {
			if x.Machine.Devices[i].Rates.LaunchNS <= 0 {
				t.Errorf("%s: device %d was given up: %s", name, i, log.String())
			}
		}
		runs(t, x)
	}
}

// A device that hangs while it is measured is left behind; the rest works.
func TestCalibrateHungDevice(t *testing.T) {
	var log logged
	x := open(t, Config{
		Drivers:   []driver.Driver{cpu.New(cpu.Options{Funcs: incs}), faked(t, "hang op 3", incs)},
		Calibrate: true, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if !strings.Contains(log.String(), "does not answer") {
		t.Errorf("log: %s", log.String())
	}
	runs(t, x)
}

// A backend without the probes is used all the same.
func TestCalibrateWithoutProbes(t *testing.T) {
	o, err := fake.New(fake.Options{Funcs: incs})
	if err != nil {
		t.Fatal(err)
	}
	x := open(t, Config{Drivers: []driver.Driver{o}, Calibrate: true})
	if r := x.Machine.Devices[0].Rates; r != (machine.Rates{}) {
		t.Errorf("rates out of nothing: %+v", r)
	}
	runs(t, x)
}

// Every probe has a function on CPUs.
func TestProbesOnCores(t *testing.T) {
	funcs := cpu.Probes()
	for _, p := range probe.List(nil) {
		if funcs[p.Kernel.Name] == nil {
			t.Errorf("no function for %s", p.Kernel.Name)
		}
	}
}

func TestCacheRoundTrip(t *testing.T) {
	dir := t.TempDir()
	c := Config{Drivers: []driver.Driver{cpu.New(cpu.Options{Parts: 2, Funcs: incs})}, Calibrate: true, CacheDir: dir}
	x := open(t, c)
	m := *x.Machine
	m.Devices = append([]machine.Device(nil), m.Devices...)
	for i := range m.Devices {
		m.Devices[i].Rates.Ops[graph.FP32] = 12345e9 // what no measurement finds
	}
	runs(t, x)
	runs(t, x)
	if err := x.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	// Only now: Close takes the file away if the runs differed too much, as they
	// may on a busy machine.
	x.cache.write(calibrations, encodeCalibration(&m, x.cache.key))
	y := open(t, c)
	if !reflect.DeepEqual(y.Machine, &m) {
		t.Errorf("read back %+v, want %+v", y.Machine, &m)
	}
	if y.cost.Observed() < 16 {
		t.Errorf("the history holds %d runs, want the 16 of the first executor", y.cost.Observed())
	}
	if err := y.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	// Other devices have figures of their own.
	c.Drivers = []driver.Driver{cpu.New(cpu.Options{Parts: 3, Funcs: incs})}
	if z := open(t, c); z.Machine.Devices[0].Rates.Ops[graph.FP32] == 12345e9 || z.cost.Observed() != 0 {
		t.Error("three devices got the figures of two")
	}
	left, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	if err != nil || len(left) > 0 {
		t.Errorf("files left behind: %v, %v", left, err)
	}
}

// Who chooses devices is told what was measured of all of them before.
func TestChooseKnowsMeasurements(t *testing.T) {
	var all machine.Machine
	c := Config{
		Drivers: []driver.Driver{cpu.New(cpu.Options{Parts: 2, Funcs: incs})}, CacheDir: t.TempDir(),
		Choose: func(found *machine.Machine) ([]bool, error) {
			all = *found
			return []bool{false, true}, nil
		},
	}
	known := func(of int) float64 { return all.Devices[of].Rates.Ops[graph.FP32] }
	open(t, c)
	if len(all.Devices) != 2 || known(0) != 0 {
		t.Errorf("at first %v was known", all.Devices)
	}
	for i := range all.Devices {
		all.Devices[i].Rates.Ops[graph.FP32] = float64(1+i) * 1e9
	}
	kept := newCache(c.CacheDir, &all, slog.New(slog.DiscardHandler))
	kept.write(calibrations, encodeCalibration(&all, kept.key))
	for i := range all.Devices {
		all.Devices[i].Rates.Ops[graph.FP32] *= 10
	}
	kept.write(estimates, encodeCalibration(&all, kept.key))
	if open(t, c); known(1) != 0 {
		t.Errorf("%v was known although nothing is to be measured", known(1))
	}
	c.Calibrate = true
	if x := open(t, c); known(0) != 1e9 || known(1) != 2e9 || len(x.Machine.Devices) != 1 {
		t.Errorf("%v and %v were known; %d devices", known(0), known(1), len(x.Machine.Devices))
	}
	// What busy devices showed is better than nothing, here and nowhere else.
	kept.remove(calibrations)
	if open(t, c); known(0) != 10e9 || known(1) != 20e9 {
		t.Errorf("%v and %v were known, want the estimates", known(0), known(1))
	}
	c.Choose = nil
	if x := open(t, c); x.Machine.Devices[0].Rates.Ops[graph.FP32] == 10e9 {
		t.Error("an estimate was taken for a calibration")
	}
}

// Whatever the files hold, devices open, with a warning.
func TestCacheBroken(t *testing.T) {
	dir := t.TempDir()
	var log logged
	c := Config{
		Drivers:   []driver.Driver{cpu.New(cpu.Options{Funcs: incs})},
		Calibrate: true, CacheDir: dir, Log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	x := open(t, c)
	x.Close(context.Background())
	for _, kind := range []string{calibrations, histories} {
		if err := os.WriteFile(x.cache.path(kind), []byte(`{"version":`), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	y := open(t, c)
	if strings.Count(log.String(), "it will be made again") != 2 {
		t.Errorf("log: %s", log.String())
	}
	// They are gone even where nothing worth keeping replaces them: the history
	// learned nothing yet, and figures of a busy machine are not kept.
	for _, kind := range []string{calibrations, histories} {
		if b, err := os.ReadFile(y.cache.path(kind)); err == nil && string(b) == `{"version":` {
			t.Errorf("the broken %s file is still there", kind)
		}
	}
	if y.Machine.Devices[0].Rates.Ops[graph.FP32] <= 0 {
		t.Error("it was not measured again")
	}
	runs(t, y)
	y.Close(context.Background())
	z := open(t, c)
	if z.cost.Observed() == 0 {
		t.Error("the broken history was not replaced")
	}
	// A folder that cannot be is a warning as well.
	c.CacheDir = filepath.Join(z.cache.path(histories), "no")
	runs(t, open(t, c))
}

func described() *machine.Machine {
	return &machine.Machine{
		Name: "m", Devices: []machine.Device{{Name: "a", Resources: []string{"bus"}}, {Name: "b"}},
		Resources: []machine.Resource{{Name: "bus", BPS: 3e9}}, HostBPS: 1e9,
		Links: []machine.Link{{A: machine.Host, B: 1, BPS: 2e9, LatencyNS: 5}},
	}
}

func TestDecodeCalibrationIsStrict(t *testing.T) {
	m := described()
	m.Devices[0].Rates.Ops[graph.FP32] = 7e9
	good := string(encodeCalibration(m, "key"))
	got := described()
	if err := decodeCalibration([]byte(good), "key", got); err != nil || !reflect.DeepEqual(got, m) {
		t.Fatalf("%v: %+v", err, got)
	}
	for name, change := range map[string][2]string{
		"key":      {`"key": "key"`, `"key": "yek"`},
		"version":  {`"version": 2`, `"version": 1`},
		"unknown":  {`"host_bps"`, `"host"`},
		"trailing": {good, good + "1"},
		"negative": {`7000000000`, `-7000000000`},
		"device":   {`"B": 1`, `"B": 7`},
		"resource": {`"bus"`, `"car"`},
		"rate":     {`"BPS": 2000000000`, `"BPS": 0`},
		"empty":    {good, ""},
		"null":     {good, "null"},
	} {
		src := strings.Replace(good, change[0], change[1], 1)
		if src == good {
			t.Errorf("%s: the case changes nothing in %s", name, good)
		}
		got := described()
		if err := decodeCalibration([]byte(src), "key", got); !errors.Is(err, errCalibration) || !reflect.DeepEqual(got, described()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecodeCalibration(f *testing.F) {
	f.Add(encodeCalibration(described(), "key"))
	f.Add([]byte(`{"version":2,"key":"key","rates":[{},{}]}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		m := described()
		if err := decodeCalibration(src, "key", m); err != nil {
			if !errors.Is(err, errCalibration) || !reflect.DeepEqual(m, described()) {
				t.Fatalf("%v left %+v", err, m)
			}
			return
		}
		if err := m.Validate(); err != nil {
			t.Fatal(err)
		}
	})
}

// Devices are measured together where each has its cores, else in turns, and of
// those that are alike only as many as a turn has room for.
func TestTurns(t *testing.T) {
	dev := func(model string, cores int, shares bool) machine.Device {
		d := machine.Device{Model: model, ComputeUnits: cores}
		if shares {
			d.Resources = []string{machine.HostCores}
		}
		return d
	}
	cpu, soft, gpu := dev("cpu", 2, true), dev("soft", 4, true), dev("gpu", 1000, false)
	for _, c := range []struct {
		devices []machine.Device
		turns   [][]int
		like    map[int]int
	}{
		{[]machine.Device{gpu, cpu, cpu, gpu}, [][]int{{0, 1, 2, 3}}, map[int]int{}},
		{[]machine.Device{cpu, cpu, soft, gpu}, [][]int{{3, 0, 1}, {2}}, map[int]int{}},
		{[]machine.Device{soft, cpu, soft, soft, cpu}, [][]int{{0}, {1, 4}}, map[int]int{2: 0, 3: 0}},
		{[]machine.Device{cpu, cpu, cpu, cpu}, [][]int{{0, 1}}, map[int]int{2: 0, 3: 0}},
		{[]machine.Device{dev("large", 9, true)}, [][]int{{0}}, map[int]int{}},
	} {
		m := &machine.Machine{Devices: c.devices, Resources: []machine.Resource{{Name: machine.HostCores, Cores: 4}}}
		if turns, like := turnsOf(m); !reflect.DeepEqual(turns, c.turns) || !reflect.DeepEqual(like, c.like) {
			t.Errorf("%d devices: turns %v, alike %v; want %v, %v", len(c.devices), turns, like, c.turns, c.like)
		}
	}
}
