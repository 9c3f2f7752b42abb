package zk_test

import (
	"context"
	"fmt"
	"log"

	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark/backend/witness"
	"github.com/consensys/gnark/frontend"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/zk"
)

// Cube is a circuit: somebody knows the cube root of Y.
type Cube struct {
	X frontend.Variable
	Y frontend.Variable `gnark:",public"`
}

// Define says that Y is the cube of X.
func (c *Cube) Define(api frontend.API) error {
	api.AssertIsEqual(c.Y, api.Mul(c.X, c.X, c.X))
	return nil
}

func ExampleProver() {
	ctx := context.Background()
	circuit, err := zk.Compile(&Cube{})
	if err != nil {
		log.Fatal(err)
	}
	keys, err := zk.Setup(context.Background(), circuit) // for tests only
	if err != nil {
		log.Fatal(err)
	}
	rt, err := weft.Open(ctx, weft.Options{Funcs: zk.Funcs()})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	prover, err := zk.NewProver(rt, circuit, keys.Proving)
	if err != nil {
		log.Fatal(err)
	}
	defer prover.Release()

	w, err := frontend.NewWitness(&Cube{X: 3, Y: 27}, ecc.BN254.ScalarField())
	if err != nil {
		log.Fatal(err)
	}
	proof, err := prover.Prove(ctx, w)
	if err != nil {
		log.Fatal(err)
	}
	public, err := w.Public()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(zk.Verify(keys.Verifying, proof, public))

	w, err = frontend.NewWitness(&Cube{X: 4, Y: 27}, ecc.BN254.ScalarField())
	if err != nil {
		log.Fatal(err)
	}
	_, err = prover.Prove(ctx, w)
	fmt.Println(err)
	// Output:
	// <nil>
	// zk: bad witness: it does not satisfy the circuit: constraint 3 of 3 does not hold
}

func ExampleProver_ProveAll() {
	ctx := context.Background()
	circuit, err := zk.Compile(&Cube{})
	if err != nil {
		log.Fatal(err)
	}
	keys, err := zk.Setup(context.Background(), circuit) // for tests only
	if err != nil {
		log.Fatal(err)
	}
	rt, err := weft.Open(ctx, weft.Options{Funcs: zk.Funcs()})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	prover, err := zk.NewProver(rt, circuit, keys.Proving)
	if err != nil {
		log.Fatal(err)
	}
	defer prover.Release()

	witnesses := func(yield func(witness.Witness, error) bool) {
		for x := range 4 {
			if !yield(frontend.NewWitness(&Cube{X: x, Y: x * x * x}, ecc.BN254.ScalarField())) {
				return
			}
		}
	}
	for r := range prover.ProveAll(ctx, witnesses) {
		if r.Err != nil {
			log.Fatal(r.Err)
		}
		public, err := r.Witness.Public()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(public.Vector(), zk.Verify(keys.Verifying, r.Proof, public))
	}
	// Output:
	// [0] <nil>
	// [1] <nil>
	// [8] <nil>
	// [27] <nil>
}
