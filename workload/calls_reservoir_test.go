package workload_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/reservoir"
)

// network returns a small reservoir without noise, and patterns of unequal durations and
// numbers of spikes.
func network(t *testing.T, seed uint64) (*reservoir.Weights, []reservoir.Pattern) {
	t.Helper()
	p := reservoir.Defaults()
	p.Size, p.Inputs, p.Seed, p.Noise, p.BiasScaling, p.Connectivity = 37, 5, uint32(seed), 0, 0.2, 0.3
	w, err := reservoir.New(p)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(seed, 5))
	patterns := make([]reservoir.Pattern, 1+r.IntN(150))
	for i := range patterns {
		q := &patterns[i]
		q.Duration = 10 + 200*r.Float64()
		for range 1 + r.IntN(40) {
			q.Spikes = append(q.Spikes, reservoir.Spike{Channel: r.IntN(p.Inputs), Time: q.Duration * r.Float64(), Amplitude: 2*r.Float64() - 0.5})
		}
	}
	return w, patterns
}

// dense is a sparse matrix with all its zeros.
func dense(m *reservoir.Matrix, rows, columns int) []float64 {
	out := make([]float64, rows*columns)
	for i := range rows {
		for e := m.Start[i]; e < m.Start[i+1]; e++ {
			out[i*columns+int(m.Column[e])] += float64(m.Value[e])
		}
	}
	return out
}

func testReservoir(t *testing.T, rt *weft.Runtime) {
	for seed := range uint64(5) {
		w, patterns := network(t, seed)
		steps := []int{1, 2, 7, 20, 33}[seed]
		got, err := reservoir.Of(t.Context(), rt, w, reservoir.Sequence, patterns, steps)
		if err != nil || len(got) != len(patterns) {
			t.Fatalf("seed %d: %d echoes of %d patterns, %v", seed, len(got), len(patterns), err)
		}
		recurrent, input := dense(&w.Recurrent, w.Size, w.Size), dense(&w.Input, w.Size, w.Inputs)
		for i, p := range patterns {
			x, mean := make([]float64, w.Size), make([]float64, w.Size)
			for step := range steps {
				u := make([]float64, w.Inputs)
				for _, s := range p.Spikes {
					if int(math.Floor(s.Time/p.Duration*float64(steps))) == step {
						u[s.Channel] += 1 + s.Amplitude
					}
				}
				next := make([]float64, w.Size)
				for n := range next {
					sum := float64(w.Bias[n])
					for k, v := range x {
						sum += recurrent[n*w.Size+k] * v
					}
					for k, v := range u {
						sum += input[n*w.Inputs+k] * v
					}
					next[n] = (1-w.Leak)*x[n] + w.Leak*math.Tanh(sum)
					mean[n] += next[n] / float64(steps)
				}
				x = next
			}
			for n := range x {
				if d := math.Abs(float64(got[i].Last[n]) - x[n]); !(d < 1e-4) {
					t.Fatalf("seed %d, pattern %d, neuron %d: %v, want %v", seed, i, n, got[i].Last[n], x[n])
				}
				if d := math.Abs(float64(got[i].Mean[n]) - mean[n]); !(d < 1e-4) {
					t.Fatalf("seed %d, pattern %d, neuron %d: mean %v, want %v", seed, i, n, got[i].Mean[n], mean[n])
				}
			}
		}
		// The order of patterns changes nothing but the order of echoes.
		slices.Reverse(patterns)
		again, err := reservoir.Of(t.Context(), rt, w, reservoir.Sequence, patterns, steps)
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(again)
		for i := range got {
			if !slices.Equal(got[i].Last, again[i].Last) || !slices.Equal(got[i].Mean, again[i].Mean) {
				t.Fatalf("seed %d: pattern %d has another echo among patterns in another order", seed, i)
			}
		}
	}
	testReadout(t, rt)
	if got, err := reservoir.Of(t.Context(), rt, &reservoir.Weights{}, reservoir.Sequence, nil, 0); got != nil || err != nil {
		t.Errorf("no patterns: %v, %v", got, err)
	}
}

