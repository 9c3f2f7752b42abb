// Package learn has the tasks that reservoirs are trained for: two standard benchmarks
// and a real data set that come with weft, and files of the user's own spike patterns.
//
// Every task is patterns with targets, some to train on and others to score with. What is
// drawn is a function of the seed, so that a score can be repeated.
package learn

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed" // the digits
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/workload/reservoir"
)

// ErrTask is wrapped by every error about a task, its files or its settings.
var ErrTask = errors.New("not a task")

// Sample is a pattern with its target.
type Sample struct {
	Pattern reservoir.Pattern
	Target  []float64
}

// Task is a problem that a reservoir is trained for.
type Task struct {
	Name   string
	About  string // in a few words
	Params reservoir.Params
	// Model has all but weights and readout.
	Model       reservoir.Model
	Lambda      float64 // of the ridge
	Train, Test []Sample
}

// Classes reports whether targets are classes, whose score is the share of samples that
// are told right. Else it is the error of the first output, see [Score].
func (t *Task) Classes() bool { return len(t.Model.Labels) > 0 }

// Result is the result of training.
type Result struct {
	Model *reservoir.Model
	// Trained and Tested are the scores on the samples for training and for testing.
	Trained, Tested float64
}

// Run draws the weights, trains the readout on the devices of a runtime that was opened
// with [reservoir.Funcs], and scores it. It tells what it does next.
func (t *Task) Run(ctx context.Context, rt *weft.Runtime, next func(what string)) (*Result, error) {
	next("drawing weights")
	m := t.Model
	var err error
	if m.Weights, err = reservoir.New(t.Params); err != nil {
		return nil, err
	}
	next("training")
	patterns, targets := apart(t.Train)
	if err := m.Train(ctx, rt, patterns, targets, t.Lambda); err != nil {
		return nil, err
	}
	r := &Result{Model: &m}
	for _, part := range []struct {
		samples []Sample
		score   *float64
	}{{t.Train, &r.Trained}, {t.Test, &r.Tested}} {
		next("scoring")
		patterns, targets := apart(part.samples)
		outputs, err := reservoir.Outputs(ctx, rt, &m, patterns)
		if err != nil {
			return nil, err
		}
		*part.score = Score(outputs, targets, t.Classes())
	}
	return r, nil
}

func apart(samples []Sample) (patterns []reservoir.Pattern, targets [][]float64) {
	for _, s := range samples {
		patterns, targets = append(patterns, s.Pattern), append(targets, s.Target)
	}
	return patterns, targets
}

// Score compares outputs with targets: for classes it is the share whose largest output is
// the target's, else the root of the mean squared error of the first output divided by the
// standard deviation of its target (NRMSE), 0 at best, 1 for the mean of the targets.
func Score(outputs, targets [][]float64, classes bool) float64 {
	n := float64(len(targets))
	if classes {
		right := 0.0
		for i, y := range targets {
			got, _ := reservoir.Class(outputs[i])
			if want, _ := reservoir.Class(y); got == want {
				right++
			}
		}
		return right / n
	}
	var mean, square, variance float64
	for _, y := range targets {
		mean += y[0] / n
	}
	for i, y := range targets {
		square += (outputs[i][0] - y[0]) * (outputs[i][0] - y[0])
		variance += (y[0] - mean) * (y[0] - mean)
	}
	return math.Sqrt(square / variance)
}

// narmaSteps is the window of inputs that a prediction of NARMA-10 sees: five times as
// many as the output depends on by its definition, since it depends on itself too.
const narmaSteps = 50

