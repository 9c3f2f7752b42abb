package network_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload/network"
)

// A layer is relu(D^-½ (A+I) D^-½ H W) by dense matrices, where some nodes have edges to themselves, edges are
// repeated, and weights differ by direction: then the larger counts.
func TestLayersDense(t *testing.T) {
	rt := workloadtest.Open(t, 2, network.Funcs())
	r := rand.New(rand.NewPCG(7, 3))
	for trial := range 40 {
		n := 2 + r.IntN(7)
		weighted := trial%2 == 0
		var text strings.Builder
		given := make([][]float64, n)
		for i := range given {
			given[i] = make([]float64, n)
		}
		for k := range 4 * n {
			i, j, w := r.IntN(n), r.IntN(n), 1.
			if k == 0 {
				i = n - 1 // the last node is there
			}
			if weighted {
				w = r.ExpFloat64() + 0.1
				fmt.Fprintln(&text, i, j, w)
			} else {
				fmt.Fprintln(&text, i, j)
			}
			given[i][j] += w
		}
		g := workloadtest.New[*network.Graph](t)(network.Read(strings.NewReader(text.String()), "", ""))
		h, w := features(n, 5), features(5, 3)
		got, err := network.Convolve(t.Context(), rt, g, h, w)
		if err != nil {
			t.Fatal(err)
		}
		a, degrees := make([][]float64, n), make([]float64, n)
		for i := range a {
			a[i] = make([]float64, n)
			for j := range n {
				if a[i][j] = max(given[i][j], given[j][i]); i == j {
					a[i][j]++
				}
				degrees[i] += a[i][j]
			}
		}
		for i := range n {
			for o := range 3 {
				want := 0.
				for j := range n {
					for f := range 5 {
						want += a[i][j] / math.Sqrt(degrees[i]*degrees[j]) * float64(h.At(j, f)) * float64(w.At(f, o))
					}
				}
				if want = max(want, 0); math.Abs(float64(got.At(i, o))-want) > 1e-5 {
					t.Fatalf("trial %d: feature %d of node %d is %v, want %v, of\n%s", trial, o, i, got.At(i, o), want, text.String())
				}
			}
		}
	}
}
