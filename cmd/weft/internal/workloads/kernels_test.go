package workloads

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// variants are flags with which a workload uses other kernels, in sizes that are
// quickly made. A workload with one set of kernels needs none.
var variants = map[string][]string{
	"gemm":         {"-s 20"},
	"tropical":     {"-s 20"},
	"tropical-net": {"--batch 32 --steps 2"},
	"conv":         {"--batch 4", "--batch 4 --split rows"},
	"reduce":       {"--n 20000 --op sum", "--n 20000 --op average", "--n 20000 --op max", "--n 20000 --op min"},
	"merkle":       {"--leaves 5000", "--leaves 5000 --mode dup"},
	"automata":     {"--rows 128 --cols 64 --steps 8", "--rows 256 --cols 64 --steps 64 --k 33", "--rows 64 --cols 65 --steps 8 --rule B36/S23"},
	"landscape":    {"--residues 20"},
	"elastic":      {"--residues 30", "--residues 30 --network anm", "--residues 500 --steps 20"},
	"phase":        {"--residues 30"},
	"reservoir": {
		"--neurons 32 --batch 4 --steps 2", "--neurons 32 --batch 4 --steps 2 --split neurons", "--neurons 32 --batch 4 --steps 2 --split rows",
		"--neurons 32 --batch 4 --mode histogram", "--neurons 32 --batch 4 --steps 2 --strategy eager",
	},
	"fusion":     {"--records 1000", "--records 1000 --bind", "--records 1000 --mode data", "--records 1000 --mode pipeline", "--records 1000 --mode hybrid"},
	"relativity": {"--count 50 --steps 64", "--count 50 --tolerance 1e-8", "--problem light --count 50", "--problem boosts --count 1000", "--problem bodies --count 100 --steps 2"},
	"network": {
		"--nodes 500", "--graph miserables", "--problem layers --nodes 200 --features 5", "--problem closeness --nodes 50", "--problem closeness --graph karate",
		"--problem medoids --nodes 50",
	},
	"autodiff":    {"--count 100", "--count 100 --problem helmholtz --dims 12", "--count 100 --expr x*y+z"},
	"clifford":    {"--count 1000", "--count 1000 --op rotor", "--count 1000 --op normalize --p 1 --q 3"},
	"msm":         {"--size 1000", "--size 2^7 --group g2", "--size 1000 --resident"},
	"ntt":         {"--log 6", "--size 2^12 --inverse", "--size 1024 --coset"},
	"enumerative": {"--k 2 --n 6", "--problem hypersurface --k 2 --n 6", "--problem curves --degree 20"},
	"zk":          {"--constraints 300", "--constraints 130 --circuit range"},
	"bregman":     {"--pairs 1000", "--pairs 1000 --function burg --dim 3", "--pairs 1000 --function squares"},
	"fisher":      {"--points 100 --features 5", "--points 100 --features 5 --blocks 2"},
}

// variantsOf returns a workload's variants, or else its flags at a sixteenth of their
// default sizes.
func variantsOf(t *testing.T, w catalog.Entry) []string {
	t.Helper()
	if v, ok := variants[w.Name]; ok {
		return v
	}
	sizes := make(map[string]int)
	if _, err := sized(w, sizes); err != nil {
		t.Fatal(err)
	}
	var args []string
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		args = append(args, fmt.Sprintf("--%s %d", name, max(sizes[name]/16, 1)))
	}
	return []string{strings.Join(args, " ")}
}

// calledOnly are kernels that no job runs: they serve calls, on CPUs alone.
var calledOnly = []string{"reservoir.few", "reservoir.kuramoto", "reservoir.run"}

// Every kernel that a workload runs, with any of its flags, can run on Vulkan, and
// every kernel it has is among those looked at, unless it serves CPUs alone.
func TestKernelsHaveSPIRV(t *testing.T) {
	gpus := twoGPUs()
	for _, w := range list {
		seen := map[string]bool{}
		for _, args := range variantsOf(t, w) {
			_, j := ordered(t, w, args)
			if h, ok := j.(workload.Hosted); ok {
				for _, k := range kernelsOf(t, h.Hosted(), nil) {
					seen[k.Name] = true
				}
			}
			for _, k := range kernelsOf(t, j, gpus) {
				seen[k.Name] = true
				if !gpus.Devices[0].CanRun(k) {
					t.Errorf("run %s %s: kernel %s has no SPIR-V", w.Name, args, k.Name)
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(w.Funcs())) {
			// Collectives choose kernels by device, and their own tests see to them, as other
			// workloads' variants do to theirs.
			of, _, _ := strings.Cut(name, ".")
			if !seen[name] && of != "collective" && (of == w.Name || !slices.Contains(Names(), of)) && !slices.Contains(calledOnly, name) {
				t.Errorf("%s: no variant runs kernel %s", w.Name, name)
			}
		}
	}
}

// twoGPUs is a machine for jobs that are placed before they have a graph.
func twoGPUs() *machine.Machine {
	m := &machine.Machine{}
	for i, name := range []string{"vulkan:0", "vulkan:1"} {
		m.Devices = append(m.Devices, machine.Device{Name: name, Backend: "vulkan", Kind: machine.Discrete, MemBytes: 1 << 30})
		m.Links = append(m.Links, machine.Link{A: machine.Host, B: machine.DeviceID(i), BPS: 1e9})
	}
	return m
}

// ordered makes a workload's job with flags.
func ordered(t *testing.T, w catalog.Entry, args string) (catalog.Order, workload.Job) {
	t.Helper()
	f := pflag.NewFlagSet(w.Name, pflag.ContinueOnError)
	o := Flags(f, w)
	if err := f.Parse(strings.Fields(args)); err != nil {
		t.Fatal(err)
	}
	j, err := o.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return o, j
}

// kernelsOf returns the kernels of a job's graph on a machine, in two parts.
func kernelsOf(t *testing.T, j workload.Job, m *machine.Machine) (out []*graph.Kernel) {
	t.Helper()
	g := graphOf(t, j, m)
	for id := range g.NumTasks() {
		for _, s := range g.Task(graph.TaskID(id)).Steps {
			out = append(out, s.Kernel)
		}
	}
	return out
}

// graphOf returns a job's graph on a machine, in two parts.
func graphOf(t *testing.T, j workload.Job, m *machine.Machine) *graph.Graph {
	t.Helper()
	if p, ok := j.(workload.Placed); ok {
		if err := p.Place(m); err != nil {
			t.Fatalf("%s: %v", j.Name(), err)
		}
	}
	if s, ok := j.(workload.Stateful); ok {
		rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu", NoCalibrate: true, CacheDir: "off", Funcs: Funcs()})
		if err != nil {
			t.Fatal(err)
		}
		defer rt.Close()
		if err := s.Begin(t.Context(), rt); err != nil {
			t.Fatal(err)
		}
		defer s.Release()
	}
	n, align := j.Items().Extent, max(j.Items().Align, 1)
	half := (n/2 + align - 1) / align * align
	ranges := []sched.Range{{Hi: half}, {Lo: half, Hi: n}}
	if half == 0 || half >= n {
		ranges = []sched.Range{{Hi: n}}
	}
	g, err := j.Graph(ranges)
	if err != nil {
		t.Fatalf("%s: %v", j.Name(), err)
	}
	return g
}
