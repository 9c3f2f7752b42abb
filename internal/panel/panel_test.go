package panel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// fma32 returns x*y + z rounded once. The product of two float32 is exact in
// float64; rounding the sum to odd keeps the second rounding from being led
// astray by the first (Boldo and Melquiond, "Emulation of FMA and correctly
// rounded sums", 2008).
func fma32(x, y, z float32) float32 {
	p, q := float64(x)*float64(y), float64(z)
	s := p + q
	t := s - p
	if e := (p - (s - t)) + (q - t); e != 0 && math.Float64bits(s)&1 == 0 {
		if toward := math.Inf(1); e > 0 {
			s = math.Nextafter(s, toward)
		} else {
			s = math.Nextafter(s, -toward)
		}
	}
	return float32(s)
}

// Whether the reference rounds once is checked on cases worked out by hand.
func TestFMA32(t *testing.T) {
	const u = 1.0 / (1 << 23) // distance from 1 to the next float32
	cases := []struct{ x, y, z, want float32 }{
		{3, 4, 5, 17},
		// (1+u)² = 1+2u+u²: a rounded product would leave nothing.
		{1 + u, 1 + u, -(1 + 2*u), u * u},
		// A little less than half way from 1+u to 1+2u, which float64 would
		// round to half way and float32 then to even, 1+2u.
		{u / 2 * (1 + 1.0/(1<<18)), 1 - 1.0/(1<<18), 1 + u, 1 + u},
	}
	for _, c := range cases {
		if got := fma32(c.x, c.y, c.z); got != c.want {
			t.Errorf("fma32(%g, %g, %g) = %g, want %g", c.x, c.y, c.z, got, c.want)
		}
	}
}

// naive is the chain of operations the package promises, element by element.
func naive(a, b []float32, m, k, n int, start float32, step func(c, x, y float32) float32) []float32 {
	c := make([]float32, m*n)
	for i := range m {
		for j := range n {
			s := start
			for p := range k {
				s = step(s, a[i*k+p], b[p*n+j])
			}
			c[i*n+j] = s
		}
	}
	return c
}

func stepFused(c, x, y float32) float32   { return fma32(x, y, c) }
func stepRounded(c, x, y float32) float32 { return c + float32(x*y) }
func stepMax(c, x, y float32) float32 {
	if s := x + y; s > c {
		return s
	}
	return c
}

// every is all kernels with the chain of operations each must follow.
func every() (cases []struct {
	name  string
	kn    *Kernel
	start float32
	step  func(c, x, y float32) float32
}) {
	add := func(name string, kn *Kernel, start float32, step func(c, x, y float32) float32) {
		cases = append(cases, struct {
			name  string
			kn    *Kernel
			start float32
			step  func(c, x, y float32) float32
		}{name + "/" + kn.Name, kn, start, step})
	}
	for _, kn := range SumProduct() {
		if kn.Fused {
			add("sum", kn, 0, stepFused)
		} else {
			add("sum", kn, 0, stepRounded)
		}
	}
	for _, kn := range MaxPlus() {
		add("max", kn, float32(math.Inf(-1)), stepMax)
	}
	return cases
}

func random(r *rand.Rand, n int) []float32 {
	xs := make([]float32, n)
	for i := range xs {
		xs[i] = r.Float32()*2 - 1
	}
	return xs
}

// noise is scratch that would show if it were read before it is written.
func noise(n int) []float32 {
	xs := make([]float32, n)
	for i := range xs {
		xs[i] = float32(math.NaN())
	}
	return xs
}

// differ describes the first bit that is not the same.
func differ(got, want []float32, n int) string {
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			return fmt.Sprintf("row %d, column %d: %v (%#x), want %v (%#x)", i/n, i%n,
				got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
	return ""
}

// Every kernel follows its chain to the bit, for shapes on both sides of every
// boundary of tiles and blocks.
func TestRowsExact(t *testing.T) {
	shapes := [][3]int{
		{1, 1, 1}, {0, 3, 3}, {3, 0, 5}, {3, 4, 0}, {12, 7, 32}, {13, 8, 33}, {11, 9, 31},
		{8, 5, 64}, {4, 300, 40}, {5, depth, 17}, {7, depth + 1, 95}, {29, 2*depth - 1, 3},
		{height, 3, 32}, {height + 5, depth + 2, 34}, {2, 3, width}, {6, 2, width + 1}, {3, 2, 2*width + 33},
	}
	for _, c := range every() {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			for _, s := range shapes {
				m, k, n := s[0], s[1], s[2]
				a, b, got := random(r, m*k), random(r, k*n), noise(m*n)
				c.kn.Rows(got, a, b, k, n, 0, m, noise(Scratch))
				want := naive(a, b, m, k, n, c.start, c.step)
				if d := differ(got, want, n); d != "" {
					t.Errorf("%d×%d · %d×%d: %s", m, k, k, n, d)
				}
				got = noise(m * n)
				c.kn.PackedRows(got, a, packAll(b, k, n), k, n, 0, m, noise(PackedScratch))
				if d := differ(got, want, n); d != "" {
					t.Errorf("%d×%d · %d×%d packed: %s", m, k, k, n, d)
				}
			}
		})
	}
}

// packAll packs b in two calls, into memory that would show if it were read
// before it is written.
func packAll(b []float32, k, n int) []float32 {
	all := Count(k, n)
	half := all / 2
	to := noise(Start(k, n, all))
	Pack(to[Start(k, n, half):], b, k, n, half, all)
	Pack(to, b, k, n, 0, half)
	return to
}

