package elastic_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/protein"
	"github.com/weft-run/weft/workload/protein/elastic"
	"github.com/weft-run/weft/workload/protein/network"
)

// The slowest motions of ubiquitin, and how well its B-factors follow from all of them.
func ExampleOf() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: elastic.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	ubiquitin, err := protein.Open("1UBI", protein.Select{})
	if err != nil {
		log.Fatal(err)
	}
	modes, err := elastic.Of(ctx, rt, ubiquitin, elastic.Config{Network: elastic.Gaussian, Modes: 75})
	if err != nil {
		log.Fatal(err)
	}
	var b []float64
	for _, r := range ubiquitin.Residues {
		b = append(b, r.B)
	}
	fmt.Printf("%.3f %.3f, r = %.2f\n", modes.Values[0], modes.Values[1], network.Correlation(modes.Fluctuations(ubiquitin.Len()), b))
	// Output: 1.369 2.666, r = 0.69
}
