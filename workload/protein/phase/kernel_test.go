package phase

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/internal/simd"
)

// Kernels of all widths give the same bits.
func TestWide(t *testing.T) {
	was := use
	defer func() { use = was }()
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{8, 16, 104} {
		for count := 1; count <= together; count++ {
			a, b := make([]float64, 2*n), make([]float64, 2*n*count)
			for _, x := range [][]float64{a, b} {
				for i := range x {
					x[i] = r.NormFloat64()
				}
			}
			var want []float64
			for _, use = range simd.Sets() {
				out := make([]float64, 2*count)
				product(out, a, b)
				if want == nil {
					want = out
				} else if !slices.Equal(out, want) {
					t.Errorf("%d rows of %d: kernel %v gives other bits than Go", count, n, use)
				}
			}
		}
	}
}

// BenchmarkProduct is the inner loop for 512 residues.
func BenchmarkProduct(b *testing.B) {
	const n = 512
	a, rows, out := make([]float64, 2*n), make([]float64, 2*n*together), make([]float64, 2*together)
	was := use
	defer func() { use = was }()
	for _, set := range simd.Sets() {
		b.Run(set.String(), func(b *testing.B) {
			use = set
			for b.Loop() {
				product(out, a, rows)
			}
			b.ReportMetric(8*n*together*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

// States that need more memory than there is are refused before they are made.
func TestMemory(t *testing.T) {
	defer func() { enough = host.Enough }()
	refused := errors.New("too little")
	var need int64
	enough = func(_ string, bytes int64) error { need = bytes; return refused }
	if _, err := New(Config{Structure: "1UBI"}); !errors.Is(err, refused) || need < 48*76*76 {
		t.Errorf("%v, %d bytes", err, need)
	}
	if c := (Config{Residues: 76}); int64(c.Bytes()) != need {
		t.Errorf("%v bytes for the helix, %d when it is made", c.Bytes(), need)
	}
}
