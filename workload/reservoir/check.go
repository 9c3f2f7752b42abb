package reservoir

import (
	"errors"
	"fmt"
	"math"

	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/internal/rounding"
	"github.com/weft-run/weft/workload"
)

// errWrong is returned by [job.Check] for states that do not follow the formula.
var errWrong = errors.New("not the reservoir's states")

const (
	// checkTerms is the number of weights that Check multiplies with, about three seconds
	// of one core; checkPatterns is the fewest patterns it takes.
	checkTerms    = 1 << 30
	checkPatterns = 8
	// tanhWithin is the allowed relative error of a kernel's tanh.
	tanhWithin = 3e-7
	// sigmas is the number of standard deviations of its rounding that a state may be off
	// by, and slack a further allowance: errors of tanh are not random, and add up over
	// steps to some times as much.
	sigmas = 16
	slack  = 2e-6
)

// follow returns the next state of one pattern in float64, straight from the formula, and
// the variances of its rounding to float32: errors of sums grow as in [rounding.Dot],
// errors of states pass the weights, the slope of tanh and the leak as random numbers do.
func (w *Weights) follow(x, variance, u []float64, pattern uint64, step uint32) (next, of []float64) {
	const unit = rounding.Unit * rounding.Unit / 3
	noise := philox.Source{Seed: w.Seed, Stream: streamNoise}
	next, of = make([]float64, w.Size), make([]float64, w.Size)
	var words [4]uint32
	for i := range next {
		sum, squares, carried := float64(w.Bias[i]), 0.0, 0.0
		for e := w.Recurrent.Start[i]; e < w.Recurrent.Start[i+1]; e++ {
			v, j := float64(w.Recurrent.Value[e]), w.Recurrent.Column[e]
			t := v * x[j]
			sum += t
			squares += sum*sum + t*t
			carried += v * v * variance[j]
		}
		for e := w.Input.Start[i]; e < w.Input.Start[i+1]; e++ {
			t := float64(w.Input.Value[e]) * u[w.Input.Column[e]]
			sum += t
			squares += sum*sum + t*t
		}
		if w.Noise > 0 {
			if i%4 == 0 {
				words = noise.Block(pattern, step, uint32(i/4))
			}
			sum += w.Noise * philox.Symmetric(words[i%4])
			squares += sum * sum
		}
		carried += unit * squares
		tanh := math.Tanh(sum)
		// The slope where a sum that is off may be.
		slope := min(1, 1-tanh*tanh+2*sigmas*math.Sqrt(carried))
		next[i] = (1-w.Leak)*x[i] + w.Leak*tanh
		of[i] = (1-w.Leak)*(1-w.Leak)*variance[i] + w.Leak*w.Leak*(slope*slope*carried+tanhWithin*tanhWithin*tanh*tanh) + 4*unit
	}
	return next, of
}

// within returns the allowed error of a state with a variance of its rounding.
func within(variance float64) float64 { return sigmas*math.Sqrt(variance) + slack }

// Check sees that every state is one, and takes patterns from their spikes through the
// formula in float64: all, or of many one at random in every stretch of them. The seed
// decides which. A state may be off by what rounding does to it. The error is [errWrong]
// and names the pattern.
func (j *job) Check() error {
	for _, xs := range [][]float32{j.x, j.mean} {
		for i, v := range xs {
			if !(math.Abs(float64(v)) <= 1+slack) {
				return fmt.Errorf("reservoir: state %d is %v, beyond what tanh gives: %w", i, v, errWrong)
			}
		}
	}
	weights := len(j.w.Recurrent.Value) + len(j.w.Input.Value)
	count := patternsOf(j.c.Batch, float64(weights)*float64(j.c.Steps))
	places := philox.Source{Seed: j.c.Seed, Stream: streamChecked}
	j.checked = count
	return workload.Sweep(count, func(lo, hi int) error {
		for i := lo; i < hi; i++ {
			from, to := i*j.c.Batch/count, (i+1)*j.c.Batch/count
			if err := j.checkPattern(from + int(places.Uint32(uint64(i), 0, 0))%(to-from)); err != nil {
				return err
			}
		}
		return nil
	})
}

// patternsOf returns how many patterns of a batch Check computes again. Each takes the
// given number of terms.
func patternsOf(batch int, terms float64) int {
	return min(max(int(checkTerms/max(terms, 1)), checkPatterns), batch)
}

// Misses lists errors that Check may not see.
func (j *job) Misses() []workload.Miss {
	batch, count := float64(j.c.Batch), float64(j.checked)
	out := []workload.Miss{
		{What: "one state of a pattern that is compared, off by more than its rounding", Chance: 0},
		{What: "one wrong pattern", Chance: 1 - count/batch},
	}
	// A tile of patterns lies in two stretches at worst, half of it in each.
	if stretch := batch / count; batch > tile && stretch > tile/2 {
		one := 1 - tile/2/stretch
		return append(out, workload.Miss{What: fmt.Sprintf("%d wrong patterns", tile), Chance: one * one})
	}
	return append(out, workload.Miss{What: fmt.Sprintf("%d wrong patterns", tile), Chance: 0})
}

// checkPattern compares one pattern.
func (j *job) checkPattern(pattern int) error {
	p := j.spikes[pattern]
	x, variance := make([]float64, j.c.Size), make([]float64, j.c.Size)
	mean, off := make([]float64, j.c.Size), make([]float64, j.c.Size)
	in := make([]float64, j.c.Inputs)
	steps := float64(j.c.Steps)
	for k := range j.c.Steps {
		j.input(in, p, k)
		x, variance = j.w.follow(x, variance, in, uint64(pattern), uint32(k))
		for i, v := range x {
			mean[i] += v / steps
			off[i] += within(variance[i]) / steps
		}
	}
	last, means := j.State(pattern)
	for i := range x {
		if !rounding.Same(last[i], x[i], within(variance[i])) || !rounding.Same(means[i], mean[i], off[i]+2*rounding.Unit*math.Sqrt(steps)) {
			return fmt.Errorf("reservoir: pattern %d, neuron %d: state %v and mean %v, by the formula %v ± %.2g and %v ± %.2g: %w",
				pattern, i, last[i], means[i], x[i], within(variance[i]), mean[i], off[i], errWrong)
		}
	}
	return nil
}

// input is the input of a step, from the spikes of a pattern.
func (j *job) input(in []float64, p Pattern, step int) {
	clear(in)
	total := 0.0
	for _, s := range p.Spikes {
		switch bin := int(s.Time * float64(j.c.Steps) / p.Duration); {
		case j.c.Mode == Histogram:
			in[min(int(s.Time*float64(j.c.Inputs)/p.Duration), j.c.Inputs-1)] += 1 + s.Amplitude
			total += 1 + s.Amplitude
		case min(bin, j.c.Steps-1) == step:
			in[s.Channel] += 1 + s.Amplitude
		}
	}
	if total > 0 {
		for c := range in {
			in[c] /= total
		}
	}
}