// testReadout learns on which channel the spikes of a pattern are, and tells it of others.
func testReadout(t *testing.T, rt *weft.Runtime) {
	w, _ := network(t, 1)
	const n, steps = 200, 10
	patterns, targets := make([]reservoir.Pattern, n), make([]float64, n*w.Inputs)
	r := rand.New(rand.NewPCG(3, 3))
	for i := range patterns {
		channel := i % w.Inputs
		targets[i*w.Inputs+channel] = 1
		for range 8 {
			patterns[i].Spikes = append(patterns[i].Spikes, reservoir.Spike{Channel: channel, Time: 50 * r.Float64()})
		}
		patterns[i].Duration = 50
	}
	echoes, err := reservoir.Of(t.Context(), rt, w, reservoir.Sequence, patterns[:n/2], steps)
	if err != nil {
		t.Fatal(err)
	}
	var states []float64
	for _, e := range echoes {
		for _, x := range e.Mean {
			states = append(states, float64(x))
		}
	}
	readout, err := reservoir.Train(states, targets[:n/2*w.Inputs], w.Size, w.Inputs, 1e-6)
	if err != nil {
		t.Fatal(err)
	}
	model := &reservoir.Model{Weights: w, Readout: readout, Steps: steps, Mode: reservoir.Sequence, Feature: reservoir.Mean}
	outputs, err := reservoir.Outputs(t.Context(), rt, model, patterns[n/2:])
	if err != nil || len(outputs) != n/2 {
		t.Fatalf("%d outputs, %v", len(outputs), err)
	}
	wrong := 0
	for i, o := range outputs {
		if class, _ := reservoir.Class(o); class != (n/2+i)%w.Inputs {
			wrong++
		}
	}
	if wrong > n/2/20 {
		t.Errorf("the readout tells %d of %d patterns wrongly", wrong, n/2)
	}
}

// What is no reservoir or no pattern is refused in one line.
func TestReservoirRefuses(t *testing.T) {
	w, patterns := network(t, 2)
	broken := func(change func(w *reservoir.Weights)) *reservoir.Weights {
		c := *w
		c.Recurrent.Column, c.Input.Start = slices.Clone(w.Recurrent.Column), slices.Clone(w.Input.Start)
		change(&c)
		return &c
	}
	late := slices.Clone(patterns)
	late[0] = reservoir.Pattern{Duration: 10, Spikes: []reservoir.Spike{{Time: 10}}}
	for name, c := range map[string]struct {
		w        *reservoir.Weights
		patterns []reservoir.Pattern
		steps    int
	}{
		"no weights":          {&reservoir.Weights{Params: w.Params}, patterns, 3},
		"a column beyond":     {broken(func(w *reservoir.Weights) { w.Recurrent.Column[3] = int32(w.Size) }), patterns, 3},
		"rows out of order":   {broken(func(w *reservoir.Weights) { w.Input.Start[2] = w.Input.Start[4] + 1 }), patterns, 3},
		"rows beyond the end": {broken(func(w *reservoir.Weights) { w.Input.Start[w.Size]++ }), patterns, 3},
		"some neurons":        {broken(func(w *reservoir.Weights) { w.First = 4 }), patterns, 3},
		"no steps":            {w, patterns, 0},
		"a late spike":        {w, late, 3},
		"an empty pattern":    {w, []reservoir.Pattern{{Duration: 1}}, 3},
	} {
		if _, err := reservoir.Of(t.Context(), nil, c.w, reservoir.Sequence, c.patterns, c.steps); !errors.Is(err, reservoir.ErrParams) {
			t.Errorf("%s: %v", name, err)
		}
	}
	short := &reservoir.Readout{Inputs: w.Size, Outputs: 3, Weights: make([]float64, 7)}
	model := &reservoir.Model{Weights: w, Readout: short, Steps: 3, Mode: reservoir.Sequence, Feature: reservoir.Mean}
	if _, err := reservoir.Outputs(t.Context(), nil, model, patterns); !errors.Is(err, reservoir.ErrParams) {
		t.Errorf("a readout without weights: %v", err)
	}
}
