package learn

import (
	"context"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/workload/reservoir"
)

// memorySteps is the window of inputs that a prediction of a model for memory sees: at a
// spectral radius of 0.95 what came before has faded to less than 1e-4.
const memorySteps = 200

// Memory is the reservoir whose memory capacity is known to be about 30 (Jaeger 2001):
// an input of 0.1, every neuron connected with every other.
func Memory(size int, seed uint32) reservoir.Params {
	return reservoir.Params{Size: size, Inputs: 1, SpectralRadius: 0.95, Connectivity: 1, Leak: 1, InputScaling: 0.1, Seed: seed}
}

// Capacity measures the linear memory capacity of a reservoir with one input: the sum over
// delays, as many as there are neurons, of the squared correlation of a trained output
// with the input that long ago. It is never above the number of neurons. The input is
// random, uniform in (-1, 1); states come from one core, since each needs the one before.
func Capacity(ctx context.Context, rt *weft.Runtime, p reservoir.Params) (*reservoir.Model, float64, error) {
	const washout, train, test, lambda = 300, 2200, 1500, 1e-8
	w, err := reservoir.New(p)
	if err != nil {
		return nil, 0, err
	}
	delays := p.Size
	in := make([]float32, washout+train+test)
	draw := philox.Source{Seed: p.Seed, Stream: streamMemory}
	for i := range in {
		in[i] = float32(philox.Symmetric(draw.Uint32(uint64(i), 0, 0)))
	}
	s := w.NewState(1, 0)
	var states []float32
	var targets []float64
	for i := range in {
		if ctx.Err() != nil {
			return nil, 0, context.Cause(ctx)
		}
		w.Run(s, in[i:i+1], 1)
		if i < washout {
			continue
		}
		states = append(states, s.X...)
		for d := range delays {
			past := 0.0
			if i-d-1 >= 0 {
				past = float64(in[i-d-1])
			}
			targets = append(targets, past)
		}
	}
	r, err := reservoir.TrainOn(ctx, rt, states[:train*p.Size], targets[:train*delays], p.Size, delays, lambda)
	if err != nil {
		return nil, 0, err
	}
	m := &reservoir.Model{Weights: w, Readout: r, Steps: memorySteps, Mode: reservoir.Sequence, Feature: reservoir.Last}
	return m, correlations(r, states[train*p.Size:], targets[train*delays:]), nil
}

// correlations is the sum over outputs of the squared correlation with their targets.
func correlations(r *reservoir.Readout, states []float32, targets []float64) (sum float64) {
	samples := len(states) / r.Inputs
	outputs := make([]float64, samples*r.Outputs)
	for s := range samples {
		r.Read(outputs[s*r.Outputs:(s+1)*r.Outputs], states[s*r.Inputs:(s+1)*r.Inputs], 1, 0)
	}
	n := float64(samples)
	for o := range r.Outputs {
		var sx, sy, sxx, syy, sxy float64
		for i := o; i < len(outputs); i += r.Outputs {
			x, y := outputs[i], targets[i]
			sx, sy, sxx, syy, sxy = sx+x, sy+y, sxx+x*x, syy+y*y, sxy+x*y
		}
		if c := n*sxy - sx*sy; c != 0 {
			sum += c * c / ((n*sxx - sx*sx) * (n*syy - sy*sy))
		}
	}
	return sum
}
