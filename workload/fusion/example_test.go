package fusion_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/fusion"
)

// A record whose vector e1 a rotor turns by 90° in the plane of e1 and e2.
func ExampleOf() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: fusion.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	w := &fusion.Weights{Sandwich: fusion.Sandwich(fusion.Rotor(math.Pi/2, [3]float64{1, 0, 0}))}
	record := make([]float32, fusion.Floats)
	record[24+1] = 1
	out, err := fusion.Of(ctx, rt, record, w, fusion.Config{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.1f\n", out[24:])
	// Output: [0.0 0.0 1.0 0.0 0.0 0.0 0.0 0.0]
}
