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
// rounding are not. Infinities are right where terms of their sign add up to more than float32 has, and elsewhere wrong.
func TestDot(t *testing.T) {
	for name, entry := range map[string]func(r *rand.Rand) float32{
		"random":   func(r *rand.Rand) float32 { return 2*r.Float32() - 1 },
		"positive": func(r *rand.Rand) float32 { return r.Float32() },
		"equal":    func(*rand.Rand) float32 { return 0.1 },
		"small":    func(r *rand.Rand) float32 { return 1e-22 * r.Float32() },
		"large":    func(r *rand.Rand) float32 { return 2e18 * (2*r.Float32() - 1) },
		"largest":  func(r *rand.Rand) float32 { return 4e19 * (r.Float32() - 0.1) },
	} {
		r := rand.New(rand.NewPCG(1, 2))
		for n := 1; n < 5000; n += 1 + n/7 {
			a, b := make([]float32, n), make([]float32, n)
			for i := range a {
				a[i], b[i] = entry(r), entry(r)
			}
			sum := Dot(a, b)
			for i, got := range sums(a, b) {
				if !sum.Is(got) {
					t.Fatalf("%s, %d terms, order %d: %v, want %+v", name, n, i, got, sum)
				}
			}
			above, below := 0., 0.
			for i := range a {
				t := float64(a[i]) * float64(b[i])
				above, below = above+max(t, 0), below+max(-t, 0)
			}
			if wrong := float32(sum.Want + (above+below)/50); sum.Is(wrong) && wrong > 1e-30 && !math.IsInf(float64(wrong), 0) {
				t.Fatalf("%s, %d terms: %v passes for %+v", name, n, wrong, sum)
			}
			up, down, nan := above > math.MaxFloat32, below > math.MaxFloat32, float32(math.NaN())
			inf := float32(math.Inf(1))
			if up = up || above > math.MaxFloat32*0.999 && sum.Is(inf); sum.Is(inf) != up {
				t.Fatalf("%s, %d terms: +Inf passes: %v, with %v and %v", name, n, !up, above, below)
			}
			if down = down || below > math.MaxFloat32*0.999 && sum.Is(-inf); sum.Is(-inf) != down || sum.Is(nan) != (up && down) {
				t.Fatalf("%s, %d terms: -Inf passes: %v, NaN: %v, with %v and %v", name, n, sum.Is(-inf), sum.Is(nan), above, below)
			}
		}
	}
}

// What is not finite agrees with itself only, but for a sum that overflows on the way to it.
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
	for _, c := range []struct {
		a, b         []float32
		right, wrong []float32
	}{
		{[]float32{3e38, 3e38}, []float32{2, -2}, []float32{float32(nan), float32(inf), float32(-inf), 0}, []float32{1e38}},
		{[]float32{3e38, 3e38}, []float32{1, -0.5}, []float32{1.5e38}, []float32{float32(nan), float32(inf), float32(-inf), 0}},
		{[]float32{float32(inf), 3e38}, []float32{1, -2}, []float32{float32(inf), float32(nan)}, []float32{float32(-inf), 0}},
		{[]float32{float32(inf), 3e38}, []float32{1, 2}, []float32{float32(inf)}, []float32{float32(-inf), float32(nan), 3e38}},
		{[]float32{float32(inf), 1}, []float32{0, 2}, []float32{float32(nan)}, []float32{float32(inf), 2}},
		{[]float32{float32(inf), 3e38}, []float32{-1, 2}, []float32{float32(-inf), float32(nan)}, []float32{float32(inf), 0}},
	} {
		for _, got := range c.right {
			if s := Dot(c.a, c.b); !s.Is(got) {
				t.Errorf("%v · %v is %v, and that is taken for wrong: %+v", c.a, c.b, got, s)
			}
		}
		for _, got := range c.wrong {
			if s := Dot(c.a, c.b); s.Is(got) {
				t.Errorf("%v · %v is not %v, and that is taken for right: %+v", c.a, c.b, got, s)
			}
		}
	}
}
