package workload_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/autodiff"
	"github.com/weft-run/weft/workload/clifford"
	"github.com/weft-run/weft/workload/enumerative"
	graphs "github.com/weft-run/weft/workload/network"
	"github.com/weft-run/weft/workload/relativity"
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
	testNormalizeRange(t, rt)
}

// testNormalizeRange normalizes multivectors of every size that float32 has, those of subnormal numbers too, of which
// some have numbers of very different sizes. Norms are those of float64, which has room for all.
func testNormalizeRange(t *testing.T, rt *weft.Runtime) {
	r := rand.New(rand.NewPCG(9, 1))
	for _, pq := range [][2]int{{3, 0}, {1, 3}, {0, 1}, {3, 3}} {
		a, err := clifford.NewAlgebra(pq[0], pq[1])
		if err != nil {
			t.Fatal(err)
		}
		n := a.Size()
		var x []float32
		for exponent := -149; exponent <= 127; exponent++ {
			for k := range n {
				v := math.Ldexp(1+r.Float64(), exponent)
				switch {
				case k > 0 && exponent%3 == 0:
					v = math.Ldexp(v, -r.IntN(30))
				case r.IntN(2) == 0:
					v = -v
				}
				x = append(x, float32(max(min(v, math.MaxFloat32), -math.MaxFloat32)))
			}
		}
		x = append(x, make([]float32, n)...) // of norm zero
		got, err := clifford.Normalize(t.Context(), rt, a, x)
		if err != nil {
			t.Fatal(err)
		}
		m := make([]float64, n)
		for i := 0; i < len(x); i += n {
			length := 0.
			for k := range m {
				m[k] = float64(x[i+k])
				length += m[k] * m[k]
			}
			norm2 := math.Abs(a.Norm2(m))
			if length > 0 && norm2 < length/10 { // whose rounding shows
				continue
			}
			for k, v := range m {
				if norm2 > 0 {
					v /= math.Sqrt(norm2)
				}
				if !(math.Abs(float64(got[i+k])-v) <= 1e-4*math.Abs(v)+0x1p-126) {
					t.Fatalf("%v, normalized %v: %v of %s, want %v", a, x[i:i+n], got[i+k], a.Blade(k), v)
				}
			}
		}
	}
}

// testRelativity compares calls with what is known of orbits and boosts.
func testRelativity(t *testing.T, rt *weft.Runtime) {
	var particles []relativity.Particle
	var want []float64
	for i := range 70 {
		p, e := 12+float64(i), float64(1+i%7)/10
		start, err := relativity.Periapsis(p, e, 2048)
		if err != nil {
			t.Fatal(err)
		}
		angle, err := relativity.Precession(p, e)
		if err != nil {
			t.Fatal(err)
		}
		particles, want = append(particles, start), append(want, 2*math.Pi+angle)
	}
	for _, c := range []relativity.Config{{Steps: 2048}, {Steps: 1 << 15, Tolerance: 1e-12}} {
		orbits, err := relativity.Follow(t.Context(), rt, particles, c)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range orbits {
			if !(math.Abs(o.Angle-want[i]) <= 2e-8) || o.FellIn || o.Turns != 1 {
				t.Errorf("orbit %d ends at angle %v, want %v: %+v", i, o.Angle, want[i], o)
			}
		}
	}
	x := []float64{1, 0.6, 0, 0, 5, 3, 0, 4}
	boosted, err := relativity.Boost(t.Context(), rt, x, []float64{0.6, 0, 0, 0.6, 0, 0})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range []float64{0.8, 0, 0, 0, 4, 0, 0, 4} {
		if math.Abs(boosted[i]-v) > 1e-14 {
			t.Errorf("coordinate %d is %v, want %v", i, boosted[i], v)
		}
	}
	if p, err := relativity.Minkowski(t.Context(), rt, x, x); err != nil || math.Abs(p[0]-0.64) > 1e-15 || math.Abs(p[1]) > 1e-14 {
		t.Errorf("products %v, %v", p, err)
	}
	testHeadOn(t, rt)
}

