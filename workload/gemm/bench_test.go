package gemm

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weft-run/weft/internal/panel"
)

// BenchmarkRows measures every path of one core at the sizes people quote.
func BenchmarkRows(b *testing.B) {
	defer func(was *panel.Kernel) { kernel = was }(kernel)
	for _, kn := range panel.SumProduct() {
		for _, n := range []int{128, 512, 1024} {
			b.Run(fmt.Sprintf("%s/%d", kn.Name, n), func(b *testing.B) {
				kernel = kn
				a, m, c := square(n)
				scratch := make([]float32, scratchFloats)
				best := time.Duration(1 << 62)
				for b.Loop() {
					t0 := time.Now()
					computeRows(c, a, m, n, n, 0, n, scratch)
					best = min(best, time.Since(t0))
				}
				if _, err := checkProduct(c, a, m, n, n, n, 1); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(ops(n, n, n)/float64(best.Nanoseconds()), "best-GFLOP/s")
			})
		}
	}
}

// square returns two random matrices and room for their product.
func square(n int) (a, b, c []float32) {
	r := rand.New(rand.NewPCG(1, 2))
	a, b, c = make([]float32, n*n), make([]float32, n*n), make([]float32, n*n)
	for i := range a {
		a[i], b[i] = r.Float32()-0.5, r.Float32()-0.5
	}
	return a, b, c
}
