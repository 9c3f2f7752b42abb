package msm_test

import (
	"context"
	"fmt"
	"log"

	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/zk/msm"
)

// A hundred multiples of the generator, 1 G + 2 G + … + 100 G, are 5050 G.
func ExampleG1() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: msm.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	_, _, g, _ := bn254.Generators()
	points, scalars := make([]bn254.G1Affine, 100), make([]fr.Element, 100)
	for i := range points {
		points[i] = g
		scalars[i].SetInt64(int64(i + 1))
	}
	sum, err := msm.G1(ctx, rt, points, scalars)
	if err != nil {
		log.Fatal(err)
	}
	var want fr.Element
	again, err := msm.G1(ctx, rt, points[:1], []fr.Element{*want.SetInt64(5050)})
	fmt.Println(sum == again, err)
	// Output: true <nil>
}

// The points of a key are sent to devices once, and serve many sums.
func ExamplePut() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu/2", Funcs: msm.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	points, _ := msm.Draw[bn254.G2Affine](1, 1000)
	if err := msm.Check(points); err != nil { // as a key from a file should be
		log.Fatal(err)
	}
	key, err := msm.Put(rt, points)
	if err != nil {
		log.Fatal(err)
	}
	defer key.Release()
	for seed := range uint64(3) {
		scalars := msm.DrawScalars(seed, 1000)
		sum, err := key.Sum(ctx, scalars)
		fmt.Println(sum == msm.Reference(points, scalars), err)
	}
	// Output:
	// true <nil>
	// true <nil>
	// true <nil>
}
