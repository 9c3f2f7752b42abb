package conv

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weft-run/weft/internal/panel"
)

// paths runs a test on every kernel this machine has.
func paths(t *testing.T, test func(t *testing.T)) {
	was := kernel
	defer func() { kernel = was }()
	for _, kn := range panel.SumProduct() {
		kernel = kn
		t.Run(kn.Name, test)
	}
}

func random(r *rand.Rand, n int) []float32 {
	xs := make([]float32, n)
	for i := range xs {
		xs[i] = r.Float32()*2 - 1
	}
	return xs
}

// noise would show if it were read before it is written.
func noise(n int) []float32 {
	xs := make([]float32, n)
	for i := range xs {
		xs[i] = float32(math.NaN())
	}
	return xs
}

// layer returns random images and filters, and the size of the output.
func layer(r *rand.Rand, s Shape) (x, w []float32, size int) {
	p, q := s.Out()
	return random(r, s.N*s.C*s.H*s.W), random(r, s.K*s.C*s.R*s.S), s.N * s.K * p * q
}

// drawShape draws a layer around every corner: strides beyond the filter,
// padding beyond it, filters of one row.
func drawShape(t *rapid.T) Shape {
	size := func(name string, hi int) int { return rapid.IntRange(1, hi).Draw(t, name) }
	s := Shape{N: size("N", 3), C: size("C", 6), H: size("H", 40), W: size("W", 40), K: size("K", 30),
		R: size("R", 7), S: size("S", 7), Stride: size("stride", 4), Pad: rapid.IntRange(0, 8).Draw(t, "pad")}
	s.R, s.S = min(s.R, s.H+2*s.Pad), min(s.S, s.W+2*s.Pad)
	return s
}

// drawRange draws part of a layer's output.
func drawRange(t *rapid.T, s Shape) extent {
	sub := func(name string, n int) (lo, hi int) {
		lo = rapid.IntRange(0, n).Draw(t, name+"0")
		return lo, rapid.IntRange(lo, n).Draw(t, name+"1")
	}
	var a extent
	p, _ := s.Out()
	a.N0, a.N1 = sub("N", s.N)
	a.K0, a.K1 = sub("K", s.K)
	a.P0, a.P1 = sub("P", p)
	return a
}

// Any part of any layer agrees with the definition within what rounding allows,
// and nothing outside the part is written.
func TestPartReference(t *testing.T) {
	paths(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			s := drawShape(t)
			if err := s.Validate(); err != nil {
				t.Fatal(err)
			}
			part := drawRange(t, s)
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			x, w, size := layer(r, s)
			y, want := noise(size), make([]float64, size)
			for i := range want {
				want[i] = math.NaN()
			}
			computePart(y, x, w, s, part, noise(scratchFloats(s)))
			reference(want, x, w, s, part)
			terms := float64(s.C * s.R * s.S)
			for i := range y {
				if math.IsNaN(want[i]) {
					if !math.IsNaN(float64(y[i])) {
						t.Fatalf("%+v %+v: element %d is outside and was written", s, part, i)
					}
				} else if d := math.Abs(float64(y[i]) - want[i]); !(d <= 4*0x1p-23*math.Sqrt(terms)*terms) {
					t.Fatalf("%+v %+v: element %d is %v, want %v", s, part, i, y[i], want[i])
				}
			}
		})
	})
}

// Whole numbers give the exact result on every path, also when an image is cut
// into several bands and a sum into several calls.
func TestPartIntegers(t *testing.T) {
	shapes := []Shape{
		{N: 2, C: 64, H: 56, W: 56, K: 3, R: 3, S: 3, Stride: 1, Pad: 1},
		{N: 1, C: 3, H: 224, W: 224, K: 5, R: 7, S: 7, Stride: 2, Pad: 3},
		{N: 1, C: 600, H: 7, W: 7, K: 13, R: 3, S: 3, Stride: 1, Pad: 1}, // 5400 terms
		{N: 1, C: 5000, H: 2, W: 30, K: 2, R: 1, S: 1, Stride: 1},        // a band of one row
	}
	paths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, s := range shapes {
			x, w, size := layer(r, s)
			for _, xs := range [][]float32{x, w} {
				for i := range xs {
					xs[i] = float32(math.Round(float64(8 * xs[i])))
				}
			}
			y, want := noise(size), make([]float64, size)
			computePart(y, x, w, s, s.All(), noise(scratchFloats(s)))
			reference(want, x, w, s, s.All())
			for i := range y {
				if float64(y[i]) != want[i] {
					t.Fatalf("%+v: element %d is %v, want %v", s, i, y[i], want[i])
				}
			}
		}
	})
}

