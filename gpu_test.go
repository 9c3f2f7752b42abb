//go:build linux && !race && (stub || cgo)

package weft_test

// GPUs as programs see them, on a stand-in for NVIDIA's libraries. Worker
// processes, which these tests start many of, take the race detector long.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cuda/cudatest"
	"github.com/weft-run/weft/internal/probe"
)

// openGPU opens devices of a machine whose GPUs are stand-ins.
func openGPU(t *testing.T, o weft.Options) *weft.Runtime {
	t.Helper()
	dir, err := cudatest.Libraries()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LD_LIBRARY_PATH", dir)
	o.NoCalibrate = true
	rt, err := weft.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return rt
}

// gpuKernel is a kernel of internal/backend/cuda/testdata/kernels.cu.
func gpuKernel(t *testing.T, name string) *graph.Kernel {
	t.Helper()
	source, err := os.ReadFile(cudatest.File("kernels.ptx"))
	if err != nil {
		t.Fatal(err)
	}
	return &graph.Kernel{Name: name, Impls: []graph.Impl{
		{Dialect: graph.PTX, Arch: "sm_75", Entry: name, Source: source, Per: [3]uint32{256}, Block: [3]uint32{256}},
	}}
}

// addOnes builds tasks that add one to each of n words: a task for each part.
func addOnes(t *testing.T, n, parts int) *graph.Graph {
	t.Helper()
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: int64(4 * n), Input: true, Output: true})
	k := gpuKernel(t, "add_one")
	for i := range parts {
		lo, hi := i*n/parts, (i+1)*n/parts
		b.Add(graph.Task{
			Steps: []graph.Step{graph.Step{Kernel: k, Launch: graph.Launch{Grid: [3]uint32{uint32(hi - lo)}}}.With(count{hi - lo})},
			Uses:  []graph.Use{{Data: x, Offset: int64(4 * lo), Bytes: int64(4 * (hi - lo)), Access: graph.ReadWrite}},
		})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// count is the parameter of most kernels of the cuda backend's tests.
type count struct{ n int }

// Plain slices, buffers and resident data give the same on one GPU, on several
// workers of it, and beside the CPU.
func TestGPUMemory(t *testing.T) {
	const n = 3 << 20 // several parts of what is staged at a time
	for devices, count := range map[string]int{"cuda:0": 1, "cuda:0/2": 2, "cuda:0/4": 4, "cuda:0,cpu": 2, "cuda": 2} {
		t.Run(strings.ReplaceAll(devices, "/", " by "), func(t *testing.T) {
			rt := openGPU(t, weft.Options{Devices: devices})
			if got := len(rt.Devices()); got != count && (devices != "cuda" || got < count) {
				t.Fatalf("%d devices, want %d", got, count)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			g := addOnes(t, n, 5)
			plain := make([]uint32, n)
			buf, err := weft.NewBuffer[uint32](rt, n)
			if err != nil {
				t.Fatal(err)
			}
			for i := range plain {
				plain[i] = uint32(i)
			}
			data, err := weft.Put(rt, "x", plain)
			if err != nil {
				t.Fatal(err)
			}
			zero, err := weft.Alloc[uint32](rt, "zero", n)
			if err != nil {
				t.Fatal(err)
			}
			copy(buf.Slice(), plain)
			for _, b := range []weft.Binding{weft.Bind("x", plain), weft.Bind("x", buf.Slice()), data.As("x"), zero.As("x")} {
				for range 2 {
					if _, err := rt.Run(ctx, g, b); err != nil {
						t.Fatal(err)
					}
				}
			}
			put, err := data.Get(ctx)
			if err != nil {
				t.Fatal(err)
			}
			twos, err := zero.Get(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for i := range plain {
				if w := uint32(i + 2); plain[i] != w || buf.Slice()[i] != w || put[i] != w || twos[i] != 2 {
					t.Fatalf("word %d: bound %d, buffer %d, put %d, allocated %d", i, plain[i], buf.Slice()[i], put[i], twos[i])
				}
			}
			data.Release()
			zero.Release()
			// A buffer is there until it is released, also after the end.
			if err := rt.Close(); err != nil {
				t.Fatal(err)
			}
			if got := buf.Slice()[n-1]; got != n+1 {
				t.Errorf("after the end the buffer holds %d", got)
			}
			buf.Release()
			buf.Release()
			if _, err := weft.NewBuffer[uint32](rt, 1); !errors.Is(err, weft.ErrClosed) {
				t.Errorf("a buffer after the end: %v", err)
			}
			if _, err := weft.Put(rt, "late", plain); !errors.Is(err, weft.ErrClosed) {
				t.Errorf("put after the end: %v", err)
			}
		})
	}
}

// A kernel that writes to an illegal address fails its own run, by name, and
// nothing else: what was put before is on the device after.
func TestGPUFault(t *testing.T) {
	for _, standby := range []bool{false, true} {
		t.Run(fmt.Sprint("standby ", standby), func(t *testing.T) {
			rt := openGPU(t, weft.Options{Devices: "cuda:0", Standby: standby, HostBytes: 1 << 33})
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			const n = 1 << 20
			data, err := weft.Put(rt, "x", make([]uint32, n))
			if err != nil {
				t.Fatal(err)
			}
			ones := addOnes(t, n, 3)
			var b graph.Builder
			b.Add(graph.Task{Name: "bad", Steps: []graph.Step{{Kernel: gpuKernel(t, "crash")}},
				Uses: []graph.Use{{Data: b.Data(graph.Data{Name: "y", Bytes: 4, Output: true}), Access: graph.Write}}})
			bad, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			const faults = 3
			for i := range faults {
				if _, err := rt.Run(ctx, ones, data.As("x")); err != nil {
					t.Fatal(err)
				}
				_, err := rt.Run(ctx, bad, weft.Bind("y", make([]uint32, 1)))
				var te *weft.TaskError
				if !errors.As(err, &te) || te.Task != "bad" || !strings.Contains(err.Error(), `"crash"`) || !strings.Contains(err.Error(), "CUDA_ERROR_ILLEGAL_ADDRESS") {
					t.Fatalf("fault %d: %v", i, err)
				}
			}
			got, err := data.Get(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if slices.Min(got) != faults || slices.Max(got) != faults {
				t.Errorf("resident data is %d to %d, want %d", slices.Min(got), slices.Max(got), faults)
			}
		})
	}
}

// A prepared chain of small tasks is one task to a worker, and from the second run
// on one launch of a graph, which is recorded once for each set of addresses.
func TestGPUFused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "calls")
	calls, err := cudatest.MakeCalls(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(cudatest.CallsEnv, file)
	rt := openGPU(t, weft.Options{Devices: "cuda:0", CacheDir: "off"})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	// Each task turns what the one before it made back to front and adds one. The
	// data is too large to be copied by kernels.
	const n, tasks = 20_000, 12
	var b graph.Builder
	k := gpuKernel(t, "gather")
	at := b.Data(graph.Data{Name: "x", Bytes: 4 * n, Input: true})
	for i := range tasks {
		d := graph.Data{Name: fmt.Sprint("t", i), Bytes: 4 * n}
		if i == tasks-1 {
			d.Name, d.Output = "y", true
		}
		next := b.Data(d)
		b.Add(graph.Task{
			Steps: []graph.Step{graph.Step{Kernel: k, Launch: graph.Launch{Grid: [3]uint32{n}}}.With(struct{ n, k int }{n, 1})},
			Uses:  []graph.Use{{Data: at, Access: graph.Read}, {Data: next, Access: graph.Write}, {Data: at, Access: graph.Read}},
		})
		at = next
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	p, err := rt.Prepare(g)
	if err != nil {
		t.Fatal(err)
	}
	x, y := make([]uint32, n), make([]uint32, n)
	var recorded int
	for run := range 8 {
		for i := range x {
			x[i] = uint32(run*n + i)
		}
		before, err := calls()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Run(ctx, weft.Bind("x", x), weft.Bind("y", y)); err != nil {
			t.Fatal(err)
		}
		for i := range y {
			if y[i] != x[i]+tasks {
				t.Fatalf("run %d: word %d is %d, want %d", run, i, y[i], x[i]+tasks)
			}
		}
		after, err := calls()
		if err != nil {
			t.Fatal(err)
		}
		got := after.Sub(before)
		want := cudatest.Calls{Graphs: 1, Recorded: got.Recorded}
		if run == 0 {
			want = cudatest.Calls{Kernels: tasks}
		}
		if recorded += got.Recorded; got != want {
			t.Errorf("run %d: %+v, want %+v", run, got, want)
		}
	}
	// Buffers come round to the same places, though not always in the same order.
	if recorded > 4*tasks {
		t.Errorf("%d kernels were recorded; the same %d run each time", recorded, tasks)
	}
}

// Tasks that not the same devices can run are not fused: nobody could run that.
func TestGPUFusedApart(t *testing.T) {
	rt := openGPU(t, weft.Options{Devices: "cuda:0,cpu", CacheDir: "off", Funcs: map[string]weft.Func{"up": func(c *weft.Call, lo, hi int) {
		x := weft.View[uint32](c.Args[0])
		for i := range x {
			x[i]++
		}
	}}})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	const n = 100
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 4 * n, Input: true, Output: true})
	gpu := graph.Step{Kernel: gpuKernel(t, "add_one"), Launch: graph.Launch{Grid: [3]uint32{n}}}.With(count{n})
	cpu := graph.Step{Kernel: &graph.Kernel{Name: "up", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "up"}}}}
	for i := range 15 {
		b.Add(graph.Task{Steps: []graph.Step{[]graph.Step{gpu, cpu}[i/5%2]}, Uses: []graph.Use{{Data: x, Access: graph.ReadWrite}}})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	p, err := rt.Prepare(g)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		xs := make([]uint32, n)
		if rep, err := p.Run(ctx, weft.Bind("x", xs)); err != nil || rep.Executed != 3 || slices.Min(xs) != 15 || slices.Max(xs) != 15 {
			t.Fatalf("%d to %d, %v", slices.Min(xs), slices.Max(xs), err)
		}
	}
}

