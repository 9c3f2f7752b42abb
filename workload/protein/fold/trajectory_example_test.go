package fold_test

import (
	"errors"
	"fmt"

	"github.com/weft-run/weft/workload/protein"
	"github.com/weft-run/weft/workload/protein/fold"
)

// A chain that begins too long for a format is known before it is folded.
func ExampleRun_Writable() {
	for _, residues := range []int{100, 1000} {
		r, err := fold.NewOf(fold.Config{Steps: 10, Every: 10, Replicas: 1}, protein.Helix(residues))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(residues, errors.Is(r.Writable("pdb"), fold.ErrFormat), errors.Is(r.Writable("dcd"), fold.ErrFormat))
	}
	// Output:
	// 100 false false
	// 1000 true false
}
