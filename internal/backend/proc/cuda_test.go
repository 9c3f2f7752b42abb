//go:build linux && !race && (gpu || stub || cgo)

package proc_test

// GPUs in workers: on a stand-in for NVIDIA's libraries, or with the tag gpu on
// what this machine has. Every test starts many processes, which takes the race
// detector a second each; what it could find here it finds in the other tests.

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/backendtest"
	"github.com/weft-run/weft/internal/backend/cuda"
	"github.com/weft-run/weft/internal/backend/cuda/cudatest"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/machine"
)

func init() { makers["cuda"] = makeCUDA }

func makeCUDA(config []byte, device int) (driver.Driver, error) {
	var o cuda.Options
	if err := json.Unmarshal(config, &o); err != nil {
		return nil, err
	}
	if device >= 0 {
		o.Devices = []int{device}
	}
	return cuda.New(o), nil
}

// onGPU makes workers of options that drive GPUs.
func onGPU(t testing.TB, o proc.Options, c cuda.Options) proc.Options {
	t.Helper()
	c.LibraryPath = cudaLibraries(t)
	config, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	o.Driver, o.Config = "cuda", config
	return o
}

// cudaKernel is a kernel of internal/backend/cuda/testdata/kernels.cu.
func cudaKernel(t testing.TB, name string) *graph.Kernel {
	t.Helper()
	source, err := os.ReadFile(cudatest.File("kernels.ptx"))
	if err != nil {
		t.Fatal(err)
	}
	return &graph.Kernel{Name: name, Impls: []graph.Impl{
		{Dialect: graph.PTX, Arch: "sm_75", Entry: name, Source: source, Per: [3]uint32{256}, Block: [3]uint32{256}},
	}}
}

// counted are the parameters of add_one and add_two.
type counted struct{ n int }

// TestCUDASuite is what every backend passes, by GPUs in workers: each by one,
// and by two that share it.
func TestCUDASuite(t *testing.T) {
	for name, split := range map[string]int{"whole": 1, "split": 2} {
		t.Run(name, func(t *testing.T) {
			c := suite(t, onGPU(t, proc.Options{Parts: func(machine.Device) int { return split }}, cuda.Options{MemBytes: 64 << 20, Devices: []int{0}}))
			c.Impls = func(kernel string) []graph.Impl {
				if kernel == "fail" { // nothing fails here without losing the device
					return nil
				}
				return cudaKernel(t, kernel).Impls
			}
			backendtest.Run(t, c)
		})
	}
}

// numbersOf reads bytes as 32-bit words.
func numbersOf(b []byte) []uint32 {
	out := make([]uint32, len(b)/4)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return out
}

