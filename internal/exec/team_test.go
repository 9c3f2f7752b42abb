package exec_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
)

// A kernel without a grid that does not return keeps no other task from the device, and one
// with a grid none that has no grid. Other grids wait for their turn, until the launch is
// detached, which none is here.
func TestTasksBesideHung(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("one core runs one task at a time")
	}
	for _, items := range []uint32{1, 1000} {
		began, release := make(chan struct{}, items), make(chan struct{})
		x := whole(t, map[string]driver.Func{
			"stuck": func(*driver.Call, int, int) {
				began <- struct{}{}
				<-release
			},
			"fill": func(c *driver.Call, lo, hi int) {
				for i := lo; i < hi; i++ {
					c.Args[0][i]++
				}
			},
		})
		stuck := make(chan error, 1)
		go func() { stuck <- fill(x, "stuck", 1, items, make([]byte, items)) }()
		<-began
		for _, n := range []uint32{1, 1000, 1, 100} {
			if n > 1 && items > 1 {
				continue
			}
			mem := make([]byte, 4*n)
			if err := fill(x, "fill", 4, n, mem); err != nil {
				t.Fatalf("%d items beside %d: %v", n, items, err)
			}
			for i, got := range mem {
				if got != 1 {
					t.Fatalf("%d items beside %d: item %d was computed %d times", n, items, i, got)
				}
			}
		}
		close(release)
		if err := <-stuck; err != nil {
			t.Error(err)
		}
	}
}

// Tasks with a grid and tasks without one in one run: each item is computed once.
func TestGridsAmongTasks(t *testing.T) {
	x := whole(t, map[string]driver.Func{"fill": func(c *driver.Call, lo, hi int) {
		for i := lo; i < hi; i++ {
			c.Args[0][i]++
		}
		for end := time.Now().Add(20 * time.Microsecond); time.Now().Before(end); {
		}
	}})
	var b graph.Builder
	const n, size = 100, 64
	out := b.Data(graph.Data{Name: "out", Bytes: n * size, Output: true})
	for i := range int64(n) {
		items := []uint32{1, size, 1, 3, size / 2}[i%5]
		b.Add(graph.Task{
			Steps: []graph.Step{{Kernel: kernel("fill"), Launch: graph.Launch{Grid: [3]uint32{items, 1, 1}}}},
			Uses:  []graph.Use{{Data: out, Offset: i * size, Bytes: int64(items), Access: graph.Write}},
		})
		if items < size {
			b.Add(graph.Task{
				Steps: []graph.Step{{Kernel: kernel("fill"), Launch: graph.Launch{Grid: [3]uint32{size - items, 1, 1}}}},
				Uses:  []graph.Use{{Data: out, Offset: i*size + int64(items), Bytes: size - int64(items), Access: graph.Write}},
			})
		}
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		mem := make([]byte, n*size)
		if _, err := x.Run(context.Background(), g, engine.RunOptions{}, func(graph.DataID) []byte { return mem }); err != nil {
			t.Fatal(err)
		}
		for i, got := range mem {
			if got != 1 {
				t.Fatalf("item %d of task %d was computed %d times", i%size, i/size, got)
			}
		}
	}
}

// whole opens an executor on all cores as one device, whose launches are not detached.
func whole(t *testing.T, funcs map[string]driver.Func) *exec.Executor {
	t.Helper()
	copier, err := cpu.New(cpu.Options{Cores: 1}).Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	x, err := exec.Open(context.Background(), exec.Config{
		Drivers: []driver.Driver{cpu.New(cpu.Options{Funcs: funcs})}, Copier: copier[0], Engine: engine.Options{DetachAfter: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close(context.Background()) })
	return x
}

// fill runs n tasks of a kernel with a grid over parts of mem, and gives up after a minute.
func fill(x *exec.Executor, name string, n int, items uint32, mem []byte) error {
	var b graph.Builder
	out := b.Data(graph.Data{Name: "out", Bytes: int64(len(mem)), Output: true})
	for i := range int64(n) {
		b.Add(graph.Task{
			Steps: []graph.Step{{Kernel: kernel(name), Launch: graph.Launch{Grid: [3]uint32{items, 1, 1}}}},
			Uses:  []graph.Use{{Data: out, Offset: i * int64(items), Bytes: int64(items), Access: graph.Write}},
		})
	}
	g, err := b.Build()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = x.Run(ctx, g, engine.RunOptions{}, func(graph.DataID) []byte { return mem })
	return err
}
