//go:build lavapipe

package workloadtest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/vulkan"
	"github.com/weft-run/weft/workload"
)

// OnVulkan sees that every sample is right on Vulkan devices: class X gives the bytes that a CPU gives, also where
// both work together, and class R the same bytes on any number of devices.
func (s Samples) OnVulkan(t *testing.T) {
	t.Helper()
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
	core := cpu.Options{Funcs: s.Funcs}
	var results [4][]Sample
	for i, rt := range []*weft.Runtime{open(cpu.New(core)), open(vulkan.New(one)), open(vulkan.New(all)), open(cpu.New(core), vulkan.New(all))} {
		results[i] = s.Make(t)
		tasks := make([]int, len(rt.Machine().Devices))
		for _, j := range results[i] {
			for d, r := range Run(t, rt, j.Job).Report.Devices {
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
		cpus, alone, many, mixed := j.Result(), results[1][k].Result(), results[2][k].Result(), results[3][k].Result()
		if j.Class() == workload.Exact && !(bytes.Equal(cpus, alone) && bytes.Equal(cpus, many) && bytes.Equal(cpus, mixed)) {
			t.Errorf("%s: bytes differ between a CPU, one Vulkan device (equal: %v), all (%v) and both kinds (%v)",
				j.Name(), bytes.Equal(cpus, alone), bytes.Equal(cpus, many), bytes.Equal(cpus, mixed))
		}
		if j.Class() == workload.RowExact && !bytes.Equal(alone, many) {
			t.Errorf("%s: bytes differ between one Vulkan device and several", j.Name())
		}
	}
}

var spirvFolder = flag.String("spirv", "", "take shaders from this `folder` in place of those of the same names here")

// GivenShaders takes the shaders of the folder that flag -spirv names, if any, for those of the samples and of
// further jobs that were compiled from the same source.
func (s Samples) GivenShaders(t *testing.T, more ...workload.Job) {
	t.Helper()
	folder := *spirvFolder
	if folder == "" {
		return
	}
	kernels := s.Kernels(t, graph.SPIRV, more...)
	files, err := filepath.Glob(filepath.Join(folder, "*.spv"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no shaders in %s: %v", folder, err)
	}
	replaced := 0
	for _, f := range files {
		source, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var here []string
		for _, below := range []string{"", "*/", "*/*/"} {
			found, err := filepath.Glob(below + filepath.Base(f))
			if err != nil {
				t.Fatal(err)
			}
			here = append(here, found...)
		}
		if len(here) != 1 {
			t.Fatalf("%s is %d shaders here: %q", filepath.Base(f), len(here), here)
		}
		was, err := os.ReadFile(here[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range kernels {
			for i := range k.Impls {
				if impl := &k.Impls[i]; impl.Dialect == graph.SPIRV && bytes.Equal(impl.Source, was) {
					impl.Source = source
					replaced++
				}
			}
		}
	}
	if replaced == 0 {
		t.Fatalf("no kernel has a shader of %s", folder)
	}
}
