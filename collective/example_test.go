package collective_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/collective"
)

// Two devices each have a gradient, and both get the average.
func ExampleAllReduce() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu/2", Funcs: collective.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	g, err := collective.New(rt, collective.Options{Exact: true})
	if err != nil {
		log.Fatal(err)
	}
	in := [][]float32{{1, 2, 3}, {3, 4, 8}}
	out := [][]float32{make([]float32, 3), make([]float32, 3)}
	res, err := collective.AllReduce(ctx, g, collective.Average, in, out)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out, res.Algorithm)
	// Output: [[2 3 5.5] [2 3 5.5]] inline
}
