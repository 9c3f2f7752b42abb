package reservoir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// ErrModel is wrapped by the error of [ReadModel] for a file that holds no model.
var ErrModel = errors.New("not a reservoir model")

// Features are what of a run a readout reads, by name.
const (
	Mean = "mean" // the mean state over all steps
	Last = "last" // the state after the last step
)

// Model is a reservoir with a readout that was trained for it: all that a prediction
// needs besides its input. It is not changed by what uses it.
type Model struct {
	Weights *Weights
	Readout *Readout
	Steps   int      // of a prediction, one in mode Histogram
	Mode    string   // Sequence or Histogram: how spikes become input
	Feature string   // Mean or Last: which state the readout reads
	Labels  []string // names of the outputs, where they are classes; or none
}

// Limits of a model. They are far beyond useful sizes, and bound the memory that a file
// can claim.
const (
	maxSide    = 1 << 15 // neurons, channels or outputs
	maxSteps   = 1 << 20
	maxEntries = 1 << 30 // weights of one matrix
)

// InputLen is the number of values of one input: for each step one of each channel.
func (m *Model) InputLen() int { return m.Steps * m.Weights.Inputs }

// Input sets u to the input that a pattern is to the model, as a [Predictor] takes it:
// InputLen values. A pattern that is not valid is an error that wraps [ErrParams].
func (m *Model) Input(u []float32, p Pattern) error {
	if err := p.Validate(m.Weights.Inputs); err != nil {
		return err
	}
	if len(u) != m.InputLen() {
		return fmt.Errorf("reservoir: room for %d values of an input: %w: it has %d", len(u), ErrParams, m.InputLen())
	}
	if m.Mode == Histogram {
		p.Histogram(u, m.Weights.Inputs, 1, 0)
		return nil
	}
	clear(u)
	p.Bins(u, m.Steps, m.Weights.Inputs, 1, 0)
	return nil
}

// Validate returns ErrParams if the parts of a model do not fit together.
func (m *Model) Validate() error {
	if m.Weights == nil || m.Readout == nil {
		return fmt.Errorf("reservoir: a model without weights or readout: %w: draw weights with New, train a readout", ErrParams)
	}
	w, r := m.Weights, m.Readout
	if err := w.Params.Validate(); err != nil {
		return err
	}
	switch {
	case w.Size > maxSide || w.Inputs > maxSide || r.Outputs > maxSide:
		return fmt.Errorf("reservoir: a model of %d neurons, %d channels and %d outputs: %w: there may be %d", w.Size, w.Inputs, r.Outputs, ErrParams, maxSide)
	case m.Steps < 1 || m.Steps > maxSteps:
		return fmt.Errorf("reservoir: a model of %d steps: %w: there must be 1 to %d", m.Steps, ErrParams, maxSteps)
	case m.Mode != Sequence && m.Mode != Histogram:
		return fmt.Errorf("reservoir: a model of mode %q: %w: use %s or %s", m.Mode, ErrParams, Sequence, Histogram)
	case m.Mode == Histogram && m.Steps != 1:
		return fmt.Errorf("reservoir: a model of %d steps in mode %s: %w: it has one", m.Steps, Histogram, ErrParams)
	case m.Feature != Mean && m.Feature != Last:
		return fmt.Errorf("reservoir: a model of feature %q: %w: use %s or %s", m.Feature, ErrParams, Mean, Last)
	case r.Inputs != w.Size || r.Outputs < 1 || len(r.Weights) != r.Outputs*(r.Inputs+1):
		return fmt.Errorf("reservoir: a readout with %d weights, of %d values to %d outputs, for %d neurons: %w: train it on states of this reservoir",
			len(r.Weights), r.Inputs, r.Outputs, w.Size, ErrParams)
	case len(m.Labels) != 0 && len(m.Labels) != r.Outputs:
		return fmt.Errorf("reservoir: %d labels for %d outputs: %w: give one for each, or none", len(m.Labels), r.Outputs, ErrParams)
	}
	return w.check()
}

