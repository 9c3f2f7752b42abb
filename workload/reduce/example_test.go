package reduce_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/reduce"
)

// The largest of some numbers.
func ExampleOf() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: reduce.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	most, err := reduce.Of(ctx, rt, "max", []float32{2, 7, 1, 8, 2, 8})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(most)
	// Output: 8
}
