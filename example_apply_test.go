package weft_test

import (
	"context"
	"fmt"

	"github.com/weft-run/weft"
)

type factor struct{ K float32 }

// saxpy is y += k·x, in CUDA C for NVIDIA GPUs and in Go for cores. Devices share the work,
// since every item uses one element.
var saxpy = &weft.Kernel[factor]{Name: "saxpy", Elementwise: true, CUDA: `
extern "C" __global__ void saxpy(const float *x, float *y, Params p) {
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < p.n) y[i] += p.k * x[i];
}`, Go: func(c *weft.Call, p factor, lo, hi int) {
	x, y := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[1])
	for i := lo; i < hi; i++ {
		y[i] += p.K * x[i]
	}
}}

func ExampleApply() {
	rt := start(weft.Options{Devices: "cpu"})
	defer rt.Close()
	x, y := []float32{1, 2, 3}, []float32{10, 20, 30}
	_, err := weft.Apply(context.Background(), rt, saxpy, factor{2}, weft.In(x), weft.InOut(y))
	fmt.Println(y, err)
	_, err = weft.Apply(context.Background(), rt, saxpy, factor{2}, weft.In(x[:2]), weft.InOut(y))
	fmt.Println(err)
	// Output:
	// [12 24 36] <nil>
	// apply saxpy: bad binding: argument 0 has 2 elements and argument 1 has 3: an elementwise kernel needs arguments of equal length; pass others by Whole
}

// Resident data is an argument too, and stays on its device between calls.
func ExampleData_InOut() {
	ctx := context.Background()
	rt := start(weft.Options{Devices: "cpu"})
	defer rt.Close()
	y, err := weft.Put(rt, "y", []float32{10, 20, 30})
	for range 3 {
		if err == nil {
			_, err = weft.Apply(ctx, rt, saxpy, factor{1}, weft.In([]float32{1, 2, 3}), y.InOut())
		}
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(y.Get(ctx))
	// Output: [13 26 39] <nil>
}

// A table that every item may read all of, and a slice that is written only.
func ExampleWhole() {
	lookup := &weft.Kernel[struct{}]{Name: "lookup", Elementwise: true, Go: func(c *weft.Call, _ struct{}, lo, hi int) {
		table, x, y := weft.View[float64](c.Args[0]), weft.View[uint32](c.Args[1]), weft.View[float64](c.Args[2])
		for i := lo; i < hi; i++ {
			y[i] = table[x[i]]
		}
	}}
	rt := start(weft.Options{Devices: "cpu/2"})
	defer rt.Close()
	y := make([]float64, 4)
	_, err := weft.Apply(context.Background(), rt, lookup, struct{}{}, weft.Whole([]float64{0.5, 1.5}), weft.In([]uint32{1, 0, 0, 1}), weft.Out(y))
	fmt.Println(y, err)
	// Output: [1.5 0.5 0.5 1.5] <nil>
}
