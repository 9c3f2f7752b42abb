package workload_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/conv"
	"github.com/weft-run/weft/workload/fisher"
	"github.com/weft-run/weft/workload/fusion"
	"github.com/weft-run/weft/workload/landscape"
	"github.com/weft-run/weft/workload/reduce"
)

// layers have every ability alone and several together: dilation with and without a common
// divisor of the stride, more phases than results, groups down to one channel, unequal
// padding, and so few images that filters are dealt out.
var layers = []conv.Layer{
	{Shape: conv.Shape{N: 3, C: 5, H: 9, W: 11, K: 7, R: 3, S: 2, Stride: 1, Pad: 1}},
	{Shape: conv.Shape{N: 1, C: 3, H: 7, W: 9, K: 150, R: 3, S: 3, Stride: 1}},
	{Shape: conv.Shape{N: 2, C: 3, H: 5, W: 6, K: 101, R: 2, S: 2, Stride: 1}},
	{Shape: conv.Shape{N: 2, C: 4, H: 17, W: 13, K: 6, R: 3, S: 3, Stride: 1, Pad: 2}, Dilation: 2},
	{Shape: conv.Shape{N: 2, C: 2, H: 23, W: 20, K: 3, R: 3, S: 2, Stride: 2}, Dilation: 3},
	{Shape: conv.Shape{N: 1, C: 2, H: 30, W: 25, K: 3, R: 2, S: 3, Stride: 4}, Dilation: 6},
	{Shape: conv.Shape{N: 1, C: 2, H: 19, W: 40, K: 3, R: 3, S: 1, Stride: 3}, Dilation: 9},
	{Shape: conv.Shape{N: 2, C: 1, H: 4, W: 5, K: 2, R: 1, S: 1, Stride: 1}, Dilation: 100},
	{Shape: conv.Shape{N: 3, C: 6, H: 8, W: 7, K: 9, R: 3, S: 3, Stride: 1, Pad: 1}, Groups: 3},
	{Shape: conv.Shape{N: 2, C: 5, H: 8, W: 7, K: 5, R: 3, S: 3, Stride: 2, Pad: 1}, Groups: 5},
	{Shape: conv.Shape{N: 1, C: 4, H: 6, W: 6, K: 160, R: 3, S: 3, Stride: 1, Pad: 1}, Groups: 2},
	{Shape: conv.Shape{N: 2, C: 3, H: 6, W: 8, K: 4, R: 4, S: 4, Stride: 1}, Top: 3, Right: 1},
	{Shape: conv.Shape{N: 2, C: 3, H: 5, W: 5, K: 4, R: 2, S: 2, Stride: 2, Pad: 1}, Bottom: 7, Left: 2},
	{Shape: conv.Shape{N: 2, C: 4, H: 11, W: 14, K: 8, R: 3, S: 3, Stride: 2, Pad: 1}, Dilation: 3, Groups: 2, Top: 1, Bottom: 2, Left: 3, Right: 4},
	{Shape: conv.Shape{N: 1, C: 2, H: 3, W: 2, K: 2, R: 2, S: 2, Stride: 1}, Dilation: 2, Groups: 2, Right: 5},
}

