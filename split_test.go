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
