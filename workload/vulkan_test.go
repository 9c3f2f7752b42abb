//go:build lavapipe

package workload_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/backend/cpu"
	"github.com/weft-run/weft/backend/vulkan"
	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/automata"
	"github.com/weft-run/weft/workload/conv"
	"github.com/weft-run/weft/workload/fisher"
	"github.com/weft-run/weft/workload/fusion"
	"github.com/weft-run/weft/workload/gemm"
	"github.com/weft-run/weft/workload/landscape"
	"github.com/weft-run/weft/workload/merkle"
	"github.com/weft-run/weft/workload/reduce"
	"github.com/weft-run/weft/workload/reservoir"
	"github.com/weft-run/weft/workload/tropical"
	"github.com/weft-run/weft/workload/workloadtest"
)

// These tests need Vulkan devices: .ci/run installs lavapipe and runs them with the
// tag, on one device and on three.

// sample is a job and what it computed.
type sample struct {
	workload.Job
	result func() []byte
}

// samples makes every workload anew, in sizes that are odd and small.
func samples(t *testing.T) []sample {
	var out []sample
	product := func(j workload.Job, err error, result func() []float32) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, sample{j, func() []byte { return workloadtest.Bytes(result()) }})
	}
	g, err := gemm.New(gemm.Config{M: 301, K: 97, N: 303, Seed: 1})
	product(g, err, func() []float32 { return g.Result() })
	wide, err := gemm.New(gemm.Config{M: 203, K: 100, N: 1036, Seed: 1})
	product(wide, err, func() []float32 { return wide.Result() })
	for _, n := range []int{303, 1036} {
		p, err := tropical.New(tropical.Config{M: 201, K: n / 3, N: n, Seed: 1})
		product(p, err, func() []float32 { return p.Result() })
	}
	for _, s := range []conv.Shape{{N: 3, C: 5, H: 17, W: 70, K: 13, R: 3, S: 3, Stride: 1, Pad: 1}, {N: 3, C: 2, H: 23, W: 20, K: 3, R: 5, S: 4, Stride: 2, Pad: 2}} {
		for _, split := range []string{conv.Images, conv.Rows} {
			c, err := conv.New(conv.Config{Shape: s, Seed: 1, Split: split})
			product(c, err, func() []float32 { return c.Result() })
		}
	}
	fu, err := fusion.New(fusion.Config{Records: 1003, Bind: true, Seed: 3})
	product(fu, err, func() []float32 { return fu.Result() })
	fi, err := fisher.New(fisher.Config{Points: 1003, Features: 37, Blocks: 2, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	out = append(out, sample{fi, func() []byte { return workloadtest.Bytes(fi.Result()) }})
	for _, c := range []tropical.Training{
		{Inputs: 37, Hidden: 19, Outputs: 5, Batch: 203, Steps: 3, Seed: 3},
		{Inputs: 1, Hidden: 1, Outputs: 1, Batch: 3, Steps: 2, Shards: 3, Seed: 2},
	} {
		net, err := tropical.NewTraining(c)
		product(net, err, func() []float32 { return net.Result() })
	}
	for _, op := range reduce.Operations() {
		for _, n := range []int{1, 4097, 1_000_003} {
			r, err := reduce.New(reduce.Config{Op: op, N: n, Seed: 1})
			product(r, err, func() []float32 { return []float32{r.Result()} })
		}
	}
	for _, split := range []string{reservoir.Patterns, reservoir.Neurons, reservoir.Rows} {
		params := reservoir.Defaults()
		params.Size, params.Noise = 203, 0.01
		for _, batch := range []int{37, 44} { // one by one, and in fours
			r, err := reservoir.NewJob(reservoir.Config{Params: params, Batch: batch, Steps: 5, Split: split})
			product(r, err, func() []float32 { return r.States() })
		}
	}
	for _, c := range []automata.Config{{Rows: 301, Cols: 64 * 33, Steps: 21}, {Rows: 401, Cols: 64 * 7, Steps: 99, K: 33}, {Rows: 128, Cols: 64, Steps: 64, K: 64}} {
		a, err := automata.New(c)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, sample{a, func() []byte { return workloadtest.Bytes(a.Result()) }})
	}
	for _, mode := range []merkle.Mode{merkle.RFC6962, merkle.Dup} {
		for _, n := range []int{1, 2, 3, 7, 100, 4099, 300_001} {
			m, err := merkle.New(merkle.Config{N: n, Mode: mode})
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, sample{m, func() []byte { root := m.Root(); return root[:] }})
		}
	}
	sp := reservoir.Defaults()
	sp.Size, sp.Inputs = 203, 17
	stream, err := reservoir.NewStreamJob(reservoir.StreamConfig{Params: sp, Replicas: 3, Patterns: 5, Steps: 3})
	if err != nil {
		t.Fatal(err)
	}
	out = append(out, sample{stream, func() []byte { return workloadtest.Bytes(slices.Concat(stream.Replicas()...)) }})
	l, err := landscape.New(landscape.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return append(out, sample{l, func() []byte { return workloadtest.Bytes(l.Result()) }})
}

