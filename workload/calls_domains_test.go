package workload_test

import (
	"math"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/clifford"
	"github.com/weft-run/weft/workload/enumerative"
)

// testEnumerative counts lines, of which formulas are known.
func testEnumerative(t *testing.T, rt *weft.Runtime) {
	for n, want := range map[int]string{4: "27", 5: "2875", 6: "698005"} {
		got, err := enumerative.Of(t.Context(), rt, enumerative.Config{Problem: enumerative.Hypersurface, K: 2, N: n})
		if err != nil || got.String() != want {
			t.Errorf("lines in dimension %d: %v, %v, want %s", n-1, got, err, want)
		}
	}
	for _, c := range []struct{ k, n int }{{3, 6}, {5, 15}} {
		got, err := enumerative.Of(t.Context(), rt, enumerative.Config{Problem: enumerative.Degree, K: c.k, N: c.n})
		if err != nil || got.Cmp(enumerative.DegreeOf(c.k, c.n)) != 0 {
			t.Errorf("degree of Gr(%d,%d): %v, %v", c.k, c.n, got, err)
		}
	}
}

// testClifford compares calls with the algebra's own products, in float64.
func testClifford(t *testing.T, rt *weft.Runtime) {
	for seed, s := range [][2]int{{3, 0}, {1, 3}, {4, 1}, {0, 1}, {2, 2}, {5, 1}} {
		a, err := clifford.NewAlgebra(s[0], s[1])
		if err != nil {
			t.Fatal(err)
		}
		const count = 301
		n := a.Size()
		x, y := random(count, n, uint64(seed)).Data, random(count, n, uint64(seed+100)).Data
		rotor := make([]float64, n)
		for i := range rotor {
			rotor[i] = float64(y[i]) / 4
		}
		products, err := clifford.Mul(t.Context(), rt, a, x, y)
		if err != nil {
			t.Fatal(err)
		}
		turned, err := clifford.Turn(t.Context(), rt, a, rotor, x)
		if err != nil {
			t.Fatal(err)
		}
		normal, err := clifford.Normalize(t.Context(), rt, a, x)
		if err != nil {
			t.Fatal(err)
		}
		left, right, want := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := 0; i < len(x); i += n {
			for k := range n {
				left[k], right[k] = float64(x[i+k]), float64(y[i+k])
			}
			near := func(what string, got []float32, within float64) {
				for k, v := range want {
					if !(math.Abs(float64(got[i+k])-v) <= within) {
						t.Fatalf("%v, %s %d: %v of %s, want %v", a, what, i/n, got[i+k], a.Blade(k), v)
					}
				}
			}
			a.Product(want, left, right)
			near("product", products, 1e-4)
			a.Sandwich(want, rotor, left)
			near("turned", turned, 1e-3)
			norm2 := math.Abs(a.Norm2(left))
			if norm2 < 0.1 {
				continue
			}
			for k, v := range left {
				want[k] = v / math.Sqrt(norm2)
			}
			near("normalized", normal, 1e-3)
		}
	}
}
