package tropical_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/tropical"
)

// The longest ways of two steps between three places.
func ExampleMul() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: tropical.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	none := float32(math.Inf(-1))
	step := workload.Matrix{Rows: 3, Cols: 3, Data: []float32{
		none, 2, 7,
		none, none, 4,
		1, none, none,
	}}
	two, err := tropical.Mul(ctx, rt, step, step)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(two.Data)
	// Output: [8 -Inf 6 5 -Inf -Inf -Inf 3 8]
}

// A network of maxima of sums learns from samples that a seed draws.
func ExampleNewTraining() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: tropical.TrainFuncs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	j, err := tropical.NewTraining(tropical.Training{Inputs: 4, Hidden: 8, Outputs: 2, Batch: 64, Steps: 5, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := workload.Run(ctx, rt, j); err != nil {
		log.Fatal(err)
	}
	fmt.Println("checked:", j.Check() == nil)
	// Output: checked: true
}
