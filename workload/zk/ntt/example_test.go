package ntt_test

import (
	"context"
	"fmt"
	"log"

	"github.com/consensys/gnark-crypto/ecc/bn254/fr"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/zk/ntt"
)

// The product of two polynomials, by their values.
func ExampleOf() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Funcs: ntt.Funcs()})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	values := func(coefficients ...uint64) []fr.Element {
		x := make([]fr.Element, 4) // more than the degree of the product
		for i, c := range coefficients {
			x[i].SetUint64(c)
		}
		x, err := ntt.Of(ctx, rt, x, ntt.Transform{})
		if err != nil {
			log.Fatal(err)
		}
		return x
	}
	a, b := values(1, 2), values(3, 0, 5) // 1 + 2x and 3 + 5x²
	for i := range a {
		a[i].Mul(&a[i], &b[i])
	}
	product, err := ntt.Of(ctx, rt, a, ntt.Transform{Inverse: true})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range product {
		fmt.Println(c.String())
	}
	// Output:
	// 3
	// 6
	// 5
	// 10
}
