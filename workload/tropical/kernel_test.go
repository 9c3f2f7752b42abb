package tropical

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weft-run/weft/internal/panel"
)

var none = float32(math.Inf(-1)) // no edge, no path

// paths runs a test on every kernel this machine has.
func paths(t *testing.T, test func(t *testing.T)) {
	was := kernel
	defer func() { kernel = was }()
	for _, kn := range panel.MaxPlus() {
		kernel = kn
		t.Run(kn.Name, test)
	}
}

// naive is the definition.
func naive(a, b []float32, m, k, n int) []float32 {
	c := make([]float32, m*n)
	for i := range m {
		for j := range n {
			best := none
			for p := range k {
				if s := a[i*k+p] + b[p*n+j]; s > best {
					best = s
				}
			}
			c[i*n+j] = best
		}
	}
	return c
}

// sparse returns n numbers in [-1, 1), a third of them -Inf.
func sparse(r *rand.Rand, n int) []float32 {
	xs := make([]float32, n)
	for i := range xs {
		xs[i] = r.Float32()*2 - 1
		if r.IntN(3) == 0 {
			xs[i] = none
		}
	}
	return xs
}

func equal(t interface {
	Helper()
	Fatalf(string, ...any)
}, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("element %d is %v, want %v", i, got[i], want[i])
		}
	}
}

// Any shape, dealt out in any two ranges, has the bits of the definition.
func TestRows(t *testing.T) {
	paths(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			m := rapid.IntRange(1, 40).Draw(t, "m")
			k := rapid.IntRange(0, 300).Draw(t, "k")
			n := rapid.IntRange(1, 70).Draw(t, "n")
			cut := rapid.IntRange(0, m).Draw(t, "cut")
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			a, b, c := sparse(r, m*k), sparse(r, k*n), make([]float32, m*n)
			scratch := make([]float32, scratchFloats)
			computeRows(c, a, b, k, n, cut, m, scratch)
			computeRows(c, a, b, k, n, 0, cut, scratch)
			equal(t, c, naive(a, b, m, k, n))
		})
	})
}

// Squaring the negated weights of a graph until nothing changes gives what
// Floyd and Warshall's algorithm gives. Whole weights make all sums exact.
func TestShortestPaths(t *testing.T) {
	paths(t, func(t *testing.T) {
		const n = 75
		r := rand.New(rand.NewPCG(7, 8))
		d := make([]float32, n*n) // negated lengths
		for i := range d {
			d[i] = none
			if r.IntN(12) == 0 {
				d[i] = -float32(1 + r.IntN(1000))
			}
		}
		for i := range n {
			d[i*n+i] = 0
		}
		want := make([]int, n*n)
		const far = 1 << 40
		for i, x := range d {
			want[i] = far
			if x != none {
				want[i] = int(-x)
			}
		}
		for via := range n {
			for i := range n {
				for j := range n {
					want[i*n+j] = min(want[i*n+j], want[i*n+via]+want[via*n+j])
				}
			}
		}
		next, scratch := make([]float32, n*n), make([]float32, scratchFloats)
		for hops := 1; hops < n; hops *= 2 {
			computeRows(next, d, d, n, n, 0, n, scratch)
			d, next = next, d
		}
		for i, w := range want {
			if (w >= far && d[i] != none) || (w < far && d[i] != -float32(w)) {
				t.Fatalf("from %d to %d: %v, want %d", i/n, i%n, -d[i], w)
			}
		}
	})
}

// The score of a hidden Markov model's best path is found by trying them all.
func TestViterbi(t *testing.T) {
	paths(t, func(t *testing.T) {
		const states, length = 4, 6
		r := rand.New(rand.NewPCG(9, 10))
		weight := make([][]float32, length) // of a step from state to state
		for s := range weight {
			weight[s] = make([]float32, states*states)
			for i := range weight[s] {
				weight[s][i] = -float32(r.IntN(50))
			}
		}
		score, next := make([]float32, states), make([]float32, states)
		scratch := make([]float32, scratchFloats)
		for _, w := range weight {
			computeRows(next, score, w, states, states, 0, 1, scratch)
			score, next = next, score
		}
		var best func(step, state int) float32
		best = func(step, state int) float32 {
			if step == 0 {
				return 0
			}
			top := none
			for from := range states {
				top = max(top, best(step-1, from)+weight[step-1][from*states+state])
			}
			return top
		}
		for state, got := range score {
			if want := best(length, state); got != want {
				t.Errorf("best path to state %d scores %v, want %v", state, got, want)
			}
		}
	})
}

func TestRowsAllocates(t *testing.T) {
	paths(t, func(t *testing.T) {
		const n = 40
		a, c, scratch := make([]float32, n*n), make([]float32, n*n), make([]float32, scratchFloats)
		if allocs := testing.AllocsPerRun(10, func() { computeRows(c, a, a, n, n, 0, n, scratch) }); allocs != 0 {
			t.Errorf("%v allocations a call", allocs)
		}
	})
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
	// The longest way in two steps through a graph of three places.
	none := float32(math.Inf(-1))
	step := []float32{
		none, 2, 7,
		none, none, 4,
		1, none, none,
	}
	two := make([]float32, 9)
	computeRows(two, step, step, 3, 3, 0, 3, make([]float32, scratchFloats))
	fmt.Println(two[0:3])
	fmt.Println(two[3:6])
	fmt.Println(two[6:9])
	// Output:
	// [8 -Inf 6]
	// [5 -Inf -Inf]
	// [-Inf 3 8]
}

// BenchmarkRows measures every path of one core.
func BenchmarkRows(b *testing.B) {
	defer func(was *panel.Kernel) { kernel = was }(kernel)
	for _, kn := range panel.MaxPlus() {
		for _, n := range []int{128, 1024} {
			b.Run(fmt.Sprintf("%s/%d", kn.Name, n), func(b *testing.B) {
				kernel = kn
				r := rand.New(rand.NewPCG(1, 2))
				x, y, c := sparse(r, n*n), sparse(r, n*n), make([]float32, n*n)
				scratch := make([]float32, scratchFloats)
				best := time.Duration(1 << 62)
				for b.Loop() {
					t0 := time.Now()
					computeRows(c, x, y, n, n, 0, n, scratch)
					best = min(best, time.Since(t0))
				}
				i := r.IntN(n) // all rows would take longer than the benchmark
				equal(b, c[i*n:][:n], naive(x[i*n:], y, 1, n, n))
				b.ReportMetric(ops(n, n, n)/float64(best.Nanoseconds()), "best-Gop/s")
			})
		}
	}
}
