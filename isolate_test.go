package weft_test

import (
	"context"
	"errors"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// isolated are the Go kernels that worker processes of these tests have.
var isolated = map[string]weft.Func{
	"isolated.square": func(c *weft.Call, lo, hi int) {
		in, out := weft.View[int64](c.Args[0]), weft.View[int64](c.Args[1])
		for i := lo; i < hi; i++ {
			out[i] = in[i] * in[i]
		}
	},
	"isolated.overflow": func(*weft.Call, int, int) {
		debug.SetMaxStack(1 << 20) // as a stack of 1 GB would end, but sooner
		hoarded = append(hoarded, []byte{deeper(0)})
	},
	"isolated.exit": func(*weft.Call, int, int) { os.Exit(3) },
	"isolated.wild": func(*weft.Call, int, int) { *(*byte)(unsafe.Add(unsafe.Pointer(nil), 0xdead0000)) = 1 },
	"isolated.hoard": func(*weft.Call, int, int) {
		for {
			hoarded = append(hoarded, make([]byte, 16<<20))
			for i := 0; i < 16<<20; i += 4096 {
				hoarded[len(hoarded)-1][i] = 1
			}
		}
	},
	"isolated.panic": func(*weft.Call, int, int) { panic("on purpose") },
	"isolated.spin": func(c *weft.Call, _, _ int) {
		for n := uint(1); n > 0; n |= 1 {
			spins.Add(1)
		}
	},
	"isolated.asks": func(c *weft.Call, _, _ int) {
		for !c.Stopped() {
			runtime.Gosched()
		}
	},
	"isolated.pid": func(c *weft.Call, _, _ int) {
		here.Add(1)
		weft.View[int64](c.Args[1])[0] = int64(os.Getpid())
	},
	"isolated.nap": func(c *weft.Call, _, _ int) {
		time.Sleep(300 * time.Millisecond) // in a worker, which nothing of the test reaches
		copy(c.Args[1], c.Args[0])
	},
}

var (
	hoarded [][]byte
	spins   atomic.Int64
	here    atomic.Int64 // calls of isolated.pid in this process
)

// deeper calls itself until the stack is full.
func deeper(n int) byte {
	var frame [512]byte
	if n == math.MaxInt {
		return 0
	}
	frame[n%512] = deeper(n + 1)
	return frame[(n+1)%512]
}

// doubling is a kernel for Apply that workers have too, and tripling one that they do not.
var doubling = &weft.Kernel[struct{ K int64 }]{Name: "doubling", Elementwise: true, Go: func(c *weft.Call, p struct{ K int64 }, lo, hi int) {
	x := weft.View[int64](c.Args[0])
	for i := lo; i < hi; i++ {
		x[i] *= p.K
	}
}}

var tripling = &weft.Kernel[struct{}]{Name: "tripling", Elementwise: true, Go: func(*weft.Call, struct{}, int, int) {}}

// inWorkers opens CPU devices in worker processes.
func inWorkers(tb testing.TB, o weft.Options) *weft.Runtime {
	tb.Helper()
	if runtime.GOOS != "linux" {
		tb.Skip("worker processes need Linux")
	}
	o.Isolate, o.Funcs = true, isolated
	o.CloseWait = time.Minute // a busy machine takes its time to end processes
	if o.Ladder == "" {
		o.Ladder = "restart:1m, restart:1m, restart:1m" // likewise to start them
	}
	return open(tb, o)
}

// goesOn runs a good graph and checks it.
func goesOn(tb testing.TB, rt *weft.Runtime) {
	tb.Helper()
	x, y := make([]int64, 16), make([]int64, 16)
	for i := range x {
		x[i] = int64(i)
	}
	if _, err := rt.Run(context.Background(), isolatedTask(tb, "isolated.square", 16), weft.Bind("x", x), weft.Bind("y", y)); err != nil {
		tb.Error(err)
		return
	}
	for i := range y {
		if y[i] != int64(i*i) {
			tb.Errorf("the square of %d is %d", i, y[i])
		}
	}
}

// isolatedTask returns a graph with one task.
func isolatedTask(tb testing.TB, kernel string, items uint32) *graph.Graph {
	tb.Helper()
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 128, Input: true})
	y := b.Data(graph.Data{Name: "y", Bytes: 128, Output: true})
	b.Add(graph.Task{
		Name:  kernel,
		Steps: []graph.Step{{Kernel: graph.GoKernel(kernel), Launch: graph.Grid(int64(items))}},
		Uses:  []graph.Use{{Data: x, Access: graph.Read}, {Data: y, Access: graph.Write}},
	})
	g, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// A Go kernel that ends its process costs a worker each time it is tried. Its run fails with
