package fold_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/protein/fold"
)

// Eight replicas of crambin collapse from straight lines within some thousand steps.
func ExampleRun_Do() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: fold.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	r, err := fold.New(fold.Config{Structure: "1CRN", Steps: 4000, Every: 500, Replicas: 8, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	if err := r.Do(ctx, rt, func(round int) {
		// r.Frame(round, 0) has the energy, Q, Rg and RMSD of replica 0 so far.
	}); err != nil {
		log.Fatal(err)
	}
	first, last := r.Frame(0, 0), r.Frame(r.Rounds()-1, 0)
	fmt.Println(r.Rounds(), "frames; the chain is shorter at the end:", last.Rg < first.Rg)
	fmt.Println(r.Check())
	// Output:
	// 8 frames; the chain is shorter at the end: true
	// <nil>
}

// Chains of different lengths fold at once, and no device waits for those of others.
func ExampleDoAll() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu/2", Funcs: fold.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	var runs []*fold.Run
	for _, name := range []string{"1CRN", "BPTI", "1UBI"} {
		r, err := fold.New(fold.Config{Structure: name, Steps: 500, Every: 100, Replicas: 8, Seed: 1})
		if err != nil {
			log.Fatal(err)
		}
		runs = append(runs, r)
	}
	if err := fold.DoAll(ctx, rt, runs, nil); err != nil {
		log.Fatal(err)
	}
	for _, r := range runs {
		fmt.Println(r.Structure().Name, r.Done(), "frames")
	}
	// Output:
	// 1CRN 5 frames
	// BPTI 5 frames
	// 1UBI 5 frames
}

// The free energy along the share of native contacts: chains that began straight have few.
func ExampleRun_Profile() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: fold.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	r, err := fold.New(fold.Config{Structure: "1CRN", Steps: 2000, Every: 50, Replicas: 8, Low: 0.6, High: 1.1, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	if err := r.Do(ctx, rt, nil); err != nil {
		log.Fatal(err)
	}
	p, err := r.Profile(0.8)
	if err != nil {
		log.Fatal(err)
	}
	lowest := 0
	for i, f := range p.Free {
		if f < p.Free[lowest] {
			lowest = i
		}
	}
	fmt.Println("lowest at a Q below 0.3:", p.Q[lowest] < 0.3)
	h, err := r.Heat()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("too short for a melting temperature:", h.Short)
	// Output:
	// lowest at a Q below 0.3: true
	// too short for a melting temperature: true
}
