package elastic_test

import (
	"context"
	"fmt"
	"log"
	"slices"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/protein"
	"github.com/weft-run/weft/workload/protein/elastic"
)

// The slowest motions of ubiquitin, and which residue moves most by all of them.
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
	moves := modes.Fluctuations(ubiquitin.Len())
	most := slices.Index(moves, slices.Max(moves))
	fmt.Printf("%.3f %.3f, residue %d\n", modes.Values[0], modes.Values[1], ubiquitin.Residues[most].Number)
	// Output: 1.369 2.666, residue 76
}
