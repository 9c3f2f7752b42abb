// Command model keeps the weights of a model on a device while gradients come in.
//
//	go run ./examples/model
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/weft-run/weft"
)

type params struct{ Rate float32 }

var update = &weft.Kernel[params]{Name: "update", Elementwise: true, CUDA: `
extern "C" __global__ void update(float *w, const float *gradient, Params p) {
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < p.n) w[i] -= p.rate * gradient[i];
}`, Go: func(c *weft.Call, p params, lo, hi int) {
	w, gradient := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[1])
	for i := lo; i < hi; i++ {
		w[i] -= p.Rate * gradient[i]
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
	weights, err := weft.Put(rt, "weights", []float32{1, 2, 3, 4})
	for step := 0; step < 10 && err == nil; step++ {
		gradient := []float32{1, 1, 1, 1}
		_, err = weft.Apply(ctx, rt, update, params{0.125}, weights.InOut(), weft.In(gradient))
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(weights.Get(ctx))
}
