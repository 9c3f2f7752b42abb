package rounding

import (
	"math"
	"math/rand/v2"
	"testing"
)

// sums are a few orders in which devices add up: one chain, blocks of terms, and
// interleaved chains.
func sums(a, b []float32) (out []float32) {
	var chain float32
	for i := range a {
		chain = float32(float64(chain) + float64(a[i])*float64(b[i]))
	}
	var blocks, block float32
	for i := range a {
		if block += float32(a[i] * b[i]); i%256 == 255 {
			blocks, block = blocks+block, 0
		}
	}
	var lanes [8]float32
	for i := range a {
		lanes[i%8] += float32(a[i] * b[i])
	}
	tree := (lanes[0] + lanes[4] + (lanes[2] + lanes[6])) + (lanes[1] + lanes[5] + (lanes[3] + lanes[7]))
	return append(out, chain, blocks+block, tree)
}

// Sums in any usual order are within what is allowed; errors of a few hundred times the
// rounding are not.
func TestDot(t *testing.T) {
	for name, entry := range map[string]func(r *rand.Rand) float32{
		"random":   func(r *rand.Rand) float32 { return 2*r.Float32() - 1 },
		"positive": func(r *rand.Rand) float32 { return r.Float32() },
		"equal":    func(*rand.Rand) float32 { return 0.1 },
		"small":    func(r *rand.Rand) float32 { return 1e-22 * r.Float32() },
	} {
		r := rand.New(rand.NewPCG(1, 2))
		for n := 1; n < 5000; n += 1 + n/7 {
			a, b := make([]float32, n), make([]float32, n)
			for i := range a {
				a[i], b[i] = entry(r), entry(r)
			}
			want, within := Dot(a, b)
			for i, got := range sums(a, b) {
				if !Same(got, want, within) {
					t.Fatalf("%s, %d terms, order %d: %v, want %v ± %v", name, n, i, got, want, within)
				}
			}
			size := 0.0
			for i := range a {
				size += math.Abs(float64(a[i]) * float64(b[i]))
			}
			if wrong := float32(want + size/50); Same(wrong, want, within) && wrong > 1e-30 {
				t.Fatalf("%s, %d terms: %v passes for %v ± %v", name, n, wrong, want, within)
			}
		}
	}
}

// What is not finite agrees with itself only, and what overflows with anything.
func TestSame(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		got          float32
		want, within float64
		same         bool
	}{
		{1, 1, 0, true}, {1, 1.5, 0.5, true}, {1, 1.6, 0.5, false},
		{float32(nan), nan, 0, true}, {1, nan, 0, false}, {float32(nan), 1, 1, false},
		{float32(inf), inf, 0, true}, {float32(-inf), inf, 0, false}, {1, inf, 0, false}, {float32(inf), 1, 1, false},
		{float32(nan), 1e300, inf, true}, {float32(inf), 1e300, inf, true},
	} {
		if Same(c.got, c.want, c.within) != c.same {
			t.Errorf("%v and %v ± %v: same is %v", c.got, c.want, c.within, !c.same)
		}
	}
	if _, within := Dot([]float32{3e38, 3e38}, []float32{2, -2}); !math.IsInf(within, 1) {
		t.Errorf("a sum that overflows may be off by %v", within)
	}
}
