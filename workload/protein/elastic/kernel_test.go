package elastic

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
	for _, rows := range []int{8, 16, 24, 64} {
		for _, count := range []int{1, 2, 7, 33} {
			v, w, h := make([]float64, rows*count), make([]float64, rows), make([]float64, count)
			for _, x := range [][]float64{v, w, h} {
				for i := range x {
					x[i] = r.NormFloat64()
				}
			}
			var sums, rest []float64
			for _, use = range simd.Sets() {
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
	for _, set := range simd.Sets() {
		b.Run(set.String(), func(b *testing.B) {
			use = set
			for b.Loop() {
				subtract(w, v, h)
				dots(h, v, w)
			}
			b.ReportMetric(4*rows*count*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

// A network that needs more memory than there is is refused before it is made, and its stated need is
// enough to hold it.
func TestMemory(t *testing.T) {
	defer func() { enough = host.Enough }()
	refused := errors.New("too little")
	var need int64
	for _, c := range []Config{{Structure: "1UBI", Cutoff: 1000}, {Structure: "1UBI", Network: Anisotropic}, {Residues: 300, Cutoff: 30}} {
		enough = func(_ string, bytes int64) error { need = bytes; return nil }
		j, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		held := 12*len(j.matrix.Values) + 16*len(j.basis) + 8*(len(j.squares)+len(j.diagonal)+len(j.vector))
		if need < int64(held) || need > int64(2*held) {
			t.Errorf("%s: said to need %d bytes, holds %d", j.Name(), need, held)
		}
		if c.Residues > 0 && c.Bytes() < float64(need) {
			t.Errorf("%s: %v bytes for the helix, %d when it is made", j.Name(), c.Bytes(), need)
		}
		enough = func(string, int64) error { return refused }
		if _, err := New(c); !errors.Is(err, refused) {
			t.Errorf("%s: %v", j.Name(), err)
		}
	}
}

// Blocks of more rows than kernels for GPUs have threads are refused.
func TestBlocks(t *testing.T) {
	for block, ok := range map[int]bool{8: true, 64: true, 72: false, 128: false, 12: false} {
		if _, err := need(params{block: block, blocks: 1, all: 1, width: 1, count: 1}); (err == nil) != ok {
			t.Errorf("blocks of %d rows: %v", block, err)
		}
	}
}
