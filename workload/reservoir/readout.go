package reservoir

import (
	"fmt"
	"math"
)

// Readout is a linear map from a state to outputs.
type Readout struct {
	Outputs int
	Inputs  int
	// Weights has for each output one weight for every value of the state, then
	// the offset.
	Weights []float64
}

// Train returns the readout that fits outputs to states by ridge regression: it
// solves (X·Xᵀ + lambda·I)·Wᵀ = X·Yᵀ, where a column of X is a state with a one
// below. For each sample, states has a number of values and targets one of outputs.
// It returns ErrParams if the sizes do not fit, or if the system is singular,
// which a lambda above zero prevents.
func Train(states, targets []float64, values, outputs int, lambda float64) (*Readout, error) {
	if values <= 0 || outputs <= 0 || len(states)%values != 0 || len(states) == 0 || len(targets)*values != len(states)*outputs {
		return nil, fmt.Errorf("reservoir: train on %d states of %d values and %d targets of %d outputs: have one target for each state: %w",
			len(states), values, len(targets), outputs, ErrParams)
	}
	n := values + 1
	gram, right := make([]float64, n*n), make([]float64, n*outputs)
	x := make([]float64, n)
	x[values] = 1
	for s := range len(states) / values {
		copy(x, states[s*values:(s+1)*values])
		y := targets[s*outputs : (s+1)*outputs]
		for i, xi := range x {
			row := gram[i*n : i*n+i+1]
			for j := range row { // the lower triangle
				row[j] += xi * x[j]
			}
			for o, yo := range y {
				right[i*outputs+o] += xi * yo
			}
		}
	}
	return ridge(gram, right, n, outputs, lambda)
}

// ridge solves the system of a readout, of which gram has the lower triangle. It changes
// both sides.
func ridge(gram, right []float64, n, outputs int, lambda float64) (*Readout, error) {
	for i := range n {
		gram[i*n+i] += lambda
	}
	if !cholesky(gram, n) {
		return nil, fmt.Errorf("reservoir: train on states of %d values with lambda %v: the states do not determine the weights; raise lambda: %w",
			n-1, lambda, ErrParams)
	}
	solve(gram, right, n, outputs)
	r := &Readout{Outputs: outputs, Inputs: n - 1, Weights: make([]float64, n*outputs)}
	for i := range n {
		for o := range outputs {
			r.Weights[o*n+i] = right[i*outputs+o]
		}
	}
	return r, nil
}

// cholesky replaces the lower triangle of a symmetric n×n matrix by its factor
// L, with L·Lᵀ the matrix. It reports whether the matrix is positive definite.
func cholesky(a []float64, n int) bool {
	for i := range n {
		for j := range i + 1 {
			sum := a[i*n+j]
			ri, rj := a[i*n:i*n+j], a[j*n:j*n+j]
			for k, v := range ri {
				sum -= v * rj[k]
			}
			switch {
			case i != j:
				a[i*n+j] = sum / a[j*n+j]
			case sum > 0:
				a[i*n+i] = math.Sqrt(sum)
			default:
				return false
			}
		}
	}
	return true
}

// solve replaces each of the columns of b by the solution of L·Lᵀ·x = b.
func solve(l, b []float64, n, columns int) {
	for i := range n {
		for c := range columns {
			sum := b[i*columns+c]
			for k := range i {
				sum -= l[i*n+k] * b[k*columns+c]
			}
			b[i*columns+c] = sum / l[i*n+i]
		}
	}
	for i := n - 1; i >= 0; i-- {
		for c := range columns {
			sum := b[i*columns+c]
			for k := i + 1; k < n; k++ {
				sum -= l[k*n+i] * b[k*columns+c]
			}
			b[i*columns+c] = sum / l[i*n+i]
		}
	}
}

// Read sets dst to the outputs for the state of one pattern of a batch: state
// is X or Mean of a [State].
func (r *Readout) Read(dst []float64, state []float32, batch, column int) {
	n := r.Inputs + 1
	for o := range r.Outputs {
		w := r.Weights[o*n : (o+1)*n]
		sum := w[r.Inputs]
		for i, v := range w[:r.Inputs] {
			sum += float64(v * float64(state[i*batch+column]))
		}
		dst[o] = sum
	}
}

