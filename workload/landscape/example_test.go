package landscape_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/landscape"
	"github.com/weft-run/weft/workload/protein"
)

// Crambin, turned about the axis through its tenth and eleventh bead, loses contacts.
func ExampleOf() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: landscape.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	s, err := protein.Open("1CRN", protein.Select{})
	if err != nil {
		log.Fatal(err)
	}
	native := s.Coordinates()
	energies, err := landscape.Of(ctx, rt, native)
	if err != nil {
		log.Fatal(err)
	}
	row := energies[9*landscape.Angles:][:landscape.Angles]
	fmt.Printf("%d beads, native %.1f, turned by 1.8° %.1f\n", len(native)/3, row[0], row[landscape.Angles/200])
	// Output: 46 beads, native -89.0, turned by 1.8° -88.3
}