// Output dealt out in any way has the bits of one call for all of it.
func TestPartClassR(t *testing.T) {
	paths(t, func(t *testing.T) {
		s := Shape{N: 3, C: 40, H: 61, W: 47, K: 29, R: 3, S: 5, Stride: 1, Pad: 2}
		if testing.Short() { // one goroutine computes, and slowly so under the race detector
			s.C, s.H, s.W, s.K = 7, 23, 19, 11
		}
		r := rand.New(rand.NewPCG(3, 4))
		x, w, size := layer(r, s)
		p, _ := s.Out()
		scratch := noise(scratchFloats(s))
		whole := noise(size)
		computePart(whole, x, w, s, s.All(), scratch)
		for devices := 2; devices <= 5; devices++ {
			cut := func(d, n int) (lo, hi int) { return d * n / devices, (d + 1) * n / devices }
			for split, narrow := range map[string]func(a *extent, d int){
				"images":   func(a *extent, d int) { a.N0, a.N1 = cut(d, s.N) },
				"channels": func(a *extent, d int) { a.K0, a.K1 = cut(d, s.K) },
				"rows":     func(a *extent, d int) { a.P0, a.P1 = cut(d, p) },
			} {
				parts := noise(size)
				for d := range devices {
					a := s.All()
					narrow(&a, d)
					computePart(parts, x, w, s, a, scratch)
				}
				for i := range whole {
					if math.Float32bits(whole[i]) != math.Float32bits(parts[i]) {
						t.Fatalf("%d ranges of %s: element %d is %v, in one call %v", devices, split, i, parts[i], whole[i])
					}
				}
			}
		}
	})
}

// The vector paths agree in every bit, as the package says.
func TestFusedPathsAgree(t *testing.T) {
	was := kernel
	defer func() { kernel = was }()
	s := Shape{N: 1, C: 17, H: 30, W: 31, K: 19, R: 3, S: 3, Stride: 2, Pad: 1}
	x, w, size := layer(rand.New(rand.NewPCG(5, 6)), s)
	var first []float32
	for _, kn := range panel.SumProduct() {
		if !kn.Fused {
			continue
		}
		kernel = kn
		y := noise(size)
		computePart(y, x, w, s, s.All(), noise(scratchFloats(s)))
		if first == nil {
			first = y
		}
		for i := range y {
			if math.Float32bits(y[i]) != math.Float32bits(first[i]) {
				t.Fatalf("%s: element %d is %v, elsewhere %v", kn.Name, i, y[i], first[i])
			}
		}
	}
}

func TestPartAllocates(t *testing.T) {
	paths(t, func(t *testing.T) {
		s := Shape{N: 1, C: 4, H: 9, W: 9, K: 5, R: 3, S: 3, Stride: 2, Pad: 1}
		x, w, size := layer(rand.New(rand.NewPCG(7, 8)), s)
		y, scratch := make([]float32, size), make([]float32, scratchFloats(s))
		if n := testing.AllocsPerRun(10, func() { computePart(y, x, w, s, s.All(), scratch) }); n != 0 {
			t.Errorf("%v allocations a call", n)
		}
	})
}

func TestValidate(t *testing.T) {
	good := Shape{N: 1, C: 2, H: 3, W: 4, K: 5, R: 3, S: 3, Stride: 1, Pad: 1}
	cases := []struct {
		change func(s *Shape)
		want   string
	}{
		{func(s *Shape) { s.N = 0 }, "every size"},
		{func(s *Shape) { s.Stride = 0 }, "every size"},
		{func(s *Shape) { s.Pad = -1 }, "negative"},
		{func(s *Shape) { s.Pad = math.MaxInt }, "too large"},
		{func(s *Shape) { s.R, s.Pad = 4, 0 }, "larger than the padded image"},
		{func(s *Shape) { s.S = 7 }, "larger than the padded image"},
		{func(s *Shape) { s.C, s.H = 1<<16, 1<<16 }, "too large"},
	}
	if err := good.Validate(); err != nil {
		t.Errorf("%+v: %v", good, err)
	}
	for _, c := range cases {
		s := good
		c.change(&s)
		if err := s.Validate(); !errors.Is(err, ErrShape) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", s, err, c.want)
		}
	}
}