// However rows are dealt out, the bits are the same and nothing else is
// written.
func TestRowsAnyRanges(t *testing.T) {
	cases := every()
	rapid.Check(t, func(t *rapid.T) {
		c := cases[rapid.IntRange(0, len(cases)-1).Draw(t, "kernel")]
		m := rapid.IntRange(1, 40).Draw(t, "m")
		k := rapid.IntRange(0, 300).Draw(t, "k")
		n := rapid.IntRange(1, 70).Draw(t, "n")
		lo := rapid.IntRange(0, m).Draw(t, "lo")
		hi := rapid.IntRange(lo, m).Draw(t, "hi")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		a, b := random(r, m*k), random(r, k*n)
		want := noise(m * n)
		copy(want[lo*n:hi*n], naive(a, b, m, k, n, c.start, c.step)[lo*n:hi*n])
		got := noise(m * n)
		c.kn.Rows(got, a, b, k, n, lo, hi, noise(Scratch))
		if d := differ(got, want, n); d != "" {
			t.Fatalf("%s: %s", c.name, d)
		}
		got = noise(m * n)
		c.kn.PackedRows(got, a, packAll(b, k, n), k, n, lo, hi, noise(PackedScratch))
		if d := differ(got, want, n); d != "" {
			t.Fatalf("%s, packed: %s", c.name, d)
		}
	})
}

// What a maximum does with infinities, signed zeros and not-a-numbers is the
// same on every path.
func TestMaxPlusSpecial(t *testing.T) {
	inf, nan, zero := float32(math.Inf(1)), float32(math.NaN()), float32(0)
	values := []float32{inf, -inf, nan, zero, -zero, float32(math.Copysign(0, -1)), 1, -1, math.MaxFloat32}
	r := rand.New(rand.NewPCG(3, 4))
	const m, k, n = 25, 7, 67
	a, b := make([]float32, m*k), make([]float32, k*n)
	for _, xs := range [][]float32{a, b} {
		for i := range xs {
			xs[i] = values[r.IntN(len(values))]
		}
	}
	want := naive(a, b, m, k, n, -inf, stepMax)
	for _, kn := range MaxPlus() {
		got := make([]float32, m*n)
		kn.Rows(got, a, b, k, n, 0, m, noise(Scratch))
		if d := differ(got, want, n); d != "" {
			t.Errorf("%s: %s", kn.Name, d)
		}
	}
}

// Tile writes no row beyond the tile it rounds up to, and finds b's rows where
// the offsets say.
func TestTile(t *testing.T) {
	for _, c := range every() {
		for rows := 1; rows <= c.kn.MR; rows++ {
			r := rand.New(rand.NewPCG(5, uint64(rows)))
			const k, lda, ldc = 9, 11, 40
			a, b := random(r, c.kn.MR*lda), random(r, 200)
			off := make([]int32, k)
			for p := range off {
				off[p] = int32(r.IntN(len(b) - c.kn.NR + 1))
			}
			got := random(r, (c.kn.MR+1)*ldc)
			want := append([]float32(nil), got...)
			for i := range rows {
				for j := range c.kn.NR {
					for p, o := range off {
						want[i*ldc+j] = c.step(want[i*ldc+j], a[i*lda+p], b[int(o)+j])
					}
				}
			}
			c.kn.Tile(rows, got, ldc, a, lda, b, off)
			if d := differ(got[:rows*ldc], want[:rows*ldc], ldc); d != "" {
				t.Errorf("%s, %d rows: %s", c.name, rows, d)
			}
			if d := differ(got[c.kn.MR*ldc:], want[c.kn.MR*ldc:], ldc); d != "" {
				t.Errorf("%s, %d rows: beyond the tile: %s", c.name, rows, d)
			}
		}
	}
}

func TestRowsPanics(t *testing.T) {
	ok := func(n int) []float32 { return make([]float32, n) }
	const huge = math.MaxInt / 2
	cases := []struct {
		c, a, b, scratch []float32
		k, n, lo, hi     int
		want             string
	}{
		{ok(5), ok(9), ok(6), ok(Scratch), 3, 2, 0, 3, "c has 5 floats, needs 3 × 2"},
		{ok(6), ok(8), ok(6), ok(Scratch), 3, 2, 0, 3, "a has 8 floats, needs 3 × 3"},
		{ok(6), ok(9), ok(5), ok(Scratch), 3, 2, 0, 3, "b has 5 floats, needs 3 × 2"},
		{ok(6), ok(9), ok(6), ok(9), 3, 2, 0, 3, "scratch has 9 floats"},
		{ok(6), ok(9), ok(6), ok(Scratch), 3, 2, 2, 1, "bad shape"},
		{ok(6), ok(9), ok(6), ok(Scratch), -3, 2, 0, 1, "bad shape"},
		{ok(6), ok(9), ok(6), ok(Scratch), huge, huge, 0, huge, "a has 9 floats"},
	}
	for _, c := range cases {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, c.want) {
					t.Errorf("panic %q, want %q", got, c.want)
				}
			}()
			SumProduct()[0].Rows(c.c, c.a, c.b, c.k, c.n, c.lo, c.hi, c.scratch)
		}()
	}
	for want, call := range map[string]func(){
		"packed b has 95 floats, needs 1 × 96": func() { SumProduct()[0].PackedRows(ok(6), ok(9), ok(95), 3, 2, 0, 3, ok(Scratch)) },
		"needs 1 × 192":                        func() { Pack(ok(191), ok(99), 3, 33, 0, 2) },
		"bad shape":                            func() { Pack(ok(192), ok(99), 3, 33, 0, 3) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("panic %q, want %q", got, want)
				}
			}()
			call()
		}()
	}
}
