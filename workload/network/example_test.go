package network_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/network"
)

// The karate club fell apart into one around its instructor, member 0, and one around its
// president, member 33. They have the highest ranks.
func ExampleRank() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: network.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	club, err := network.Open("karate", "")
	if err != nil {
		log.Fatal(err)
	}
	ranks, err := network.Rank(ctx, rt, club, network.Config{Tolerance: 1e-10})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.4f %.4f\n", ranks[0], ranks[33])
	medoids, _, err := network.Cluster(ctx, rt, club, network.Config{K: 2})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(medoids)
	// Output:
	// 0.0970 0.1009
	// [33 0]
}
