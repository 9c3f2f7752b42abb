package fisher_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/fisher"
)

// Three points with two features, of which a model knows nothing: p is one half.
func ExampleOf() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: fisher.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	points := []float32{
		1, 0,
		0, 2,
		1, 1,
	}
	f, err := fisher.Of(ctx, rt, points, []float32{0, 0})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.4f\n", f)
	// Output: [0.1667 0.0833 0.0833 0.4167]
}

// The divergence of two distributions from a uniform one, by Kullback and Leibler.
func ExampleDivergences() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: fisher.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	p := []float64{
		0.5, 0.5,
		1, 0,
	}
	q := []float64{
		0.5, 0.5,
		0.5, 0.5,
	}
	d, err := fisher.Divergences(ctx, rt, fisher.Entropy, 2, p, q)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.4f\n", d)
	// Output: [0.0000 0.6931]
}
