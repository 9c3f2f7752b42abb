package reservoir

import (
	"errors"
	"fmt"
	"math"

	"github.com/weft-run/weft/internal/philox"
)

// ErrParams says that a parameter or an input is outside its range.
var ErrParams = errors.New("invalid reservoir parameter")

// The streams of a seed. Numbers drawn from one stream are independent of the
// others.
const (
	streamRecurrent = iota
	streamInput
	streamBias
	streamNoise
	streamEncode
	streamStart
	streamValues
	streamChecked
)

// Params describes a reservoir.
type Params struct {
	Size           int     // neurons
	Inputs         int     // channels of input
	SpectralRadius float64 // of the recurrent weights, in (0, 1)
	Connectivity   float64 // probability that a weight is not zero, in (0, 1]
	Leak           float64 // share of the new activation in a step, in (0, 1]
	InputScaling   float64 // input weights are uniform in this, plus or minus
	BiasScaling    float64 // so are biases
	Noise          float64 // and what is added to every activation
	Seed           uint32
}

// Defaults returns the parameters of the reservoir this package is compatible
// with.
func Defaults() Params {
	return Params{Size: 1000, Inputs: 100, SpectralRadius: 0.95, Connectivity: 0.1, Leak: 0.3, InputScaling: 1, Noise: 0.01}
}

// Validate returns ErrParams if a parameter is outside its range.
func (p Params) Validate() error {
	switch {
	case p.Size <= 0:
		return fmt.Errorf("reservoir: size %d: have at least one neuron: %w", p.Size, ErrParams)
	case p.Inputs <= 0:
		return fmt.Errorf("reservoir: %d inputs: have at least one: %w", p.Inputs, ErrParams)
	case !(p.SpectralRadius > 0 && p.SpectralRadius < 1):
		return fmt.Errorf("reservoir: spectral radius %v: choose one between 0 and 1, or the state does not forget: %w", p.SpectralRadius, ErrParams)
	case !(p.Connectivity > 0 && p.Connectivity <= 1):
		return fmt.Errorf("reservoir: connectivity %v is not a probability above zero: %w", p.Connectivity, ErrParams)
	case !(p.Leak > 0 && p.Leak <= 1):
		return fmt.Errorf("reservoir: leak %v: choose one above 0 and up to 1: %w", p.Leak, ErrParams)
	case !finite(p.InputScaling) || !finite(p.BiasScaling) || !finite(p.Noise) || p.Noise < 0:
		return fmt.Errorf("reservoir: input scaling %v, bias scaling %v and noise %v must be finite, noise not negative: %w",
			p.InputScaling, p.BiasScaling, p.Noise, ErrParams)
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// Matrix is a sparse matrix by rows: the entries of row i are those from
// Start[i] to Start[i+1]-1 of Column and Value, in the order of their columns.
// Some successive rows of a matrix are parts of its slices; they count from
// Start[0].
type Matrix struct {
	Start  []int32
	Column []int32
	Value  []float32
}

// Weights are the fixed random weights of a reservoir, or of some successive
// neurons of it. They are not changed after [New] and may be used by many
// goroutines.
type Weights struct {
	Params
	First     int // neuron whose weights come first
	Recurrent Matrix
	Input     Matrix
	Bias      []float32
}

// New draws the weights of a reservoir. Every weight is a function of the seed
// and of its place. It returns ErrParams if the parameters are not valid or
// connect too few neurons for the spectral radius to be scaled.
func New(p Params) (*Weights, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	w := &Weights{Params: p, Bias: make([]float32, p.Size)}
	w.Recurrent = draw(philox.Source{Seed: p.Seed, Stream: streamRecurrent}, p.Size, p.Size, p.Connectivity, true)
	w.Input = draw(philox.Source{Seed: p.Seed, Stream: streamInput}, p.Size, p.Inputs, p.Connectivity, false)
	bias := philox.Source{Seed: p.Seed, Stream: streamBias}
	for i := range w.Bias {
		w.Bias[i] = float32(p.BiasScaling * philox.Symmetric(bias.Uint32(uint64(i), 0, 0)))
	}
	w.Input.scale(p.InputScaling)
	radius := w.Recurrent.SpectralRadius()
	if radius < 1e-6 {
		return nil, fmt.Errorf("reservoir: %d neurons with connectivity %v have no cycle: raise either: %w", p.Size, p.Connectivity, ErrParams)
	}
	w.Recurrent.scale(p.SpectralRadius / radius)
	return w, nil
}

// draw returns a matrix whose entries are uniform in (-1, 1) with a probability
// and zero otherwise, and zero on the diagonal if that is asked for.
func draw(source philox.Source, rows, columns int, probability float64, hollow bool) Matrix {
	m := Matrix{Start: make([]int32, 1, rows+1)}
	for i := range rows {
		for j := range columns {
			word := source.Block(uint64(i), 0, uint32(j))
			if philox.Unit(word[0]) < probability && !(hollow && i == j) {
				m.Column = append(m.Column, int32(j))
				m.Value = append(m.Value, float32(philox.Symmetric(word[1])))
			}
		}
		m.Start = append(m.Start, int32(len(m.Column)))
	}
	return m
}

func (m *Matrix) scale(by float64) {
	for i, v := range m.Value {
		m.Value[i] = float32(by * float64(v))
	}
}

// multiply sets dst to the product of the matrix with x, in float64.
func (m *Matrix) multiply(dst, x []float64) {
	for i := range dst {
		var sum float64
		lo, hi := m.Start[i], m.Start[i+1]
		columns := m.Column[lo:hi]
		for e, v := range m.Value[lo:hi] {
			sum += float64(v) * x[columns[e]]
		}
		dst[i] = sum
	}
}
