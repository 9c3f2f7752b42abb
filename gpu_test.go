//go:build linux && !race && (stub || cgo)

package weft_test

// GPUs as programs see them, on a stand-in for NVIDIA's libraries. Worker
// processes, which these tests start many of, take the race detector long.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/backend/cuda/cudatest"
	"github.com/weft-run/weft/graph"
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

// gpuKernel is a kernel of backend/cuda/testdata/kernels.cu.
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
			Steps: []graph.Step{{Kernel: k, Launch: graph.Launch{Grid: [3]uint32{uint32(hi - lo)}}, Params: le32(hi - lo)}},
			Uses:  []graph.Use{{Data: x, Offset: int64(4 * lo), Bytes: int64(4 * (hi - lo)), Access: graph.ReadWrite}},
		})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func le32(n int) []byte { return []byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)} }

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
