package reservoir

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/weft-run/weft/internal/philox"
)

// lorentzian returns oscillators with the quantiles of a Lorentzian distribution of half
// width g as frequencies, and random phases.
func lorentzian(n int, g float64) Oscillators {
	var o Oscillators
	draw := philox.Source{Seed: 3, Stream: streamValues}
	for i := range n {
		o.Frequency = append(o.Frequency, g*math.Tan(math.Pi*((float64(i)+0.5)/float64(n)-0.5)))
		o.Phase = append(o.Phase, 2*math.Pi*philox.Unit(draw.Uint32(uint64(i), 0, 0)))
	}
	return o
}

// The order of many oscillators is what the theory gives for Lorentzian frequencies: none
// below the critical coupling of 2g, √(1 - 2g/K) above (Kuramoto 1975).
func TestKuramotoOrder(t *testing.T) {
	const g, n = 0.5, 1000
	rt := openCPU(t, "cpu")
	for _, coupling := range []float64{0.5, 1.5, 2, 4} {
		want := math.Sqrt(max(0, 1-2*g/coupling))
		set := []Oscillators{lorentzian(n, g)}
		k := Kuramoto{Coupling: coupling, Step: 0.05, Steps: 800}
		if _, err := k.Couple(context.Background(), rt, set); err != nil { // until it has settled
			t.Fatal(err)
		}
		k.Steps = 40
		const samples = 15
		mean := 0.0
		for range samples {
			if _, err := k.Couple(context.Background(), rt, set); err != nil {
				t.Fatal(err)
			}
			mean += Order(set[0].Phase) / samples
		}
		t.Logf("coupling %v: order %.3f, theory %.3f", coupling, mean, want)
		if math.Abs(mean-want) > 0.05 {
			t.Errorf("coupling %v: order %.3f, want %.3f", coupling, mean, want)
		}
	}
}

// Phases are those that the sum over all pairs gives, and the same bits whoever computes
// them; spikes are where phases pass multiples of 2π.
func TestKuramotoAgainstPairs(t *testing.T) {
	const n, sets = 70, 5
	k := Kuramoto{Coupling: 1.3, Step: 0.1, Steps: 50}
	var all, again []Oscillators
	for s := range sets {
		o := lorentzian(n, 0.2+0.1*float64(s))
		all = append(all, o)
		again = append(again, Oscillators{Phase: slices.Clone(o.Phase), Frequency: o.Frequency})
	}
	want, spikes := make([][]float64, sets), make([][]Spike, sets)
	for s, o := range all {
		theta := slices.Clone(o.Phase)
		for step := range k.Steps {
			next := make([]float64, n)
			for i := range theta {
				sum := 0.0
				for j := range theta {
					sum += math.Sin(theta[j] - theta[i])
				}
				next[i] = theta[i] + k.Step*(o.Frequency[i]+k.Coupling/n*sum)
				if math.Floor(next[i]/(2*math.Pi)) > math.Floor(theta[i]/(2*math.Pi)) {
					spikes[s] = append(spikes[s], Spike{Channel: i, Time: k.Step * (float64(step) + 0.5)})
				}
			}
			theta = next
		}
		want[s] = theta
	}
	patterns, err := k.Couple(context.Background(), openCPU(t, "cpu"), all)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Couple(context.Background(), openCPU(t, "cpu/3"), again); err != nil {
		t.Fatal(err)
	}
	for s := range sets {
		for i := range n {
			if d := all[s].Phase[i] - want[s][i]; math.Abs(d) > 1e-9 {
				t.Fatalf("set %d, oscillator %d: off by %v", s, i, d)
			}
		}
		if !slices.Equal(all[s].Phase, again[s].Phase) {
			t.Errorf("set %d: other bits on three devices", s)
		}
		if !slices.Equal(patterns[s].Spikes, spikes[s]) {
			t.Errorf("set %d: spikes %v, want %v", s, patterns[s].Spikes, spikes[s])
		}
		if err := patterns[s].Validate(n); err != nil {
			t.Error(err)
		}
	}
}

func TestKuramotoRefuses(t *testing.T) {
	one := Oscillators{Phase: []float64{0}, Frequency: []float64{1}}
	for name, c := range map[string]struct {
		k    Kuramoto
		sets []Oscillators
	}{
		"no step":        {Kuramoto{1, 0, 1}, []Oscillators{one}},
		"no steps":       {Kuramoto{1, 1, 0}, []Oscillators{one}},
		"no coupling":    {Kuramoto{math.NaN(), 1, 1}, []Oscillators{one}},
		"no oscillators": {Kuramoto{1, 1, 1}, []Oscillators{{}}},
		"unequal sets":   {Kuramoto{1, 1, 1}, []Oscillators{one, {}}},
		"no frequency":   {Kuramoto{1, 1, 1}, []Oscillators{{Phase: []float64{1}}}},
		"infinite phase": {Kuramoto{1, 1, 1}, []Oscillators{{Phase: []float64{math.Inf(1)}, Frequency: []float64{1}}}},
	} {
		if _, err := c.k.Couple(context.Background(), nil, c.sets); !errors.Is(err, ErrParams) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if p, err := (Kuramoto{}).Couple(context.Background(), nil, nil); p != nil || err != nil {
		t.Errorf("no sets: %v, %v", p, err)
	}
}
