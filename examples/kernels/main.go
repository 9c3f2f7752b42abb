// Command kernels runs a kernel of its own, y += k·x, which it brings side by side
// as a Go function for CPU cores, as CUDA C for NVIDIA GPUs, and as GLSL for any GPU
// with Vulkan, or as the SPIR-V that glslc made of it. weft compiles sources where it
// runs them, and each device takes the form it can.
//
//	go run ./examples/kernels
//	go run ./examples/kernels -devices vulkan -n 16000000
//	go run ./examples/kernels -devices vulkan -compile
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"log"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// In every form buffers come first, in the order of a task's uses, and then the
// step's parameters as one structure.
var (
	//go:embed saxpy.cu
	cudaC []byte
	//go:embed saxpy.comp
	glsl []byte
	//go:generate go run github.com/weft-run/weft/internal/tools/weftparams .
	//go:generate ../../workload/spirv.sh saxpy.comp
	//go:embed saxpy.spv
	spirv []byte
)

// saxpy is the kernel. For Vulkan it has SPIR-V, which needs nothing installed, or
// GLSL, to be compiled here by glslc.
func saxpy(compile bool) *graph.Kernel {
	vulkan := graph.Impl{Dialect: graph.SPIRV, Entry: "main", Source: spirv, Per: [3]uint32{128}, Block: [3]uint32{128}}
	if compile {
		vulkan.Dialect, vulkan.Source = graph.GLSL, glsl
	}
	return &graph.Kernel{Name: "saxpy", Impls: []graph.Impl{
		{Dialect: graph.Go, Entry: "saxpy"},
		{Dialect: graph.CUDAC, Entry: "saxpy", Source: cudaC, Per: [3]uint32{256}, Block: [3]uint32{256}},
		vulkan,
	}}
}

// params are the kernel's parameters, which weftparams declares in saxpy.cu and
// saxpy.comp as well.
type params struct {
	N int // elements
	K float32
}

// inGo is the kernel in Go, for the items lo to hi-1.
func inGo(c *weft.Call, p params, lo, hi int) {
	x, y := weft.View[float32](c.Args[0])[lo:hi], weft.View[float32](c.Args[1])[lo:hi]
	for i := range y {
		y[i] += p.K * x[i]
	}
}

// build makes a graph of several tasks, which devices share among themselves.
func build(kernel *graph.Kernel, n, tasks int, k float32) (*graph.Graph, error) {
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: int64(4 * n), Input: true})
	y := b.Data(graph.Data{Name: "y", Bytes: int64(4 * n), Input: true, Output: true})
	for i := range tasks {
		lo, hi := i*n/tasks, (i+1)*n/tasks
		step := graph.Step{Kernel: kernel, Launch: graph.Launch{Grid: [3]uint32{uint32(hi - lo), 1, 1}}}
		b.Add(graph.Task{
			Name:  fmt.Sprintf("elements %d-%d", lo, hi),
			Steps: []graph.Step{step.With(params{N: hi - lo, K: k})},
			Uses: []graph.Use{
				{Data: x, Offset: int64(4 * lo), Bytes: int64(4 * (hi - lo)), Access: graph.Read},
				{Data: y, Offset: int64(4 * lo), Bytes: int64(4 * (hi - lo)), Access: graph.ReadWrite},
			},
			Work: graph.Work{Ops: 2 * float64(hi-lo), Bytes: 12 * float64(hi-lo)},
		})
	}
	return b.Build()
}

// run computes y += 2·x for n numbers on some devices and says what became of it.
func run(ctx context.Context, o weft.Options, kernel *graph.Kernel, n int) (string, error) {
	o.Funcs = map[string]weft.Func{"saxpy": weft.WithParams(inGo)}
	rt, err := weft.Open(ctx, o)
	if err != nil {
		return "", err
	}
	defer rt.Close()
	g, err := build(kernel, n, 8, 2)
	if err != nil {
		return "", err
	}
	x, y := make([]float32, n), make([]float32, n)
	for i := range x {
		x[i], y[i] = float32(i%1000), 1
	}
	report, err := rt.Run(ctx, g, weft.Bind("x", x), weft.Bind("y", y))
	if err != nil {
		return "", err
	}
	for i := range y {
		if want := 1 + 2*float32(i%1000); y[i] != want {
			return "", fmt.Errorf("element %d is %v, want %v", i, y[i], want)
		}
	}
	return fmt.Sprintf("%d tasks on %v in %v: all %d elements are right", report.Executed, report.Names, report.Elapsed(), n), nil
}

func main() {
	weft.Worker() // GPUs are driven by this program, started again
	var o weft.Options
	flag.StringVar(&o.Devices, "devices", "", "which devices to use, as in cpu,vulkan; none means all")
	n := flag.Int("n", 1_000_000, "how many elements")
	compile := flag.Bool("compile", false, "compile the GLSL here instead of taking SPIR-V")
	flag.Parse()
	if *n < 8 {
		log.Fatalf("kernels: %d elements: there must be 8 at least", *n)
	}
	says, err := run(context.Background(), o, saxpy(*compile), *n)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(says)
}
