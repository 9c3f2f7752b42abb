package weft

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
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
func (s silent) Traits() driver.Traits                       { return driver.Traits{} }
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
		p := sched.Items{Extent: 1000, Bytes: func(lo, hi int64) (in, out int64) { return (hi - lo) * c.bytes / 1000, 0 }}
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

// A GPU gets work from the size on at which it makes the run shorter. Without copies that is the size from
// which on it is faster than the processor. Where copies take most of its time, both share the
// work long before: when the GPU alone would be as fast as the processor, both are done in little more than half the
// time.
func TestSplitCrossover(t *testing.T) {
	const (
		ops   = 100   // of an element, of which the processor does 10⁹ a second
		reply = 60e-6 // seconds of the GPU: 50 µs until it answers, 10 µs of its link
		bps   = 10e9  // of its link
	)
	rt, err := Open(context.Background(), Options{Drivers: []driver.Driver{described{core("cpu:0", 1e9, 0), gpu(1e15, 50*time.Microsecond)}}, NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	k := &graph.Kernel{Name: "k", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "k"}, {Dialect: graph.PTX, Entry: "k"}}}
	split := func(n, bytes int64) (here, there float64) {
		p := sched.Items{Extent: n, Bytes: func(lo, hi int64) (in, out int64) { return (hi - lo) * bytes, 0 }}
		part, err := rt.Split(p, graph.Task{Steps: []graph.Step{{Kernel: k}}, Work: graph.Work{Ops: ops * float64(n)}})
		if err != nil {
			t.Fatal(err)
		}
		return float64(part.Ranges[0].Len()), float64(part.Ranges[1].Len())
	}
	const crossover = reply / (ops / 1e9)
	for n, want := range map[int64]bool{0.9 * crossover: false, 1.1 * crossover: true} {
		if _, there := split(n, 0); (there > 0) != want {
			t.Errorf("of %d elements without copies the GPU gets %v; it is as fast as the processor at %v", n, there, crossover)
		}
	}
	const bytes = 800 // of an element
	n := int64(math.Round(reply / (ops/1e9 - bytes/bps)))
	here, there := split(n, bytes)
	alone, took := float64(n)*ops/1e9, max(here*ops/1e9, reply+there*bytes/bps)
	if !(took < 0.6*alone) {
		t.Errorf("%d elements take %v on either device, and %v on both, with %v and %v of them", n, alone, took, here, there)
	}
	if here, there := split(n/5, bytes); there != 0 {
		t.Errorf("%v elements on the processor, and %v on a GPU that takes longer to answer", here, there)
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
		_, err = rt.Split(sched.Items{Extent: 100}, graph.Task{Steps: []graph.Step{{Kernel: k}}, Work: graph.Work{Ops: 1}})
		if !errors.Is(err, ErrClosed) {
			t.Errorf("split after Close: %v", err)
		}
	}
}
