// Command saxpy runs a kernel of its own, y += k·x, on every GPU there is and on the cores.
//
//	go run ./examples/saxpy
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/weft-run/weft"
)

type params struct{ K float32 }

var saxpy = &weft.Kernel[params]{Name: "saxpy", Elementwise: true, CUDA: `
extern "C" __global__ void saxpy(const float *x, float *y, Params p) {
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < p.n) y[i] += p.k * x[i];
}`, Go: func(c *weft.Call, p params, lo, hi int) {
	x, y := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[1])
	for i := lo; i < hi; i++ {
		y[i] += p.K * x[i]
	}
}}

func main() {
	weft.Worker() // GPUs are driven by this program, started again
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	x, y := make([]float32, 1<<20), make([]float32, 1<<20)
	for i := range x {
		x[i], y[i] = float32(i), 1
	}
	_, err = weft.Apply(ctx, rt, saxpy, params{2}, weft.In(x), weft.InOut(y))
	fmt.Println(y[:4], err)
}
