package reservoir

import (
	"context"
	"fmt"
	"math"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/gemm"
)

// Products of states are summed without rounding: a state is a number of 24 bits, cut
// into digits of 8, of which a product has 14 bits and a sum of 1,024 products 24: as
// many as a float32 has. What devices multiply is therefore exact in any order, with
// any kernel, and only the sums of those sums are rounded, in float64. In float32 alone
// the ridge of a reservoir, often 1e-8, would be lost in rounding.
const (
	digits       = 3
	digitBits    = 8
	digitSamples = 1 << 10
)

// TrainOn is [Train] on the devices of a runtime that was opened with [Funcs] among its
// kernels: they multiply states with each other, which is most of the work, and the host
// solves the system in float64. States are rounded to 2⁻²³ of the largest of them, which
// is the rounding of a state near it.
func TrainOn(ctx context.Context, rt *weft.Runtime, states []float32, targets []float64, values, outputs int, lambda float64) (*Readout, error) {
	if values <= 0 || outputs <= 0 || len(states)%values != 0 || len(states) == 0 || len(targets) != len(states)/values*outputs {
		return nil, fmt.Errorf("reservoir: train on %d states of %d values and %d targets of %d outputs: have one target for each state: %w",
			len(states), values, len(targets), outputs, ErrParams)
	}
	g := gram{n: values, sum: make([]float64, (values+1)*(values+1))}
	most := float32(0)
	for i, x := range states {
		if !finite(float64(x)) {
			return nil, fmt.Errorf("reservoir: train: value %d of state %d is %v: %w", i%values, i/values, x, ErrParams)
		}
		most = max(most, float32(math.Abs(float64(x))))
	}
	fraction, exponent := math.Frexp(float64(most))
	if fraction == 0.5 { // the largest digits are 128 and -128
		exponent--
	}
	g.unit = math.Ldexp(1, exponent-digits*digitBits+1)
	samples := len(states) / values
	for lo := 0; lo < samples; lo += digitSamples {
		hi := min(lo+digitSamples, samples)
		if err := g.add(ctx, rt, states[lo*values:hi*values], hi-lo); err != nil {
			return nil, err
		}
	}
	n := values + 1
	right := make([]float64, n*outputs)
	for s := range samples {
		y := targets[s*outputs : (s+1)*outputs]
		for i, x := range states[s*values : (s+1)*values] {
			v := g.round(x) * g.unit
			g.sum[values*n+i] += v
			for o, yo := range y {
				right[i*outputs+o] += v * yo
			}
		}
		for o, yo := range y {
			right[values*outputs+o] += yo
		}
	}
	g.sum[values*n+values] = float64(samples)
	return ridge(g.sum, right, n, outputs, lambda)
}

// gram sums up products of states with each other.
type gram struct {
	n    int       // values of a state
	unit float64   // what states are multiples of
	sum  []float64 // rows of n+1
}

// round is a state in units.
func (g *gram) round(x float32) float64 { return math.RoundToEven(float64(x) / g.unit) }

// add adds the products of some states.
func (g *gram) add(ctx context.Context, rt *weft.Runtime, states []float32, samples int) error {
	n := g.n
	var rows, columns [digits]workload.Matrix
	for d := range digits {
		rows[d] = workload.Matrix{Rows: n, Cols: samples, Data: make([]float32, n*samples)}
		columns[d] = workload.Matrix{Rows: samples, Cols: n, Data: make([]float32, n*samples)}
	}
	for s := range samples {
		for i, x := range states[s*n : (s+1)*n] {
			q := int(g.round(x))
			for d := range digits {
				digit := q
				if d < digits-1 {
					digit = int(int8(q)) // the lowest bits, with a sign
				}
				q = (q - digit) >> digitBits
				rows[d].Data[i*samples+s], columns[d].Data[s*n+i] = float32(digit), float32(digit)
			}
		}
	}
	product := workload.Matrix{Rows: n, Cols: n, Data: make([]float32, n*n)}
	for a := range digits {
		for b := range a + 1 {
			if _, err := gemm.MulInto(ctx, rt, product, rows[a], columns[b], workload.AnySplit); err != nil {
				return fmt.Errorf("reservoir: train: %w", err)
			}
			scale := math.Ldexp(g.unit*g.unit, digitBits*(a+b))
			for i := range n {
				for j := range i + 1 {
					p := float64(product.Data[i*n+j])
					if a != b {
						p += float64(product.Data[j*n+i])
					}
					g.sum[i*(n+1)+j] += scale * p
				}
			}
		}
	}
	return nil
}

// Train makes the readout of a model: it takes patterns through the model's weights on
// the devices of a runtime, with their noise, and fits the outputs to the targets, one
// for each pattern, by ridge regression. The model needs no readout before. Sizes that do
// not fit are errors that wrap [ErrParams].
func (m *Model) Train(ctx context.Context, rt *weft.Runtime, patterns []Pattern, targets [][]float64, lambda float64) error {
	if len(patterns) == 0 || len(targets) != len(patterns) || len(targets[0]) == 0 {
		return fmt.Errorf("reservoir: train on %d patterns and %d targets: have one target for each, with one output or more: %w", len(patterns), len(targets), ErrParams)
	}
	outputs := len(targets[0])
	trained := *m
	trained.Readout = &Readout{Outputs: outputs, Inputs: m.Weights.Size, Weights: make([]float64, outputs*(m.Weights.Size+1))}
	if err := trained.Validate(); err != nil {
		return err
	}
	var flat []float64
	for i, y := range targets {
		if len(y) != outputs {
			return fmt.Errorf("reservoir: train: target %d has %d outputs, the first one %d: %w", i, len(y), outputs, ErrParams)
		}
		flat = append(flat, y...)
	}
	echoes, err := Of(ctx, rt, m.Weights, m.Mode, patterns, m.Steps)
	if err != nil {
		return err
	}
	states := make([]float32, 0, len(patterns)*m.Weights.Size)
	for _, e := range echoes {
		states = append(states, m.feature(e)...)
	}
	m.Readout, err = TrainOn(ctx, rt, states, flat, m.Weights.Size, outputs, lambda)
	return err
}

// feature returns the part of an echo that the readout reads.
func (m *Model) feature(e Echo) []float32 {
	if m.Feature == Last {
		return e.Last
	}
	return e.Mean
}
