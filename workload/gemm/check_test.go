package gemm

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// operands are matrices with entries by a function, and their product.
func operands(m, k, n int, entry func(r *rand.Rand) float32) (a, b, c []float32) {
	r := rand.New(rand.NewPCG(7, 8))
	a, b, c = make([]float32, m*k), make([]float32, k*n), make([]float32, m*n)
	for _, xs := range [][]float32{a, b} {
		for i := range xs {
			xs[i] = entry(r)
		}
	}
	computeRows(c, a, b, k, n, 0, m, make([]float32, scratchFloats))
	return a, b, c
}

// Products pass whatever their operands are: so small that products vanish, so large
// that sums overflow, alike so that their errors are too, of very different sizes,
// and not numbers.
func TestCheckNeverCriesWolf(t *testing.T) {
	const m, k, n = 70, 300, 130
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	sometimes := func(odds int, x float32) func(r *rand.Rand) float32 {
		return func(r *rand.Rand) float32 {
			if r.IntN(odds) == 0 {
				return x
			}
			return r.Float32() - 0.5
		}
	}
	for name, entry := range map[string]func(r *rand.Rand) float32{
		"1e-25":          func(r *rand.Rand) float32 { return 1e-25 * (r.Float32() - 0.5) },
		"denormal":       func(r *rand.Rand) float32 { return 1e-42 * r.Float32() },
		"1e20":           func(r *rand.Rand) float32 { return 1e20 * (r.Float32() - 0.5) },
		"largest":        func(*rand.Rand) float32 { return math.MaxFloat32 },
		"equal":          func(*rand.Rand) float32 { return 0.1 },
		"positive":       func(r *rand.Rand) float32 { return r.Float32() },
		"of all sizes":   func(r *rand.Rand) float32 { return float32(math.Exp(40*r.Float64()-20)) * (r.Float32() - 0.5) },
		"zero":           func(*rand.Rand) float32 { return 0 },
		"seldom large":   sometimes(1000, 1e6),
		"seldom a NaN":   sometimes(2000, nan),
		"seldom without": sometimes(2000, inf),
	} {
		a, b, c := operands(m, k, n, entry)
		for seed := range uint64(5) {
			if _, err := checkProduct(c, a, b, m, k, n, seed); err != nil {
				t.Errorf("%s, seed %d: %v", name, seed, err)
			}
		}
		c[5*n+7]++
		if c[5*n+7] += 1e7; name == "1e-25" || name == "zero" || name == "positive" {
			if _, err := checkProduct(c, a, b, m, k, n, 1); !errors.Is(err, errWrong) {
				t.Errorf("%s: a wrong element: %v", name, err)
			}
		}
	}
}

// One element that is off by what Check says shows, in any place and for any seed; a
// NaN and an infinity show too.
func TestCheckFindsOne(t *testing.T) {
	const m, k, n = 90, 400, 170
	a, b, c := operands(m, k, n, func(r *rand.Rand) float32 { return 2*r.Float32() - 1 })
	above, err := checkProduct(c, a, b, m, k, n, 0)
	if err != nil {
		t.Fatal(err)
	}
	if typical := math.Sqrt(k) / 3; !(above > 0 && above < 1e-3*typical) {
		t.Errorf("an error may be %g, of elements about %.1f", above, typical)
	}
	r := rand.New(rand.NewPCG(9, 9))
	seeds := uint64(300)
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		i, off := r.IntN(m*n), float32(above*(1+r.Float64()))
		was := c[i]
		switch c[i] += off; seed % 10 {
		case 1:
			c[i] = was - off
		case 2:
			c[i] = float32(math.NaN())
		case 3:
			c[i] = float32(math.Inf(-1))
		}
		if _, err := checkProduct(c, a, b, m, k, n, seed); !errors.Is(err, errWrong) {
			t.Fatalf("element %d is %v instead of %v, and the check says %v", i, c[i], was, err)
		}
		c[i] = was
	}
}

// A tile, a row or a column of something else, swapped and repeated rows show.
func TestCheckFindsMany(t *testing.T) {
	const m, k, n = 90, 100, 170
	a, b, c := operands(m, k, n, func(r *rand.Rand) float32 { return 2*r.Float32() - 1 })
	r := rand.New(rand.NewPCG(9, 10))
	for seed := range uint64(300) {
		bad := append([]float32(nil), c...)
		i, j := r.IntN(m-8), r.IntN(n-8)
		switch seed % 6 {
		case 0: // a tile of another place
			for y := range 8 {
				copy(bad[(i+y)*n+j:][:8], c[(m-1-i-y)*n+j/2:])
			}
		case 1:
			clear(bad[i*n:][:n])
		case 2:
			for y := range m {
				bad[y*n+j] = 0
			}
		case 3:
			copy(bad[i*n:][:n], c[(i+1)*n:])
		case 4:
			bad[i*n+j], bad[i*n+j+1] = bad[i*n+j+1], bad[i*n+j]
		case 5:
			bad[i*n+j] += 0.5
			bad[i*n+j+1] -= 0.5
		}
		if _, err := checkProduct(bad, a, b, m, k, n, seed); !errors.Is(err, errWrong) {
			t.Fatalf("fault %d at (%d, %d): %v", seed%6, i, j, err)
		}
	}
}
