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

// Two patterns of the caller's go through a network of 50 neurons.
func ExampleOf() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: reservoir.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	params := reservoir.Defaults()
	params.Size, params.Inputs = 50, 2
	w, err := reservoir.New(params)
	if err != nil {
		log.Fatal(err)
	}
	early := reservoir.Pattern{Duration: 20, Spikes: []reservoir.Spike{{Channel: 0, Time: 1}, {Channel: 1, Time: 3}}}
	late := reservoir.Pattern{Duration: 20, Spikes: []reservoir.Spike{{Channel: 0, Time: 17}, {Channel: 1, Time: 19}}}
	echoes, err := reservoir.Of(ctx, rt, w, reservoir.Sequence, []reservoir.Pattern{early, late}, 10)
	if err != nil {
		log.Fatal(err)
	}
	// What came early has faded.
	size := func(x []float32) (sum float64) {
		for _, v := range x {
			sum += float64(v * v)
		}
		return sum
	}
	fmt.Println(len(echoes), "echoes, the late one is louder:", size(echoes[1].Last) > size(echoes[0].Last))
	// Output: 2 echoes, the late one is louder: true
}
