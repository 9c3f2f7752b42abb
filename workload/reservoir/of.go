package reservoir

import (
	"context"
	"fmt"
	"slices"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
)

// Echo is the response of a reservoir to one pattern: the state of every neuron after the
// last step, and its mean over all steps.
type Echo struct{ Last, Mean []float32 }

// Of takes a caller's patterns through a reservoir, on the devices of a runtime that was
// opened with [Funcs] among its kernels, and returns an echo for each of them, in their
// order. Every pattern starts from zeros and takes the given number of steps, into which
// its own duration is divided: in mode [Sequence] see [Pattern.Bins]; mode [Histogram] has
// one step, see [Pattern.Histogram]. Noise is drawn by the number of a pattern in the
// list. Patterns, weights or sizes that are not valid are an error that wraps
// [ErrParams]; no patterns have no echoes.
func Of(ctx context.Context, rt *weft.Runtime, w *Weights, mode string, patterns []Pattern, steps int) ([]Echo, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	if err := w.check(); err != nil {
		return nil, err
	}
	for i, p := range patterns {
		if err := p.Validate(w.Inputs); err != nil {
			return nil, fmt.Errorf("pattern %d: %w", i, err)
		}
	}
	j, err := newJob(Config{Params: w.Params, Batch: len(patterns), Steps: steps, Mode: mode}, w, patterns)
	if err != nil {
		return nil, err
	}
	if _, err := workload.Call(ctx, rt, j, "reservoir"); err != nil {
		return nil, err
	}
	echoes := make([]Echo, len(patterns))
	for i := range echoes {
		echoes[i].Last, echoes[i].Mean = j.State(i)
	}
	return echoes, nil
}

// Outputs returns what the readout of a model gives for each of a caller's patterns, in
// their order, on the devices of a runtime as for [Of]. No noise is added: these are the
// predictions of a [Predictor], which answers sooner where there are few patterns at a
// time.
func Outputs(ctx context.Context, rt *weft.Runtime, m *Model, patterns []Pattern) ([][]float64, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	w := *m.Weights
	w.Noise = 0
	echoes, err := Of(ctx, rt, &w, m.Mode, patterns, m.Steps)
	if err != nil {
		return nil, err
	}
	outputs := make([][]float64, len(echoes))
	for i, e := range echoes {
		outputs[i] = make([]float64, m.Readout.Outputs)
		m.Readout.Read(outputs[i], m.feature(e), 1, 0)
	}
	return outputs, nil
}

// check returns ErrParams for weights that are not those of a whole reservoir drawn by
// [New].
func (w *Weights) check() error {
	for _, part := range []struct {
		name    string
		m       *Matrix
		columns int
	}{{"recurrent", &w.Recurrent, w.Size}, {"input", &w.Input, w.Inputs}} {
		m := part.m
		n := len(m.Column)
		bad := len(m.Start) != w.Size+1 || len(m.Value) != n ||
			m.Start[0] != 0 || int(m.Start[w.Size]) > n || !slices.IsSorted(m.Start) ||
			slices.ContainsFunc(m.Column, func(c int32) bool { return c < 0 || int(c) >= part.columns })
		if bad || w.First != 0 || len(w.Bias) != w.Size {
			return fmt.Errorf("reservoir: the %s weights do not fit %d neurons and %d channels: %w: draw them with reservoir.New", part.name, w.Size, w.Inputs, ErrParams)
		}
	}
	return nil
}
