package gemm

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
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

// Integers from -8 to 8 multiply exactly on every path.
func TestRowsIntegers(t *testing.T) {
	paths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, s := range [][3]int{{1, 1, 1}, {7, 5, 3}, {33, 65, 127}, {100, 1000, 50}, {257, 259, 261}} {
			m, k, n := s[0], s[1], s[2]
			a, b := make([]float32, m*k), make([]float32, k*n)
			for _, xs := range [][]float32{a, b} {
				for i := range xs {
					xs[i] = float32(r.IntN(17) - 8)
				}
			}
			c := make([]float32, m*n)
			computeRows(c, a, b, k, n, 0, m, make([]float32, scratchFloats))
			for i := range m {
				for j := range n {
					want := 0
					for p := range k {
						want += int(a[i*k+p]) * int(b[p*n+j])
					}
					if c[i*n+j] != float32(want) {
						t.Fatalf("%v: c[%d,%d] = %v, want %d", s, i, j, c[i*n+j], want)
					}
				}
			}
		}
	})
}

// Any shape agrees with the float64 reference and with gonum within what
// rounding allows.
func TestRowsReference(t *testing.T) {
	paths(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			m := rapid.IntRange(1, 50).Draw(t, "m")
			k := rapid.IntRange(1, 600).Draw(t, "k")
			n := rapid.IntRange(1, 100).Draw(t, "n")
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			a, b := random(r, m*k), random(r, k*n)
			c, exact := make([]float32, m*n), make([]float64, m*n)
			computeRows(c, a, b, k, n, 0, m, make([]float32, scratchFloats))
			reference(exact, a, b, k, n, 0, m)
			peer := blas32.General{Rows: m, Cols: n, Stride: n, Data: make([]float32, m*n)}
			blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, blas32.General{Rows: m, Cols: k, Stride: k, Data: a},
				blas32.General{Rows: k, Cols: n, Stride: n, Data: b}, 0, peer)
			for i := range c {
				terms := 0.0
				for p := range k {
					terms += math.Abs(float64(a[i/n*k+p]) * float64(b[p*n+i%n]))
				}
				limit := 4 * 0x1p-23 * math.Sqrt(float64(k)) * terms
				if d := math.Abs(float64(c[i]) - exact[i]); !(d <= limit) {
					t.Fatalf("element %d: %v, reference %v: off by %g, allowed %g", i, c[i], exact[i], d, limit)
				}
				if d := math.Abs(float64(c[i]) - float64(peer.Data[i])); !(d <= 2*limit) {
					t.Fatalf("element %d: %v, gonum %v: off by %g, allowed %g", i, c[i], peer.Data[i], d, 2*limit)
				}
			}
		})
	})
}

// computeRows dealt out in any way have the bits of one call for all of them.
func TestRowsClassR(t *testing.T) {
	paths(t, func(t *testing.T) {
		const m, k, n = 101, 530, 77
		r := rand.New(rand.NewPCG(3, 4))
		a, b := random(r, m*k), random(r, k*n)
		scratch := make([]float32, scratchFloats)
		whole, parts := make([]float32, m*n), make([]float32, m*n)
		computeRows(whole, a, b, k, n, 0, m, scratch)
		for devices := 2; devices <= m; devices += 7 {
			clear(parts)
			for d := range devices {
				computeRows(parts, a, b, k, n, d*m/devices, (d+1)*m/devices, scratch)
			}
			for i := range whole {
				if math.Float32bits(whole[i]) != math.Float32bits(parts[i]) {
					t.Fatalf("%d parts: element %d is %v, in one call %v", devices, i, parts[i], whole[i])
				}
			}
		}
	})
}

func TestRowsAllocates(t *testing.T) {
	paths(t, func(t *testing.T) {
		a, b, c := square(40)
		scratch := make([]float32, scratchFloats)
		if n := testing.AllocsPerRun(10, func() { computeRows(c, a, b, 40, 40, 0, 40, scratch) }); n != 0 {
			t.Errorf("%v allocations a call", n)
		}
	})
}

// A product passes; one with a single element off by little, swapped rows or a
// NaN does not.
func TestCheck(t *testing.T) {
	const m, k, n = 61, 200, 97
	r := rand.New(rand.NewPCG(5, 6))
	a, b, c := random(r, m*k), random(r, k*n), make([]float32, m*n)
	computeRows(c, a, b, k, n, 0, m, make([]float32, scratchFloats))
	for seed := range uint64(50) {
		if _, err := checkProduct(c, a, b, m, k, n, seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	damage := map[string]func(c []float32){
		"one element": func(c []float32) { c[31*n+5] += 1e-3 },
		"last":        func(c []float32) { c[m*n-1] -= 1e-3 },
		"everything": func(c []float32) {
			for i := range c {
				c[i] *= 1.0001
			}
		},
		"cancelling": func(c []float32) { c[9] += 0.5; c[10] -= 0.5 },
		"swapped": func(c []float32) {
			for j := range n {
				c[j], c[n+j] = c[n+j], c[j]
			}
		},
		"not a number": func(c []float32) { c[77] = float32(math.NaN()) },
		"stale row":    func(c []float32) { clear(c[40*n : 41*n]) },
	}
	for name, hurt := range damage {
		bad := append([]float32(nil), c...)
		hurt(bad)
		if _, err := checkProduct(bad, a, b, m, k, n, 1); !errors.Is(err, errWrong) {
			t.Errorf("%s: %v, want ErrWrong", name, err)
		}
	}
}

func TestCost(t *testing.T) {
	if got := ops(2, 3, 5); got != 60 {
		t.Errorf("Ops = %v", got)
	}
	if got := traffic(2, 3, 5); got != 4*(6+15+10) {
		t.Errorf("Bytes = %v", got)
	}
}

func ExampleRows() {
	a := []float32{1, 2, 3, 4} // 2 × 2
	b := []float32{5, 6, 7, 8}
	c := make([]float32, 4)
	scratch := make([]float32, scratchFloats)
	computeRows(c, a, b, 2, 2, 0, 1, scratch) // one device
	computeRows(c, a, b, 2, 2, 1, 2, scratch) // another
	fmt.Println(c)
	// Output: [19 22 43 50]
}