// Label returns the name of an output, its number where outputs have no names.
func (m *Model) Label(output int) string {
	if output < len(m.Labels) {
		return m.Labels[output]
	}
	return fmt.Sprint(output)
}

// description is the part of a file's metadata that describes a model, as JSON.
type description struct {
	Version        int      `json:"version"`
	Size           int      `json:"size"`
	Inputs         int      `json:"inputs"`
	Outputs        int      `json:"outputs"`
	SpectralRadius float64  `json:"spectral_radius"`
	Connectivity   float64  `json:"connectivity"`
	Leak           float64  `json:"leak"`
	InputScaling   float64  `json:"input_scaling"`
	BiasScaling    float64  `json:"bias_scaling"`
	Noise          float64  `json:"noise"`
	Seed           uint32   `json:"seed"`
	Steps          int      `json:"steps"`
	Mode           string   `json:"mode"`
	Feature        string   `json:"feature"`
	Labels         []string `json:"labels,omitempty"`
}

// describedBy is the key of the description among the metadata of a file.
const describedBy = "weft.reservoir"

func (m *Model) describe() description {
	p := m.Weights.Params
	return description{
		Version: 1, Size: p.Size, Inputs: p.Inputs, Outputs: m.Readout.Outputs, SpectralRadius: p.SpectralRadius,
		Connectivity: p.Connectivity, Leak: p.Leak, InputScaling: p.InputScaling, BiasScaling: p.BiasScaling, Noise: p.Noise,
		Seed: p.Seed, Steps: m.Steps, Mode: m.Mode, Feature: m.Feature, Labels: m.Labels,
	}
}

func (d *description) params() Params {
	return Params{
		Size: d.Size, Inputs: d.Inputs, SpectralRadius: d.SpectralRadius, Connectivity: d.Connectivity, Leak: d.Leak,
		InputScaling: d.InputScaling, BiasScaling: d.BiasScaling, Noise: d.Noise, Seed: d.Seed,
	}
}

// WriteTo writes the model as a safetensors file: the scaled weights as they are
// multiplied with, so that loading draws and scales nothing, and everything else as JSON
// in the metadata. It returns the number of bytes written.
func (m *Model) WriteTo(w io.Writer) (int64, error) {
	if err := m.Validate(); err != nil {
		return 0, err
	}
	text, err := json.Marshal(m.describe())
	if err != nil {
		return 0, fmt.Errorf("reservoir: write the model: %w", err)
	}
	r, in := m.Weights.Recurrent.used(), m.Weights.Input.used()
	out := m.Readout
	n, err := writeTensors(w, map[string]string{"format": describedBy, describedBy: string(text)}, []tensor{
		{"recurrent.start", "I32", []int{len(r.Start)}, r.Start},
		{"recurrent.column", "I32", []int{len(r.Column)}, r.Column},
		{"recurrent.value", "F32", []int{len(r.Value)}, r.Value},
		{"input.start", "I32", []int{len(in.Start)}, in.Start},
		{"input.column", "I32", []int{len(in.Column)}, in.Column},
		{"input.value", "F32", []int{len(in.Value)}, in.Value},
		{"bias", "F32", []int{m.Weights.Size}, m.Weights.Bias},
		{"readout", "F64", []int{out.Outputs, out.Inputs + 1}, out.Weights},
	})
	if err != nil {
		return n, fmt.Errorf("reservoir: write the model: %w", err)
	}
	return n, nil
}

// used is the matrix without entries beyond its last row, which pad may have added.
func (m *Matrix) used() Matrix {
	n := m.Start[len(m.Start)-1]
	return Matrix{Start: m.Start, Column: m.Column[:n], Value: m.Value[:n]}
}

