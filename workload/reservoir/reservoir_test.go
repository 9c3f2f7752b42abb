package reservoir

import (
	"errors"
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-run/weft/internal/philox"
	"gonum.org/v1/gonum/mat"
)

// everyKernel runs a test with each kernel this machine has.
func everyKernel(t *testing.T, test func(t *testing.T)) {
	for name, choose := range loops() {
		done := choose()
		t.Run(name, test)
		done()
	}
}

// loops are the inner loops this machine has: for one pattern at a time, for eight, for
// sixteen, and the choice between these. A function chooses one until what it returns is called.
func loops() map[string]func() func() {
	choose := func(w, h bool) func() func() {
		return func() func() {
			hadWide, hadHalf := wide, half
			wide, half = w, h
			return func() { wide, half = hadWide, hadHalf }
		}
	}
	out := map[string]func() func(){"one": choose(false, false)}
	if half {
		out["eight"] = choose(false, true)
	}
	if wide {
		out["sixteen"], out["either"] = choose(true, false), choose(true, half)
	}
	return out
}

// All kernels give the same bits, for any number of patterns.
func TestKernelsAgree(t *testing.T) {
	w := small(t)
	for batch := 1; batch <= 70; batch++ {
		var want []float32
		for name, choose := range loops() {
			done := choose()
			s := w.NewState(batch, 3)
			w.Run(s, inputs(w, batch, 3), 3)
			done()
			if want == nil {
				want = s.X
			}
			for i := range want {
				if math.Float32bits(s.X[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%d patterns, kernel for %s: state %d is %v, another has %v", batch, name, i, s.X[i], want[i])
				}
			}
		}
	}
}

func mustNew(t testing.TB, p Params) *Weights {
	t.Helper()
	w, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// small is a reservoir with sizes that fit no vector.
func small(t testing.TB) *Weights {
	p := Defaults()
	p.Size, p.Inputs, p.Connectivity, p.Noise, p.BiasScaling, p.Seed = 71, 5, 0.2, 0.05, 0.3, 3
	return mustNew(t, p)
}

// inputs returns random inputs for a batch over steps.
func inputs(w *Weights, batch, steps int) []float32 {
	r := rand.New(rand.NewPCG(7, uint64(batch)))
	u := make([]float32, w.Inputs*batch*steps)
	for i := range u {
		u[i] = float32(r.NormFloat64())
	}
	return u
}

func TestTanh(t *testing.T) {
	var worst float64
	check := func(x float32) {
		got, want := float64(tanh(x)), math.Tanh(float64(x))
		if math.Abs(got) > 1 {
			t.Fatalf("tanh(%v) = %v", x, got)
		}
		if x != 0 {
			worst = max(worst, math.Abs(got-want)/math.Abs(want))
		}
	}
	for i := range 1 << 20 {
		x := float32(math.Exp2(float64(i)/(1<<20)*50 - 44))
		check(x)
		check(-x)
	}
	check(float32(math.Inf(1)))
	check(float32(math.Inf(-1)))
	if worst > 3e-7 {
		t.Errorf("largest relative error %v", worst)
	}
	if tanh(0) != 0 || !math.IsNaN(float64(tanh(float32(math.NaN())))) {
		t.Error("tanh of zero or of NaN is wrong")
	}
}

// The weights have the share, range and diagonal they should, and depend on the
// seed.
func TestWeights(t *testing.T) {
	p := Defaults()
	p.Size = 500
	w := mustNew(t, p)
	share := float64(len(w.Recurrent.Value)) / float64(p.Size*(p.Size-1))
	if math.Abs(share-p.Connectivity) > 5*math.Sqrt(0.09/float64(p.Size*p.Size)) {
		t.Errorf("share of recurrent weights %v, want %v", share, p.Connectivity)
	}
	for i := range p.Size {
		row := w.Recurrent.Column[w.Recurrent.Start[i]:w.Recurrent.Start[i+1]]
		if slices.Contains(row, int32(i)) || !slices.IsSorted(row) {
			t.Fatalf("row %d: %v", i, row)
		}
	}
	if most := slices.Max(w.Input.Value); most > 1 || most < 0.99 {
		t.Errorf("largest input weight %v", most)
	}
	p.Seed = 1
	if slices.Equal(mustNew(t, p).Recurrent.Value, w.Recurrent.Value) {
		t.Error("two seeds give the same weights")
	}
}

// eigenvalues decomposes a matrix with gonum and returns its spectral radius.
func eigenvalues(t *testing.T, m *Matrix) (radius float64) {
	t.Helper()
	n := len(m.Start) - 1
	var eigen mat.Eigen
	if !eigen.Factorize(mat.NewDense(n, n, m.dense(n)), mat.EigenNone) {
		t.Fatal("gonum finds no eigenvalues")
	}
	for _, v := range eigen.Values(nil) {
		radius = max(radius, cmplx.Abs(v))
	}
	return radius
}

// The radius that was asked for is that of the scaled matrix, to within a millionth, also
// close to 1, beyond which a state would not fade.
func TestSpectralRadius(t *testing.T) {
	sizes, large := []int{7, subspace, subspace + 1, 200}, 500
	if !testing.Short() {
		sizes, large = append(sizes, 30, 300, 500), 1000
	}
	for _, size := range sizes {
		for seed := range uint32(3) {
			p := Defaults()
			p.Size, p.Seed, p.SpectralRadius = size, seed, 0.999
			p.Connectivity = max(0.05, 3/float64(size))
			radius := eigenvalues(t, &mustNew(t, p).Recurrent)
			if math.Abs(radius/p.SpectralRadius-1) > 1e-6 {
				t.Errorf("%d neurons, seed %d: spectral radius %v, want %v", size, seed, radius, p.SpectralRadius)
			}
		}
	}
	// The circular law gives the radius of a large random matrix.
	m := draw(philox.Source{Seed: 1}, large, large, 0.1, true)
	if got, want := m.SpectralRadius(), math.Sqrt(0.1*float64(large)/3); math.Abs(got/want-1) > 0.05 {
		t.Errorf("radius of %d neurons %v, want %v within 5 %%", large, got, want)
	}
	// A matrix of which only one eigenvalue is not zero.
	one := Matrix{Start: []int32{0, 1, 2}, Column: []int32{0, 0}, Value: []float32{-0.5, 3}}
	if got := one.SpectralRadius(); math.Abs(got-0.5) > 1e-6 {
		t.Errorf("radius %v, want 0.5", got)
	}
}

// Matrices that are not random: a cycle, all of whose eigenvalues are as large, and a chain,
// which has none but zero.
func TestSpectralRadiusOfCycles(t *testing.T) {
	for _, n := range []int{5, subspace, 3 * subspace} {
		cycle, chain := Matrix{Start: []int32{0}}, Matrix{Start: []int32{0, 0}}
		const want = 0.75
		for i := range n {
			const v = want
			cycle.Column, cycle.Value = append(cycle.Column, int32((i+1)%n)), append(cycle.Value, v)
			cycle.Start = append(cycle.Start, int32(i+1))
			if i > 0 {
				chain.Column, chain.Value = append(chain.Column, int32(i-1)), append(chain.Value, v)
				chain.Start = append(chain.Start, int32(i))
			}
		}
		if got := cycle.SpectralRadius(); math.Abs(got/want-1) > 1e-6 {
			t.Errorf("cycle of %d: %v, want %v", n, got, want)
		}
		if got := chain.SpectralRadius(); got > 1e-6 {
			t.Errorf("chain of %d: %v, want 0", n, got)
		}
	}
}

func TestParamsRejected(t *testing.T) {
	for name, change := range map[string]func(*Params){
		"size":     func(p *Params) { p.Size = 0 },
		"inputs":   func(p *Params) { p.Inputs = -1 },
		"radius 0": func(p *Params) { p.SpectralRadius = 0 },
		"radius 1": func(p *Params) { p.SpectralRadius = 1 },
		"leak 0":   func(p *Params) { p.Leak = 0 },
		"leak 2":   func(p *Params) { p.Leak = 2 },
		"sparse":   func(p *Params) { p.Connectivity = math.NaN() },
		"noise":    func(p *Params) { p.Noise = -1 },
		"scaling":  func(p *Params) { p.InputScaling = math.Inf(1) },
		"no cycle": func(p *Params) { p.Size = 1 },
	} {
		p := Defaults()
		change(&p)
		if _, err := New(p); !errors.Is(err, ErrParams) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A batch follows the formula in float64, pattern by pattern.
func TestAgainstReference(t *testing.T) {
	w := small(t)
	const batch, steps, first = 83, 12, 1000
	u := inputs(w, batch, steps)
	everyKernel(t, func(t *testing.T) {
		s := w.NewState(batch, first)
		w.Run(s, u, steps)
		for b := range batch {
			x, mean := make([]float64, w.Size), make([]float64, w.Size)
			for k := range steps {
				in := make([]float64, w.Inputs)
				for c := range in {
					in[c] = float64(u[(k*w.Inputs+c)*batch+b])
				}
				x = w.Reference(x, in, first+uint64(b), uint32(k))
				for i, v := range x {
					mean[i] += v / steps
				}
			}
			for i := range x {
				if math.Abs(float64(s.X[i*batch+b])-x[i]) > 2e-6 || math.Abs(float64(s.Mean[i*batch+b])-mean[i]) > 2e-6 {
					t.Fatalf("pattern %d, neuron %d: state %v mean %v, want %v and %v", b, i, s.X[i*batch+b], s.Mean[i*batch+b], x[i], mean[i])
				}
			}
		}
	})
}

// Patterns one by one, in ranges, and neurons in ranges: the same bits.
func TestCutsDoNotChangeResult(t *testing.T) {
	w := small(t)
	// The lower half of a pattern's number overflows within the batch.
	const batch, steps, first = 150, 6, 3<<32 - 40
	u := inputs(w, batch, steps)
	whole := w.NewState(batch, first)
	w.Run(whole, u, steps)
	everyKernel(t, func(t *testing.T) {
		again := w.NewState(batch, first)
		w.Run(again, u, steps)
		if !slices.Equal(again.X, whole.X) || !slices.Equal(again.Mean, whole.Mean) {
			t.Error("the kernels differ")
		}
		for _, parts := range []int{1, 2, 3, 4, 5, 6, 7, 8, batch} {
			// Each device has some patterns, in memory of its own.
			for _, span := range cutRows(batch, parts) {
				n := span.Hi - span.Lo
				own := make([]float32, 0, w.Inputs*steps*n)
				for row := range w.Inputs * steps {
					own = append(own, u[row*batch+span.Lo:row*batch+span.Hi]...)
				}
				s := w.NewState(n, first+uint64(span.Lo))
				w.Run(s, own, steps)
				for i := range w.Size {
					if !slices.Equal(s.X[i*n:(i+1)*n], whole.X[i*batch+span.Lo:i*batch+span.Hi]) {
						t.Fatalf("%d ranges of patterns: neuron %d of %v differs", parts, i, span)
					}
				}
			}
			// Each device has some neurons, and some patterns of a shared state.
			x, next := make([]float32, w.Size*batch), make([]float32, w.Size*batch)
			for k := range steps {
				tick := Tick{Batch: batch, First: first, Step: uint32(k)}
				for _, neurons := range cutRows(w.Size, min(parts, w.Size)) {
					for _, patterns := range cutRows(batch, 2) {
						w.Update(next, x, u[k*w.Inputs*batch:], tick, neurons, patterns)
					}
				}
				x, next = next, x
			}
			if !slices.Equal(x, whole.X) {
				t.Errorf("%d ranges of neurons: the states differ", parts)
			}
		}
	})
}

// drive runs a series through a reservoir, the same value on every channel, and
// returns the states after each step.
func drive(w *Weights, input []float64) []float64 {
	s := w.NewState(1, 0)
	u := make([]float32, w.Inputs)
	var states []float64
	for _, v := range input {
		for c := range u {
			u[c] = float32(v)
		}
		w.Run(s, u, 1)
		for _, x := range s.X {
			states = append(states, float64(x))
		}
	}
	return states
}

// fit trains on samples from washout to split and returns the outputs for those
// from split on.
func fit(t *testing.T, states, targets []float64, n, outputs, washout, split int, lambda float64) []float64 {
	t.Helper()
	r, err := Train(states[washout*n:split*n], targets[washout*outputs:split*outputs], n, outputs, lambda)
	if err != nil {
		t.Fatal(err)
	}
	var got []float64
	state, out := make([]float32, n), make([]float64, outputs)
	for s := split; s < len(states)/n; s++ {
		for i := range state {
			state[i] = float32(states[s*n+i])
		}
		r.Read(out, state, 1, 0)
		got = append(got, out...)
	}
	return got
}

// The NARMA-10 benchmark of Atiya and Parlos (2000): the output is a product of
// inputs and outputs up to ten steps back.
func TestNARMA10(t *testing.T) {
	const length, washout, split = 3000, 200, 2200
	r := rand.New(rand.NewPCG(42, 42))
	in, out := make([]float64, length), make([]float64, length)
	for i := range in {
		in[i] = 0.5 * r.Float64()
		if i < 10 {
			continue
		}
		var sum float64
		for _, y := range out[i-10 : i] {
			sum += y
		}
		out[i] = 0.3*out[i-1] + 0.05*out[i-1]*sum + 1.5*in[i-1]*in[i-10] + 0.1
	}
	for _, c := range []struct {
		size int
		most float64
	}{{200, 0.20}, {500, 0.14}} {
		if testing.Short() && c.size > 200 {
			continue
		}
		p := Params{Size: c.size, Inputs: 10, SpectralRadius: 0.9, Connectivity: 0.2, Leak: 1, InputScaling: 0.1, BiasScaling: 0.2}
		w := mustNew(t, p)
		// The state after input i-1 predicts output i.
		got := fit(t, drive(w, in[:length-1]), out[1:], c.size, 1, washout, split, 1e-8)
		want := out[1+split:]
		var mean, square, variance float64
		for _, y := range want {
			mean += y / float64(len(want))
		}
		for i, y := range want {
			square += (got[i] - y) * (got[i] - y)
			variance += (y - mean) * (y - mean)
		}
		nrmse := math.Sqrt(square / variance)
		t.Logf("%d neurons: NRMSE %.4f", c.size, nrmse)
		if nrmse > c.most {
			t.Errorf("%d neurons: NRMSE %.4f, want at most %v", c.size, nrmse, c.most)
		}
	}
}

// The linear memory capacity, the sum over delays of the squared correlation of
// a readout with the delayed input (Jaeger 2001), is what such reservoirs have
// on average, and for each of them below the number of neurons, its bound.
func TestMemoryCapacity(t *testing.T) {
	const size, length, washout, split, delays = 100, 4000, 300, 2500, 100
	r := rand.New(rand.NewPCG(5, 5))
	in := make([]float64, length)
	for i := range in {
		in[i] = 2*r.Float64() - 1
	}
	targets := make([]float64, length*delays)
	for i := range in {
		for d := range min(delays, i) {
			targets[i*delays+d] = in[i-d-1]
		}
	}
	seeds := 10
	if testing.Short() {
		seeds = 1
	}
	var mean float64
	for seed := range seeds {
		p := Params{Size: size, Inputs: 1, SpectralRadius: 0.95, Connectivity: 1, Leak: 1, InputScaling: 0.1, Seed: uint32(seed)}
		got := fit(t, drive(mustNew(t, p), in), targets, size, delays, washout, split, 1e-8)
		var capacity float64
		for d := range delays {
			var sx, sy, sxx, syy, sxy float64
			n := float64(length - split)
			for s := split; s < length; s++ {
				x, y := got[(s-split)*delays+d], targets[s*delays+d]
				sx, sy, sxx, syy, sxy = sx+x, sy+y, sxx+x*x, syy+y*y, sxy+x*y
			}
			c := n*sxy - sx*sy
			capacity += c * c / ((n*sxx - sx*sx) * (n*syy - sy*sy))
		}
		if capacity > size {
			t.Errorf("seed %d: memory capacity %.1f of %d neurons", seed, capacity, size)
		}
		mean += capacity / float64(seeds)
	}
	t.Logf("memory capacity %.1f", mean)
	if mean < 27 || mean > 33 {
		t.Errorf("memory capacity %.1f, want 27 to 33", mean)
	}
}

// Echo-state property: the state forgets where it began, in the formula and in
// the kernel.
func TestEchoState(t *testing.T) {
	p := Defaults()
	p.Size, p.Inputs = 300, 10
	w := mustNew(t, p)
	const steps = 200
	u := inputs(w, 1, steps)
	r := rand.New(rand.NewPCG(6, 6))
	var ends [2]*State
	var exact [2][]float64
	for e := range ends {
		ends[e] = w.NewState(1, 0)
		exact[e] = make([]float64, w.Size)
		for i := range ends[e].X {
			ends[e].X[i] = float32(2*r.Float64() - 1)
			exact[e][i] = float64(ends[e].X[i])
		}
		w.Run(ends[e], u, steps)
		in := make([]float64, w.Inputs)
		for k := range steps {
			for c := range in {
				in[c] = float64(u[k*w.Inputs+c])
			}
			exact[e] = w.Reference(exact[e], in, 0, uint32(k))
		}
	}
	for i := range w.Size {
		if d := math.Abs(exact[0][i] - exact[1][i]); d > 1e-6 {
			t.Errorf("neuron %d: two states are still %v apart in float64", i, d)
		}
		if d := math.Abs(float64(ends[0].X[i]) - float64(ends[1].X[i])); d > 1e-6 {
			t.Errorf("neuron %d: two states are still %v apart", i, d)
		}
	}
}

func TestTrainAgainstGonum(t *testing.T) {
	const samples, values, outputs = 60, 13, 3
	const lambda = 0.01
	r := rand.New(rand.NewPCG(8, 8))
	x, y := make([]float64, samples*values), make([]float64, samples*outputs)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	for i := range y {
		y[i] = r.NormFloat64()
	}
	got, err := Train(x, y, values, outputs, lambda)
	if err != nil {
		t.Fatal(err)
	}
	design := mat.NewDense(samples, values+1, nil)
	for s := range samples {
		design.SetRow(s, append(slices.Clone(x[s*values:(s+1)*values]), 1))
	}
	var gram, right, want mat.Dense
	gram.Mul(design.T(), design)
	for i := range values + 1 {
		gram.Set(i, i, gram.At(i, i)+lambda)
	}
	right.Mul(design.T(), mat.NewDense(samples, outputs, y))
	if err := want.Solve(&gram, &right); err != nil {
		t.Fatal(err)
	}
	for o := range outputs {
		for i := range values + 1 {
			if d := got.Weights[o*(values+1)+i] - want.At(i, o); math.Abs(d) > 1e-10 {
				t.Errorf("weight %d of output %d is off by %v", i, o, d)
			}
		}
	}
	// Two equal columns without a ridge determine nothing.
	if _, err := Train([]float64{1, 1, 2, 2, 3, 3}, []float64{1, 2, 3}, 2, 1, 0); !errors.Is(err, ErrParams) {
		t.Errorf("singular system: error %v", err)
	}
	if _, err := Train([]float64{1, 2, 3}, []float64{1}, 2, 1, 0); !errors.Is(err, ErrParams) {
		t.Errorf("sizes that do not fit: error %v", err)
	}
}

// Patterns that differ only in when which channel spikes are told apart by the
// sequence of bins; the histogram does not see channels at all.
func TestInputs(t *testing.T) {
	p := Pattern{Duration: 10, Spikes: []Spike{{0, 0, 0}, {2, 4.9, 0.5}, {2, 5, 0}, {1, 9.999, 0}}}
	const batch, column = 3, 1
	u := make([]float32, 2*3*batch)
	p.Bins(u, 2, 3, batch, column)
	want := []float32{1, 0, 1.5, 0, 1, 1}
	for row, v := range want {
		if u[row*batch+column] != v {
			t.Errorf("row %d of the bins is %v, want %v", row, u[row*batch+column], v)
		}
	}
	h := make([]float32, 4*batch)
	p.Histogram(h, 4, batch, column)
	for row, v := range []float64{1 / 4.5, 1.5 / 4.5, 1 / 4.5, 1 / 4.5} {
		if math.Abs(float64(h[row*batch+column])-v) > 1e-7 {
			t.Errorf("row %d of the histogram is %v, want %v", row, h[row*batch+column], v)
		}
	}
	for row := range 4 {
		if h[row*batch] != 0 || h[row*batch+2] != 0 {
			t.Error("the histogram wrote to another column")
		}
	}
	if err := p.Validate(3); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string]Pattern{
		"empty":    {Duration: 1},
		"instant":  {Spikes: []Spike{{}}},
		"channel":  {Duration: 1, Spikes: []Spike{{Channel: 3}}},
		"late":     {Duration: 1, Spikes: []Spike{{Time: 1}}},
		"nowhere":  {Duration: 1, Spikes: []Spike{{Time: math.NaN()}}},
		"infinite": {Duration: 1, Spikes: []Spike{{Amplitude: math.Inf(1)}}},
	} {
		if err := bad.Validate(3); !errors.Is(err, ErrParams) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestEncoders(t *testing.T) {
	e := Encoder{Seed: 2, Duration: 100}
	count := func(p Pattern, channel int) (n int) {
		for _, s := range p.Spikes {
			if s.Channel == channel {
				n++
			}
		}
		return n
	}
	// Rates over many patterns are those asked for.
	const patterns = 2000
	var low, high int
	for i := range uint64(patterns) {
		p, err := e.Rate([]float64{0, 1}, i)
		if err != nil {
			t.Fatal(err)
		}
		low, high = low+count(p, 0), high+count(p, 1)
	}
	if mean := 0.1 * patterns; math.Abs(float64(low)-mean) > 5*math.Sqrt(mean) {
		t.Errorf("%d spikes at 1 Hz, want about %v", low, mean)
	}
	if mean := 10.0 * patterns; math.Abs(float64(high)-mean) > 5*math.Sqrt(mean) {
		t.Errorf("%d spikes at 100 Hz, want about %v", high, mean)
	}

	p, err := e.Temporal([]float64{0, 0.5, 1})
	if want := []Spike{{Channel: 0, Time: 0}, {Channel: 1, Time: 27}, {Channel: 2, Time: 54}}; err != nil || !slices.Equal(p.Spikes, want) {
		t.Errorf("temporal: %v, %v, want %v", p.Spikes, err, want)
	}

	// The channel that prefers the value spikes in 80 % of patterns, one that is
	// two sigmas away in 80 % times exp(-2).
	var at, away int
	for i := range uint64(patterns) {
		p, err := e.Population([]float64{0.5}, 13, i)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Validate(13); err != nil && len(p.Spikes) > 0 {
			t.Fatal(err)
		}
		at, away = at+count(p, 6), away+count(p, 12)
	}
	for _, c := range []struct {
		n    int
		want float64
	}{{at, 0.8}, {away, 0.8 * math.Exp(-math.Pow(6/(13.0/6), 2)/2)}} {
		if math.Abs(float64(c.n)/patterns-c.want) > 5*math.Sqrt(c.want*(1-c.want)/patterns) {
			t.Errorf("population: %v of patterns, want %v", float64(c.n)/patterns, c.want)
		}
	}

	p, err = e.Phase([]float64{0.5}, 1)
	if err != nil || len(p.Spikes) != 4 {
		t.Fatalf("phase: %v, %v, want four periods", p, err)
	}
	for n, s := range p.Spikes {
		if math.Abs(s.Time-25*(float64(n)+0.5)) > 1 {
			t.Errorf("phase: spike %d at %v", n, s.Time)
		}
	}

	for _, bad := range []float64{-0.1, 1.1, math.NaN()} {
		v := []float64{bad}
		_, e1 := e.Rate(v, 0)
		_, e2 := e.Temporal(v)
		_, e3 := e.Population(v, 3, 0)
		_, e4 := e.Phase(v, 0)
		for _, err := range []error{e1, e2, e3, e4} {
			if !errors.Is(err, ErrParams) {
				t.Errorf("value %v: error %v", bad, err)
			}
		}
	}
	if _, err := e.Population([]float64{0}, 0, 0); !errors.Is(err, ErrParams) {
		t.Errorf("empty population: error %v", err)
	}
	if _, err := (Encoder{}).Temporal([]float64{0}); !errors.Is(err, ErrParams) {
		t.Errorf("no duration: error %v", err)
	}
}

func TestIndicators(t *testing.T) {
	s := &State{Tick: Tick{Batch: 2}, X: []float32{0.5, 9, -0.5, 9, 0.005, 9}, Last: []float32{0.5, 9, 0.5, 9, 0, 9}}
	got := s.Indicate(0, 7)
	mean := 0.005 / 3
	square := 0.25 + 0.25 + 0.005*0.005
	want := Indicators{mean, 0.5, 7, 0, math.Sqrt(square/3 - mean*mean), 2.0 / 3}
	for _, c := range [][2]float64{
		{got.AverageActivation, want.AverageActivation}, {got.MaxActivation, want.MaxActivation},
		{got.MemoryCapacity, want.MemoryCapacity}, {got.Separation, want.Separation}, {got.Approximation, want.Approximation},
	} {
		if math.Abs(c[0]-c[1]) > 1e-8 {
			t.Errorf("indicators %+v, want %+v", got, want)
		}
	}
	if got.LastSpikeCount != 7 {
		t.Errorf("indicators %+v, want %+v", got, want)
	}
	if same := s.Indicate(1, 0); math.Abs(same.MemoryCapacity-1) > 1e-12 || same.Separation != 0 {
		t.Errorf("a constant state has indicators %+v", same)
	}
}

func TestPredict(t *testing.T) {
	got := Predict([3]float64{0, -2, math.Log(2)})
	if got.Direction != Hold || math.Abs(got.Confidence-2/(3+math.Exp(-2))) > 1e-12 || got.Magnitude != math.Log(2) {
		t.Errorf("prediction %+v", got)
	}
	if got := Predict([3]float64{-5, -5, -6}); got.Direction != Up || got.Magnitude != 5 {
		t.Errorf("prediction %+v", got)
	}
	if class, c := Class([]float64{1000, 0}); class != 0 || c != 1 {
		t.Errorf("class %d with %v", class, c)
	}
}

// BenchmarkRun takes batches through ten steps of a reservoir with the default
// sizes on one core, with and without noise.
func BenchmarkRun(b *testing.B) {
	for name, choose := range loops() {
		done := choose()
		for _, batch := range []int{1, 8, 64, 256} {
			for _, noise := range []float64{0, 0.01} {
				b.Run(fmt.Sprintf("kernel=%s/batch=%d/noise=%v", name, batch, noise), func(b *testing.B) {
					p := Defaults()
					p.Noise = noise
					w := mustNew(b, p)
					const steps = 10
					s, u := w.NewState(batch, 0), inputs(w, batch, steps)
					b.ResetTimer()
					for range b.N {
						w.Run(s, u, steps)
					}
					seconds := b.Elapsed().Seconds()
					b.ReportMetric(float64(batch*steps*b.N)/seconds/1e3, "ksteps/s")
					b.ReportMetric(w.Ops(batch, steps)*float64(b.N)/seconds/1e9, "GFLOP/s")
				})
			}
		}
		done()
	}
}