// what happened, and everything else goes on.
func TestIsolated(t *testing.T) {
	rt := inWorkers(t, weft.Options{Devices: "cpu/2", WorkerBytes: 512 << 20, MemoryReserve: -1, Confine: true})
	if at := pid(t, rt); at == int64(os.Getpid()) || at == 0 {
		t.Fatalf("a kernel ran in process %d; this is %d", at, os.Getpid())
	}
	for _, c := range []struct{ kernel, says string }{
		{"isolated.overflow", "stack overflow"},
		{"isolated.exit", "exit status 3"},
		{"isolated.wild", "fault"},
		{"isolated.hoard", "memory|allocate"}, // in the words of Go, or of its race detector,
	} {
		t.Run(c.kernel, func(t *testing.T) {
			ended := make(chan error, 1)
			go func() {
				_, err := rt.Run(context.Background(), isolatedTask(t, c.kernel, 1), weft.Bind("x", make([]int64, 16)), weft.Bind("y", make([]int64, 16)))
				ended <- err
			}()
			goesOn(t, rt) // beside it
			err := <-ended
			var q *weft.Quarantine
			if !errors.As(err, &q) || len(q.Losses) != 3 {
				t.Fatalf("the run ended with %v", err)
			}
			for _, l := range q.Losses {
				if !slices.ContainsFunc(strings.Split(c.says, "|"), func(w string) bool { return strings.Contains(l.Err.Error(), w) }) {
					t.Errorf("a loss does not say %q: %v", c.says, l.Err)
				}
				if says := l.Err.Error(); !strings.HasPrefix(says, "device lost: "+l.Device+": worker process ") || strings.Count(says, "device lost") != 1 {
					t.Errorf("a loss does not say once which device was lost and how: %v", l.Err)
				}
			}
			goesOn(t, rt) // after it
		})
	}
	_, err := rt.Run(context.Background(), isolatedTask(t, "isolated.panic", 1), weft.Bind("x", make([]int64, 16)), weft.Bind("y", make([]int64, 16)))
	if !errors.Is(err, weft.ErrPanic) || !strings.Contains(err.Error(), "on purpose") {
		t.Errorf("a kernel that panics ends with %v", err)
	}
}

// pid returns the process in which a runtime with one device runs kernels.
func pid(tb testing.TB, rt *weft.Runtime) int64 {
	tb.Helper()
	y := make([]int64, 16)
	if _, err := rt.Run(context.Background(), isolatedTask(tb, "isolated.pid", 1), weft.Bind("x", make([]int64, 16)), weft.Bind("y", y)); err != nil {
		tb.Fatal(err)
	}
	return y[0]
}

// A cancelled run ends, whether its Go kernel asks or not: in a worker it is ended by force.
func TestIsolatedCancel(t *testing.T) {
	for _, c := range []struct {
		kernel string
		wait   time.Duration
		forced bool
	}{{"isolated.asks", time.Minute, false}, {"isolated.spin", 6 * time.Second, true}} {
		rt := inWorkers(t, weft.Options{Devices: "cpu", CancelWait: c.wait, TaskTimeout: -1, Confine: c.forced})
		before := pid(t, rt)
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(100*time.Millisecond, cancel)
		_, err := rt.Run(ctx, isolatedTask(t, c.kernel, 1), weft.Bind("x", make([]int64, 16)), weft.Bind("y", make([]int64, 16)))
		if !errors.Is(err, weft.ErrCancelled) && !errors.Is(err, context.Canceled) || errors.Is(err, weft.ErrHeld) {
			t.Errorf("%s: the cancelled run ended with %v", c.kernel, err)
		}
		if ended := pid(t, rt) != before; ended != c.forced {
			t.Errorf("%s: that its worker was ended is %v", c.kernel, ended)
		}
		goesOn(t, rt)
	}
}

