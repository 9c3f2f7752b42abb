package reservoir_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/reservoir"
)

// Patterns that a seed draws go through a network of 100 neurons.
func ExampleNewJob() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: reservoir.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	params := reservoir.Defaults()
	params.Size = 100
	j, err := reservoir.NewJob(reservoir.Config{Params: params, Batch: 4, Steps: 10})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := workload.Run(ctx, rt, j); err != nil {
		log.Fatal(err)
	}
	last, _ := j.State(3)
	fmt.Println(len(last), "neurons, checked:", j.Check() == nil)
	// Output: 100 neurons, checked: true
}
