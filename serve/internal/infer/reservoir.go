package infer

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/reservoir"
)

// reservoirRunner runs a trained reservoir. The runtime chooses the device of each batch.
type reservoirRunner struct {
	p       *reservoir.Predictor
	in, out Spec
	memory  sync.Pool // of the inputs of batches
}

// loadReservoir reads a reservoir from its file.
func loadReservoir(files fs.FS, file string) (*reservoir.Model, error) {
	f, err := files.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	r, ok := f.(io.ReaderAt)
	if !ok {
		return nil, fmt.Errorf("%s: not a file", file)
	}
	m, err := reservoir.ReadModel(r, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

// newReservoir makes a reservoir ready. An input is a value of each channel at each step.
func newReservoir(rt *weft.Runtime, m *reservoir.Model, c *config) (*reservoirRunner, error) {
	channels := int64(m.Weights.Inputs)
	r := &reservoirRunner{
		memory: sync.Pool{New: func() any { return new([]byte) }},
		in:     Spec{Name: "input", Type: FP32, Shape: []int64{-1, int64(m.InputLen()) / channels, channels}},
		out:    Spec{Name: "output", Type: FP32, Shape: []int64{-1, int64(m.Readout.Outputs)}},
	}
	for _, said := range []struct {
		ports []port
		spec  *Spec
		what  string
	}{{c.Inputs, &r.in, "input"}, {c.Outputs, &r.out, "output"}} {
		if len(said.ports) == 0 {
			continue
		}
		p := said.ports[0]
		if len(said.ports) > 1 {
			return nil, inConfig(said.ports[1].line, "a reservoir has one %s", said.what)
		}
		if p.Type != "" && p.Type != FP32 || p.Shape != nil && !slices.Equal(p.Shape, said.spec.Shape[1:]) {
			return nil, inConfig(p.line, "the %s of this reservoir is FP32 %v for each example", said.what, said.spec.Shape[1:])
		}
		said.spec.Name = p.Name
	}
	var err error
	r.p, err = reservoir.NewPredictor(rt, m, c.Batch)
	return r, err
}

func (r *reservoirRunner) run(ctx context.Context, _ *device, calls []*call) ([][]Tensor, error) {
	each, values := int(r.in.Shape[1]*r.in.Shape[2]), int(r.out.Shape[1])
	n := 0
	for _, c := range calls {
		n += c.examples
	}
	m := r.memory.Get().(*[]byte)
	defer r.memory.Put(m)
	*m = slices.Grow((*m)[:0], max(4*n*each, 64)) // aligned for float32
	raw := (*m)[:4*n*each]
	off := 0
	for _, c := range calls {
		c.copyInput(0, raw[off:off+4*c.examples*each])
		off += 4 * c.examples * each
	}
	inputs, outputs := make([][]float32, n), make([][]float32, n)
	all := weft.View[float32](raw)
	result := make([]byte, max(4*n*values, 64))
	results := weft.View[float32](result)
	for i := range n {
		inputs[i], outputs[i] = all[i*each:(i+1)*each], results[i*values:(i+1)*values]
	}
	if err := r.p.Predict(ctx, inputs, outputs); err != nil {
		return nil, err
	}
	tensors := make([][]Tensor, len(calls))
	off = 0
	for i, c := range calls {
		bytes := 4 * c.examples * values
		tensors[i] = []Tensor{{Name: r.out.Name, Type: FP32, Shape: []int64{int64(c.examples), int64(values)}, Data: slices.Clone(result[off : off+bytes])}}
		off += bytes
	}
	return tensors, nil
}

func (r *reservoirRunner) prepare(*device, bool) error { return nil }

func (r *reservoirRunner) release() { r.p.Close() }

// builtinName is the model that is served where there is no folder.
const builtinName = "reservoir"

// builtin makes a reservoir of 1000 neurons that tells whether the spikes of a pattern on 64
// channels are mostly on the upper half of them, mostly on the lower, or on both alike.
func builtin(ctx context.Context, rt *weft.Runtime) (*reservoir.Model, error) {
	p := reservoir.Defaults()
	p.Size, p.Inputs, p.Connectivity, p.Seed = 1000, 64, 0.1, 1
	w, err := reservoir.New(p)
	if err != nil {
		return nil, err
	}
	m := &reservoir.Model{Weights: w, Steps: 20, Mode: reservoir.Sequence, Feature: reservoir.Mean, Labels: []string{"up", "down", "hold"}}
	var patterns []reservoir.Pattern
	var targets [][]float64
	r := rand.New(rand.NewPCG(1, 1))
	e := reservoir.Encoder{Seed: 1, Duration: 100}
	values := make([]float64, p.Inputs)
	for i := range 150 {
		class := i % 3
		for c := range values {
			upper := c >= p.Inputs/2
			mean := 0.4
			if class != 2 {
				mean = 0.1
				if upper == (class == 0) {
					mean = 0.7
				}
			}
			values[c] = mean + 0.2*r.Float64()
		}
		pattern, err := e.Rate(values, uint64(i))
		if err != nil {
			return nil, err
		}
		target := make([]float64, 3)
		target[class] = 1
		patterns, targets = append(patterns, pattern), append(targets, target)
	}
	return m, m.Train(ctx, rt, patterns, targets, 1e-3)
}
