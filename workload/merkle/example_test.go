package merkle_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/merkle"
)

// A tree is published by its root. A proof shows what is in it, and that a later one only
// added to it.
func ExampleTreeOf() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: merkle.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	entries := [][]byte{[]byte("ash"), []byte("beech"), []byte("cedar"), []byte("fir")}
	old, err := merkle.RootOf(ctx, rt, entries[:3])
	if err != nil {
		log.Fatal(err)
	}
	tree, err := merkle.TreeOf(ctx, rt, entries)
	if err != nil {
		log.Fatal(err)
	}
	inside, err := tree.Inclusion(1)
	if err != nil {
		log.Fatal(err)
	}
	grown, err := tree.Consistency(3)
	if err != nil {
		log.Fatal(err)
	}
	root := tree.Root()
	fmt.Printf("%x\n", root[:4])
	fmt.Println(merkle.VerifyInclusion(root, 4, 1, []byte("beech"), inside) == nil)
	fmt.Println(merkle.VerifyInclusion(root, 4, 1, []byte("birch"), inside) == nil)
	fmt.Println(merkle.VerifyConsistency(old, 3, root, 4, grown) == nil)
	// Output:
	// c25f89b3
	// true
	// false
	// true
}
