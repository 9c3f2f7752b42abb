package weft

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// described is a driver of devices that are only described: they compute nothing.
type described []machine.Device

func (d described) Name() string { return "cpu" }

func (d described) Open(context.Context, *slog.Logger) ([]driver.Device, error) {
	var out []driver.Device
	for _, info := range d {
		out = append(out, silent{info})
	}
	return out, nil
}

type silent struct{ info machine.Device }

func (s silent) Info() machine.Device                        { return s.info }
func (s silent) Attach(*driver.Board, []driver.Lane, func()) {}
func (s silent) Submit([]driver.Op) error                    { return nil }
func (s silent) Completions([]driver.Completion) int         { return 0 }
func (s silent) Close() error                                { return nil }

// core is a CPU device with a rate and a time to answer.
func core(name string, flops float64, reply time.Duration) machine.Device {
	d := machine.Device{Name: name, Model: name, Kind: machine.CPU, Backend: "cpu", HostMemory: true, ComputeUnits: 1}
	d.Rates.Ops[graph.FP32], d.Rates.MemoryBPS, d.Rates.ReplyNS = flops, 1e12, float64(reply)
	return d
}

// on makes a device take so many of the host's cores.
func on(cores int, d machine.Device) machine.Device {
	d.ComputeUnits, d.Resources = cores, []string{machine.HostCores}
	return d
}

// gpu is a device behind a link, of 10 GB/s as long as nobody measures it.
func gpu(flops float64, reply time.Duration) machine.Device {
	d := machine.Device{Name: "cuda:0", Kind: machine.Discrete, Backend: "cuda", MemBytes: 1 << 40, ComputeUnits: 1000}
	d.Rates.Ops[graph.FP32], d.Rates.MemoryBPS, d.Rates.ReplyNS = flops, 1e12, float64(reply)
	return d
}

// One device or several: what the numbers of the devices say.
func TestSplitRule(t *testing.T) {
	const us, ms = time.Microsecond, time.Millisecond
	cores := runtime.NumCPU()
	cases := []struct {
		name    string
		devices described
		ops     float64
		bytes   int64 // in and out, all together
		want    string
		why     string
	}{
		{"too small to split", described{core("cpu:0", 1e9, 20*us), core("cpu:1", 1e9, 20*us)}, 10e3, 0,
			"1000 0", "one device: cpu:0 alone takes 30µs (cpu:1 takes 30µs); splitting would gain 5µs and cost 20µs"},
		{"large enough", described{core("cpu:0", 1e9, 20*us), core("cpu:1", 1e9, 20*us)}, 10e6, 0,
			"500 500", "several devices: cpu:0 alone takes 10ms"},
		{"by rate", described{core("cpu:0", 3e9, 0), core("cpu:1", 1e9, 0)}, 12e6, 0,
			"750 250", "splitting gains 1ms and costs 0s"},
		{"answers too late", described{core("cpu:0", 1e9, 0), core("cpu:1", 1e9, 10*ms)}, 5e6, 0,
			"1000 0", "one device: cpu:0 alone takes 5ms"},
		{"the processor, as the work is small", described{core("cpu:0", 1e9, us), gpu(1e12, 50*us)}, 20e3, 0,
			"1000 0", "one device: cpu:0 alone takes 21µs"},
		{"the processor, as copying takes longer", described{core("cpu:0", 1e9, us), gpu(1e12, 50*us)}, 1e6, 1e9,
			"1000 0", "of it for copies"},
		{"the other, as the work is large", described{core("cpu:0", 1e9, us), gpu(1e15, 50*us)}, 1e9, 1e3,
			"0 1000", "one device: cuda:0 alone takes"},
		{"on the same cores, and slower", described{on(cores, core("cpu:0", 3e9, us)), on(cores, core("vulkan:0", 2e9, us))}, 3e9, 0,
			"1000 0", "one device: cpu:0 alone takes 1s (vulkan:0 takes 1.5s); splitting gains nothing; vulkan:0 would compute on the same cores and make less of them"},
		{"on the same cores, and faster", described{on(cores, core("cpu:0", 1e9, us)), on(cores, core("vulkan:0", 2e9, us)), on(cores, core("vulkan:1", 2e9, us))}, 2e9, 0,
			"0 1000 0", "one device: vulkan:0 alone takes 1s (cpu:0 takes 2s, vulkan:1 takes 1s); splitting gains nothing; vulkan:1, cpu:0 would"},
		{"beside one that has cores of its own", described{on(cores, core("cpu:0", 2e9, us)), on(cores, core("vulkan:0", 1e9, us)), gpu(2e9, us)}, 2e9, 0,
			"500 0 500", "several devices: cpu:0 alone takes 1s (vulkan:0 takes 2s, cuda:0 takes 1s); splitting gains 500ms and costs 1µs to start and await the others; vulkan:0 would"},
		{"no other there", described{core("cpu:0", 1e9, us)}, 1e9, 1e3,
			"1000", "cpu:0 is the only device that can run it, in 1s"},
	}
	for _, c := range cases {
		rt, err := Open(context.Background(), Options{Drivers: []driver.Driver{c.devices}, NoCalibrate: true, CacheDir: "off"})
		if err != nil {
			t.Fatal(err)
		}
		k := &graph.Kernel{Name: "k", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "k"}, {Dialect: graph.PTX, Entry: "k"}}}
		p := sched.Pieces{Extent: 1000, Bytes: func(lo, hi int64) (in, out int64) { return (hi - lo) * c.bytes / 1000, 0 }}
		got, err := rt.Split(p, graph.Task{Steps: []graph.Step{{Kernel: k}}, Work: graph.Work{Ops: c.ops}})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var parts []string
		for _, r := range got.Ranges {
			parts = append(parts, strconv.FormatInt(r.Len(), 10))
		}
		have := strings.Join(parts, " ")
		if have != c.want || !strings.Contains(got.Why, c.why) {
			t.Errorf("%s: %s because %s; want %s because %s", c.name, have, got.Why, c.want, c.why)
		}
		rt.Close()
	}
}

