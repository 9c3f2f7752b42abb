package conv_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload/conv"
)

// Convolutions pass whatever their operands are: so small that products vanish, so
// large that sums overflow, alike so that their errors are too, and not numbers.
func TestCheckNeverCriesWolf(t *testing.T) {
	rt := workloadtest.Open(t, 1, conv.Funcs())
	nan := float32(math.NaN())
	for name, entry := range map[string]func(r *rand.Rand) float32{
		"1e-25": func(r *rand.Rand) float32 { return 1e-25 * (r.Float32() - 0.5) },
		"1e20":  func(r *rand.Rand) float32 { return 1e20 * (r.Float32() - 0.5) },
		"±3e38": func(r *rand.Rand) float32 { return 3e38 * float32(2*r.IntN(2)-1) },
		"seldom ±3e38": func(r *rand.Rand) float32 {
			if r.IntN(30) == 0 {
				return 3e38 * float32(2*r.IntN(2)-1)
			}
			return 2 * (r.Float32() - 0.5)
		},
		"equal":    func(*rand.Rand) float32 { return 0.1 },
		"positive": func(r *rand.Rand) float32 { return r.Float32() },
		"zero":     func(*rand.Rand) float32 { return 0 },
		"seldom a NaN": func(r *rand.Rand) float32 {
			if r.IntN(3000) == 0 {
				return nan
			}
			return r.Float32() - 0.5
		},
	} {
		j := newJob(t, conv.Shape{N: 2, C: 8, H: 20, W: 21, K: 40, R: 3, S: 3, Stride: 1, Pad: 1})
		r := rand.New(rand.NewPCG(7, 8))
		x, w := j.Operands()
		for _, xs := range [][]float32{x, w} {
			for i := range xs {
				xs[i] = entry(r)
			}
		}
		workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Check sees one element that is off by what it says, anywhere, one that is not a
// number, a tile of another place and an image that was left out.
func TestJobCheckFinds(t *testing.T) {
	rt := workloadtest.Open(t, 2, conv.Funcs())
	for _, c := range []conv.Config{
		{Shape: conv.Shape{N: 4, C: 8, H: 20, W: 20, K: 40, R: 3, S: 3, Stride: 1, Pad: 1}},
		{Shape: conv.Shape{N: 3, C: 5, H: 23, W: 19, K: 17, R: 4, S: 5, Stride: 2, Pad: 2}, Split: conv.Rows},
	} {
		j := workloadtest.New[*conv.Job](t)(conv.New(c))
		workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
		y, good := j.Result(), slices.Clone(j.Result())
		above := workloadtest.Above(t, j)
		if typical := math.Sqrt(float64(c.C*c.R*c.S)) / 3; !(above > 0 && above < 1e-3*typical) {
			t.Errorf("an error may be %g, of elements about %.1f", above, typical)
		}
		r := rand.New(rand.NewPCG(9, 9))
		faults := 200
		if testing.Short() {
			faults = 20
		}
		for i := range faults {
			at := r.IntN(len(y))
			switch i % 4 {
			case 0:
				y[at] += float32(above * (1 + r.Float64()))
			case 1:
				y[at] = float32(math.NaN())
			case 2:
				copy(y[at:min(at+16, len(y))], good[len(y)/3:])
			case 3:
				n := len(y) / c.N
				clear(y[at/n*n : (at/n+1)*n])
			}
			if err := j.Check(); !errors.Is(err, conv.ErrWrong) {
				t.Fatalf("%s, fault %d at %d: the check says %v", j.Name(), i%4, at, err)
			}
			copy(y, good)
		}
	}
}