// NARMA10 is the benchmark of Atiya and Parlos (2000): to predict the next output of a
// system from its random inputs, where the output is a product of inputs and outputs of
// the last ten steps. 2,000 samples are for training, 1,000 for testing.
func NARMA10(size int, seed uint32) *Task {
	const washout, train, test = 200, 2000, 1000
	in, out := make([]float64, washout+train+test), make([]float64, washout+train+test)
	draw := philox.Source{Seed: seed, Stream: streamNARMA}
	t := &Task{
		Name: "narma10", About: "predict a nonlinear system of order ten",
		Params: reservoir.Params{
			Size: size, Inputs: 1, SpectralRadius: 0.9, Connectivity: min(1, 100/float64(max(size, 1))), Leak: 1,
			InputScaling: 0.2, BiasScaling: 0.2, Seed: seed,
		},
		Model:  reservoir.Model{Steps: narmaSteps, Mode: reservoir.Sequence, Feature: reservoir.Last},
		Lambda: 1e-8,
	}
	for i := range in {
		in[i] = 0.5 * philox.Unit(draw.Uint32(uint64(i), 0, 0))
		if i < 10 {
			continue
		}
		var sum float64
		for _, y := range out[i-10 : i] {
			sum += y
		}
		out[i] = 0.3*out[i-1] + 0.05*out[i-1]*sum + 1.5*in[i-1]*in[i-10] + 0.1
		if i < washout {
			continue
		}
		s := Sample{Pattern: signal(in[i-narmaSteps : i]), Target: []float64{out[i]}}
		if i < washout+train {
			t.Train = append(t.Train, s)
		} else {
			t.Test = append(t.Test, s)
		}
	}
	return t
}

// signal is a pattern that has a value in every millisecond: a spike as large.
func signal(values []float64) reservoir.Pattern {
	p := reservoir.Pattern{Duration: float64(len(values))}
	for k, v := range values {
		p.Spikes = append(p.Spikes, reservoir.Spike{Time: float64(k) + 0.5, Amplitude: v - 1})
	}
	return p
}

// The streams of a seed, distinct from the ones of package reservoir.
const (
	streamNARMA = 1000 + iota
	streamMemory
)

//go:embed digits/digits.csv.gz
var digitsFile []byte

// digitsTrain is the number of images for training; the others are for testing.
const digitsTrain = 1200

// Digits is handwritten digits as spikes: 1,797 real images of 8 × 8 pixels, each of which
// is a channel with a rate of 1 to 100 Hz for a second. See digits/README.md.
func Digits(size int, seed uint32) (*Task, error) {
	t := &Task{
		Name: "digits", About: "tell handwritten digits, pixels as rates of spikes",
		Params: reservoir.Params{
			Size: size, Inputs: 64, SpectralRadius: 0.95, Connectivity: 0.1, Leak: 0.3, InputScaling: 0.2, Seed: seed,
		},
		Model:  reservoir.Model{Steps: 20, Mode: reservoir.Sequence, Feature: reservoir.Mean},
		Lambda: 0.1,
	}
	for d := range 10 {
		t.Model.Labels = append(t.Model.Labels, strconv.Itoa(d))
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(digitsFile))
	if err != nil {
		return nil, err
	}
	rows, err := csv.NewReader(unpacked).ReadAll()
	if err != nil {
		return nil, err
	}
	encoder := reservoir.Encoder{Seed: seed, Duration: 1000}
	pixels := make([]float64, 64)
	for i, row := range rows {
		if len(row) != 65 {
			return nil, fmt.Errorf("digits: line %d has %d values: %w", i+1, len(row), ErrTask)
		}
		for k := range pixels {
			v, err := strconv.Atoi(row[k])
			if err != nil {
				return nil, err
			}
			pixels[k] = float64(v) / 16
		}
		digit, err := strconv.Atoi(row[64])
		if err != nil || digit < 0 || digit > 9 {
			return nil, fmt.Errorf("digits: line %d is the digit %q: %w", i+1, row[64], ErrTask)
		}
		s := Sample{Target: make([]float64, 10)}
		s.Target[digit] = 1
		if s.Pattern, err = encoder.Rate(pixels, uint64(i)); err != nil {
			return nil, err
		}
		if i < digitsTrain {
			t.Train = append(t.Train, s)
		} else {
			t.Test = append(t.Test, s)
		}
	}
	return t, nil
}
