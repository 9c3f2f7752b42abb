//go:build !gpu && (stub || cgo)

package cuda

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

// Without one of NVIDIA's libraries weft doctor says which, what that means and
// what to do, and everything that does not need it works.
func TestMissingLibraries(t *testing.T) {
	lookIn(t, nil)
	all := libraryPath(t)[0]
	n := 100
	routine := func(entry string, p []byte) *graph.Task {
		return &graph.Task{Steps: []graph.Step{{Kernel: &graph.Kernel{Name: entry, Impls: []graph.Impl{{Dialect: graph.Library, Entry: entry}}}, Params: p}}}
	}
	for what, c := range map[string]struct {
		files []string
		task  *graph.Task // needs it
	}{
		"NVIDIA driver": {[]string{"libcuda.so.1"}, nil},
		"NVML":          {nvmlNames, nil},
		"cuBLAS":        {cublasNames, routine("cublas.sgemm", params(graph.MatMul{M: 1, K: 1, N: 1}))},
		"cuDNN":         {cudnnNames, routine("cudnn.conv2d", nil)},
		"NCCL":          {ncclNames, routine("nccl.allreduce", nil)},
		"NVRTC":         {nvrtcNames, &graph.Task{Steps: []graph.Step{{Kernel: &graph.Kernel{Name: "c", Impls: []graph.Impl{{Dialect: graph.CUDAC, Entry: "c", Source: []byte("c")}}}}}}},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			entries, err := os.ReadDir(all)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if e.Name() == c.files[0] {
					continue
				}
				if err := os.Symlink(filepath.Join(all, e.Name()), filepath.Join(dir, e.Name())); err != nil {
					t.Fatal(err)
				}
			}
			o := Options{LibraryPath: []string{dir}, Devices: []int{0}}
			missing := 0
			for _, f := range New(o).(driver.Examiner).Examine() {
				if !f.OK {
					missing++
					if f.What != what || f.Says == "" || f.Fix == "" {
						t.Errorf("finding %+v", f)
					}
				}
			}
			if missing != 1 {
				t.Errorf("%d things are missing, want 1", missing)
			}
			devs, err := New(o).Open(context.Background(), slog.New(slog.DiscardHandler))
			if what == "NVIDIA driver" {
				if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "install NVIDIA's driver") {
					t.Errorf("without the driver: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if joins := devs[0].Info().Joins; joins == "" != (what == "NCCL") {
				t.Errorf("the device joins %q", joins)
			}
			if _, err := devs[0].(driver.Telemeter).Telemetry(); errors.Is(err, driver.ErrUnavailable) != (what == "NVML") {
				t.Errorf("telemetry: %v", err)
			}
			r := attached(t, devs[0])
			b, src, dst := r.alloc(int64(4*n)), upTo(n), make([]uint32, n)
			w := r.launch(0, &graph.Task{Steps: []graph.Step{step(testKernel("add_one"), n)}}, args(int64(4*n), b), r.copyIn(b, bytesOf(src)))
			r.must(r.copyOut(bytesOf(dst), b, w))
			if dst[7] != 8 {
				t.Errorf("a kernel gives %d, want 8", dst[7])
			}
			if c.task != nil {
				if end := r.wait(r.launch(0, c.task, args(4, b))); !errors.Is(end.Err, driver.ErrKernel) || !strings.Contains(end.Err.Error(), c.files[0]) {
					t.Errorf("what needs it ends with %v", end.Err)
				}
			}
		})
	}
}

// attached is a rig of one device that was opened by hand.
func attached(t *testing.T, d driver.Device) *rig {
	lanes := d.Info().Lanes + 2
	r := &rig{TB: t, dev: d, board: driver.NewBoard(lanes), lanes: lanes, woke: make(chan struct{}, 1), got: map[driver.Wait]driver.Completion{}, seq: make([]uint32, lanes)}
	var ids []driver.Lane
	for i := range lanes {
		ids = append(ids, driver.Lane(i))
	}
	d.Attach(r.board, ids, func() {
		select {
		case r.woke <- struct{}{}:
		default:
		}
	})
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// Events of the GPU itself count as its faults, what kernels did wrong does not.
func TestEvents(t *testing.T) {
	r := openRig(t, Options{Devices: []int{0}})
	lib, err := open(libraryPath(t), nvmlNames...)
	if err != nil {
		t.Fatal(err)
	}
	happen := lib.bind("weftStubEvent")
	f := getFrame()
	defer f.free()
	for i, c := range []struct {
		kind, data uintptr
		want       int64
	}{{8, 31, 0}, {8, 79, 1}, {2, 0, 2}, {8, 13, 2}, {8, 48, 3}} {
		f.call(&happen, c.kind, c.data)
		got, err := r.dev.(driver.Telemeter).Telemetry()
		if err != nil || got.Faults != c.want {
			t.Errorf("after event %d there were %d faults, %v; want %d", i, got.Faults, err, c.want)
		}
	}
}

// A library that is there and of no use is not called missing.
func TestBrokenLibrary(t *testing.T) {
	lookIn(t, nil)
	dir := t.TempDir()
	if _, err := open([]string{dir}, nvmlNames...); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, errBroken) {
		t.Errorf("missing: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, nvmlNames[0]), []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open([]string{dir}, nvmlNames...); !errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, errBroken) || !strings.Contains(err.Error(), dir) {
		t.Errorf("broken: %v", err)
	}
}
