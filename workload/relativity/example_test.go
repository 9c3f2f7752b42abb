package relativity_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/relativity"
)

// The periapsis of a close orbit around a black hole moves on by a fifth of a turn.
func ExampleFollow() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: relativity.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	start, err := relativity.Periapsis(20, 0.2, 4096)
	if err != nil {
		log.Fatal(err)
	}
	orbits, err := relativity.Follow(ctx, rt, []relativity.Particle{start, {R: 20, AngularMomentum: 3, Step: 0.1}}, relativity.Config{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.8f\n", orbits[0].Angle-2*math.Pi)
	fmt.Println("the second falls in:", orbits[1].FellIn)
	// Output:
	// 1.22780751
	// the second falls in: true
}
