package reservoir_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"math"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/workload/reservoir"
)

// A model learns whether spikes come early or late, goes through a file, and answers
// predictions.
func ExampleNewPredictor() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: reservoir.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	params := reservoir.Defaults()
	params.Size, params.Inputs = 50, 2
	w, err := reservoir.New(params)
	if err != nil {
		log.Fatal(err)
	}
	pattern := func(t float64) reservoir.Pattern {
		return reservoir.Pattern{Duration: 20, Spikes: []reservoir.Spike{{Channel: 0, Time: t}, {Channel: 1, Time: t + 1}}}
	}
	m := &reservoir.Model{Weights: w, Steps: 10, Mode: reservoir.Sequence, Feature: reservoir.Last, Labels: []string{"early", "late"}}
	var patterns []reservoir.Pattern
	var targets [][]float64
	for t := range 8 {
		patterns = append(patterns, pattern(float64(t)), pattern(float64(t+10)))
		targets = append(targets, []float64{1, 0}, []float64{0, 1})
	}
	if err := m.Train(ctx, rt, patterns, targets, 1e-3); err != nil {
		log.Fatal(err)
	}

	var file bytes.Buffer // safetensors
	if _, err := m.WriteTo(&file); err != nil {
		log.Fatal(err)
	}
	m, err = reservoir.ReadModel(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		log.Fatal(err)
	}

	p, err := reservoir.NewPredictor(rt, m, 16)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	inputs, outputs := make([][]float32, 2), make([][]float32, 2)
	for i, t := range []float64{2.5, 16.5} {
		inputs[i], outputs[i] = make([]float32, m.InputLen()), make([]float32, 2)
		if err := m.Input(inputs[i], pattern(t)); err != nil {
			log.Fatal(err)
		}
	}
	if err := p.Predict(ctx, inputs, outputs); err != nil {
		log.Fatal(err)
	}
	for _, o := range outputs {
		class, _ := reservoir.Class([]float64{float64(o[0]), float64(o[1])})
		fmt.Println(m.Label(class))
	}
	// Output:
	// early
	// late
}

// Two oscillators of different frequencies fall into step if they are coupled.
func ExampleKuramoto_Couple() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu", Funcs: reservoir.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	for _, coupling := range []float64{0, 0.1} { // radians a millisecond
		set := reservoir.Oscillators{Phase: []float64{0, 3}, Frequency: []float64{0.25, 0.27}}
		k := reservoir.Kuramoto{Coupling: coupling, Step: 0.5, Steps: 400}
		patterns, err := k.Couple(ctx, rt, []reservoir.Oscillators{set})
		if err != nil {
			log.Fatal(err)
		}
		apart := math.Mod(set.Phase[1]-set.Phase[0], 2*math.Pi)
		fmt.Printf("coupling %v: %d spikes, %.2f apart\n", coupling, len(patterns[0].Spikes), apart)
	}
	// Output:
	// coupling 0: 16 spikes, 0.72 apart
	// coupling 0.1: 16 spikes, 0.20 apart
}

// The memory that a device needs for batches of 100 inputs, before a predictor is made.
func ExampleModel_PredictorBytes() {
	params := reservoir.Defaults()
	params.Size, params.Inputs = 50, 2
	w, err := reservoir.New(params)
	if err != nil {
		log.Fatal(err)
	}
	m := &reservoir.Model{Weights: w, Steps: 20, Mode: reservoir.Sequence}
	_, work := m.PredictorBytes(&machine.Machine{Devices: []machine.Device{{Name: "cpu:0", Backend: "cpu"}}}, 100)
	fmt.Println(work, "bytes beside the weights")
	// Output: 96000 bytes beside the weights
}
