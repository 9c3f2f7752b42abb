package reduce

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// fold is a kernel with the function that folds its partial results.
type fold[T float] struct {
	name   string
	blocks func(dst, src []T, lo, hi int)
	finish func([]T) T
}

func folds[T float]() []fold[T] {
	return []fold[T]{
		{"sum", sumBlocks[T], sumOf[T]},
		{"max", maxBlocks[T], maxOf[T]},
		{"min", minBlocks[T], minOf[T]},
	}
}

// run folds a vector in one part.
func (f fold[T]) run(x []T) T {
	partial := make([]T, blocksOf(len(x)))
	f.blocks(partial, x, 0, len(partial))
	return f.finish(partial)
}

// everyKernel runs a test with each kernel this machine has.
func everyKernel(t *testing.T, test func(t *testing.T)) {
	had := wide
	defer func() { wide = had }()
	for _, wide = range []bool{false, had} {
		t.Run(fmt.Sprintf("wide=%v", wide), test)
	}
}

func normal[T float](n int, seed uint64) []T {
	r := rand.New(rand.NewPCG(seed, 3))
	x := make([]T, n)
	for i := range x {
		x[i] = T(r.NormFloat64() * math.Exp(4*r.NormFloat64()))
	}
	return x
}

var sizes = []int{1, 2, 3, 4, 5, 31, 32, 33, 63, 64, 65, Block - 1, Block, Block + 1, 3*Block + 7, 17 * Block, 100_003}

// Sums of integers small enough to be exact equal the sum in integers.
func TestIntegersAreExact(t *testing.T) {
	everyKernel(t, integersAreExact[float32])
	everyKernel(t, integersAreExact[float64])
}

func integersAreExact[T float](t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range sizes {
		x := make([]T, n)
		var sum, most, least int64 = 0, math.MinInt64, math.MaxInt64
		for i := range x {
			v := r.Int64N(17) - 8
			x[i] = T(v)
			sum, most, least = sum+v, max(most, v), min(least, v)
		}
		for i, want := range []int64{sum, most, least} {
			if got := folds[T]()[i].run(x); got != T(want) {
				t.Errorf("%s of %d integers is %v, want %d", folds[T]()[i].name, n, got, want)
			}
		}
		partial := make([]T, blocksOf(n))
		sumBlocks(partial, x, 0, len(partial))
		if got := averageOf(partial, n); got != T(sum)/T(n) {
			t.Errorf("average of %d integers is %v, want %v", n, got, T(sum)/T(n))
		}
	}
}

// Sums stay within the bound for a sum in any order, 4 eps sqrt(n) times the
// sum of magnitudes, of the sum in 300 bits.
func TestAgainstBigFloat(t *testing.T) {
	everyKernel(t, func(t *testing.T) { againstBigFloat[float32](t, 1.0/(1<<24)) })
	everyKernel(t, func(t *testing.T) { againstBigFloat[float64](t, 1.0/(1<<53)) })
}

func againstBigFloat[T float](t *testing.T, eps float64) {
	for _, n := range sizes {
		x := normal[T](n, uint64(n))
		exact := new(big.Float).SetPrec(300)
		var magnitude float64
		for _, v := range x {
			exact.Add(exact, big.NewFloat(float64(v)))
			magnitude += math.Abs(float64(v))
		}
		want, _ := exact.Float64()
		got := float64(folds[T]()[0].run(x))
		if math.Abs(got-want) > 4*eps*math.Sqrt(float64(n))*magnitude {
			t.Errorf("sum of %d is %v, want %v", n, got, want)
		}
		if most := folds[T]()[1].run(x); most != slices.Max(x) {
			t.Errorf("max of %d is %v, want %v", n, most, slices.Max(x))
		}
		if least := folds[T]()[2].run(x); least != slices.Min(x) {
			t.Errorf("min of %d is %v, want %v", n, least, slices.Min(x))
		}
	}
}

// The order of additions is the documented one, within blocks of 4096 elements
// and between them.
func TestSumOrder(t *testing.T) { everyKernel(t, sumOrder) }

func sumOrder(t *testing.T) {
	for _, n := range []int{1, 31, 32, 100, 4096, 4097, 5*4096 + 50, 8 * 4096} {
		x := normal[float32](n, 8)
		var sums []float32
		for begin := 0; begin < n; begin += 4096 {
			var lane [32]float32
			for i, v := range x[begin:min(begin+4096, n)] {
				lane[i%32] += v
			}
			for _, half := range []int{16, 8, 4, 2, 1} {
				for l := range half {
					lane[l] += lane[l+half]
				}
			}
			sums = append(sums, lane[0])
		}
		for len(sums) > 1 {
			var next []float32
			for ; len(sums) >= 2; sums = sums[2:] {
				next = append(next, sums[0]+sums[1])
			}
			sums = append(next, sums...)
		}
		if got := folds[float32]()[0].run(x); got != sums[0] {
			t.Errorf("%d elements: %v, want %v", n, got, sums[0])
		}
	}
}

// Any cut at blocks gives the same bits, with each part in its own memory.
func TestCutsDoNotChangeResult(t *testing.T) {
	everyKernel(t, cutsDoNotChangeResult[float32])
	everyKernel(t, cutsDoNotChangeResult[float64])
}

