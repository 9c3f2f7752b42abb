package msm

import (
	"slices"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bn254"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/workloadtest"
)

// A range of more points than one call adds up, in memory that has other numbers in it, has the
// sum of all its points.
func TestManyCalls(t *testing.T) {
	defer func(n int) { callPoints = n }(callPoints)
	callPoints = 8
	const n = 50
	points, _ := Draw[bn254.G1Affine](1, n)
	scalars := DrawScalars(1, n)
	want := Reference(points, scalars)
	for _, p := range []params{{points: n, part: 4, each: 3, multiples: 1}, {points: n, part: 4, each: 100, multiples: 1}, {points: n, part: 20, each: 1, multiples: 3}} {
		sums := slices.Repeat(points[:1], int(parts(n, int64(p.part))))
		step := graph.Step{}.With(p)
		c := &weft.Call{Params: step.Params, Args: [][]byte{workloadtest.Bytes(table(points, p.multiples)), workloadtest.Bytes(scalars), workloadtest.Bytes(sums)}}
		Funcs()["msm.g1"](c, 0, int(p.items()))
		if got := Total(sums); got != want {
			t.Errorf("%+v: the sum is %v, want %v", p, got, want)
		}
	}
}