func TestPartPanics(t *testing.T) {
	s := Shape{N: 1, C: 2, H: 3, W: 4, K: 5, R: 3, S: 3, Stride: 1, Pad: 1}
	x, w, size := layer(rand.New(rand.NewPCG(9, 10)), s)
	y, scratch := make([]float32, size), make([]float32, scratchFloats(s))
	beyond := s.All()
	beyond.P1++
	for want, call := range map[string]func(){
		"x has 23 floats, needs 24":    func() { computePart(y, x[1:], w, s, s.All(), scratch) },
		"w has 89 floats, needs 90":    func() { computePart(y, x, w[1:], s, s.All(), scratch) },
		"y has 59 floats, needs 60":    func() { computePart(y[1:], x, w, s, s.All(), scratch) },
		"scratch has":                  func() { computePart(y, x, w, s, s.All(), scratch[1:]) },
		"reaches beyond the output":    func() { computePart(y, x, w, s, beyond, scratch) },
		"every size and the stride mu": func() { computePart(y, x, w, Shape{}, s.All(), scratch) },
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

func TestCost(t *testing.T) {
	s := Shape{N: 2, C: 3, H: 8, W: 9, K: 5, R: 3, S: 2, Stride: 2, Pad: 1}
	if p, q := s.Out(); p != 4 || q != 5 {
		t.Errorf("Out = %d, %d", p, q)
	}
	if got := ops(s); got != 2*2*5*4*5*3*3*2 {
		t.Errorf("Ops = %v", got)
	}
	if got := traffic(s); got != 4*(2*3*8*9+5*3*3*2+2*5*4*5) {
		t.Errorf("Bytes = %v", got)
	}
}

// A 3 × 3 box filter over a 4 × 4 image: each output counts its neighbours.
func TestBox(t *testing.T) {
	s := Shape{N: 1, C: 1, H: 4, W: 4, K: 1, R: 3, S: 3, Stride: 1, Pad: 1}
	x := []float32{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
	w := []float32{1, 1, 1, 1, 1, 1, 1, 1, 1}
	y := make([]float32, 16)
	computePart(y, x, w, s, s.All(), make([]float32, scratchFloats(s)))
	if want := []float32{4, 6, 6, 4, 6, 9, 9, 6, 6, 9, 9, 6, 4, 6, 6, 4}; !slices.Equal(y, want) {
		t.Errorf("got %v, want %v", y, want)
	}
}

// BenchmarkPart measures layers of ResNet-50 and every path on the first, on one
// core.
func BenchmarkPart(b *testing.B) {
	defer func(was *panel.Kernel) { kernel = was }(kernel)
	shapes := []Shape{
		{N: 1, C: 64, H: 56, W: 56, K: 64, R: 3, S: 3, Stride: 1, Pad: 1},
		{N: 1, C: 256, H: 14, W: 14, K: 256, R: 3, S: 3, Stride: 1, Pad: 1},
		{N: 1, C: 128, H: 56, W: 56, K: 128, R: 3, S: 3, Stride: 2, Pad: 1},
		{N: 1, C: 256, H: 56, W: 56, K: 64, R: 1, S: 1, Stride: 1},
		{N: 1, C: 3, H: 224, W: 224, K: 64, R: 7, S: 7, Stride: 2, Pad: 3},
	}
	run := func(kn *panel.Kernel, s Shape) {
		b.Run(fmt.Sprintf("%s/%dx%d-%d-%d-%d-s%d", kn.Name, s.R, s.S, s.C, s.K, s.H, s.Stride), func(b *testing.B) {
			kernel = kn
			x, w, size := layer(rand.New(rand.NewPCG(1, 2)), s)
			y, want, scratch := make([]float32, size), make([]float64, size), make([]float32, scratchFloats(s))
			best := time.Duration(1 << 62)
			for b.Loop() {
				t0 := time.Now()
				computePart(y, x, w, s, s.All(), scratch)
				best = min(best, time.Since(t0))
			}
			row := extent{0, 1, 0, s.K, 3, 4} // all of it would take longer than the benchmark
			reference(want, x, w, s, row)
			for i, v := range want {
				if v != 0 && math.Abs(v-float64(y[i])) > 1e-3 {
					b.Fatalf("element %d is %v, want %v", i, y[i], v)
				}
			}
			b.ReportMetric(ops(s)/float64(best.Nanoseconds()), "best-GFLOP/s")
		})
	}
	for i, kn := range panel.SumProduct() {
		for j, s := range shapes {
			if i == 0 || j == 0 {
				run(kn, s)
			}
		}
	}
}