// Kernels that workers do not have are named when the runtime is opened, or applied.
func TestIsolatedUnknown(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("worker processes need Linux")
	}
	_, err := weft.Open(context.Background(), weft.Options{
		Devices: "cpu", Isolate: true, NoCalibrate: true, CacheDir: "off", Funcs: map[string]weft.Func{"of.nobody": func(*weft.Call, int, int) {}},
	})
	if !errors.Is(err, weft.ErrNoDevices) || !strings.Contains(err.Error(), `"of.nobody"; give weft.Worker`) {
		t.Errorf("opened with a kernel that workers do not have: %v", err)
	}
	_, err = weft.Open(context.Background(), weft.Options{Devices: "cpu", Isolate: true, NoCalibrate: true, CacheDir: "off", WorkerCommand: "true"})
	if err == nil || !strings.Contains(err.Error(), "exit status 0; if true is no worker, its main must begin with weft.Worker") {
		t.Errorf("opened with a command that is no worker: %v", err)
	}
	rt := inWorkers(t, weft.Options{Devices: "cpu/2"})
	x := []int64{1, 2, 3}
	if _, err := weft.Apply(context.Background(), rt, doubling, struct{ K int64 }{2}, weft.InOut(x)); err != nil || x[2] != 6 {
		t.Errorf("a kernel that workers have gave %d: %v", x, err)
	}
	if _, err := weft.Apply(context.Background(), rt, tripling, struct{}{}, weft.InOut(x)); !errors.Is(err, weft.ErrNoFunc) || !strings.Contains(err.Error(), "weft.Worker(kernel.Funcs())") {
		t.Errorf("a kernel that workers do not have: %v", err)
	}
}

// What it costs to run Go kernels in worker processes: a run of one task on 128 bytes, one of
// 256 such tasks, and one on 64 MiB.
func BenchmarkIsolated(b *testing.B) {
	for _, where := range []string{"here", "worker"} {
		for _, c := range []struct {
			name         string
			tasks, bytes int64
		}{{"one", 1, 128}, {"256", 256, 128}, {"64MiB", 2, 32 << 20}} {
			b.Run(where+"/"+c.name, func(b *testing.B) {
				o := weft.Options{Devices: "cpu/2", Isolate: where == "worker", Funcs: isolated}
				if o.Isolate && runtime.GOOS != "linux" {
					b.Skip("worker processes need Linux")
				}
				rt := open(b, o)
				g := manyTasks(b, c.tasks, c.bytes)
				p, err := rt.Prepare(g)
				if err != nil {
					b.Fatal(err)
				}
				x, y := make([]int64, c.tasks*c.bytes/8), make([]int64, c.tasks*c.bytes/8)
				b.SetBytes(c.tasks * c.bytes)
				for b.Loop() {
					if _, err := p.Run(context.Background(), weft.Bind("x", x), weft.Bind("y", y)); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(c.tasks)*float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			})
		}
	}
}

// manyTasks is a graph of tasks that each square a part of x.
func manyTasks(tb testing.TB, tasks, bytes int64) *graph.Graph {
	tb.Helper()
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: tasks * bytes, Input: true})
	y := b.Data(graph.Data{Name: "y", Bytes: tasks * bytes, Output: true})
	for i := range tasks {
		b.Add(graph.Task{
			Steps: []graph.Step{{Kernel: graph.GoKernel("isolated.square"), Launch: graph.Grid(bytes / 8)}},
			Uses: []graph.Use{
				{Data: x, Offset: i * bytes, Bytes: bytes, Access: graph.Read}, {Data: y, Offset: i * bytes, Bytes: bytes, Access: graph.Write},
			},
		})
	}
	g, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return g
}