// doomed is a driver whose first device is lost soon after it was given work.
type doomed struct {
	driver.Driver
	fell chan struct{}
}

type falling struct {
	driver.Device
	given int
	fell  chan struct{}
}

func (d *doomed) Open(ctx context.Context, log *slog.Logger) ([]driver.Device, error) {
	devs, err := d.Driver.Open(ctx, log)
	if err == nil {
		devs[0] = &falling{Device: devs[0], fell: d.fell}
	}
	return devs, err
}

// Submit loses the device at the first batch with a launch.
func (d *falling) Submit(batch []driver.Op) error {
	err := d.Device.Submit(batch)
	if slices.ContainsFunc(batch, func(o driver.Op) bool { return o.Kind == driver.Launch }) {
		if d.given++; d.given == 1 {
			d.Device.(driver.Dropper).Drop(errors.New("the test gives up on it"))
			close(d.fell)
		}
	}
	return err
}

// When a Vulkan device is lost in the middle of a job, the others finish it.
func TestVulkanLoss(t *testing.T) {
	for _, job := range []func() (workload.Job, error){
		func() (workload.Job, error) { return merkle.New(merkle.Config{N: 200_001}) },
		func() (workload.Job, error) { return automata.New(automata.Config{Rows: 600, Cols: 64 * 9, Steps: 64}) },
	} {
		j, err := job()
		if err != nil {
			t.Fatal(err)
		}
		d := &doomed{vulkan.New(vulkan.Options{MemBytes: 256 << 20}), make(chan struct{})}
		rt, err := weft.Open(t.Context(), weft.Options{
			NoCalibrate: true, CacheDir: "off", Partitioner: "equal", Policy: "roundrobin",
			Drivers: []driver.Driver{cpu.New(cpu.Options{Funcs: funcs()}), d},
		})
		if err != nil {
			t.Fatal(err)
		}
		workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Error(err)
		}
		select {
		case <-d.fell:
		default:
			t.Errorf("%s was done before the device was lost", j.Name())
		}
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	}
}

func funcs() map[string]weft.Func {
	all := map[string]weft.Func{}
	for _, fs := range []map[string]weft.Func{
		gemm.Funcs(), tropical.Funcs(), tropical.TrainFuncs(), conv.Funcs(), reduce.Funcs(), reservoir.Funcs(), automata.Funcs(), merkle.Funcs(), landscape.Funcs(), fusion.Funcs(), fisher.Funcs(),
	} {
		maps.Copy(all, fs)
	}
	return all
}

