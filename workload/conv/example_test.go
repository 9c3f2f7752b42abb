package conv_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/conv"
)

// A filter that subtracts each number from the one two columns further on, with a column of
// zeros behind the image.
func ExampleOf() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: conv.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	image := []float32{
		1, 2, 4, 7,
		5, 5, 5, 5,
	}
	y, err := conv.Of(ctx, rt, image, []float32{-1, 1}, conv.Layer{
		Shape:    conv.Shape{N: 1, C: 1, H: 2, W: 4, K: 1, R: 1, S: 2, Stride: 1},
		Dilation: 2, Right: 1,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(y)
	// Output: [3 5 -4 0 0 -5]
}