// testHeadOn sends light nearly straight at a black hole: it is followed to near the horizon at radius 2, in about
// half of the impact parameter as angle.
func testHeadOn(t *testing.T, rt *weft.Runtime) {
	impacts := []float64{5e-324, 1e-300, 1e-20, 1e-3}
	rays, err := relativity.Bend(t.Context(), rt, impacts, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rays {
		if !r.Captured || !(r.Closest > 2 && r.Closest < 2.1) || math.Abs(r.Deflection+math.Pi-impacts[i]/r.Closest) > 1e-9 {
			t.Errorf("impact parameter %v: %+v", impacts[i], r)
		}
	}
}

// Ranks of a circle are equal, features of a complete graph are the mean of all, and the middle
// of a path is its medoid and has the highest closeness.
func testNetwork(t *testing.T, rt *weft.Runtime) {
	const n = 101
	of := func(format string, edge func(i, j int) bool) *graphs.Graph {
		var text strings.Builder
		for i := range n {
			for j := range n {
				if edge(i, j) {
					fmt.Fprintf(&text, format, i, j)
				}
			}
		}
		g, err := graphs.Read(strings.NewReader(text.String()), graphs.Edges, "")
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	ranks, err := graphs.Rank(t.Context(), rt, of("%d %d 2.5\n", func(i, j int) bool { return j == (i+1)%n }), graphs.Config{})
	for i, r := range ranks {
		if math.Abs(r-1./n) > 1e-12 {
			t.Fatalf("rank %d on a circle is %v, want %v", i, r, 1./n)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	one := workload.Matrix{Rows: n, Cols: 2, Data: make([]float32, 2*n)}
	one.Data[6], one.Data[7] = n, -n
	same := workload.Matrix{Rows: 2, Cols: 2, Data: []float32{1, 0, 0, 1}}
	got, err := graphs.Convolve(t.Context(), rt, of("%d %d\n", func(i, j int) bool { return i < j }), one, same)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if math.Abs(float64(got.At(i, 0))-1) > 1e-5 || got.At(i, 1) != 0 {
			t.Fatalf("features of node %d are %v and %v, want 1 and 0", i, got.At(i, 0), got.At(i, 1))
		}
	}
	path := of("%d %d\n", func(i, j int) bool { return j == i+1 })
	closeness, err := graphs.Close(t.Context(), rt, path)
	if err != nil {
		t.Fatal(err)
	}
	if middle := float64(closeness[n/2]); math.Abs(middle-100./2550) > 1e-7 || slices.Max(closeness) != closeness[n/2] {
		t.Errorf("closeness in the middle of a path is %v", middle)
	}
	medoids, labels, err := graphs.Cluster(t.Context(), rt, path, graphs.Config{K: 1})
	if err != nil || medoids[0] != n/2 || slices.Max(labels) != 0 {
		t.Errorf("medoids %v of a path, labels %v: %v", medoids, labels, err)
	}
}

// testAutodiff compares calls with derivatives by hand.
func testAutodiff(t *testing.T, rt *weft.Runtime) {
	f, err := autodiff.Parse("sin(x*y) + exp(z); x^3/z; log(y)*sqrt(x) - tanh(z)")
	if err != nil {
		t.Fatal(err)
	}
	const n = 301
	r := rand.New(rand.NewPCG(5, 6))
	points := make([]float64, 3*n)
	for i := range points {
		points[i] = 0.1 + 3*r.Float64()
	}
	values, jacobians, err := autodiff.Jacobian(t.Context(), rt, f, points)
	if err != nil {
		t.Fatal(err)
	}
	_, along, err := autodiff.Along(t.Context(), rt, f, [][]float64{{1, -2, 0.5}, {0, 0, 0}}, points)
	if err != nil {
		t.Fatal(err)
	}
	testFunctions(t, rt)
	for i := range n {
		x, y, z := points[3*i], points[3*i+1], points[3*i+2]
		want := []float64{
			y * math.Cos(x*y), x * math.Cos(x*y), math.Exp(z),
			3 * x * x / z, 0, -x * x * x / (z * z),
			math.Log(y) / (2 * math.Sqrt(x)), math.Sqrt(x) / y, -1 / (math.Cosh(z) * math.Cosh(z)),
		}
		near := func(what string, got, want float64) {
			if !(math.Abs(got-want) <= 1e-13*max(1, math.Abs(want))) {
				t.Fatalf("%s at %v, %v, %v is %v, want %v", what, x, y, z, got, want)
			}
		}
		near("a value", values[3*i], math.Sin(x*y)+math.Exp(z))
		for k, w := range want {
			near("a derivative", jacobians[9*i+k], w)
		}
		for o := range 3 {
			near("a derivative along a direction", along[6*i+2*o], want[3*o]-2*want[3*o+1]+0.5*want[3*o+2])
			near("a derivative along nothing", along[6*i+2*o+1], 0)
		}
	}
}

// testFunctions compares functions with those of package math, at arguments of any size.
func testFunctions(t *testing.T, rt *weft.Runtime) {
	f, err := autodiff.Parse("sin(x); cos(x); tan(x); exp(x); log(x); sqrt(x); asin(x); acos(x); atan(x); sinh(x); cosh(x); tanh(x)")
	if err != nil {
		t.Fatal(err)
	}
	points := []float64{0, 1, -1, 0.5, 709, -709, 710, -740, -746, 1e-310, 5e-324, 0x1p20, math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN(), 6381956970095103 * 0x1p797}
	r := rand.New(rand.NewPCG(7, 8))
	for e := -1020; e < 1020; e++ {
		points = append(points, math.Ldexp(1+r.Float64(), e), -math.Ldexp(1+r.Float64(), e/64))
	}
	values, _, err := autodiff.Jacobian(t.Context(), rt, f, points)
	if err != nil {
		t.Fatal(err)
	}
	of := []func(float64) float64{math.Sin, math.Cos, math.Tan, math.Exp, math.Log, math.Sqrt, math.Asin, math.Acos, math.Atan, math.Sinh, math.Cosh, math.Tanh}
	for i, x := range points {
		for k, v := range values[i*len(of) : (i+1)*len(of)] {
			want := of[k](x)
			ulp := math.Nextafter(math.Abs(want), math.Inf(1)) - math.Abs(want)
			switch { // what package math does not know
			case k < 3 && math.Abs(x) > 1<<29:
				ulp += 0x1p-54 * (1 + want*want*float64(k/2))
			case k == 4 && x > 0 && x < 0x1p-1022:
				want = math.Log(x*0x1p54) - 54*math.Ln2
			case k >= 9 && math.Abs(x) > 709.75:
				continue
			}
			if v != want && !(math.Abs(v-want) <= 6*ulp) && !(math.IsNaN(v) && math.IsNaN(want)) && !(math.Abs(want) < 0x1p-1020 && math.Abs(v) < 0x1p-1020) {
				t.Errorf("function %d of %v is %v, want %v", k, x, v, want)
			}
		}
	}
}