func cutsDoNotChangeResult[T float](t *testing.T) {
	for _, n := range sizes {
		x := normal[T](n, uint64(2*n))
		for _, f := range folds[T]() {
			want := f.run(x)
			for parts := 1; parts <= 8; parts++ {
				begin := cutBlocks(n, parts)
				var partial []T
				for p := range parts {
					own := slices.Clone(x[min(begin[p]*Block, n):min(begin[p+1]*Block, n)])
					out := make([]T, begin[p+1]-begin[p])
					f.blocks(out, own, 0, len(out))
					partial = append(partial, out...)
				}
				if got := f.finish(partial); math.Float64bits(float64(got)) != math.Float64bits(float64(want)) {
					t.Errorf("%s of %d in %d parts: %v, want %v", f.name, n, parts, got, want)
				}
			}
		}
	}
}

// Special values do not depend on where they stand.
func TestSpecialValues(t *testing.T) { everyKernel(t, specialValues) }

func specialValues(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	negative := math.Copysign(0, -1)
	for _, c := range []struct {
		values         []float64
		sum, most, low float64
	}{
		{[]float64{1, inf, 2}, inf, inf, 1},
		{[]float64{-inf, inf}, nan, inf, -inf},
		{[]float64{1, nan, inf}, nan, nan, nan},
		{[]float64{negative, 0, negative}, 0, 0, negative},
	} {
		for shift := range c.values {
			x := make([]float64, 2*Block)
			for i := range x {
				x[i] = c.values[0]
			}
			copy(x[Block-1:], append(slices.Clone(c.values[shift:]), c.values[:shift]...))
			if c.values[0] == 1 && !math.IsNaN(c.sum) && !math.IsInf(c.sum, 0) {
				t.Fatal("the filling would change the sum")
			}
			for i, want := range []float64{c.sum, c.most, c.low} {
				f := folds[float64]()[i]
				if got := f.run(x); math.Float64bits(got) != math.Float64bits(want) && !(math.IsNaN(got) && math.IsNaN(want)) {
					t.Errorf("%s of %v from %d on is %v, want %v", f.name, c.values, shift, got, want)
				}
			}
		}
	}
	if sumOf([]float64{}) != 0 {
		t.Error("the sum of nothing is not zero")
	}
	// Different NaNs give one NaN, whichever comes first.
	a, b := math.Float64frombits(0x7ff8000000000001), math.Float64frombits(0xfff8000000000002)
	f := folds[float64]()[1]
	if x, y := f.run([]float64{a, b}), f.run([]float64{b, a}); math.Float64bits(x) != math.Float64bits(y) {
		t.Errorf("the NaN depends on the order: %x and %x", math.Float64bits(x), math.Float64bits(y))
	}
}

// A sum or average that is infinite or no number is right only where elements can have made it so.
func TestCheckSum(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		x            []float32
		op           string
		right, wrong []float32
	}{
		{[]float32{3e38, 3e38, -1}, "sum", []float32{inf}, []float32{-inf, nan, 0, 3e38}},
		{[]float32{-3e38, -3e38, 1}, "sum", []float32{-inf}, []float32{inf, nan, 0, -3e38}},
		{[]float32{-3e38, -3e38, 3e38, 3e38}, "sum", []float32{-inf, inf, nan, 0, 1e32}, []float32{1e34}},
		{[]float32{3e38, 3e38}, "average", []float32{inf, 3e38}, []float32{-inf, nan, 1e38}},
		{[]float32{3e38, -1e38}, "sum", []float32{2e38}, []float32{inf, -inf, nan, 0}},
		{[]float32{1, 2}, "average", []float32{1.5}, []float32{inf, nan, 1.501, 3}},
	} {
		for _, got := range c.right {
			if err := (&job{c: Config{Op: c.op, N: len(c.x)}, x: c.x}).declare().checkSum(got, 8); err != nil {
				t.Error(err)
			}
		}
		for _, got := range c.wrong {
			if err := (&job{c: Config{Op: c.op, N: len(c.x)}, x: c.x}).declare().checkSum(got, 8); !errors.Is(err, errWrong) {
				t.Errorf("%s of %v: %v passes: %v", c.op, c.x, got, err)
			}
		}
	}
}

func TestKernelsDoNotAllocate(t *testing.T) { everyKernel(t, kernelsDoNotAllocate) }

func kernelsDoNotAllocate(t *testing.T) {
	x, partial := normal[float32](3*Block, 1), make([]float32, 3)
	for _, f := range folds[float32]() {
		if n := testing.AllocsPerRun(10, func() { f.blocks(partial, x, 0, 3); f.finish(partial) }); n != 0 {
			t.Errorf("%s: %v allocations", f.name, n)
		}
	}
}

func BenchmarkFold(b *testing.B) {
	b.Run("float32", bench[float32])
	b.Run("float64", bench[float64])
}

func bench[T float](b *testing.B) {
	const n = 1 << 24
	x, partial := normal[T](n, 1), make([]T, blocksOf(n))
	size := 4
	if _, ok := any(T(0)).(float64); ok {
		size = 8
	}
	had := wide
	defer func() { wide = had }()
	for _, f := range folds[T]() {
		for _, wide = range []bool{false, had} {
			b.Run(fmt.Sprintf("%s/wide=%v/n=%d", f.name, wide, n), func(b *testing.B) {
				b.SetBytes(int64(n * size))
				for range b.N {
					f.blocks(partial, x, 0, len(partial))
					f.finish(partial)
				}
			})
		}
	}
}
