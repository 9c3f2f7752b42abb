package fisher

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weft-run/weft/workload"
)

// errWrong is returned by [job.Check] for a matrix that is not the information.
var errWrong = errors.New("not the Fisher information")

// rounds is the number of times Check multiplies by a random vector. Errors that cancel
// by chance do so with probability one half at most each time.
const rounds = 12

// Check compares F·x with Xᵀ(w∘(X·x)) for random vectors x of ±1 (Freivalds), where the
// weights w are the expectation of a squared score over both outcomes of every point. It
// sees that the matrix is symmetric with a diagonal above zero. The seed decides the
// vectors.
//
// A sum of n terms in float64 is off by ε √n times the sum of its terms' sizes at most,
// unless their errors are all alike, and an exp by a few ε. Over the columns of a row, of
// which the vector adds up d with random signs, that is 8 ε √n Σᵢ wᵢ |xᵢᵣ| |xᵢ| with the
// Euclidean norm of a point. Where a point or the model is not a number, no entry is one.
func (j *job) Check() error {
	n, d := j.c.Points, j.c.Features
	w, limit := make([]float64, n), make([]float64, d)
	for i := range w {
		z, norm := 0., 0.
		row := j.x[i*d : (i+1)*d]
		for k, v := range row {
			z += float64(v) * float64(j.theta[k])
			norm += float64(v) * float64(v)
		}
		// The score is (y − p) x: with y one by chance p, zero else.
		p := (1 + math.Tanh(z/2)) / 2
		w[i] = (p*(1-p)*(1-p) + (1-p)*p*p) / float64(n)
		for k, v := range row {
			limit[k] += w[i] * math.Abs(float64(v)) * math.Sqrt(norm)
		}
	}
	j.above = 0
	for k := range limit {
		limit[k] = 8*0x1p-52*(math.Sqrt(float64(n))+8)*limit[k] + math.SmallestNonzeroFloat64
		j.above = max(j.above, 2*limit[k])
	}
	random := rand.New(rand.NewPCG(uint64(j.c.Seed), 0))
	x, want := make([]float64, d), make([]float64, d)
	for range rounds {
		for k := range x {
			x[k] = float64(random.IntN(2)*2 - 1)
		}
		clear(want)
		for i := range n {
			y, row := 0., j.x[i*d:(i+1)*d]
			for k, v := range row {
				y += float64(v) * x[k]
			}
			y *= w[i]
			for k, v := range row {
				want[k] += y * float64(v)
			}
		}
		for r := range d {
			if err := j.checkRow(r, x, want[r], limit[r]); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkRow compares the sum of a row with signs, and the row with its column.
func (j *job) checkRow(r int, x []float64, want, limit float64) error {
	d := j.c.Features
	got := 0.
	for k, v := range j.f[r*d : (r+1)*d] {
		got += v * x[k]
		other := j.f[k*d+r]
		if math.IsNaN(want) {
			if !math.IsNaN(v) {
				return fmt.Errorf("fisher: entry (%d, %d) is %v, but a point or the model is not a number: %w", r, k, v, errWrong)
			}
			continue
		}
		if !(math.Abs(v-other) <= limit) {
			return fmt.Errorf("fisher: entry (%d, %d) is %v, entry (%d, %d) %v: %w", r, k, v, k, r, other, errWrong)
		}
	}
	if math.IsNaN(want) {
		return nil
	}
	if !(math.Abs(got-want) <= limit) || !(j.f[r*d+r] > 0) {
		return fmt.Errorf("fisher: row %d: random sum %v, want %v ± %.2g, and %v on the diagonal: %w", r, got, want, limit, j.f[r*d+r], errWrong)
	}
	return nil
}

// Misses lists errors that Check may not see.
func (j *job) Misses() []workload.Miss {
	return []workload.Miss{
		{What: fmt.Sprintf("one entry off by more than %.2g", j.above), Chance: 0},
		{What: "a row with several such entries", Chance: math.Ldexp(1, -rounds)},
	}
}
