package reservoir

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// someStates returns samples like those of a reservoir: correlated, some of them tiny, one
// as large as a state can be.
func someStates(samples, values int) []float32 {
	r := rand.New(rand.NewPCG(4, uint64(samples)))
	states := make([]float32, samples*values)
	for s := range samples {
		common := r.NormFloat64()
		for i := range values {
			states[s*values+i] = float32(math.Tanh(common + math.Pow(2, -float64(i%20))*r.NormFloat64()))
		}
	}
	states[values] = -1
	return states
}

// The products of states are those of integers, to the last bit of a float64, over
// more samples than one product on devices takes.
func TestGramIsExact(t *testing.T) {
	const samples, values = 2*digitSamples + 77, 23
	states := someStates(samples, values)
	g := gram{n: values, unit: math.Ldexp(1, -23), sum: make([]float64, (values+1)*(values+1))}
	rt := openCPU(t, "cpu")
	for lo := 0; lo < samples; lo += digitSamples {
		hi := min(lo+digitSamples, samples)
		if err := g.add(context.Background(), rt, states[lo*values:hi*values], hi-lo); err != nil {
			t.Fatal(err)
		}
	}
	for i := range values {
		for j := range i + 1 {
			var want int64
			for s := range samples {
				want += int64(math.RoundToEven(float64(states[s*values+i])*(1<<23))) * int64(math.RoundToEven(float64(states[s*values+j])*(1<<23)))
			}
			got := math.Ldexp(g.sum[i*(values+1)+j], 46)
			if d := got - float64(want); math.Abs(d) > 1e-15*samples*(1<<46) {
				t.Fatalf("product of %d and %d is off by %v of %v", i, j, d, want)
			}
		}
	}
}

// Trained on devices, a readout is what Train makes of the same states.
func TestTrainOn(t *testing.T) {
	const samples, values, outputs = 1500, 40, 3
	states := someStates(samples, values)
	r := rand.New(rand.NewPCG(6, 6))
	same, targets := make([]float64, len(states)), make([]float64, samples*outputs)
	for i, x := range states {
		same[i] = math.RoundToEven(float64(x)*(1<<23)) / (1 << 23)
	}
	for i := range targets {
		targets[i] = r.NormFloat64()
	}
	rt := openCPU(t, "cpu")
	for _, lambda := range []float64{1, 1e-4, 1e-8} {
		want, err := Train(same, targets, values, outputs, lambda)
		if err != nil {
			t.Fatal(err)
		}
		got, err := TrainOn(context.Background(), rt, states, targets, values, outputs, lambda)
		if err != nil {
			t.Fatal(err)
		}
		// Sums of 1,500 products are rounded to about 1e-13 in float64, a share of lambda
		// by which outputs may differ where states say nothing.
		within := 1e-9 + 1e-12/lambda
		a, b := make([]float64, outputs), make([]float64, outputs)
		for s := range samples {
			got.Read(a, states[s*values:(s+1)*values], 1, 0)
			want.Read(b, states[s*values:(s+1)*values], 1, 0)
			for o := range a {
				if math.Abs(a[o]-b[o]) > within {
					t.Fatalf("lambda %v: output %d for state %d: %v, want %v", lambda, o, s, a[o], b[o])
				}
			}
		}
	}
	ctx := context.Background()
	if _, err := TrainOn(ctx, rt, states, targets[1:], values, outputs, 1); !errors.Is(err, ErrParams) {
		t.Errorf("a target is missing: %v", err)
	}
	if _, err := TrainOn(ctx, rt, []float32{1, float32(math.NaN())}, []float64{1}, 2, 1, 1); !errors.Is(err, ErrParams) {
		t.Errorf("not a number: %v", err)
	}
	if _, err := TrainOn(ctx, rt, []float32{1, 1, 0.5, 0.5}, []float64{1, 2}, 2, 1, 0); !errors.Is(err, ErrParams) {
		t.Errorf("a singular system: %v", err)
	}
}

// A model that learned to tell patterns apart tells others, in both modes, and a predictor
// gives what Outputs gives.
func TestModelTrain(t *testing.T) {
	ctx := context.Background()
	rt := openCPU(t, "cpu")
	for _, mode := range []string{Sequence, Histogram} {
		p := Defaults()
		p.Size, p.Inputs = 60, 8
		m := &Model{Weights: mustNew(t, p), Steps: 6, Mode: mode, Feature: Mean, Labels: []string{"early", "late"}}
		if mode == Histogram {
			m.Steps, m.Feature = 1, Last
		}
		patterns, targets := earlyOrLate(120)
		if err := m.Train(ctx, rt, patterns[:80], targets[:80], 1e-4); err != nil {
			t.Fatal(err)
		}
		outputs, err := Outputs(ctx, rt, m, patterns[80:])
		if err != nil {
			t.Fatal(err)
		}
		pr := mustPredictor(t, rt, m, 16)
		in, out := [][]float32{make([]float32, m.InputLen())}, room(m, 1)
		for i, o := range outputs {
			if class, _ := Class(o); targets[80+i][class] != 1 {
				t.Errorf("%s: pattern %d is taken for %s", mode, i, m.Label(class))
			}
			if err := m.Input(in[0], patterns[80+i]); err != nil {
				t.Fatal(err)
			}
			if err := pr.Predict(ctx, in, out); err != nil {
				t.Fatal(err)
			}
			for k, v := range out[0] {
				if v != float32(o[k]) {
					t.Fatalf("%s: pattern %d, output %d: predicted %v, Outputs gives %v", mode, i, k, v, o[k])
				}
			}
		}
		if err := m.Train(ctx, rt, patterns, targets[1:], 1); !errors.Is(err, ErrParams) {
			t.Errorf("a target is missing: %v", err)
		}
		if err := m.Input(in[0], Pattern{Duration: 1}); !errors.Is(err, ErrParams) {
			t.Errorf("an empty pattern: %v", err)
		}
	}
}

// earlyOrLate returns patterns whose spikes are in the first or the second half.
func earlyOrLate(n int) (patterns []Pattern, targets [][]float64) {
	r := rand.New(rand.NewPCG(9, 9))
	for i := range n {
		p := Pattern{Duration: 20}
		for range 10 {
			p.Spikes = append(p.Spikes, Spike{Channel: r.IntN(8), Time: 10*float64(i%2) + 9.9*r.Float64()})
		}
		target := []float64{0, 0}
		target[i%2] = 1
		patterns, targets = append(patterns, p), append(targets, target)
	}
	return patterns, targets
}