// added builds a chain of tasks that each add one to n words in place, the next
// always on the next of the devices named.
func added(t *testing.T, n, rounds int, on ...string) *graph.Graph {
	t.Helper()
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: int64(4 * n), Input: true, Output: true})
	k := cudaKernel(t, "add_one")
	for i := range rounds {
		b.Add(graph.Task{
			Name:  fmt.Sprintf("add %d", i),
			Steps: []graph.Step{graph.Step{Kernel: k, Launch: graph.Launch{Grid: [3]uint32{uint32(n)}}}.With(counted{n})},
			Uses:  []graph.Use{{Data: x, Access: graph.ReadWrite}},
			On:    graph.Constraint{Only: []string{on[i%len(on)]}},
		})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Two workers of one GPU read each other's memory where it lies.
func TestCUDASiblings(t *testing.T) {
	o := onGPU(t, proc.Options{Parts: func(machine.Device) int { return 2 }}, cuda.Options{Devices: []int{0}, MemBytes: 256 << 20})
	r := start(t, o, engine.Options{})
	if len(r.Machine.Devices) != 2 || r.Machine.Devices[0].MemBytes != 128<<20 {
		t.Fatalf("devices are %+v", r.Machine.Devices)
	}
	const n, rounds = 100_000, 12
	for _, size := range []int{n, 3 * n} {
		x := make([]byte, 4*size)
		binary.LittleEndian.PutUint32(x[4*size-4:], 7)
		_, err := r.Run(t.Context(), added(t, size, rounds, "cuda:0.0", "cuda:0.1"), engine.RunOptions{}, func(graph.DataID) []byte { return x })
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range numbersOf(x) {
			if want := uint32(rounds); v != want && !(i == size-1 && v == want+7) {
				t.Fatalf("word %d of %d is %d", i, size, v)
			}
		}
	}
	if !strings.Contains(r.log.String(), "mapped memory of another worker") {
		t.Error("no memory of another worker was ever mapped")
	}
}

// crash is a run of one kernel that writes to an illegal address.
func crash(t *testing.T) *graph.Graph {
	t.Helper()
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 4, Output: true})
	b.Add(graph.Task{Name: "bad", Steps: []graph.Step{{Kernel: cudaKernel(t, "crash")}}, Uses: []graph.Use{{Data: x, Access: graph.Write}}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A kernel that writes to an illegal address: its task fails with CUDA's error and
// the kernel's name, everything else completes, what was resident is still there
// without being sent again, and nothing grows over many such faults. A worker that
// takes over has not page-locked what it does not use.
func TestCUDAFaults(t *testing.T) {
	for _, c := range []struct {
		name    string
		standby bool
		faults  int
	}{{"restart", false, 100}, {"standby", true, 20}} {
		t.Run(c.name, func(t *testing.T) { cudaFaults(t, c.standby, c.faults) })
	}
}

func cudaFaults(t *testing.T, standby bool, faults int) {
	o := onGPU(t, proc.Options{Workers: proc.Workers{Standby: standby}}, cuda.Options{Devices: []int{0}, MemBytes: 384 << 20})
	r := start(t, o, engine.Options{})
	bad := crash(t)
	// Memory of the arena that is known to workers and of no use to them.
	if _, err := r.mem.Get(256 << 20); err != nil {
		t.Fatal(err)
	}
	// What stays on the GPU: more than a span of what is page-locked at a time.
	const n = 40 << 20
	home, err := r.mem.Get(n)
	if err != nil {
		t.Fatal(err)
	}
	for i := range home {
		home[i] = byte(i * 13)
	}
	ref, err := r.Put("kept", home, graph.Versioned)
	if err != nil {
		t.Fatal(err)
	}
	ones := added(t, 1000, 6, "cuda:0")
	kept := added(t, n/4, 1, "cuda:0") // writes a new value beside the old one
	bind := engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: ref}}}
	run := func(g *graph.Graph, o engine.RunOptions, mem []byte) error {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		_, err := r.Run(ctx, g, o, func(graph.DataID) []byte { return mem })
		return err
	}
	if err := run(kept, bind, nil); err != nil {
		t.Fatal(err)
	}
	copied := func() int64 { _, c := r.Status(); return c.CopyBytes }
	var fds, rss int
	before := copied()
	for i := range faults {
		if standby {
			poll.True(t, "a standby", func() bool { return strings.Count(r.log.String(), "a worker stands by") > i })
		}
		beside := make([]byte, 4000)
		done := make(chan error, 1)
		r.Start(&exec.Job{Graph: ones, Memory: func(graph.DataID) []byte { return beside }, Done: func(_ *engine.Report, err error) { done <- err }})
		err := run(bad, engine.RunOptions{Retries: -1}, make([]byte, 4))
		if !errors.Is(err, driver.ErrKernel) || !strings.Contains(err.Error(), `"crash"`) || !strings.Contains(err.Error(), "CUDA_ERROR_ILLEGAL_ADDRESS") {
			t.Fatalf("fault %d: got %v; want the kernel and the error named", i, err)
		}
		if err := <-done; err != nil {
			t.Fatalf("fault %d: a run beside it: %v", i, err)
		}
		if got := numbersOf(beside); slices.Min(got) != 6 || slices.Max(got) != 6 {
			t.Fatalf("fault %d: the run beside it gave %d to %d, want 6", i, slices.Min(got), slices.Max(got))
		}
		if i == faults/5 {
			poll.True(t, "the device", func() bool { return r.state(0) == engine.Healthy })
			fds, rss = usage(t)
		}
	}
	poll.True(t, "the device", func() bool { return r.state(0) == engine.Healthy })
	noGrowth(t, faults, fds, rss)
	// Runs beside took a few kilobytes each, however often they were tried.
	if sent := copied() - before; sent > int64(faults)*1<<20 {
		t.Errorf("%d bytes were copied over %d faults: what was resident was sent again", sent, faults)
	}
	if strings.Contains(r.log.String(), "device memory did not survive") {
		t.Error("device memory did not survive")
	}
	log := r.log.String()
	rung := map[bool]string{false: "rung=restart kept=true", true: "rung=standby kept=true"}[standby]
	if n := strings.Count(log, rung); n != faults {
		t.Errorf("the device came back %d times with %s, want %d", n, rung, faults)
	}
	// A worker that was started anew copied some kilobytes.
	if n := strings.Count(log, "msg=page-locked"); !standby && n > 20+2*faults {
		t.Errorf("memory was page-locked %d times over %d faults", n, faults)
	}
	want := make([]byte, n)
	for i := range want {
		want[i] = byte(i * 13)
	}
	got := make([]byte, n)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := r.Fetch(ctx, ref, func() error { return nil }, func() { copy(got, home) }); err != nil {
		t.Fatal(err)
	}
	for i, v := range numbersOf(got) {
		if w := binary.LittleEndian.Uint32(want[4*i:]) + 1; v != w {
			t.Fatalf("word %d of what was resident is %#x, want %#x", i, v, w)
		}
	}
}

// TestCUDAChaos is chaos on a GPU, or on a stand-in for one.
func TestCUDAChaos(t *testing.T) {
	libraries := cudaLibraries(t) // made before the folder for temporary files is another
	k := cudaKernel(t, "add_one")
	config, err := json.Marshal(cuda.Options{Devices: []int{0}, MemBytes: 256 << 20, LibraryPath: libraries})
	if err != nil {
		t.Fatal(err)
	}
	chaos(t, chaotic{
		o: proc.Options{Driver: "cuda", Config: config},
		work: func(t *testing.T, rnd *rand.Rand) (*graph.Graph, []byte, []byte) {
			n := 1000 + rnd.IntN(1<<18)
			return increments(t, k, counted{n}, n, 5+rnd.IntN(30))
		},
	})
}
