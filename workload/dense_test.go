//go:build gpu

package workload_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/cuda"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/reservoir"
)

// denseJobs have every kernel of dense weights between them, with patterns in blocks that the
// kernels do not fill.
func denseJobs(t *testing.T) (jobs []workload.Job) {
	t.Helper()
	for _, c := range []struct {
		size, inputs, batch, steps int
		connectivity               float64
	}{
		{203, 100, 5, 7, 0.1}, {1000, 64, 1, 20, 1}, // one pattern at a time
		{203, 100, 13, 7, 0.1},                         // two
		{203, 64, 21, 6, 0.1},                          // four
		{203, 100, 100, 7, 0.1}, {203, 90, 50, 5, 0.1}, // eight
		{203, 17, 60, 7, 0.1}, {1024, 64, 71, 3, 0.1}, // ten
		{203, 100, 259, 3, 0.1}, {203, 100, 260, 3, 0.1}, {1100, 37, 33, 3, 0.6}, // strips, one by one and in fours
		{1000, 64, 1040, 2, 0.1}, {203, 100, 5001, 2, 0.1}, // tiles, likewise
		{1101, 37, 1, 3, 0.6}, // lines
	} {
		p := reservoir.Defaults()
		p.Size, p.Inputs, p.Connectivity, p.BiasScaling = c.size, c.inputs, c.connectivity, 0.1
		j, err := reservoir.NewJob(reservoir.Config{Params: p, Batch: c.batch, Steps: c.steps})
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// testDense runs such jobs where devices need not give the bits of others.
func testDense(t *testing.T, jobs []workload.Job) {
	rt, err := weft.Open(t.Context(), weft.Options{NoCalibrate: true, CacheDir: "off", Drivers: []driver.Driver{cuda.New(cuda.Options{Devices: []int{0}})}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for _, j := range jobs {
		states := func() []byte { return bytes.Clone(workloadtest.Bytes(j.(interface{ States() []float32 }).States())) }
		workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Errorf("%s: %v", j.Name(), err)
		}
		all := states()
		workloadtest.InThirds(t, rt, j)
		if err := j.Check(); err != nil {
			t.Errorf("%s in three tasks: %v", j.Name(), err)
		}
		if workload.ClassOn(j, rt.Machine().Devices) == workload.RowExact && !bytes.Equal(all, states()) {
			t.Errorf("%s: three tasks give other bytes than one", j.Name())
		}
	}
	for _, patterns := range []int{5, 300} { // with clusters and without, from states that are not zero
		p := reservoir.Defaults()
		p.Size, p.Inputs = 203, 17
		j, err := reservoir.NewStreamJob(reservoir.StreamConfig{Params: p, Replicas: 2, Patterns: patterns, Steps: 3})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			workloadtest.Run(t, rt, j)
		}
		if err := j.Check(); err != nil {
			t.Errorf("%s: %v", j.Name(), err)
		}
		j.Release()
	}
	testPredictions(t, rt)
}

// testPredictions sees that a batch of predictions is what its inputs give one by one, and
// what the formula gives.
func testPredictions(t *testing.T, rt *weft.Runtime) {
	p := reservoir.Defaults()
	p.Size, p.Inputs = 203, 17
	w, err := reservoir.New(p)
	if err != nil {
		t.Fatal(err)
	}
	const steps, most, outputs = 9, 100, 3
	m := &reservoir.Model{Weights: w, Steps: steps, Mode: reservoir.Sequence, Feature: reservoir.Mean, Readout: &reservoir.Readout{Outputs: outputs, Inputs: p.Size}}
	for i := range outputs * (p.Size + 1) {
		m.Readout.Weights = append(m.Readout.Weights, float64(i%7)-3)
	}
	q, err := reservoir.NewPredictor(rt, m, most)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	inputs, answers := make([][]float32, most), make([][]float32, most)
	for b := range inputs {
		inputs[b], answers[b] = make([]float32, m.InputLen()), make([]float32, outputs)
		for i := range inputs[b] {
			inputs[b][i] = float32((b*31+i*7)%13) / 13
		}
	}
	for _, n := range []int{most, 41, 10} {
		if err := q.Predict(t.Context(), inputs[:n], answers[:n]); err != nil {
			t.Fatal(err)
		}
		for b := range n {
			one := [][]float32{make([]float32, outputs)}
			if err := q.Predict(t.Context(), inputs[b:b+1], one); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(one[0], answers[b]) {
				t.Fatalf("input %d gives %v in a batch of %d and %v alone", b, answers[b], n, one[0])
			}
		}
	}
	x, mean := make([]float64, p.Size), make([]float64, p.Size)
	quiet := *w
	quiet.Noise = 0
	for k := range steps {
		u := make([]float64, p.Inputs)
		for i := range u {
			u[i] = float64(inputs[0][k*p.Inputs+i])
		}
		x = quiet.Reference(x, u, 0, uint32(k))
		for i, v := range x {
			mean[i] += v / steps
		}
	}
	for o := range outputs {
		want := m.Readout.Weights[o*(p.Size+1)+p.Size]
		for i, v := range mean {
			want += m.Readout.Weights[o*(p.Size+1)+i] * v
		}
		if d := want - float64(answers[0][o]); d > 1e-4 || d < -1e-4 {
			t.Errorf("output %d is %v, by the formula %v", o, answers[0][o], want)
		}
	}
}

// BenchmarkPredict has predictions of a reservoir without zeros: of one input at a time, and
// of batches.
func BenchmarkPredict(b *testing.B) {
	p := reservoir.Defaults()
	p.Inputs, p.Connectivity = 64, 1
	w, err := reservoir.New(p)
	if err != nil {
		b.Fatal(err)
	}
	m := &reservoir.Model{Weights: w, Steps: 100, Mode: reservoir.Sequence, Feature: reservoir.Last,
		Readout: &reservoir.Readout{Outputs: 3, Inputs: p.Size, Weights: make([]float64, 3*(p.Size+1))}}
	for _, exact := range []bool{false, true} {
		rt, err := weft.Open(b.Context(), weft.Options{NoCalibrate: true, CacheDir: "off", Exact: exact, Drivers: []driver.Driver{cuda.New(cuda.Options{Devices: []int{0}, Exact: exact})}})
		if err != nil {
			b.Fatal(err)
		}
		for _, batch := range []int{1, 64, 1024} {
			q, err := reservoir.NewPredictor(rt, m, batch)
			if err != nil {
				b.Fatal(err)
			}
			inputs, answers := make([][]float32, batch), make([][]float32, batch)
			for i := range inputs {
				inputs[i], answers[i] = make([]float32, m.InputLen()), make([]float32, 3)
			}
			b.Run(fmt.Sprintf("exact=%v/batch=%d", exact, batch), func(b *testing.B) {
				for b.Loop() {
					if err := q.Predict(b.Context(), inputs, answers); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(batch)*float64(b.N)/b.Elapsed().Seconds(), "predictions/s")
			})
			q.Close()
		}
		rt.Close()
	}
}
