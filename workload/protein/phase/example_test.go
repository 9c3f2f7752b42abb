package phase_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/protein"
	"github.com/weft-run/weft/workload/protein/phase"
)

// The phase states of crambin, of which no physical claim is made.
func ExampleOf() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: phase.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	crambin, err := protein.Open("1CRN", protein.Select{})
	if err != nil {
		log.Fatal(err)
	}
	states, err := phase.Of(ctx, rt, crambin, 0)
	if err != nil {
		log.Fatal(err)
	}
	var sum complex128
	for _, s := range states {
		sum += s
	}
	fmt.Printf("%.6f\n", sum)
	// Output: (33.939633+2.515176i)
}
