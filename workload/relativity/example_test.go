package relativity_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/relativity"
)

// The sun deflects light at its limb by 1.75″. Close to a black hole light circles it.
func ExampleBend() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: relativity.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	rays, err := relativity.Bend(ctx, rt, []float64{695_700 / 1.476625, 5.1962, 5.1961}, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.2f″\n", rays[0].Deflection*180/math.Pi*3600)
	fmt.Printf("%.2f turns at radius %.2f\n", rays[1].Deflection/(2*math.Pi), rays[1].Closest)
	fmt.Println("the third is captured:", rays[2].Captured)
	// Output:
	// 1.75″
	// 1.78 turns at radius 3.01
	// the third is captured: true
}

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
