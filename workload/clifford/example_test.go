package clifford_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/clifford"
)

// Vectors that a rotor turns by 90° in the plane of e1 and e2.
func ExampleTurn() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: clifford.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	a, err := clifford.NewAlgebra(3, 0)
	if err != nil {
		log.Fatal(err)
	}
	plane := make([]float64, a.Size())
	plane[4] = 1 // e12
	rotor, err := a.Rotor(math.Pi/2, plane)
	if err != nil {
		log.Fatal(err)
	}
	turned, err := clifford.Turn(ctx, rt, a, rotor, []float32{0, 1, 0, 2, 0, 0, 0, 0})
	if err != nil {
		log.Fatal(err)
	}
	for i, v := range turned {
		if math.Abs(float64(v)) > 1e-6 {
			fmt.Printf("%.1f %s\n", v, a.Blade(i))
		}
	}
	// Output:
	// 1.0 e2
	// 2.0 e3
}