// A fault in a fused task fails its run with the kernels it may have been, and the
// device serves the next.
func TestGPUFusedFault(t *testing.T) {
	rt := openGPU(t, weft.Options{Devices: "cuda:0", CacheDir: "off"})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	const n = 1000
	chain := func(middle graph.Step) *weft.Prepared {
		var b graph.Builder
		x := b.Data(graph.Data{Name: "x", Bytes: 4 * n, Input: true, Output: true})
		one := graph.Step{Kernel: gpuKernel(t, "add_one"), Launch: graph.Launch{Grid: [3]uint32{n}}}.With(count{n})
		for i, s := range []graph.Step{one, one, middle, one, one} {
			b.Add(graph.Task{Name: fmt.Sprint("t", i), Steps: []graph.Step{s}, Uses: []graph.Use{{Data: x, Access: graph.ReadWrite}}})
		}
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		p, err := rt.Prepare(g)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	bad := chain(graph.Step{Kernel: gpuKernel(t, "crash")})
	good := chain(graph.Step{Kernel: gpuKernel(t, "add_two"), Launch: graph.Launch{Grid: [3]uint32{n}}}.With(count{n}))
	for range 2 {
		_, err := bad.Run(ctx, weft.Bind("x", make([]uint32, n)))
		var te *weft.TaskError
		if !errors.As(err, &te) || te.Task != "t0 … t4" || !strings.Contains(err.Error(), `"crash"`) || !strings.Contains(err.Error(), "CUDA_ERROR_ILLEGAL_ADDRESS") {
			t.Fatal(err)
		}
		for range 3 {
			x := make([]uint32, n)
			if _, err := good.Run(ctx, weft.Bind("x", x)); err != nil || slices.Min(x) != 6 || slices.Max(x) != 6 {
				t.Fatalf("%d to %d, %v", slices.Min(x), slices.Max(x), err)
			}
		}
	}
}

// Apply runs the forms of a kernel that are for GPUs: PTX as it is, and CUDA C with the
// structure of its parameters in front.
func TestGPUApply(t *testing.T) {
	rt := openGPU(t, weft.Options{Devices: "cuda"})
	source, err := os.ReadFile(cudatest.File("kernels.ptx"))
	if err != nil {
		t.Fatal(err)
	}
	type by struct{ K float32 }
	for name, k := range map[string]*weft.Kernel[by]{
		"PTX":  {Name: "saxpy", PTX: string(source), Elementwise: true},
		"CUDA": {Name: "saxpy", CUDA: "extern \"C\" __global__ void saxpy(const float *x, float *y, Params p) {}", Elementwise: true},
	} {
		x, y := make([]float32, 1000), make([]float32, 1000)
		for i := range x {
			x[i], y[i] = float32(i), 1
		}
		if _, err := weft.Apply(t.Context(), rt, k, by{2}, weft.In(x), weft.InOut(y)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i := range y {
			if y[i] != 2*float32(i)+1 {
				t.Fatalf("%s: element %d is %v", name, i, y[i])
			}
		}
	}
}

// A GPU passes the check of probes.
func TestGPUProbe(t *testing.T) {
	rt := openGPU(t, weft.Options{Devices: "cuda:0", ProbeInterval: 10 * time.Millisecond})
	g, err := probe.Graph("cuda:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	in, out := make([]byte, probe.Bytes), make([]byte, probe.Bytes)
	for seed := range uint64(3) {
		probe.Fill(in, seed)
		if _, err := rt.Run(t.Context(), g, weft.Bind("weft.probe.in", in), weft.Bind("weft.probe.out", out)); err != nil {
			t.Fatal(err)
		}
		if err := probe.Check(in, out); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	if d := rt.Devices()[0]; d.State != "healthy" {
		t.Errorf("the device is %s", d.State)
	}
}
