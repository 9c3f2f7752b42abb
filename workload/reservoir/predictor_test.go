package reservoir

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/machine"
)

func openCPU(t testing.TB, devices string) *weft.Runtime {
	t.Helper()
	rt, err := weft.Open(context.Background(), weft.Options{Devices: devices, Funcs: Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	return rt
}

// someInputs returns inputs of a model: spike counts, most of them zero.
func someInputs(m *Model, n int) [][]float32 {
	draw := philox.Source{Seed: 11, Stream: streamValues}
	inputs := make([][]float32, n)
	for b := range inputs {
		inputs[b] = make([]float32, m.InputLen())
		for i := range inputs[b] {
			if word := draw.Block(uint64(b), 0, uint32(i)); word[0]%4 == 0 {
				inputs[b][i] = float32(1 + word[1]%3)
			}
		}
	}
	return inputs
}

func room(m *Model, n int) [][]float32 {
	outputs := make([][]float32, n)
	for i := range outputs {
		outputs[i] = make([]float32, m.Readout.Outputs)
	}
	return outputs
}

func mustPredictor(t testing.TB, rt *weft.Runtime, m *Model, most int) *Predictor {
	t.Helper()
	p, err := NewPredictor(rt, m, most)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Predictions of batches of every size have the bits of those one by one, with every
// kernel, and are what the formula in float64 gives.
func TestPredictor(t *testing.T) {
	for _, feature := range []string{Mean, Last} {
		t.Run(feature, func(t *testing.T) {
			everyKernel(t, func(t *testing.T) {
				p := tinyParams()
				p.Size = 70
				m := someModel(t, p, 6, 3, feature)
				const most = 37
				pr := mustPredictor(t, openCPU(t, "cpu"), m, most)
				inputs := someInputs(m, most)
				alone := room(m, most)
				for i := range inputs {
					if err := pr.Predict(context.Background(), inputs[i:i+1], alone[i:i+1]); err != nil {
						t.Fatal(err)
					}
				}
				for n := range most + 1 {
					got := room(m, n)
					if err := pr.Predict(context.Background(), inputs[most-n:], got); err != nil {
						t.Fatal(err)
					}
					for i := range got {
						for o := range got[i] {
							if got[i][o] != alone[most-n+i][o] {
								t.Fatalf("batch of %d, input %d, output %d: %v, alone %v", n, i, o, got[i][o], alone[most-n+i][o])
							}
						}
					}
				}
				for i, in := range inputs {
					compareFormula(t, m, in, alone[i])
				}
			})
		})
	}
}

// compareFormula takes an input through the formula in float64, without noise.
func compareFormula(t *testing.T, m *Model, in, got []float32) {
	t.Helper()
	w := *m.Weights
	w.Noise = 0
	x, mean, u := make([]float64, w.Size), make([]float64, w.Size), make([]float64, w.Inputs)
	for k := range m.Steps {
		for c := range u {
			u[c] = float64(in[k*w.Inputs+c])
		}
		x = w.Reference(x, u, 0, uint32(k))
		for i, v := range x {
			mean[i] += v / float64(m.Steps)
		}
	}
	if m.Feature == Mean {
		x = mean
	}
	for o, v := range got {
		weights := m.Readout.Weights[o*(w.Size+1):][:w.Size+1]
		want := weights[w.Size]
		for i, s := range x {
			want += weights[i] * s
		}
		if d := float64(v) - want; !(d < 1e-4 && d > -1e-4) {
			t.Fatalf("output %d: %v, by the formula %v", o, v, want)
		}
	}
}

// Many callers at once get what each gets alone.
func TestPredictorConcurrent(t *testing.T) {
	m := someModel(t, tinyParams(), 4, 2, Mean)
	pr := mustPredictor(t, openCPU(t, "cpu/2"), m, 8)
	inputs, want := someInputs(m, 8), room(m, 8)
	if err := pr.Predict(context.Background(), inputs, want); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 24 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 20 {
				lo := (g + i) % 8
				hi := lo + 1 + g%(8-lo)
				got := room(m, hi-lo)
				if err := pr.Predict(context.Background(), inputs[lo:hi], got); err != nil {
					t.Error(err)
					return
				}
				if fmt.Sprint(got) != fmt.Sprint(want[lo:hi]) {
					t.Errorf("inputs %d to %d: %v, want %v", lo, hi, got, want[lo:hi])
				}
			}
		}()
	}
	wg.Wait()
}

func TestPredictorRefuses(t *testing.T) {
	ctx := context.Background()
	m := someModel(t, tinyParams(), 4, 2, Mean)
	rt := openCPU(t, "cpu")
	for _, most := range []int{0, -1, 1 << 40} {
		if _, err := NewPredictor(rt, m, most); !errors.Is(err, ErrParams) {
			t.Errorf("batches of %d: %v", most, err)
		}
	}
	bad := *m
	bad.Steps = 0
	if _, err := NewPredictor(rt, &bad, 1); !errors.Is(err, ErrParams) {
		t.Errorf("no steps: %v", err)
	}
	pr := mustPredictor(t, rt, m, 2)
	inputs := someInputs(m, 3)
	for name, err := range map[string]error{
		"too many":     pr.Predict(ctx, inputs, room(m, 3)),
		"no output":    pr.Predict(ctx, inputs[:1], nil),
		"short input":  pr.Predict(ctx, [][]float32{inputs[0][1:]}, room(m, 1)),
		"short output": pr.Predict(ctx, inputs[:1], [][]float32{{0}}),
	} {
		if !errors.Is(err, ErrParams) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := pr.Predict(cancelled, inputs[:1], room(m, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	pr.Close()
	pr.Close()
	if err := pr.Predict(ctx, inputs[:1], room(m, 1)); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	// A runtime may be closed before.
	early := mustPredictor(t, rt, m, 2)
	if err := rt.Close(); err != nil {
		t.Fatal(err)
	}
	if err := early.Predict(ctx, inputs[:1], room(m, 1)); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("closed runtime: %v", err)
	}
	if _, err := NewPredictor(rt, m, 2); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("a predictor on a closed runtime: %v", err)
	}
}

// A prediction allocates the bindings and the report of its run, nothing that grows with
// the model.
func TestPredictAllocates(t *testing.T) {
	p := tinyParams()
	p.Size = 300
	m := someModel(t, p, 10, 2, Mean)
	pr := mustPredictor(t, openCPU(t, "cpu"), m, 8)
	inputs, outputs := someInputs(m, 8), room(m, 8)
	if n := testing.AllocsPerRun(50, func() {
		if err := pr.Predict(context.Background(), inputs, outputs); err != nil {
			t.Fatal(err)
		}
	}); n > 40 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkPredict answers predictions of a reservoir of a thousand neurons, 64 channels
// and 20 steps, one batch after the other.
func BenchmarkPredict(b *testing.B) {
	p := Defaults()
	p.Inputs = 64
	m := someModel(b, p, 20, 10, Mean)
	pr := mustPredictor(b, openCPU(b, "cpu"), m, 64)
	for _, n := range []int{1, 2, 4, 8, 16, 64} {
		b.Run(fmt.Sprint("batch=", n), func(b *testing.B) {
			inputs, outputs := someInputs(m, n), room(m, n)
			b.ReportAllocs()
			for b.Loop() {
				if err := pr.Predict(context.Background(), inputs, outputs); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "predictions/s")
		})
	}
}

// The graph of a batch is the one that a predictor has on such a machine: one step on cores, one of a
// cluster on GPUs that have room for all weights, and one for each step elsewhere.
func TestBatchGraph(t *testing.T) {
	p := Defaults()
	p.Size, p.Inputs = 40, 3
	w, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	m := &Model{Weights: w, Steps: 5, Mode: Sequence, Feature: Mean}
	for _, c := range []struct {
		on     string
		kernel string
		steps  int
		dense  bool
	}{{"2xcpu", runOnDevices.Name, 1, false}, {"h200", wholes[0].kernel.Name, 1, true}, {"3x5070", stepOnDevices.Name, 5, false}} {
		on, ok := machine.Named(c.on)
		if !ok {
			t.Fatal(c.on)
		}
		g, err := m.BatchGraph(on, 2)
		if err != nil {
			t.Fatal(err)
		}
		task := g.Task(0)
		found := false
		for i := range task.Steps {
			found = found || task.Steps[i].Kernel.Name == c.kernel
		}
		if dense := len(task.Uses) > len(w.uses(w.data(&graph.Builder{}), 0, w.Size))+4; !found || dense != c.dense || g.NumTasks() != 1 || !c.dense && len(task.Steps) != c.steps {
			t.Errorf("on %s: %d steps, the first %s, dense weights: %v", c.on, len(task.Steps), task.Steps[0].Kernel.Name, dense)
		}
	}
}
