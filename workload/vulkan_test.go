//go:build lavapipe

package workload_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/vulkan"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/automata"
	"github.com/weft-run/weft/workload/conv"
	"github.com/weft-run/weft/workload/fisher"
	"github.com/weft-run/weft/workload/gemm"
	"github.com/weft-run/weft/workload/landscape"
	"github.com/weft-run/weft/workload/merkle"
	"github.com/weft-run/weft/workload/tropical"
)

// These tests need Vulkan devices: .ci/run installs lavapipe and runs them with the
// tag, on one device and on three.

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

// longJobs are those whose loops take more rounds than lavapipe gives one invocation.
func longJobs(t *testing.T) (jobs []workload.Job) {
	t.Helper()
	add := func(j workload.Job, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, j)
	}
	products := func(c gemm.Config) {
		g, err := gemm.New(c)
		add(g, err)
		p, err := tropical.New(tropical.Config(c))
		add(p, err)
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
		add(net, err)
	}
	f, err := fisher.New(fisher.Config{Points: 600_000, Features: 2, Shards: 1, Seed: 1})
	add(f, err)
	for _, s := range []conv.Shape{
		{C: 20_000, H: 2, W: 3, R: 2, S: 2, K: 17},  // terms in fours, and filters of two groups
		{C: 20_001, H: 2, W: 3, R: 3, S: 3, Pad: 1}, // and not
		{C: 1, H: 1, W: 1_200_000, R: 1, S: 3},      // columns
		{C: 70_000, H: 1, W: 70, R: 1, S: 1},        // both
	} {
		s.N, s.K, s.Stride = 1, max(s.K, 1), 1
		for _, split := range []string{conv.Images, conv.Rows} {
			c, err := conv.New(conv.Config{Shape: s, Split: split, Seed: 1})
			add(c, err)
		}
	}
	return jobs
}

// lavapipe ends all loops of an invocation after 65,535 rounds in total. Kernels whose
// loops grow with the problem are right beyond that, too.
func TestVulkanRounds(t *testing.T) {
	all.GivenShaders(t, append(longJobs(t), longLandscape(t))...)
	rt := workloadtest.Exact(t, vulkan.New(vulkan.Options{Devices: []int{0}, MemBytes: 256 << 20}))
	defer rt.Close()
	for _, j := range longJobs(t) {
		name, _, _ := strings.Cut(j.Name(), " ")
		t.Run(name, func(t *testing.T) {
			workloadtest.Run(t, rt, j)
			if err := j.Check(); err != nil {
				t.Errorf("%s: %v", j.Name(), err)
			}
		})
	}
	t.Run("landscape", func(t *testing.T) { testLongRow(t, rt) })
}

// testLongRow compares a row of a landscape with a CPU's: all of one so large would take
// minutes. Pairs near the axis have all the energy, and the first launch ends among them: its
// last pair, number 2¹⁸ - 1, is bead 189 with bead 194, the first behind the axis.
func testLongRow(t *testing.T, rt *weft.Runtime) {
	core := workloadtest.Exact(t, cpu.New(cpu.Options{Funcs: funcs()}))
	defer core.Close()
	const row = 192
	var rows [2][]float64
	for i, rt := range []*weft.Runtime{core, rt} {
		l := longLandscape(t)
		task := l.Whole()
		for i := range task.Steps {
			s := &task.Steps[i]
			s.Launch.Grid[0] = 1
			one, err := graph.Pack(struct{ first, rows int }{row, 1})
			if err != nil {
				t.Fatal(err)
			}
			copy(s.Params[4:], one)
		}
		rows[i] = make([]float64, landscape.Angles)
		var b graph.Builder
		task.Uses = []graph.Use{
			{Data: b.Data(graph.Data{Name: "native", Bytes: 8 * 3 * residues, Input: true}), Access: graph.Read},
			{Data: b.Data(graph.Data{Name: "turns", Bytes: 8 * 2 * landscape.Angles, Input: true}), Access: graph.Read},
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

const residues = 1581

// longLandscape is one whose rows take a shader several launches.
func longLandscape(t *testing.T) workload.Job {
	t.Helper()
	l, err := landscape.New(landscape.Config{Residues: residues})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Every call is right on one Vulkan device, and on several with the cores.
func TestVulkanCalls(t *testing.T) {
	one, all := vulkan.Options{Devices: []int{0}, MemBytes: 256 << 20}, vulkan.Options{MemBytes: 256 << 20}
	for name, drivers := range map[string][]driver.Driver{
		"one":  {vulkan.New(one)},
		"both": {vulkan.New(all), cpu.New(cpu.Options{Funcs: funcs()})},
	} {
		t.Run(name, func(t *testing.T) {
			rt, err := weft.Open(t.Context(), weft.Options{NoCalibrate: true, CacheDir: "off", Partitioner: "equal", Policy: "roundrobin", Drivers: drivers})
			if err != nil {
				t.Fatal(err)
			}
			defer rt.Close()
			testCalls(t, rt)
		})
	}
}

// Every workload's kernels are right on one Vulkan device, one workload to a subtest.
func TestVulkanKernels(t *testing.T) {
	all.GivenShaders(t, append(longJobs(t), longLandscape(t))...)
	// lavapipe divides as CPUs do, which Vulkan does not ask for.
	all.On(t, vulkan.New(vulkan.Options{Devices: []int{0}, MemBytes: 256 << 20}), "reservoir")
}

// Every workload is right on Vulkan devices, alone, together and with the cores.
func TestVulkan(t *testing.T) { all.OnVulkan(t) }

// The kernel of probes computes on a Vulkan device what the host does.
func TestVulkanProbe(t *testing.T) { testProbe(t, vulkan.New(vulkan.Options{MemBytes: 256 << 20})) }