// ReadModel reads what [Model.WriteTo] wrote, size bytes of r. It returns an error that
// wraps [ErrModel] for anything else: all sizes are checked before memory is taken for
// them, and all weights before they are used.
func ReadModel(r io.ReaderAt, size int64) (*Model, error) {
	m, err := readModel(r, size)
	if err != nil {
		return nil, fmt.Errorf("reservoir: read the model: %w: %w", ErrModel, err)
	}
	return m, nil
}

func readModel(r io.ReaderAt, size int64) (*Model, error) {
	f, err := openTensors(r, size)
	if err != nil {
		return nil, err
	}
	text, ok := f.metadata[describedBy]
	if !ok {
		return nil, fmt.Errorf("its metadata have no %q: make it with weft train reservoir", describedBy)
	}
	var d description
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("metadata %q: %w", describedBy, err)
	}
	if d.Version != 1 {
		return nil, fmt.Errorf("it is of version %d: this program reads version 1", d.Version)
	}
	m := &Model{
		Weights: &Weights{Params: d.params()}, Readout: &Readout{Outputs: d.Outputs, Inputs: d.Size},
		Steps: d.Steps, Mode: d.Mode, Feature: d.Feature, Labels: d.Labels,
	}
	if d.Size < 1 || d.Size > maxSide || d.Inputs < 1 || d.Inputs > maxSide || d.Outputs < 1 || d.Outputs > maxSide {
		return nil, fmt.Errorf("%d neurons, %d channels, %d outputs: there may be 1 to %d", d.Size, d.Inputs, d.Outputs, maxSide)
	}
	w, recurrent, input := m.Weights, f.length("recurrent.value"), f.length("input.value")
	if recurrent > maxEntries || input > maxEntries {
		return nil, fmt.Errorf("%d recurrent and %d input weights: there may be %d", recurrent, input, maxEntries)
	}
	err = errors.Join(
		readTensor(f, "recurrent.start", "I32", &w.Recurrent.Start, d.Size+1),
		readTensor(f, "recurrent.column", "I32", &w.Recurrent.Column, recurrent),
		readTensor(f, "recurrent.value", "F32", &w.Recurrent.Value, recurrent),
		readTensor(f, "input.start", "I32", &w.Input.Start, d.Size+1),
		readTensor(f, "input.column", "I32", &w.Input.Column, input),
		readTensor(f, "input.value", "F32", &w.Input.Value, input),
		readTensor(f, "bias", "F32", &w.Bias, d.Size),
		readTensor(f, "readout", "F64", &m.Readout.Weights, d.Outputs, d.Size+1),
		f.leftOver(),
	)
	if err == nil {
		err = m.checkRead()
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// checkRead checks what [Weights.check] need not, since New draws it so: entries in the
// order of their columns, as many as the rows say, and finite numbers.
func (m *Model) checkRead() error {
	if err := m.Validate(); err != nil {
		return err
	}
	w := m.Weights
	for _, part := range []*Matrix{&w.Recurrent, &w.Input} {
		if int(part.Start[w.Size]) != len(part.Column) {
			return fmt.Errorf("rows of %d weights, and there are %d", part.Start[w.Size], len(part.Column))
		}
		for i := range w.Size {
			row := part.Column[part.Start[i]:part.Start[i+1]]
			for e := 1; e < len(row); e++ {
				if row[e] <= row[e-1] {
					return fmt.Errorf("the weights of neuron %d are not in the order of their columns", i)
				}
			}
		}
	}
	for _, xs := range [][]float32{w.Recurrent.Value, w.Input.Value, w.Bias} {
		if slices.ContainsFunc(xs, func(x float32) bool { return !finite(float64(x)) }) {
			return errors.New("a weight is not a finite number")
		}
	}
	if slices.ContainsFunc(m.Readout.Weights, func(x float64) bool { return !finite(x) }) {
		return errors.New("a weight of the readout is not a finite number")
	}
	return nil
}
