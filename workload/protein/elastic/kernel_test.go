package elastic

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Kernels of all widths give the same bits.
func TestWide(t *testing.T) {
	was := use
	defer func() { use = was }()
	r := rand.New(rand.NewPCG(1, 2))
	for _, rows := range []int{8, 16, 24, 64} {
		for _, count := range []int{1, 2, 7, 33} {
			v, w, h := make([]float64, rows*count), make([]float64, rows), make([]float64, count)
			for _, x := range [][]float64{v, w, h} {
				for i := range x {
					x[i] = r.NormFloat64()
				}
			}
			var sums, rest []float64
			for _, use = range sets() {
				out, left := make([]float64, count), slices.Clone(w)
				dots(out, v, w)
				subtract(left, v, h)
				if sums == nil {
					sums, rest = out, left
				} else if !slices.Equal(out, sums) || !slices.Equal(left, rest) {
					t.Errorf("%d vectors of %d rows: kernel %v gives other bits than Go", count, rows, use)
				}
			}
		}
	}
}

// BenchmarkProject is what dominates a long run: a block of rows of 600 vectors.
func BenchmarkProject(b *testing.B) {
	const rows, count = 16, 600
	v, w, h := make([]float64, rows*count), make([]float64, rows), make([]float64, count)
	was := use
	defer func() { use = was }()
	for _, set := range sets() {
		b.Run(map[int]string{0: "go", 1: "avx2", 2: "avx512"}[int(set)], func(b *testing.B) {
			use = set
			for b.Loop() {
				subtract(w, v, h)
				dots(h, v, w)
			}
			b.ReportMetric(4*rows*count*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

// sets returns the kernels that this machine has, Go's first.
func sets() []kernelSet {
	var out []kernelSet
	for k := scalar; k <= best; k++ {
		out = append(out, k)
	}
	return out
}
