package msm

import (
	"slices"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"

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
		c := &weft.Call{Params: step.Params, Args: [][]byte{workloadtest.Bytes(table(t.Context(), points, p.multiples)), workloadtest.Bytes(scalars), workloadtest.Bytes(sums)}}
		Funcs()["msm.g1"](c, 0, int(p.items()))
		if got := Total(sums); got != want {
			t.Errorf("%+v: the sum is %v, want %v", p, got, want)
		}
	}
}

// No call of the kernels adds up so many points at a time that a run which is cancelled has to wait long for it.
func TestCallSize(t *testing.T) {
	const n = 1<<18 + 1
	largestCall[bn254.G1Affine](t, n, 1<<18)
	largestCall[bn254.G2Affine](t, n, 1<<16)
}

func largestCall[P Point](t *testing.T, n, most int) {
	largest, calls := 0, 0
	k := kernel("msm.counted", group[P](), func(points []P, _ []fr.Element) (sum P, _ error) {
		largest, calls = max(largest, len(points)), calls+1
		return sum, nil
	})
	p := params{points: n, part: 256, each: 1 << 20, multiples: 1}
	sums := make([]P, parts(int64(n), int64(p.part)))
	c := &weft.Call{Params: graph.Step{}.With(p).Params, Args: [][]byte{workloadtest.Bytes(make([]P, n)), workloadtest.Bytes(make([]fr.Element, n)), workloadtest.Bytes(sums)}}
	k.Func(c, 0, 1)
	if largest != most || calls != (n+most-1)/most || c.Err() != nil {
		t.Errorf("%s: %d calls of up to %d points, want %d of up to %d: %v", group[P](), calls, largest, (n+most-1)/most, most, c.Err())
	}
}
