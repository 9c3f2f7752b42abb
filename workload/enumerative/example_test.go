package enumerative_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/enumerative"
)

// Lines on a general cubic surface, and on a general quintic threefold.
func ExampleOf() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: enumerative.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	for _, n := range []int{4, 5} {
		lines, err := enumerative.Of(ctx, rt, enumerative.Config{Problem: enumerative.Hypersurface, K: 2, N: n})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(lines)
	}
	// Output:
	// 27
	// 2875
}

// Rational quartics through eleven points.
func ExampleKontsevich() {
	n, err := enumerative.Kontsevich(4)
	fmt.Println(n, err)
	// Output: 620 <nil>
}