func testConv(t *testing.T, rt *weft.Runtime) {
	for i, l := range layers {
		groups, dilation := max(l.Groups, 1), max(l.Dilation, 1)
		channels, filters := l.C/groups, l.K/groups
		x, w := random(l.N, l.C*l.H*l.W, uint64(i)).Data, random(l.K, channels*l.R*l.S, uint64(i)+50).Data
		if i%3 == 2 {
			x[len(x)/2] = float32(math.Inf(1)) // a number that dilation skips makes nothing wrong
		}
		got, err := conv.Of(t.Context(), rt, x, w, l)
		if err != nil {
			t.Fatalf("%+v: %v", l, err)
		}
		p, q := l.Out()
		if len(got) != l.N*l.K*p*q {
			t.Fatalf("%+v: %d numbers, want %d × %d × %d × %d", l, len(got), l.N, l.K, p, q)
		}
		for at, v := range got {
			n, k, y, z := at/(l.K*p*q), at/(p*q)%l.K, at/q%p, at%q
			want, within := 0.0, 0.0
			for term := range channels * l.R * l.S {
				c, r, s := term/(l.R*l.S), term/l.S%l.R, term%l.S
				h, v := y*l.Stride+r*dilation-l.Pad-l.Top, z*l.Stride+s*dilation-l.Pad-l.Left
				if h >= 0 && h < l.H && v >= 0 && v < l.W {
					product := float64(x[((n*l.C+k/filters*channels+c)*l.H+h)*l.W+v]) * float64(w[k*channels*l.R*l.S+term])
					want, within = want+product, within+math.Abs(product)*0x1p-23*float64(channels*l.R*l.S)
				}
			}
			if float64(v) != want && !(math.Abs(float64(v)-want) <= within) && (v == v || want == want) {
				t.Fatalf("%+v: (%d, %d, %d, %d) is %v, want %v", l, n, k, y, z, v, want)
			}
		}
	}
}

func testFisher(t *testing.T, rt *weft.Runtime) {
	for seed, size := range [][2]int{{1, 1}, {3, 2}, {7, 5}, {9, 1}, {1003, 37}} {
		n, d := size[0], size[1]
		x, model := random(n, d, uint64(seed)).Data, random(1, d, uint64(seed)+50).Data
		want := make([]float64, d*d)
		for i := range n {
			z := 0.0
			for k := range d {
				z += float64(x[i*d+k]) * float64(model[k])
			}
			p := 1 / (1 + math.Exp(-z))
			for r := range d {
				for c := range d {
					want[r*d+c] += p * (1 - p) * float64(x[i*d+r]) * float64(x[i*d+c]) / float64(n)
				}
			}
		}
		got, err := fisher.Of(t.Context(), rt, x, model)
		if err != nil || len(got) != d*d {
			t.Fatalf("%v: %d entries, %v", size, len(got), err)
		}
		for i := range got {
			if !(math.Abs(got[i]-want[i]) <= 1e-12) {
				t.Fatalf("%v: entry %d is %v, want %v", size, i, got[i], want[i])
			}
		}
	}
	got, err := fisher.Of(t.Context(), rt, []float32{1, 2, float32(math.NaN()), 4}, []float32{1, 1})
	if err != nil || slices.ContainsFunc(got, func(x float64) bool { return x == x }) {
		t.Errorf("of a point that is not a number: %v, %v", got, err)
	}
}

func testReduce(t *testing.T, rt *weft.Runtime) {
	for _, n := range []int{1, 2, 33, 4096, 4097, 300_001} {
		xs := random(1, n, uint64(n)).Data
		sum, size := 0.0, 0.0
		for _, x := range xs {
			sum, size = sum+float64(x), size+math.Abs(float64(x))
		}
		for op, want := range map[string]float64{
			"sum": sum, "average": sum / float64(n), "max": float64(slices.Max(xs)), "min": float64(slices.Min(xs)),
		} {
			within := 0.0
			switch op {
			case "sum":
				within = size * 0x1p-15 // 2⁻²³ for each of some 200 roundings
			case "average":
				within = size * 0x1p-15 / float64(n)
			}
			got, err := reduce.Of(t.Context(), rt, op, xs)
			if err != nil || !(math.Abs(float64(got)-want) <= within) {
				t.Errorf("%s of %d: %v, want %v ± %.2g: %v", op, n, got, want, within, err)
			}
		}
		xs[n/2] = float32(math.NaN())
		for _, op := range reduce.Operations() {
			if got, err := reduce.Of(t.Context(), rt, op, xs); err != nil || got == got {
				t.Errorf("%s of %d with one that is not a number: %v, %v", op, n, got, err)
			}
		}
	}
	if got, err := reduce.Of(t.Context(), rt, "sum", nil); got != 0 || err != nil {
		t.Errorf("the sum of nothing: %v, %v", got, err)
	}
}