// lavapipe ends all loops of an invocation after 65,535 rounds in total. Kernels whose
// loops grow with the problem are right beyond that, too.
func TestVulkanRounds(t *testing.T) {
	rt, err := weft.Open(t.Context(), weft.Options{
		NoCalibrate: true, CacheDir: "off", Drivers: []driver.Driver{vulkan.New(vulkan.Options{Devices: []int{0}, MemBytes: 256 << 20})},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	run := func(j workload.Job, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Errorf("%s: %v", j.Name(), err)
		}
	}
	products := func(c gemm.Config) {
		g, err := gemm.New(c)
		run(g, err)
		p, err := tropical.New(c)
		run(p, err)
	}
	products(gemm.Config{M: 3, K: 1 << 16, N: 4, Seed: 1}) // in fours
	products(gemm.Config{M: 3, K: 1 << 16, N: 5, Seed: 1}) // one by one
	for _, c := range []tropical.Training{
		{Inputs: 300, Hidden: 300, Outputs: 1, Batch: 3}, // hidden units
		{Inputs: 2, Hidden: 300, Outputs: 300, Batch: 3}, // outputs
		{Inputs: 2, Hidden: 3, Outputs: 2, Batch: 150_000},
		{Inputs: 2, Hidden: 1, Outputs: 1, Batch: 270_000},
	} {
		c.Steps, c.Shards, c.Seed = 1, 1, 1
		net, err := tropical.NewTraining(c)
		run(net, err)
	}
	f, err := fisher.New(fisher.Config{Points: 600_000, Features: 2, Shards: 1, Seed: 1})
	run(f, err)
	for _, s := range []conv.Shape{
		{C: 20_000, H: 2, W: 3, R: 2, S: 2},         // terms in fours
		{C: 20_001, H: 2, W: 3, R: 3, S: 3, Pad: 1}, // and not
		{C: 1, H: 1, W: 1_200_000, R: 1, S: 3},      // columns
		{C: 70_000, H: 1, W: 70, R: 1, S: 1},        // both
	} {
		s.N, s.K, s.Stride = 1, 1, 1
		for _, split := range []string{conv.Images, conv.Rows} {
			c, err := conv.New(conv.Config{Shape: s, Split: split, Seed: 1})
			run(c, err)
		}
	}
	// A landscape so large would take minutes, and a row of it a second.
	core, err := weft.Open(t.Context(), weft.Options{NoCalibrate: true, CacheDir: "off", Drivers: []driver.Driver{cpu.New(cpu.Options{Funcs: funcs()})}})
	if err != nil {
		t.Fatal(err)
	}
	defer core.Close()
	const residues, row = 1400, 700
	var rows [2][]float64
	for i, rt := range []*weft.Runtime{core, rt} {
		l, err := landscape.New(landscape.Config{Residues: residues})
		if err != nil {
			t.Fatal(err)
		}
		task := l.Whole()
		for i := range task.Steps {
			s := &task.Steps[i]
			s.Launch.Grid[0] = 1
			copy(s.Params[4:], workload.Params(row, 1))
		}
		rows[i] = make([]float64, landscape.Angles)
		var b graph.Builder
		task.Uses = []graph.Use{
			{Data: b.Data(graph.Data{Name: "native", Bytes: 8 * 3 * residues, Input: true}), Access: graph.Read},
			{Data: b.Data(graph.Data{Name: "turns", Bytes: int64(8 * len(landscape.Turns())), Input: true}), Access: graph.Read},
			{Data: b.Data(graph.Data{Name: "energies", Bytes: int64(8 * len(rows[i])), Output: true}), Access: graph.Write},
		}
		b.Add(task)
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rt.Run(t.Context(), g, append(l.Bind()[:2], weft.Bind("energies", rows[i]))...); err != nil {
			t.Fatal(err)
		}
	}
	for k, want := range rows[0] {
		if got := rows[1][k]; !(math.Abs(got-want) <= 1e-9*math.Abs(want)) {
			t.Fatalf("landscape of %d residues: energy of row %d at angle %d is %v, want %v", residues, row, k, got, want)
		}
	}
}

// Every workload's kernels are right on one Vulkan device, by its own check, one workload
// to a subtest.
func TestVulkanKernels(t *testing.T) {
	rt, err := weft.Open(t.Context(), weft.Options{
		NoCalibrate: true, CacheDir: "off", Drivers: []driver.Driver{vulkan.New(vulkan.Options{Devices: []int{0}, MemBytes: 256 << 20})},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for _, j := range samples(t) {
		name, _, _ := strings.Cut(j.Name(), " ")
		t.Run(name, func(t *testing.T) {
			workloadtest.Run(t, rt, j.Job)
			if err := j.Check(); err != nil {
				t.Errorf("%s: %v", j.Name(), err)
			}
		})
	}
}

// Every workload is right on Vulkan; class X gives the bytes a CPU gives, also
// where both work together, and class R the same bytes on any number of devices.
func TestVulkan(t *testing.T) {
	open := func(drivers ...driver.Driver) *weft.Runtime {
		t.Helper()
		// In turns, since all of them compute on the same cores: left to itself
		// weft would use one.
		rt, err := weft.Open(t.Context(), weft.Options{NoCalibrate: true, CacheDir: "off", Partitioner: "equal", Policy: "roundrobin", Drivers: drivers})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { rt.Close() })
		return rt
	}
	one := vulkan.Options{Devices: []int{0}, MemBytes: 256 << 20}
	all := vulkan.Options{MemBytes: 256 << 20}
	core := cpu.Options{Funcs: funcs()}
	var results [4][]sample
	for i, rt := range []*weft.Runtime{open(cpu.New(core)), open(vulkan.New(one)), open(vulkan.New(all)), open(cpu.New(core), vulkan.New(all))} {
		results[i] = samples(t)
		tasks := make([]int, len(rt.Machine().Devices))
		for _, j := range results[i] {
			for d, r := range workloadtest.Run(t, rt, j.Job).Report.Devices {
				tasks[d] += r.Tasks
			}
			if err := j.Check(); err != nil {
				t.Errorf("%s on %d devices, case %d: %v", j.Name(), len(rt.Machine().Devices), i, err)
			}
		}
		if slices.Contains(tasks, 0) {
			t.Errorf("case %d: devices had %d tasks; each should have some", i, tasks)
		}
	}
	for k := range results[0] {
		j := results[0][k]
		cpus, alone, many, mixed := j.result(), results[1][k].result(), results[2][k].result(), results[3][k].result()
		if j.Class() == workload.Exact && !(bytes.Equal(cpus, alone) && bytes.Equal(cpus, many) && bytes.Equal(cpus, mixed)) {
			t.Errorf("%s: bytes differ between a CPU, one Vulkan device (equal: %v), all (%v) and both kinds (%v)",
				j.Name(), bytes.Equal(cpus, alone), bytes.Equal(cpus, many), bytes.Equal(cpus, mixed))
		}
		if j.Class() == workload.RowExact && !bytes.Equal(alone, many) {
			t.Errorf("%s: bytes differ between one Vulkan device and several", j.Name())
		}
	}
}
