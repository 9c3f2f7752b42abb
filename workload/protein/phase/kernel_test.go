package phase

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
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

// χ of all pairs of residues is that of a table that was written by hand from the published rules, in the
// kernels and in the check, which have it from elsewhere.
func TestChi(t *testing.T) {
	const letters = "ARNDCQEGHILKMFPSTWYVX" // X has no rule
	names := strings.Fields("ALA ARG ASN ASP CYS GLN GLU GLY HIS ILE LEU LYS MET PHE PRO SER THR TRP TYR VAL MSE")
	special := map[string]float64{"AA": 1.1, "VV": 0.9, "II": 0.9, "LL": 0.9, "EK": 1.3, "KE": 1.3, "DR": 1.3, "RD": 1.3}
	for i, a := range names {
		for k, b := range names {
			want, ok := special[letters[i:i+1]+letters[k:k+1]]
			switch {
			case a == "GLY" || b == "GLY":
				want = 1.2
			case a == "PRO" || b == "PRO":
				want = 0.8
			case !ok:
				want = 1
			}
			if got, checked := chi(kindOf[a], kindOf[b]), affinity(a, b); got != want || checked != want {
				t.Errorf("%s and %s: %v, in the check %v, want %v", a, b, got, checked, want)
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