// chain is a chain of beads 3.8 angstrom apart that never comes near itself.
func chain(n int, seed uint64) (xyz []float64) {
	r := rand.New(rand.NewPCG(seed, 9))
	var at [3]float64
	for range n {
		xyz = append(xyz, at[:]...)
		turn := 2 * math.Pi * r.Float64()
		at[0] += 3.2
		at[1] += 2 * math.Cos(turn)
		at[2] += 2 * math.Sin(turn)
	}
	return xyz
}

func testLandscape(t *testing.T, rt *weft.Runtime) {
	for seed, n := range []int{4, 5, 13, 41} {
		native := chain(n, uint64(seed))
		got, err := landscape.Of(t.Context(), rt, native)
		if err != nil || len(got) != (n-2)*landscape.Angles {
			t.Fatalf("%d beads: %d energies, %v", n, len(got), err)
		}
		model, err := landscape.NewModel(native)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(got); i += 97 {
			row, angle := i/landscape.Angles, 2*math.Pi*float64(i%landscape.Angles)/landscape.Angles
			want := model.Energy(model.Turned(row, angle))
			if !(math.Abs(got[i]-want) <= 1e-7*max(1, math.Abs(want))) {
				t.Fatalf("%d beads: row %d at %v is %v, want %v", n, row, angle, got[i], want)
			}
		}
	}
}

func testFusion(t *testing.T, rt *weft.Runtime) {
	rotor := fusion.Rotor(0.7, [3]float64{0.6, 0, 0.8})
	w := &fusion.Weights{Sandwich: fusion.Sandwich(rotor)}
	for i, x := range random(1, 64+16, 3).Data {
		switch {
		case i < 64:
			w.Tropical[i] = x
		case i < 72:
			w.Scale[i-64] = x
		default:
			w.Shift[i-72] = x
		}
	}
	back := rotor
	for k := 4; k < 8; k++ {
		back[k] = -back[k]
	}
	for _, n := range []int{1, 2, 65, 1003} {
		for _, bound := range []bool{false, true} {
			in := random(n, fusion.Floats, uint64(n)).Data
			out, err := fusion.Of(t.Context(), rt, in, w, fusion.Config{Bind: bound})
			if err != nil || len(out) != len(in) {
				t.Fatalf("%d records: %d numbers, %v", n, len(out), err)
			}
			for r := range n {
				x := in[r*fusion.Floats:][:fusion.Floats]
				want := staged(x, w, rotor, back)
				if bound {
					want = bind(want, x)
				}
				for k, v := range want {
					if got := float64(out[r*fusion.Floats+k]); !(math.Abs(got-v) <= 1e-5) {
						t.Fatalf("%d records, bound: %v: number %d of record %d is %v, want %v", n, bound, k, r, got, v)
					}
				}
			}
		}
	}
}

// staged takes a record through the stages in float64.
func staged(x []float32, w *fusion.Weights, rotor, back [8]float64) (out [fusion.Floats]float64) {
	var c [8]float64
	for i := range 8 {
		out[i] = math.Inf(-1)
		for j := range 8 {
			out[i] = max(out[i], float64(w.Tropical[8*i+j])+float64(x[j]))
		}
		g := float64(w.Scale[i])
		v := math.Tanh(g*float64(x[8+i]) + float64(w.Shift[i]))
		out[8+i], out[16+i] = v, (1-v*v)*g*float64(x[16+i])
		c[i] = float64(x[24+i])
	}
	c = fusion.Product(fusion.Product(rotor, c), back)
	copy(out[24:], c[:])
	return out
}

// bind binds a record with what it was before the stages, in float64.
func bind(a [fusion.Floats]float64, x []float32) (out [fusion.Floats]float64) {
	var p, q [8]float64
	for i := range 8 {
		out[i] = a[i] + float64(x[i])
		out[8+i] = a[8+i] * float64(x[8+i])
		out[16+i] = a[8+i]*float64(x[16+i]) + a[16+i]*float64(x[8+i])
		p[i], q[i] = a[24+i], float64(x[24+i])
	}
	p = fusion.Product(p, q)
	copy(out[24:], p[:])
	return out
}