// After Close nothing is split, whatever the devices share.
func TestSplitClosed(t *testing.T) {
	for _, d := range []machine.Device{core("cpu:0", 1e9, 0), on(1<<10, core("cpu:0", 1e9, 0))} {
		other := d
		other.Name = "cpu:1"
		rt, err := Open(context.Background(), Options{Drivers: []driver.Driver{described{d, other}}, NoCalibrate: true, CacheDir: "off"})
		if err != nil {
			t.Fatal(err)
		}
		if err := rt.Close(); err != nil {
			t.Fatal(err)
		}
		k := &graph.Kernel{Name: "k", Impls: []graph.Impl{{Dialect: graph.Go}}}
		_, err = rt.Split(sched.Pieces{Extent: 100}, graph.Task{Steps: []graph.Step{{Kernel: k}}, Work: graph.Work{Ops: 1}})
		if !errors.Is(err, ErrClosed) {
			t.Errorf("split after Close: %v", err)
		}
	}
}

// A device this runtime has just used fully is as good as one it has not; one
// that others use, or another run, is not, and yet gets something.
func TestSplitDynamic(t *testing.T) {
	devices := described{core("cpu:0", 1e9, 0), core("cpu:1", 1e9, 0)}
	rt, err := Open(context.Background(), Options{Drivers: []driver.Driver{devices}, NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	k := &graph.Kernel{Name: "k", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "k"}}}
	whole := &graph.Task{Steps: []graph.Step{{Kernel: k}}, Work: graph.Work{Ops: 1e6}}
	for _, c := range []struct {
		name  string
		first engine.DeviceStatus
		want  int64 // of 1000
	}{
		{"idle", engine.DeviceStatus{}, 500},
		{"used by what we ended", engine.DeviceStatus{Util: 1}, 500},
		{"used by others", engine.DeviceStatus{Util: 0.75, Others: 0.75}, 200},
		{"used by another run", engine.DeviceStatus{Util: 0.75, Queued: 3}, 200},
		{"fully used by others", engine.DeviceStatus{Util: 1, Others: 1}, 48},
	} {
		p := sched.Pieces{Extent: 1000}
		var shares []sched.Share
		rt.x.Look(func(cost machine.Cost, st []engine.DeviceStatus) {
			c.first.State = engine.Healthy
			for _, x := range rt.candidates(1000, 0, whole, cost, []engine.DeviceStatus{c.first, st[1]}) {
				shares = append(shares, x.share)
			}
		})
		got, err := sched.Dynamic(p, shares)
		if err != nil || got.Ranges[0].Len() != c.want {
			t.Errorf("%s: %v, %v; want %d of 1000", c.name, got.Ranges, err, c.want)
		}
	}
}

// What a split says of itself is what is predicted of the graph made from it, and
// when that favours one device it is cut for one.
func TestSettle(t *testing.T) {
	const ms = time.Millisecond
	devices := described{core("cpu:0", 1e9, ms), core("cpu:1", 1e9, ms)}
	rt, err := Open(context.Background(), Options{Drivers: []driver.Driver{devices}, NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	k := &graph.Kernel{Name: "k", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "k"}}}
	p := sched.Pieces{Extent: 1000}
	for _, c := range []struct {
		name  string
		ops   float64
		pred  Prediction
		want  string
		again bool
		why   string
	}{
		{"several, and so it stays", 100e6, Prediction{Median: 241 * ms, Alone: []time.Duration{479 * ms, 480 * ms}},
			"500 500 241ms", false, "several devices: cpu:0 alone takes 479ms (cpu:1 takes 480ms); splitting gains 238ms and costs 1ms"},
		{"several, but one is better", 100e6, Prediction{Median: 99500 * time.Microsecond, Alone: []time.Duration{110 * ms, 100 * ms}},
			"0 1000 100ms", true, "one device: cpu:1 alone takes 100ms (cpu:0 takes 110ms); splitting would gain 500µs and cost 1ms"},
		{"one, and so it stays", 1e6, Prediction{Median: 9 * ms, Alone: []time.Duration{9 * ms, 9 * ms}},
			"1000 0 9ms", false, "one device: cpu:0 alone takes 9ms (cpu:1 takes 9ms); splitting would gain 500µs and cost 1ms"},
		{"too large to look at", 100e6, Prediction{Median: 9 * ms},
			"500 500 9ms", false, "several devices: cpu:0 alone takes 101ms"},
	} {
		part, err := rt.Split(p, graph.Task{Steps: []graph.Step{{Kernel: k}}, Work: graph.Work{Ops: c.ops}})
		if err != nil {
			t.Fatal(err)
		}
		got, again := rt.Settle(p, part, &c.pred)
		have := ""
		for _, r := range got.Ranges {
			have += strconv.FormatInt(r.Len(), 10) + " "
		}
		have += got.Completion.String()
		if have != c.want || again != c.again || !strings.Contains(got.Why, c.why) {
			t.Errorf("%s: %s, again %v, because %s; want %s, %v, because %s", c.name, have, again, got.Why, c.want, c.again, c.why)
		}
	}
}