// readBatch sets dst to the outputs for the first states of a batch of width patterns.
// Every sum is taken in float64 in the order of neurons, so that it does not depend on the
// other patterns.
func (r *Readout) readBatch(dst [][]float32, state []float32, width int) {
	n := r.Inputs + 1
	var sum [tile]float64
	for o := range r.Outputs {
		w := r.Weights[o*n : (o+1)*n]
		for b := 0; b < len(dst); b += tile {
			lanes := sum[:min(tile, len(dst)-b)]
			for l := range lanes {
				lanes[l] = w[r.Inputs]
			}
			for i, v := range w[:r.Inputs] {
				for l, x := range state[i*width+b:][:len(lanes)] {
					lanes[l] += float64(v * float64(x))
				}
			}
			for l, v := range lanes {
				dst[b+l][o] = float32(v)
			}
		}
	}
}

// readEach is readBatch for states that lie one after the other: four of them are read at a
// time, each in the same order.
func (r *Readout) readEach(dst [][]float32, state []float32) {
	n := r.Inputs + 1
	for b := 0; b < len(dst); b += 4 {
		// Where there are no four, the last is read again.
		var x [4][]float32
		for l := range x {
			at := min(b+l, len(dst)-1)
			x[l] = state[at*r.Inputs : (at+1)*r.Inputs]
		}
		x0, x1, x2, x3 := x[0], x[1], x[2], x[3]
		for o := range r.Outputs {
			w := r.Weights[o*n : (o+1)*n]
			s0 := w[r.Inputs]
			s1, s2, s3 := s0, s0, s0
			for i, v := range w[:r.Inputs] {
				s0 += float64(v * float64(x0[i]))
				s1 += float64(v * float64(x1[i]))
				s2 += float64(v * float64(x2[i]))
				s3 += float64(v * float64(x3[i]))
			}
			for l, v := range [4]float64{s0, s1, s2, s3} {
				if b+l < len(dst) {
					dst[b+l][o] = float32(v)
				}
			}
		}
	}
}

// Direction is the prediction of a readout with three outputs.
type Direction uint8

// The directions are the outputs, in this order.
const (
	Up Direction = iota
	Down
	Hold
)

// Class returns the largest of the outputs, the first of equals, and its share
// of the softmax of all.
func Class(outputs []float64) (class int, confidence float64) {
	for o, v := range outputs {
		if v > outputs[class] {
			class = o
		}
	}
	var sum float64
	for _, v := range outputs {
		sum += math.Exp(v - outputs[class])
	}
	return class, 1 / sum
}

// Prediction is a class of three with its confidence, and the magnitude of its
// output.
type Prediction struct {
	Direction  Direction
	Confidence float64
	Magnitude  float64
}

// Predict returns the prediction of three outputs.
func Predict(outputs [3]float64) Prediction {
	class, confidence := Class(outputs[:])
	return Prediction{Direction(class), confidence, math.Abs(outputs[class])}
}

// Indicators are cheap figures about the state of a pattern. The names of the last three
// come from the reservoir this package is compatible with; in the literature these names
// have another meaning.
type Indicators struct {
	AverageActivation float64 // mean of the state
	MaxActivation     float64 // its largest value
	LastSpikeCount    int     // spikes of the pattern
	MemoryCapacity    float64 // |cos| of the angle between the state and the one before
	Separation        float64 // standard deviation of the state, at most 1
	Approximation     float64 // share of values beyond 0.01 in magnitude
}

// Indicate returns the indicators of one pattern of a batch after a run.
func (s *State) Indicate(column, spikes int) Indicators {
	var sum, square, product, before, active float64
	most := math.Inf(-1)
	n := float64(len(s.X) / s.Batch)
	for i := column; i < len(s.X); i += s.Batch {
		x, y := float64(s.X[i]), float64(s.Last[i])
		sum += x
		square += x * x
		product += x * y
		before += y * y
		most = max(most, x)
		if math.Abs(x) > 0.01 {
			active++
		}
	}
	in := Indicators{
		AverageActivation: sum / n,
		MaxActivation:     most,
		LastSpikeCount:    spikes,
		Separation:        min(math.Sqrt(max(square/n-sum/n*(sum/n), 0)), 1),
		Approximation:     active / n,
	}
	if square > 0 && before > 0 {
		in.MemoryCapacity = math.Abs(product) / math.Sqrt(square*before)
	}
	return in
}
